//! The queue: how long it is, how long one may stand in it, and all the ways out.
//!
//! Owns: rules W1, W2, W5, W6, W7. Lacks: aborting and closing, which have files of their own.

use std::sync::Arc;
use std::time::Duration;

use admission_rt::{Counts, Rejected};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::{Counter, Signal, poll_idly, poll_once};
use crate::transcript::{Transcript, settle_all};

/// One more than the queue holds is refused; those who run or hold a grant do not count.
pub async fn the_queue_is_finite<M: Mount>() {
    // rule W1
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_concurrent(1).max_queued(2).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let first = t.call("first", &a).await;
    let second = t.call("second", &a).await;
    let refused = t.hold("third", &a).await.refusal();
    assert!(matches!(refused, Rejected::Overflow { .. }), "{refused:?}");
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 2 });
    first.drop_it().await;
    let third = t.call("third", &a).await;
    running.settle().await;
    second.settle().await;
    third.settle().await;
    assert_eq!(t.names(), ["running", "second", "third"]);
}

/// Unless stated, 1,024 may wait at a coordinator.
pub async fn a_thousand_and_twenty_four_may_wait<M: Mount>() {
    // rules W1, D4
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let permit = a.try_acquire().expect("it is free");
    let waiting: Vec<_> = (0..1_024).map(|_| a.enqueue()).collect();
    assert_eq!(admission.counts().queued, 1_024);
    let refused = a.acquire().await.expect_err("the queue is full");
    assert!(matches!(refused, Rejected::Overflow { .. }), "{refused:?}");
    drop(waiting);
    drop(permit);
    assert_eq!(admission.counts(), Counts::default());
}

/// A queue of 0 is immediate admission or nothing.
pub async fn a_queue_of_zero_admits_at_once_or_not_at_all<M: Mount>() {
    // rules W1, E4
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_concurrent(1).max_queued(0).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    let permit = a.acquire().await.expect("it is free");
    assert!(matches!(a.acquire().await, Err(Rejected::Overflow { .. })));
    drop(permit);
    drop(a.acquire().await.expect("it is free again"));
}

/// `try_acquire` never waits, whatever room the queue has.
pub async fn try_acquire_starts_at_once_or_is_exhausted<M: Mount>() {
    // rules R1, D5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1).window(1, t.ms(600_000)));
    let permit = a.try_acquire().expect("it is free");
    let refused = a.try_acquire().expect_err("it is taken");
    assert!(matches!(refused, Rejected::Exhausted { .. }), "{refused:?}");
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
    let wait = refused.retry_after().expect("time would help, as far as it knows");
    assert!(wait <= t.ms(600_000) && !wait.is_zero(), "{wait:?}");
    drop(permit);
}

/// One that is not granted by its deadline is told so at the deadline, and not before.
pub async fn an_admission_timeout_ends_the_wait<M: Mount>() {
    // rule W2
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let late = t.call("late", a.admission_timeout(t.ms(50))).await;
    let patient = t.call("patient", &a).await;
    let refused = late.refused().await;
    assert!(matches!(refused, Rejected::AdmissionTimeout { .. }), "{refused:?}");
    assert!(t.elapsed() >= t.ms(50));
    if M::EXACT {
        assert!(t.elapsed() <= t.ms(51), "{:?}", t.elapsed());
    }
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 1 });
    running.settle().await;
    patient.settle().await;
    assert_eq!(t.names(), ["running", "patient"]);
}

/// At the deadline itself a grant wins; past it, it does not, though the timer was late.
pub async fn at_the_deadline_a_grant_wins_and_past_it_a_refusal<M: Mount>() {
    // rules W2, W6; the sixth item of the checklist
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    for (late, admitted) in [(0, true), (1, false)] {
        let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
        let (admission, a) = t.provider(|p| p.interval(hour));
        drop(a.try_acquire().expect("the first is immediate"));
        let mut waiting = Box::pin(a.admission_timeout(hour).acquire());
        assert!(poll_once(&mut waiting).await.is_pending());
        clock.advance(hour + Duration::from_nanos(late));
        let answer = waiting.await;
        match answer {
            Ok(permit) if admitted => drop(permit),
            Err(Rejected::AdmissionTimeout { .. }) if !admitted => {}
            other => panic!("{late} ns past the deadline: {other:?}"),
        }
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// A timeout of zero waits for nothing, and starts what can start.
pub async fn a_timeout_of_zero_starts_what_can_start<M: Mount>() {
    // rules W2, E4
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let permit = a.admission_timeout(Duration::ZERO).acquire().await.expect("it is free");
    let refused = a.admission_timeout(Duration::ZERO).acquire().await.expect_err("it is taken");
    assert!(matches!(refused, Rejected::AdmissionTimeout { .. }), "{refused:?}");
    drop(permit);
}

/// Without a timeout a call waits as long as it takes.
pub async fn the_admission_timeout_has_no_default<M: Mount>() {
    // rules D4, W2
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let patient = t.call("patient", &a).await;
    clock.advance(Duration::from_secs(100 * 365 * 24 * 60 * 60));
    assert!(a.try_acquire().is_err());
    assert_eq!(admission.counts().queued, 1);
    running.settle().await;
    patient.settle().await;
}

/// Every call into the coordinator lets time pass, though no timer did.
pub async fn any_call_lets_time_pass<M: Mount>() {
    // rules W6, T3
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission =
        t.build(|b| b.provider("a", |p| p.interval(hour)).provider("b", |p| p).provider("c", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let c = admission.provider("c").expect("it is there");
    t.call("a0", &a).await.settle().await;
    let held_by_b = b.try_acquire().expect("it is free");

    // A newcomer elsewhere.
    let a1 = t.call("a1", &a).await;
    clock.advance(hour);
    drop(b.try_acquire());
    a1.started().await;
    // A release elsewhere.
    let a2 = t.call("a2", &a).await;
    clock.advance(hour);
    drop(held_by_b);
    a2.started().await;
    // A cooldown elsewhere.
    let a3 = t.call("a3", &a).await;
    clock.advance(hour);
    c.cooldown(hour * 100).unwrap();
    a3.started().await;
    // The end of a waiter elsewhere.
    let c1 = t.call("c1", &c).await;
    let a4 = t.call("a4", &a).await;
    clock.advance(hour);
    c1.drop_it().await;
    a4.started().await;
    assert_eq!(t.names(), ["a0", "a1", "a2", "a3", "a4"]);
    settle_all([a1, a2, a3, a4]).await;
}

/// If all handles are gone while calls wait and run, these are served as usual.
pub async fn calls_outlive_the_handles<M: Mount>() {
    // rules W6, W5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1).interval(t.ms(50)));
    let running = t.call("running", &a).await;
    let slot = t.call("slot", &a).await;
    let timer = t.call("timer", &a).await;
    let fourth = a.acquire();
    drop((admission, a));
    running.settle().await;
    slot.settle().await;
    timer.settle().await;
    drop(fourth.await.expect("its turn"));
    t.expect(&[("running", 0), ("slot", 50), ("timer", 100)]);
    assert!(t.elapsed() >= t.ms(150));
}

/// A panic in the operation frees what it held, like any other end.
pub async fn a_panic_in_the_operation_frees_everything<M: Mount>() {
    // rules W5, W7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let in_the_future = a.key("k").run(|| async { panic!("on purpose") });
    assert!(M::spawn::<Result<(), Rejected>>(Box::pin(in_the_future)).await.is_none());
    let in_the_call = a.key("k").run(|| -> std::future::Ready<()> { panic!("on purpose") });
    assert!(M::spawn::<Result<(), Rejected>>(Box::pin(in_the_call)).await.is_none());
    assert_eq!(admission.counts(), Counts::default());
    t.call("next", a.key("k")).await.settle().await;
    assert_eq!(t.names(), ["next"]);
}

/// A panic of one that was queued before frees everything too, and the next one goes.
pub async fn a_panic_after_a_wait_passes_the_turn_on<M: Mount>() {
    // rule W5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let mut panics = Box::pin(a.run(|| async { panic!("on purpose") }));
    assert!(poll_once(&mut panics).await.is_pending());
    let panics = M::spawn::<Result<(), Rejected>>(panics);
    let next = t.call("next", &a).await;
    running.settle().await;
    assert!(panics.await.is_none());
    next.settle().await;
    assert_eq!(t.names(), ["running", "next"]);
    assert_eq!(admission.counts(), Counts::default());
}

/// The operation's future is gone before its slot is: what the next one sees is already cleaned up.
pub async fn the_operations_future_is_dropped_before_its_permit<M: Mount>() {
    // rule W7
    // The guard looks from its destructor: its own slot must still be taken.
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    for cancelled in [false, true] {
        let seen = Signal::default();
        let guard = OnDrop(Some({
            let (a, seen) = (a.clone(), seen.clone());
            move || {
                if a.try_acquire().is_err() {
                    seen.set();
                }
            }
        }));
        let mut run = Box::pin(a.run(move || async move {
            let _guard = guard;
            if cancelled {
                std::future::pending::<()>().await;
            }
        }));
        let polled = poll_once(&mut run).await;
        assert_eq!(polled.is_pending(), cancelled);
        drop(run);
        assert!(seen.is_set(), "cancelled: {cancelled}");
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// Whatever way a ticket ends, its waker is let go.
pub async fn no_waker_is_kept<M: Mount>() {
    // rule W5
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_concurrent(1).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    let permit = a.try_acquire().expect("it is free");
    let counter = Arc::new(Counter::default());
    let waker = std::task::Waker::from(Arc::clone(&counter));
    let poll = |future: &mut admission_rt::Acquire<M::Runtime>| {
        future.poll_acquire(&mut std::task::Context::from_waker(&waker)).is_pending()
    };
    let mut dropped = a.acquire();
    assert!(poll(&mut dropped));
    drop(dropped);
    let (handle, signal) = admission_rt::AbortHandle::new();
    let mut aborted = a.abort_signal(&signal).acquire();
    assert!(poll(&mut aborted));
    handle.abort();
    assert!(!poll(&mut aborted));
    let mut granted = a.acquire();
    assert!(poll(&mut granted) && poll(&mut granted));
    drop(permit);
    let Ok(permit) = poll_ready(&mut granted) else { panic!("its turn") };
    let mut closed = a.acquire();
    assert!(poll(&mut closed));
    admission.close();
    assert!(!poll(&mut closed));
    drop(permit);
    drop(waker);
    assert_eq!(Arc::strong_count(&counter), 1, "somebody kept a waker");
    assert_eq!(admission.counts(), Counts::default());
}

/// A waiter that is polled by another task is woken there, and not where it was polled before.
pub async fn the_last_waker_is_the_one_that_is_woken<M: Mount>() {
    // rules S1, W5
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let permit = a.try_acquire().expect("it is free");
    let mut waiting = a.acquire();
    let [old, new] = [Arc::new(Counter::default()), Arc::new(Counter::default())];
    for counter in [&old, &new] {
        let waker = std::task::Waker::from(Arc::clone(counter));
        assert!(waiting.poll_acquire(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    drop(permit);
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
    drop(poll_ready(&mut waiting).expect("its turn"));
}

fn poll_ready<F: std::future::Future + Unpin>(future: &mut F) -> F::Output {
    match poll_idly(future) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("it is ready"),
    }
}

struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}
