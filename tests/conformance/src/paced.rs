//! A stream that is read no faster than a limiter allows.
//!
//! Owns: rule I4's paced read: admission first, then the read. Lacks: retries, which it has none of.

use admission_rt::{AbortHandle, AdmissionStreamExt, Counts};
use futures_util::StreamExt;
use futures_util::stream::iter;

use crate::mount::Mount;
use crate::signal::{Signal, poll_once};
use crate::streams::limiter;
use crate::transcript::Transcript;

/// A paced stream is read as the limiter allows, from the first read on.
pub async fn a_paced_stream_is_read_no_faster_than_allowed<M: Mount>() {
    // rules I4, L2, D1
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 20, 8);
    let recorder = t.recorder();
    let mut left = 3;
    let source = futures_util::stream::poll_fn(move |_| {
        recorder.note("read");
        left -= 1;
        std::task::Poll::Ready((left >= 0).then_some(left))
    });
    let mut paced = source.paced(&limiter);
    assert_eq!(t.names().len(), 0, "nothing before the first poll");
    for item in [2, 1, 0] {
        assert_eq!(paced.next().await.expect("one more").expect("admitted"), item);
    }
    assert!(paced.next().await.is_none());
    assert!(paced.next().await.is_none(), "and the source is not asked again");
    t.expect(&[("read", 0), ("read", 20), ("read", 40), ("read", 60)]);
    assert_eq!(limiter.counts(), Counts::default());
}

/// A read that waits for its source has started, and holds what a call holds until it has its answer.
pub async fn a_paced_read_is_a_call<M: Mount>() {
    // rules I4, W7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let arrives = Signal::default();
    let source = {
        let arrives = arrives.clone();
        Box::pin(futures_util::stream::once(async move { arrives.wait().await }))
    };
    let mut paced = source.paced(&a);
    assert!(poll_once(&mut paced.next()).await.is_pending());
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
    let other = t.call("other", &a).await;
    arrives.set();
    paced.next().await.expect("one more").expect("admitted");
    other.settle().await;
    assert!(paced.next().await.is_none());
    assert_eq!(admission.counts(), Counts::default());
}

/// A refusal is a paced stream's last item, and loses none of the source's.
pub async fn a_refusal_ends_a_paced_stream_and_loses_nothing<M: Mount>() {
    // rules I4, W3, W4
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 3_600_000, 8);
    let (handle, signal) = AbortHandle::new();
    let mut paced = iter(0..3).paced(limiter.call().abort_signal(&signal));
    assert_eq!(paced.next().await.expect("one more").expect("admitted"), 0);
    assert!(poll_once(&mut paced.next()).await.is_pending());
    assert_eq!(limiter.counts().queued, 1);
    handle.abort();
    assert_eq!(limiter.counts(), Counts::default());
    assert!(paced.next().await.expect("one more").expect_err("aborted").is_aborted());
    assert!(paced.next().await.is_none());
    assert_eq!(paced.into_inner().collect::<Vec<_>>().await, [1, 2]);

    let mut dropped = iter(0..3).paced(&limiter);
    assert!(poll_once(&mut dropped.next()).await.is_pending());
    drop(dropped);
    assert_eq!(limiter.counts(), Counts::default());
    limiter.close();
    let mut closed = iter(0..3).paced(&limiter);
    assert!(closed.next().await.expect("one more").expect_err("closed").is_closed());
    assert!(closed.next().await.is_none());
}
