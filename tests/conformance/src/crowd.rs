//! Many at once: how often each is polled, in which order they go, and whether anything drifts.
//!
//! Owns: the numbers that a crowd shows and three callers do not. Lacks: speed, which is a benchmark's
//! business.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use admission_rt::{AbortHandle, Counts};

use crate::mount::Mount;
use crate::signal::{poll_once, yield_now};
use crate::transcript::Transcript;

/// 1,600 callers at 500 per second: each future is polled exactly twice (once if it starts at once),
/// they start in order, and the last one starts where arithmetic says.
pub async fn sixteen_hundred_callers_are_polled_twice_each<M: Mount>() {
    // rules E2, L2, S1, I1
    const CALLERS: u32 = 1_600;
    let t = Transcript::<M>::new();
    // A real machine may stop for longer than the default, and then somebody is polled once more.
    let admission = t.build(|b| {
        let b = b.max_queued(CALLERS).provider("a", |p| p.interval(t.ms(2)));
        if M::EXACT { b } else { b.hand_off(Duration::from_secs(3_600)) }
    });
    let a = admission.provider("a").expect("it is there");
    let starts = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..CALLERS {
        let polls = Arc::new(AtomicU32::new(0));
        let (starts, clock) = (Arc::clone(&starts), t.clock());
        let run = a.run(move || {
            starts.lock().expect("no panic").push((n, clock.now()));
            std::future::ready(())
        });
        let polled = Polled { future: Box::pin(run), polls: Arc::clone(&polls) };
        tasks.push((M::spawn(Box::pin(polled)), polls));
    }
    let mut once = 0;
    for (task, polls) in tasks {
        task.await.expect("no panic").expect("it is admitted");
        match polls.load(Ordering::SeqCst) {
            1 => once += 1,
            polls => assert_eq!(polls, 2),
        }
    }
    assert!(once >= 1, "the first starts at once");
    let starts = starts.lock().expect("no panic");
    assert_eq!(starts.len(), CALLERS as usize);
    for (nth, &(n, at)) in starts.iter().enumerate() {
        let nth = u32::try_from(nth).expect("small");
        let since = t.since(at);
        if M::ONE_THREAD {
            assert_eq!(n, nth, "the order of submission");
        }
        if M::EXACT {
            assert_eq!((since, once), (t.ms(2 * nth), 1), "start {nth}");
        } else if M::ONE_THREAD {
            assert!(since >= t.ms(2 * nth), "start {nth} at {since:?}");
        }
    }
    assert!(t.elapsed() >= t.ms(2 * (CALLERS - 1)));
    assert_eq!(admission.counts(), Counts::default());
}

/// Many tasks in a narrow place: nothing is lost, and never do more run than may.
pub async fn a_crowd_in_a_narrow_place<M: Mount>() {
    // rules L1, W5, E2
    let t = Transcript::<M>::new();
    let admission = t.build(|b| {
        b.max_concurrent(3).provider("a", |p| p.max_concurrent(2)).provider("b", |p| p.max_concurrent(2))
    });
    let running = Arc::new([const { AtomicU32::new(0) }; 3]);
    let done = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for n in 0..400_usize {
        let provider = admission.provider(if n % 2 == 0 { "a" } else { "b" }).expect("it is there");
        let (running, done) = (Arc::clone(&running), Arc::clone(&done));
        tasks.push(M::spawn(Box::pin(async move {
            let call = provider.key(format!("key {}", n % 7));
            let answer = call.run(move || async move {
                let side = &running[n % 2];
                assert!(side.fetch_add(1, Ordering::SeqCst) < 2, "a provider's bound");
                assert!(running[2].fetch_add(1, Ordering::SeqCst) < 3, "the client's bound");
                yield_now().await;
                side.fetch_sub(1, Ordering::SeqCst);
                running[2].fetch_sub(1, Ordering::SeqCst);
            });
            answer.await.expect("it is admitted");
            done.fetch_add(1, Ordering::SeqCst);
        })));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(done.load(Ordering::SeqCst), 400);
    assert_eq!(admission.counts(), Counts::default());
}

/// A crowd of which every second one goes away, in every way there is. Nothing is lost, and the slots
/// are all there afterwards.
pub async fn a_crowd_that_comes_and_goes<M: Mount>() {
    // rules W5, W3, W2, L1
    let t = Transcript::<M>::new();
    let admission = t.build(|b| {
        b.max_concurrent(4).hand_off(t.ms(10)).provider("a", |p| p.max_concurrent(3)).provider("b", |p| p)
    });
    let mut tasks = Vec::new();
    for n in 0..500_usize {
        let provider = admission.provider(if n % 3 == 0 { "a" } else { "b" }).expect("it is there");
        let (handle, signal) = AbortHandle::new();
        let call = provider.key((n % 11) as u64).abort_signal(&signal);
        let brief = t.ms(5);
        tasks.push(M::spawn(Box::pin(async move {
            match n % 8 {
                0 => {
                    let mut dropped = call.acquire();
                    drop(poll_once(&mut dropped).await);
                    yield_now().await;
                }
                1 => {
                    let mut aborted = call.acquire();
                    if poll_once(&mut aborted).await.is_pending() {
                        handle.abort();
                        drop(aborted.await);
                    }
                }
                2 => drop(call.admission_timeout(brief).acquire().await),
                3 => drop(call.run(|| async { panic!("on purpose") }).await.map(|(): ()| ())),
                _ => call.run(yield_now).await.expect("it is admitted in the end"),
            }
        })));
    }
    let mut panicked = 0;
    for task in tasks {
        panicked += u32::from(task.await.is_none());
    }
    assert_eq!(panicked, 63, "those whose operation panics, and nobody else");
    assert_eq!(admission.counts(), Counts::default());
    let b = admission.provider("b").expect("it is there");
    let permits: Vec<_> = (0..4).map(|_| b.try_acquire().expect("a slot of four")).collect();
    assert!(b.try_acquire().is_err());
    drop(permits);
}

struct Polled<F> {
    future: Pin<Box<F>>,
    polls: Arc<AtomicU32>,
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        self.future.as_mut().poll(cx)
    }
}
