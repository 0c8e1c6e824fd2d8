//! The sliding log as an object of its own.
//!
//! Owns: rules R1 to R6. Lacks: the clamps of R5, which stand with the other bad input.

use std::sync::Arc;
use std::time::Duration;

use admission_rt::{Counts, Rejected, Strategy};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::poll_once;
use crate::transcript::{Transcript, settle_all};

/// By default whoever has no room waits for it.
pub async fn a_rate_limiter_waits_by_default<M: Mount>() {
    // rules R1, L3
    let t = Transcript::<M>::new();
    let limiter = t.limiter(2, t.ms(100), |b| b);
    let mut calls = Vec::new();
    for name in ["1", "2", "3", "4", "5"] {
        calls.push(t.call(name, &limiter).await);
    }
    settle_all(calls).await;
    t.expect(&[("1", 0), ("2", 0), ("3", 100), ("4", 100), ("5", 200)]);
}

/// The other strategy answers at once, and says when to come again.
pub async fn a_rejecting_limiter_answers_at_once<M: Mount>() {
    // rule R1
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let second = Duration::from_secs(1);
    let limiter = t.limiter(2, second, |b| b.strategy(Strategy::Reject));
    drop(limiter.acquire().await.expect("two are free"));
    clock.advance(second / 4);
    drop(limiter.acquire().await.expect("one is free"));
    match limiter.acquire().await.expect_err("none is free") {
        Rejected::Exhausted { retry_after, .. } => assert_eq!(retry_after, Some(second * 3 / 4)),
        other => panic!("{other:?}"),
    }
    clock.advance(second * 3 / 4 - Duration::from_nanos(1));
    assert_eq!(limiter.acquire().await.expect_err("1 ns").retry_after(), Some(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(1));
    drop(limiter.acquire().await.expect("it said so"));
    assert_eq!(limiter.counts(), Counts::default());
}

/// 60 a minute, at most 15 s to wait: of 200 at once 60 start and 140 are refused at once.
pub async fn of_two_hundred_at_once_sixty_start<M: Mount>() {
    // rules R2, R4
    let t = Transcript::<M>::new();
    let limiter = t.limiter(60, t.ms(600_000), |b| b.max_wait(t.ms(150_000)));
    let (mut calls, mut refused) = (Vec::new(), 0);
    for _ in 0..200 {
        let call = t.hold("call", &limiter).await;
        if call.has_started() {
            calls.push(call.release::<M>());
        } else {
            match call.refusal() {
                Rejected::MaxWait { retry_after, .. } => {
                    let wait = retry_after.expect("time mends it");
                    assert!(wait > t.ms(150_000) && wait <= t.ms(600_000), "{wait:?}");
                }
                other => panic!("{other:?}"),
            }
            refused += 1;
        }
    }
    assert_eq!((calls.len(), refused), (60, 140));
    assert_eq!(limiter.available(), 0);
    settle_all(calls).await;
}

/// The estimate counts every waiting call ahead, exactly.
pub async fn the_estimate_counts_those_ahead<M: Mount>() {
    // rule R2
    let clock = VirtualClock::new();
    let second = Duration::from_secs(1);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let limiter = t.limiter(2, second, |b| b.max_wait(second * 2));
    drop((limiter.try_acquire().expect("free"), limiter.try_acquire().expect("free")));
    clock.advance(second / 2);
    // Two wait until 1 s, two more until 2 s, the next until 3 s: 2.5 s from now.
    let mut waiting = Vec::new();
    for n in 0..4 {
        let mut call = limiter.acquire();
        assert!(poll_once(&mut call).await.is_pending(), "number {n}");
        waiting.push(call);
    }
    let refused = limiter.acquire().await.expect_err("it would be too long");
    assert!(matches!(refused, Rejected::MaxWait { .. }), "{refused:?}");
    assert_eq!(refused.retry_after(), Some(second * 5 / 2));
    // One who leaves the queue makes room for another.
    waiting.pop();
    let mut call = limiter.acquire();
    assert!(poll_once(&mut call).await.is_pending());
}

/// A wait that would be exactly the longest is not too long.
pub async fn a_wait_of_exactly_the_longest_is_waited_for<M: Mount>() {
    // rules R2, W2
    let t = Transcript::<M>::new();
    let clock = VirtualClock::new();
    let exact = Transcript::<M>::with_clock(Arc::new(clock));
    let limiter = exact.limiter(1, Duration::from_secs(1), |b| b.max_wait(Duration::from_secs(1)));
    drop(limiter.try_acquire().expect("it is free"));
    let mut waiting = limiter.acquire();
    assert!(poll_once(&mut waiting).await.is_pending());
    drop(waiting);
    if M::EXACT {
        let limiter = t.limiter(1, t.ms(100), |b| b.max_wait(t.ms(100)));
        t.call("first", &limiter).await.settle().await;
        t.call("second", &limiter).await.settle().await;
        t.expect(&[("first", 0), ("second", 100)]);
    }
}

/// A `max_wait` of 0 refuses whatever would wait, and nothing else.
pub async fn a_longest_wait_of_zero_refuses_all_waiting<M: Mount>() {
    // rules R5, R2
    let t = Transcript::<M>::new();
    let limiter = t.limiter(2, t.ms(600_000), |b| b.max_wait(Duration::ZERO));
    drop(limiter.acquire().await.expect("free"));
    drop(limiter.acquire().await.expect("free"));
    let refused = limiter.acquire().await.expect_err("it would wait");
    assert!(matches!(refused, Rejected::MaxWait { .. }), "{refused:?}");
}

/// A full queue is an overflow, with a time.
pub async fn a_full_queue_is_an_overflow<M: Mount>() {
    // rules R1, W1
    let t = Transcript::<M>::new();
    let limiter = t.limiter(1, t.ms(600_000), |b| b.max_queued(1));
    drop(limiter.acquire().await.expect("free"));
    let mut waiting = limiter.acquire();
    assert!(poll_once(&mut waiting).await.is_pending());
    let refused = limiter.acquire().await.expect_err("the queue is full");
    assert!(matches!(refused, Rejected::Overflow { .. }), "{refused:?}");
    let wait = refused.retry_after().expect("time mends it");
    assert!(!wait.is_zero() && wait <= t.ms(1_200_000), "{wait:?}");
}

/// What is free right now: 0 to the limit, and a window later all of it.
pub async fn available_is_what_is_free_right_now<M: Mount>() {
    // rule R3
    let clock = VirtualClock::new();
    let second = Duration::from_secs(1);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let limiter = t.limiter(3, second, |b| b);
    assert_eq!(limiter.available(), 3);
    drop(limiter.try_acquire().expect("free"));
    clock.advance(second / 2);
    drop(limiter.try_acquire().expect("free"));
    drop(limiter.try_acquire().expect("free"));
    assert_eq!(limiter.available(), 0);
    clock.advance(second / 2);
    assert_eq!(limiter.available(), 1);
    clock.advance(second / 2);
    assert_eq!(limiter.available(), 3);
}

/// `reset` admits everybody who waits, past the limit too, and logs these starts.
pub async fn reset_admits_everybody_who_waits<M: Mount>() {
    // rule R3
    let t = Transcript::<M>::new();
    let limiter = t.limiter(2, t.ms(600_000), |b| b);
    let mut calls = Vec::new();
    for name in ["1", "2", "3", "4", "5", "6", "7"] {
        calls.push(t.call(name, &limiter).await);
    }
    assert_eq!(t.names(), ["1", "2"]);
    limiter.reset();
    for call in &calls {
        call.started().await;
    }
    t.expect(&[("1", 0), ("2", 0), ("3", 0), ("4", 0), ("5", 0), ("6", 0), ("7", 0)]);
    assert_eq!(limiter.available(), 0, "those starts are logged");
    assert!(limiter.try_acquire().is_err());
    settle_all(calls).await;
}

/// A permit is spent when it is admitted, whatever becomes of the call.
pub async fn a_permit_is_spent_at_admission<M: Mount>() {
    // rules R4, R6
    let t = Transcript::<M>::new();
    let limiter = t.limiter(3, t.ms(600_000), |b| b);
    let failed = limiter.run(|| async { Err::<(), _>("broken") }).await;
    assert_eq!(failed.expect("it was admitted"), Err("broken"));
    assert_eq!(limiter.available(), 2);
    let slow = t.call("slow", &limiter).await;
    assert_eq!(limiter.available(), 1);
    slow.settle().await;
    assert_eq!(limiter.available(), 1, "slow work spends no more");
    assert_eq!(limiter.try_run(|| async { Ok::<_, &str>(5) }).await.expect("it works"), 5);
    assert_eq!(limiter.available(), 0);
}

/// Refused, aborted and dropped calls spend nothing.
pub async fn who_is_not_admitted_spends_nothing<M: Mount>() {
    // rules R4, W3
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let limiter = t.limiter(1, hour, |b| b);
    t.call("first", &limiter).await.settle().await;
    let dropped = t.call("dropped", &limiter).await;
    let (handle, signal) = admission_rt::AbortHandle::new();
    let aborted = t.call("aborted", limiter.call().abort_signal(&signal)).await;
    assert!(limiter.try_acquire().is_err());
    handle.abort();
    assert!(aborted.refused().await.is_aborted());
    dropped.drop_it().await;
    clock.advance(hour);
    assert_eq!(limiter.available(), 1);
    let last = t.call("last", &limiter).await;
    assert!(last.has_started());
    last.settle().await;
    assert_eq!(t.names(), ["first", "last"]);
}

/// It closes like a coordinator.
pub async fn a_rate_limiter_closes<M: Mount>() {
    // rule W4
    let t = Transcript::<M>::new();
    let limiter = t.limiter(1, t.ms(600_000), |b| b);
    let running = t.call("running", &limiter).await;
    let waiting = t.call("waiting", &limiter).await;
    limiter.close();
    assert!(matches!(waiting.refused().await, Rejected::Closed));
    running.settle().await;
    limiter.idle().await;
    assert!(matches!(limiter.try_acquire(), Err(Rejected::Closed)));
}

/// One that waits longer than it may, because something else came up, is never granted, and is told
/// how long it would still have been.
pub async fn whoever_waits_too_long_gets_a_fresh_estimate<M: Mount>() {
    // rule R2
    let clock = VirtualClock::new();
    let second = Duration::from_secs(1);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.max_wait(second).provider("a", |p| p.window(1, second)));
    let a = admission.provider("a").expect("it is there");
    drop(a.try_acquire().expect("one is free"));
    let mut waiting = a.acquire();
    assert!(poll_once(&mut waiting).await.is_pending());
    a.cooldown(second * 3).unwrap();
    clock.advance(second);
    assert!(poll_once(&mut waiting).await.is_pending(), "exactly as long as it may");
    clock.advance(Duration::from_nanos(1));
    let refused = waiting.await.expect_err("too long");
    assert!(matches!(refused, Rejected::MaxWait { .. }), "{refused:?}");
    assert_eq!(refused.retry_after(), Some(second * 2 - Duration::from_nanos(1)));
}

/// One that is passed over at a reset is admitted when it is polled, past the limit.
pub async fn reset_admits_the_one_that_is_passed_over_when_it_is_polled<M: Mount>() {
    // rules R3, S4
    let t = Transcript::<M>::new();
    let limiter = t.limiter(1, t.ms(100), |b| b.hand_off(t.ms(20)));
    t.call("first", &limiter).await.settle().await;
    let mut held = t.hold("held", &limiter).await;
    let next = t.call("next", &limiter).await;
    next.settle().await;
    limiter.reset();
    assert!(!held.has_started());
    let newcomer = t.call("newcomer", &limiter).await;
    assert!(newcomer.has_started());
    assert_eq!(limiter.available(), 0);
    held.poll().await;
    assert!(held.has_started(), "past the limit");
    newcomer.settle().await;
    t.expect(&[("first", 0), ("next", 120), ("newcomer", 120), ("held", 120)]);
}
