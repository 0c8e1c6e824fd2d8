//! The interval pacer as an object of its own.
//!
//! Owns: rules I1 to I3. Lacks: its zero interval, which stands with the other configuration errors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use admission_rt::{AbortHandle, AbortSignal, Counts, IntervalLimiter, Rejected};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::{Signal, poll_once};
use crate::transcript::Transcript;

fn limiter<M: Mount>(t: &Transcript<M>, millis: u32, max_waiting: u32) -> IntervalLimiter<M::Runtime> {
    let builder = IntervalLimiter::builder(t.ms(millis)).clock(t.clock()).max_waiting(max_waiting);
    // A machine that stops for a moment is not a caller that does not run.
    let builder = if M::EXACT { builder } else { builder.hand_off(Duration::from_secs(3_600)) };
    builder.build().expect("the interval is not zero")
}

/// One instance, many tasks: starts an interval apart, first in first out, however long each runs.
pub async fn many_tasks_share_one_interval<M: Mount>() {
    // rules I1, I3, L2
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 100, 1_024);
    let mut calls = Vec::new();
    for name in ["1", "2", "3", "4"] {
        calls.push(t.call(name, &limiter).await);
    }
    // None of them ends before all have started: their work may overlap.
    for call in &calls {
        call.started().await;
    }
    t.expect(&[("1", 0), ("2", 100), ("3", 200), ("4", 300)]);
    for call in calls {
        call.settle().await;
    }
}

/// At most `max_waiting` wait; the granted and the running do not count.
pub async fn at_most_so_many_wait_for_an_interval<M: Mount>() {
    // rules I1, W1
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 600_000, 2);
    let first = t.call("first", &limiter).await;
    let second = t.call("second", &limiter).await;
    let third = t.call("third", &limiter).await;
    let refused = t.hold("fourth", &limiter).await.refusal();
    assert!(matches!(refused, Rejected::Overflow { .. }), "{refused:?}");
    assert_eq!(limiter.counts().queued, 2);
    second.drop_it().await;
    let fifth = t.call("fifth", &limiter).await;
    assert_eq!(limiter.counts().queued, 2);
    limiter.close();
    assert!(matches!(third.refused().await, Rejected::Closed));
    assert!(matches!(fifth.refused().await, Rejected::Closed));
    first.settle().await;
    assert_eq!(t.names(), ["first"]);
}

/// Admission is over as soon as the operation was called: nothing runs while its work goes on.
pub async fn admission_ends_when_the_operation_was_called<M: Mount>() {
    // rule I3
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 100, 1_024);
    let call = t.hold("call", &limiter).await;
    assert!(call.has_started());
    assert_eq!(limiter.counts(), Counts::default());
    call.release::<M>().settle().await;
    assert_eq!(t.names(), ["call"]);
}

/// With nothing of the wait left: while the operation is being called there is no place, no timer.
pub async fn nothing_of_the_wait_is_left_when_the_operation_is_called<M: Mount>() {
    // rules I3, T6
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 50, 1_024);
    t.call("first", &limiter).await.settle().await;
    let seen = Arc::new(Mutex::new(None));
    let run = limiter.run(&AbortSignal::never(), {
        let (limiter, seen) = (limiter.clone(), Arc::clone(&seen));
        move || {
            *seen.lock().expect("no panic") = Some((limiter.counts().queued, M::armed()));
            std::future::ready(())
        }
    });
    run.await.expect("it is admitted");
    let seen = seen.lock().expect("no panic").take().expect("it was called");
    assert_eq!(seen.0, 0);
    assert!(matches!(seen.1, None | Some(0)), "{seen:?}");
}

/// One last look at the signal before the call.
pub async fn a_signal_is_looked_at_before_the_operation_is_called<M: Mount>() {
    // rules I3, S3
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let limiter = IntervalLimiter::<M::Runtime>::builder(hour).clock(t.clock()).hand_off(hour).build();
    let limiter = limiter.expect("the interval is not zero");
    let (handle, signal) = AbortHandle::new();
    t.call("first", &limiter).await.settle().await;
    let waiting = t.call("waiting", (&limiter, &signal)).await;
    handle.abort();
    assert!(waiting.refused().await.is_aborted());
    let late = t.hold("late", (&limiter, &signal)).await;
    assert!(late.refusal().is_aborted());
    // Between the grant and the start.
    let (handle, signal) = AbortHandle::new();
    let mut granted = t.hold("granted", (&limiter, &signal)).await;
    clock.advance(hour);
    drop(t.hold("passing by", (&limiter, &signal)).await);
    assert_eq!(limiter.counts().granted, 1);
    handle.abort();
    granted.poll().await;
    assert!(granted.refusal().is_aborted() && !granted.has_started());
    assert_eq!(limiter.counts(), Counts::default());
    assert_eq!(t.names(), ["first"]);
}

/// The interval runs from the call of the operation; `acquire` is the start itself.
pub async fn acquire_is_the_start<M: Mount>() {
    // rules I1, I3, D1
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 100, 1_024);
    limiter.acquire().await.expect("the first is immediate");
    limiter.acquire().await.expect("its turn");
    t.expect_now(100);
    limiter.acquire().await.expect("its turn");
    t.expect_now(200);
    assert_eq!(limiter.counts(), Counts::default());
}

/// Who does not want to wait is told so, and for how long at least; it is no start, and costs nobody a place.
pub async fn a_start_may_be_had_at_once_or_not_at_all<M: Mount>() {
    // rules I1, I3, L2, R1, W4
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 600_000, 0);
    limiter.try_acquire().expect("the first is immediate");
    assert_eq!(limiter.counts(), Counts::default(), "nothing is held");
    let refused = limiter.try_acquire().expect_err("it is too soon");
    assert!(matches!(refused, Rejected::Exhausted { .. }), "{refused:?}");
    let after = refused.retry_after().expect("time mends it");
    assert!(Duration::ZERO < after && after <= t.ms(600_000), "{after:?}");
    let again = limiter.try_acquire().expect_err("still");
    assert!(again.retry_after() <= Some(after), "the refusal was no start");
    limiter.close();
    assert!(limiter.try_acquire().expect_err("over").is_closed());
}

/// A retry takes a place of its own, behind those who wait.
pub async fn a_retry_takes_a_place_of_its_own<M: Mount>() {
    // rules I1, E5
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 50, 1_024);
    let first = t.call("first", &limiter).await;
    let patient = t.call("patient", &limiter).await;
    first.settle().await;
    let retry = t.call("retry", &limiter).await;
    patient.settle().await;
    retry.settle().await;
    t.expect(&[("first", 0), ("patient", 50), ("retry", 100)]);
}

/// A panic in the operation leaves nothing behind.
pub async fn a_panic_in_a_paced_operation_leaves_nothing<M: Mount>() {
    // rules I3, W5
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 20, 1_024);
    for in_the_call in [true, false] {
        let limiter = limiter.clone();
        let panics = M::spawn::<()>(Box::pin(async move {
            let signal = AbortSignal::never();
            let run = limiter.run(&signal, move || {
                assert!(!in_the_call, "on purpose");
                async { panic!("on purpose") }
            });
            run.await.expect("it is admitted");
        }));
        assert!(panics.await.is_none());
    }
    assert_eq!(limiter.counts(), Counts::default());
    t.call("next", &limiter).await.settle().await;
    t.expect(&[("next", 40)]);
}

/// A caller that never comes for its start costs the others the hand-off time, once.
pub async fn a_caller_of_the_interval_that_does_not_run_stalls_briefly<M: Mount>() {
    // rules S4, I1
    let t = Transcript::<M>::new();
    let builder = IntervalLimiter::<M::Runtime>::builder(t.ms(100)).clock(t.clock()).hand_off(t.ms(200));
    let limiter = builder.build().expect("the interval is not zero");
    t.call("first", &limiter).await.settle().await;
    let mut held = Box::pin(limiter.acquire());
    assert!(poll_once(&mut held).await.is_pending());
    let done = Signal::default();
    let next = t.call("next", &limiter).await;
    next.settle().await;
    done.set();
    drop(held);
    t.expect(&[("first", 0), ("next", 300)]);
}
