//! Between grant and start: what a caller that does not come for its grant costs the others.
//!
//! Owns: rules S1 to S6 and S4a. Lacks: what a grant costs in a queue where everybody comes.

use std::sync::Arc;
use std::time::Duration;

use admission_rt::{Admission, Counts, Rejected};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::poll_once;
use crate::transcript::{Transcript, settle_all};

/// Admitted at once is started at once: one poll, no grant in between.
pub async fn a_newcomer_that_may_start_starts_in_one_step<M: Mount>() {
    // rules S6, D1
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1).interval(t.ms(10)));
    let held = t.hold("held", &a).await;
    assert!(held.has_started());
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
}

/// The coordinator grants; the caller starts, when it runs.
pub async fn a_grant_is_started_by_its_caller<M: Mount>() {
    // rule S1
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", &a).await;
    running.settle().await;
    assert_eq!(admission.counts(), Counts { running: 0, granted: 1, queued: 0 });
    assert!(!held.has_started());
    held.poll().await;
    assert!(held.has_started());
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
}

/// While a grant of a paced scope has not started, nothing else in it is granted; a logged scope
/// counts it as spent.
pub async fn a_grant_that_has_not_started_holds_its_scope<M: Mount>() {
    // rules S2, S1
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| {
        b.hand_off(hour * 1_000)
            .provider("paced", |p| p.interval(hour))
            .provider("logged", |p| p.max_concurrent(2).window(3, hour * 1_000))
            .provider("other", |p| p)
    });
    let provider = |name| admission.provider(name).expect("it is there");
    let (paced, logged, other) = (provider("paced"), provider("logged"), provider("other"));
    t.call("p0", &paced).await.settle().await;
    let [l0, l1] = [t.call("l0", &logged).await, t.call("l1", &logged).await];
    let mut p1 = t.hold("p1", &paced).await;
    let mut p2 = t.hold("p2", &paced).await;
    let mut l2 = t.hold("l2", &logged).await;
    let l3 = t.hold("l3", &logged).await;
    settle_all([l0, l1]).await;
    clock.advance(hour * 2);
    other.cooldown(Duration::ZERO).unwrap();
    assert_eq!(admission.counts(), Counts { running: 0, granted: 2, queued: 2 }, "p1 and l2");
    clock.advance(hour * 2);
    other.cooldown(Duration::ZERO).unwrap();
    assert_eq!(admission.counts(), Counts { running: 0, granted: 2, queued: 2 }, "and nobody else");
    p1.poll().await;
    l2.poll().await;
    assert!(p1.has_started() && l2.has_started());
    p2.poll().await;
    assert!(!p2.has_started(), "the gap runs from the start, not from the grant");
    clock.advance(hour);
    p2.poll().await;
    assert!(p2.has_started());
    drop(l3);
    assert_eq!(t.names().len(), 6);
}

/// A grant that is dropped gives back slot and key at once, and its budget not at all.
pub async fn an_abandoned_grant_keeps_its_budget_spent<M: Mount>() {
    // rules S3, W3
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1).window(3, t.ms(1_000)));
    let running = t.call("running", a.key("k")).await;
    let held = t.hold("held", a.key("k")).await;
    let next = t.call("next", a.key("k")).await;
    let last = t.call("last", &a).await;
    t.until(10).await;
    running.settle().await;
    assert_eq!(admission.counts().granted, 1);
    drop(held);
    next.settle().await;
    // running, held and next are spent; the first is out of the window at 1000.
    last.settle().await;
    t.expect(&[("running", 0), ("next", 10), ("last", 1_000)]);
}

/// A caller that does not run stalls the others for the hand-off time, and no longer.
pub async fn a_caller_that_does_not_run_stalls_the_others_briefly<M: Mount>() {
    // rules S4, S1
    let t = Transcript::<M>::new();
    // The grant of `held` must still be there at its first poll below, or `after` goes before it.
    let admission = t.build(|b| b.hand_off(ample(&t)).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", &a).await;
    let next = t.call("next", &a).await;
    t.until(10).await;
    running.settle().await;
    next.started().await;
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 1 });
    // It keeps its place, and goes before whoever came after it.
    let after = t.call("after", &a).await;
    held.poll().await;
    assert!(!held.has_started());
    next.settle().await;
    held.release::<M>().settle().await;
    after.settle().await;
    t.expect(&[("running", 0), ("next", 210), ("held", 210), ("after", 210)]);
}

/// The default hand-off time is 200 ms.
pub async fn the_hand_off_time_is_two_hundred_milliseconds<M: Mount>() {
    // rules S4, D4
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let builder = Admission::<M::Runtime>::builder().clock(Arc::new(clock.clone()));
    let builder = builder.provider("a", |p| p.max_concurrent(1)).provider("b", |p| p);
    let admission = builder.build().expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let running = t.call("running", &a).await;
    let held = t.hold("held", &a).await;
    let next = t.call("next", &a).await;
    running.settle().await;
    clock.advance(Duration::from_nanos(199_999_999));
    drop(b.try_acquire().expect("it is free"));
    assert_eq!(admission.counts(), Counts { running: 0, granted: 1, queued: 1 });
    clock.advance(Duration::from_nanos(1));
    // It is taken back in this call, which does not overtake the one behind it; unless the mount's own
    // alarm, which real time rings, has seen the clock before.
    let newcomer = b.try_acquire();
    assert!(newcomer.is_err() || !M::EXACT);
    drop(newcomer);
    next.settle().await;
    drop(held);
    assert_eq!(t.names(), ["running", "next"]);
}

/// One task holds a granted future that it does not poll, and awaits another: it goes on.
pub async fn a_task_that_awaits_another_acquisition_goes_on<M: Mount>() {
    // rule S4
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.hand_off(t.ms(200)).max_concurrent(1).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    let done = M::spawn(Box::pin(async move {
        let first = a.acquire().await.expect("it is free");
        let mut held = a.acquire();
        assert!(poll_once(&mut held).await.is_pending());
        drop(first);
        // `held` is granted now, and this task does not poll it while it waits here.
        drop(a.acquire().await.expect("in the end"));
        drop(held.await.expect("its own turn"));
    }));
    done.await.expect("no panic");
    assert!(t.elapsed() >= t.ms(200));
    if M::EXACT {
        assert_eq!(t.elapsed(), t.ms(200));
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// A thousand such futures at concurrency 1 stall the queue for less than three seconds in all.
pub async fn a_thousand_futures_that_nobody_polls_stall_the_queue_briefly<M: Mount>() {
    // rules S4, S4a
    let t = Transcript::<M>::new();
    let hand_off = Duration::from_millis(200);
    let admission = t.build(|b| b.hand_off(hand_off).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let mut held = Vec::new();
    for _ in 0..1_000 {
        held.push(t.hold("held", &a).await);
    }
    let next = t.call("next", &a).await;
    running.settle().await;
    next.started().await;
    let stalled = t.elapsed();
    // 200, 100, 50 and so on, and then a millisecond each: 1.4 s.
    assert!(stalled >= Duration::from_millis(1_300), "{stalled:?}");
    if M::EXACT {
        assert!(stalled < Duration::from_millis(3_000), "{stalled:?}");
    }
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 1_000 });
    next.settle().await;
    drop(held);
    assert_eq!(admission.counts(), Counts::default());
}

/// What is taken back comes back whole: budget, interval, slot and key.
pub async fn a_grant_that_is_taken_back_gives_everything_back<M: Mount>() {
    // rule S4
    let t = Transcript::<M>::new();
    let admission = t.build(|b| {
        b.hand_off(t.ms(200))
            .provider("a", |p| p.max_concurrent(1).window(2, t.ms(600_000)).interval(t.ms(5)))
    });
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", a.key("k")).await;
    let held = t.hold("held", a.key("k")).await;
    let next = t.call("next", a.key("k")).await;
    t.until(10).await;
    running.settle().await;
    // Were the budget of `held` spent, `next` would wait for ten minutes.
    next.settle().await;
    drop(held);
    t.expect(&[("running", 0), ("next", 210)]);
}

/// A poll that finds its grant not yet taken back starts it, however late.
pub async fn a_late_poll_starts_a_grant_that_is_still_there<M: Mount>() {
    // rule S4
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", &a).await;
    running.settle().await;
    clock.advance(Duration::from_secs(3_600));
    held.poll().await;
    assert!(held.has_started());
}

/// One whose grant was taken back past its deadline has expired.
pub async fn a_grant_taken_back_past_its_deadline_expires<M: Mount>() {
    // rules W2, S4
    let clock = VirtualClock::new();
    let ms = Duration::from_millis;
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.hand_off(ms(200)).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", a.admission_timeout(ms(100))).await;
    let mut next = t.hold("next", &a).await;
    running.settle().await;
    clock.advance(ms(200));
    next.poll().await;
    assert!(next.has_started(), "a call takes back what is overdue");
    held.poll().await;
    assert!(matches!(held.refusal(), Rejected::AdmissionTimeout { .. }), "{:?}", held.refusal());
    assert_eq!(t.names(), ["running", "next"]);
}

/// A cooldown takes back what has not started, with everything; the ticket keeps its place and is
/// not passed over.
pub async fn a_cooldown_takes_back_what_has_not_started<M: Mount>() {
    // rules S5, L5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1).window(3, t.ms(600_000)));
    let running = t.call("running", &a).await;
    let held = t.hold("held", &a).await;
    let next = t.call("next", &a).await;
    running.settle().await;
    assert_eq!(admission.counts().granted, 1);
    a.cooldown(Duration::ZERO).unwrap();
    assert_eq!(admission.counts().granted, 1, "a cooldown that is already over takes nothing back");
    a.cooldown(t.ms(if M::EXACT { 100 } else { 5_000 })).unwrap();
    assert_eq!(admission.counts(), Counts { running: 0, granted: 0, queued: 2 });
    let held = held.release::<M>();
    settle_all([held, next]).await;
    t.expect(&[("running", 0), ("held", 100), ("next", 100)]);
    assert!(a.try_acquire().is_err(), "three starts are three");
}

/// Each take-back halves the hand-off time, and a start restores it.
pub async fn each_take_back_halves_the_time_and_a_start_restores_it<M: Mount>() {
    // rules S4a, S4
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.hand_off(t.ms(200)).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let held = [t.hold("1", &a).await, t.hold("2", &a).await, t.hold("3", &a).await];
    let next = t.call("next", &a).await;
    running.settle().await;
    next.started().await;
    drop(held);
    let held = t.hold("4", &a).await;
    let last = t.call("last", &a).await;
    next.settle().await;
    last.settle().await;
    drop(held);
    // 200 + 100 + 50, and 200 again.
    t.expect(&[("running", 0), ("next", 350), ("last", 550)]);
}

/// A grant gets the shorter of its two scopes' times; a start restores those of its own scopes only.
pub async fn a_grant_gets_the_shorter_of_its_scopes_times<M: Mount>() {
    // rule S4a
    let t = Transcript::<M>::new();
    let admission =
        t.build(|b| b.hand_off(t.ms(200)).max_concurrent(1).provider("a", |p| p).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let running = t.call("running", &b).await;
    let first = t.hold("first", &a).await;
    let b1 = t.call("b1", &b).await;
    running.settle().await;
    b1.started().await;
    // Taken back once, `a` has half the time; the start of `b1` has restored the client's.
    let second = t.hold("second", &a).await;
    let b2 = t.call("b2", &b).await;
    b1.settle().await;
    b2.settle().await;
    drop((first, second));
    t.expect(&[("running", 0), ("b1", 200), ("b2", 300)]);
}

/// One that was polled since its grant was taken back gets the full time at its next.
pub async fn whoever_was_polled_again_gets_the_full_time<M: Mount>() {
    // rules S4a, S4
    let t = Transcript::<M>::new();
    let admission =
        t.build(|b| b.hand_off(t.ms(200)).max_concurrent(1).provider("a", |p| p).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let running = t.call("running", &b).await;
    let mut held = t.hold("held", &a).await;
    let b1 = t.call("b1", &b).await;
    running.settle().await;
    b1.started().await;
    held.poll().await;
    let b2 = t.call("b2", &b).await;
    b1.settle().await;
    b2.settle().await;
    drop(held);
    t.expect(&[("running", 0), ("b1", 200), ("b2", 400)]);
}

/// One whose grant was taken back is passed over, even by those who come later, until it is polled;
/// that poll starts it if it can start.
pub async fn whoever_is_passed_over_starts_when_it_is_polled<M: Mount>() {
    // rules S4, E1, W6
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.hand_off(t.ms(50)).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", &a).await;
    let next = t.call("next", &a).await;
    running.settle().await;
    next.settle().await;
    assert_eq!(admission.counts(), Counts { running: 0, granted: 0, queued: 1 }, "the slot is free");
    t.call("newcomer", &a).await.settle().await;
    assert!(!held.has_started());
    held.poll().await;
    assert!(held.has_started());
    t.expect(&[("running", 0), ("next", 50), ("newcomer", 50), ("held", 50)]);
}

/// A take-back by a cooldown halves nothing.
pub async fn a_cooldown_halves_nothing<M: Mount>() {
    // rules S5, S4a
    let t = Transcript::<M>::new();
    // The grant must still be there for the cooldown to take it back.
    let admission = t.build(|b| b.hand_off(ample(&t)).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let held = t.hold("held", &a).await;
    let next = t.call("next", &a).await;
    running.settle().await;
    a.cooldown(t.ms(100)).unwrap();
    next.settle().await;
    drop(held);
    // Granted again at 100, and taken back for want of a poll at 300.
    t.expect(&[("running", 0), ("next", 300)]);
}

/// After a cooldown has taken its grant back, the deadline of a ticket goes on.
pub async fn a_deadline_goes_on_when_a_cooldown_takes_the_grant_back<M: Mount>() {
    // rules S5, W2
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let held = t.hold("held", a.admission_timeout(t.ms(150))).await;
    running.settle().await;
    a.cooldown(t.ms(600_000)).unwrap();
    assert_eq!(admission.counts().granted, 0);
    let refused = held.release::<M>().refused().await;
    assert!(matches!(refused, Rejected::AdmissionTimeout { .. }), "{refused:?}");
    assert!(t.elapsed() >= t.ms(150));
    assert_eq!(t.names(), ["running"]);
}

/// 200 ms, where time is exact. Elsewhere more, for bodies in which a grant must not be taken back before their
/// next step: a machine may stop for a moment.
fn ample<M: Mount>(t: &Transcript<M>) -> Duration {
    t.ms(if M::EXACT { 200 } else { 4_000 })
}
