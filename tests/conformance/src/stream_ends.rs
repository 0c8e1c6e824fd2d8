//! How the items of a stream end, and the stream itself.
//!
//! Owns: rule I4 when something fails, panics, is refused, aborted or dropped. Lacks: a stream that goes
//! on.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use admission_rt::{
    AbortHandle, AdmissionStreamExt, Attempt, Counts, ItemError, Rejected, Retry, RetryError,
};
use futures_util::StreamExt;
use futures_util::stream::iter;

use crate::mount::{Boxed, Mount};
use crate::signal::poll_once;
use crate::streams::{BOTH, By, Failure, Gates, Output, Outputs, by, limiter, until, value};
use crate::transcript::Transcript;

/// A stream can be dropped in every state, and what it began is told; nothing is left of it.
pub async fn a_stream_can_be_dropped_in_every_state<M: Mount>() {
    // rules I4, W3, W5, W7
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(2));
        let gates = Gates::new(&t, 5);
        let new = || by!(by, iter(0..5).map_admitted(&a, gates.operation()).concurrency(4).as_completed());
        // Not begun.
        drop(new());
        assert_eq!(gates.started(), 0);
        // Two run and two wait. One of those that run is finished, and one of those that wait runs.
        let mut outputs = new();
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        gates.started[0].wait().await;
        gates.started[1].wait().await;
        assert_eq!(admission.counts(), Counts { running: 2, granted: 0, queued: 2 });
        gates.open([0]);
        assert_eq!(value(outputs.next().await), 0);
        // Not polled any more, and a granted one among them where it is the stream that polls.
        drop(outputs);
        assert_eq!(admission.counts().queued, 0, "those that wait leave at once");
        if by == By::Runtime {
            gates.told[1].wait().await;
            assert!(admission.counts().running > 0, "what runs keeps its slot until it is finished");
            gates.open(1..5);
            admission.idle().await;
        }
        assert_eq!(admission.counts(), Counts::default());
        assert!(matches!(M::armed(), None | Some(0)));
    }
}

/// A stream can be dropped after any number of polls.
pub async fn a_stream_can_be_dropped_after_any_poll<M: Mount>() {
    // rules I4, W5
    for by in BOTH {
        for polls in 0..12 {
            let t = Transcript::<M>::new();
            let limiter = limiter(&t, 10, 1_024);
            let tries = Arc::new(AtomicU32::new(0));
            let operation = {
                let tries = Arc::clone(&tries);
                move |item: usize, _: Attempt| {
                    let fails = tries.fetch_add(1, Ordering::SeqCst) % 2 == 0;
                    async move {
                        M::sleep(M::MILLISECOND * 3).await;
                        if fails { Err(Failure::Transient) } else { Ok(item) }
                    }
                }
            };
            let policy = Retry::times(1).delay(t.ms(5));
            let map = iter(0..3).map_admitted(&limiter, operation).concurrency(2).retry(policy);
            let mut outputs = by!(by, map);
            for _ in 0..polls {
                let _ = poll_once(&mut outputs.next()).await;
                M::sleep(M::MILLISECOND * 4).await;
            }
            drop(outputs);
            limiter.idle().await;
            assert_eq!(limiter.counts(), Counts::default());
            // A task that waited to retry is told, and is gone at its next turn.
            until::<M>(|| matches!(M::armed(), None | Some(0))).await;
        }
    }
}

/// The `try_` form ends with the first error, and tells the others.
pub async fn a_try_stream_stops_at_the_first_error<M: Mount>() {
    // rule I4
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(2));
        let gates = Gates::new(&t, 9);
        let operation = {
            let pass = gates.operation();
            move |item, attempt| -> Boxed<Result<usize, Failure>> {
                let passed = pass(item, attempt);
                if item == 1 {
                    Box::pin(async move { passed.await.and(Err(Failure::Final)) })
                } else {
                    passed
                }
            }
        };
        let map = iter(0..9).try_map_admitted(&a, operation).concurrency(3).as_completed();
        let mut outputs = by!(by, map);
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        // Both run: one that has not started yet would not be told, but leave.
        gates.started[0].wait().await;
        gates.started[1].wait().await;
        gates.open([1]);
        let error = outputs.next().await.expect("one more").expect_err("it failed");
        assert!(matches!(
            error,
            ItemError::Call(RetryError::Operation { error: Failure::Final, attempts: 1, .. })
        ));
        assert!(outputs.next().await.is_none());
        assert_eq!(outputs.size_hint(), (0, Some(0)));
        assert_eq!(admission.counts().queued, 0, "those that wait leave at once");
        if by == By::Runtime {
            gates.told[0].wait().await;
            gates.open([0, 2]);
            admission.idle().await;
        }
        assert_eq!(admission.counts(), Counts::default());
        assert!(gates.started() <= 3, "nothing more is begun");
    }
}

/// An item that finally fails is an error in its place, and the stream goes on.
pub async fn a_failed_item_is_an_error_in_its_place<M: Mount>() {
    // rules I4, R6
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(3));
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let operation = {
            let attempts = Arc::clone(&attempts);
            move |item: usize, attempt: Attempt| {
                attempts.lock().expect("no panic").push((item, attempt.number()));
                let is_fine = item != 1 && (item != 2 || attempt.number() == 3);
                async move {
                    if is_fine {
                        Ok(item)
                    } else if item == 1 {
                        Err(Failure::Final)
                    } else {
                        Err(Failure::Transient)
                    }
                }
            }
        };
        let policy = Retry::times(2).when(|error: &Failure| *error == Failure::Transient);
        let map = iter(0..4).map_admitted(&a, operation).concurrency(4).retry(policy);
        let outputs: Vec<Output> = by!(by, map).collect().await;
        let [Ok(0), Err(error), Ok(2), Ok(3)] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!((error.error(), error.attempts()), (Some(&Failure::Final), 1));
        let mut attempts = attempts.lock().expect("no panic").clone();
        attempts.sort_unstable();
        assert_eq!(attempts, [(0, 1), (1, 1), (2, 1), (2, 2), (2, 3), (3, 1)]);
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// A refusal is its item's error, not retried, and tells of the last attempt if there was one.
pub async fn a_refused_item_is_not_retried<M: Mount>() {
    // rules I4, E5, Q5
    for by in BOTH {
        let t = Transcript::<M>::new();
        let limiter = limiter(&t, 3_600_000, 1);
        let asked = Arc::new(AtomicBool::new(false));
        let policy = {
            let asked = Arc::clone(&asked);
            Retry::times(5).when(move |_: &Failure| {
                asked.store(true, Ordering::SeqCst);
                true
            })
        };
        let gates = Gates::new(&t, 3);
        let operation = {
            let pass = gates.operation();
            move |item, attempt| {
                let passed = pass(item, attempt);
                async move { passed.await.and(Err::<usize, _>(Failure::Transient)) }
            }
        };
        let map = iter(0..3).map_admitted(&limiter, operation).concurrency(3).retry(policy).as_completed();
        let mut outputs = by!(by, map);
        // The first starts, the second waits, and the third finds the queue full. So does the retry.
        for told in [(0, None), (1, Some(Failure::Transient))] {
            let error = outputs.next().await.expect("one more").expect_err("it is refused");
            assert!(error.rejected().is_some_and(Rejected::is_overflow), "{error:?}");
            assert_eq!((error.attempts(), error.error().copied()), told);
            gates.open([0]);
        }
        assert!(asked.load(Ordering::SeqCst), "about the error of the operation");
        limiter.close();
        let error = outputs.next().await.expect("one more").expect_err("it is refused");
        assert!(error.rejected().is_some_and(Rejected::is_closed), "{error:?}");
        assert!(outputs.next().await.is_none());
        assert_eq!(limiter.counts(), Counts::default());
    }
}

/// A panic passes through where the stream drives, and is an error where a task runs.
pub async fn a_panic_in_one_item_loses_no_other<M: Mount>() {
    // rules I4, W5
    let operation = |item: usize, _: Attempt| -> Boxed<Result<usize, Failure>> {
        Box::pin(async move {
            assert!(item != 1, "on purpose");
            Ok(item)
        })
    };
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let spawned = iter(0..3).map_admitted(&a, operation).concurrency(3).spawned();
    let outputs: Vec<Output> = spawned.collect().await;
    let [Ok(0), Err(ItemError::Panicked { message: Some(message), attempts: 1, .. }), Ok(2)] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(&**message, "on purpose");
    admission.idle().await;

    let driven = iter(0..3).map_admitted(&a, operation).concurrency(3).driven();
    let driven: Arc<Mutex<(Outputs, Vec<usize>)>> = Arc::new(Mutex::new((Box::pin(driven), Vec::new())));
    // Each task goes on with the stream until it ends or panics.
    let read = |driven: Arc<Mutex<(Outputs, Vec<usize>)>>| -> Boxed<()> {
        Box::pin(std::future::poll_fn(move |cx| {
            // The lock of a task that panicked is as good as any.
            let mut guard = driven.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (stream, read) = &mut *guard;
            loop {
                match stream.as_mut().poll_next(cx) {
                    std::task::Poll::Pending => return std::task::Poll::Pending,
                    std::task::Poll::Ready(None) => return std::task::Poll::Ready(()),
                    std::task::Poll::Ready(output) => read.push(value(output)),
                }
            }
        }))
    };
    assert!(M::spawn(read(Arc::clone(&driven))).await.is_none(), "it passes through");
    assert!(M::spawn(read(Arc::clone(&driven))).await.is_some(), "and the others are there");
    assert_eq!(driven.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1, [0, 2]);
    assert_eq!(admission.counts(), Counts::default());
}

/// A signal ends the stream: what waits is refused with its reason, what runs is told and read.
pub async fn a_signal_ends_a_stream<M: Mount>() {
    // rules I4, W3
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(1));
        let gates = Gates::new(&t, 5);
        let (handle, signal) = AbortHandle::new();
        let map = iter(0..5).map_admitted(&a, gates.operation()).concurrency(2).abort_signal(&signal);
        let mut outputs = by!(by, map);
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        gates.started[0].wait().await;
        handle.abort_with("enough");
        assert_eq!(admission.counts().queued, 0, "whether or not it is polled");
        assert!(poll_once(&mut outputs.next()).await.is_pending(), "what runs is waited for");
        gates.told[0].wait().await;
        gates.open([0]);
        assert_eq!(value(outputs.next().await), 0);
        match outputs.next().await.expect("one more").expect_err("it is refused").rejected() {
            Some(Rejected::Aborted(reason)) => assert_eq!(reason.to_string(), "enough"),
            other => panic!("{other:?}"),
        }
        assert!(outputs.next().await.is_none());
        assert_eq!((gates.started(), admission.counts()), (1, Counts::default()));
    }
}

/// A signal that fires while nothing is in flight ends the stream, too.
pub async fn a_signal_ends_a_stream_that_waits_for_its_source<M: Mount>() {
    // rules I4, W3
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (_admission, a) = t.provider(|p| p.max_concurrent(1));
        let gates = Gates::new(&t, 1);
        let (handle, signal) = AbortHandle::new();
        let source = futures_util::stream::pending::<usize>();
        // The call's own signal does the same.
        let map = source.map_admitted(a.abort_signal(&signal), gates.operation());
        let mut outputs = by!(by, map);
        let ended = M::spawn(Box::pin(async move { outputs.next().await.is_none() }));
        M::sleep(M::MILLISECOND).await;
        handle.abort();
        assert_eq!(ended.await, Some(true));
    }
}
