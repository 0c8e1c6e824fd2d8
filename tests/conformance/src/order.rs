//! Who goes first: submission, eligibility, keys, heavy tickets, newcomers.
//!
//! Owns: rules W0, E1 to E6 and D1. Lacks: what a limit allows, which is the business of `limits`.

use std::time::Duration;

use admission_rt::{Counts, Rejected, Window};
use admission_testing::VirtualClock;
use std::sync::Arc;

use crate::mount::Mount;
use crate::signal::{poll_once, yield_now};
use crate::transcript::{Transcript, settle_all};

/// Futures that were made in one order and polled in another are served in the other.
pub async fn the_order_of_submission_is_the_order_of_first_polls<M: Mount>() {
    // rules W0, E2
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let (mut second, mut first) = (t.unpolled("second", &a), t.unpolled("first", &a));
    assert_eq!(admission.counts().queued, 0, "before its first poll a future has no place");
    first.poll().await;
    second.poll().await;
    assert_eq!(admission.counts().queued, 2);
    running.settle().await;
    first.release::<M>().settle().await;
    second.release::<M>().settle().await;
    assert_eq!(t.names(), ["running", "first", "second"]);
}

/// A future that was never polled costs nobody anything, and leaves nothing behind.
pub async fn a_future_that_is_never_polled_holds_nothing<M: Mount>() {
    // rules W0, W5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1).window(2, t.ms(600_000)));
    drop(t.unpolled("never", &a));
    let never = t.unpolled("never", a.key("k"));
    let one = t.call("one", a.key("k")).await;
    assert!(one.has_started());
    drop(never);
    one.settle().await;
    t.call("two", &a).await.settle().await;
    assert_eq!(t.names(), ["one", "two"]);
    assert_eq!(admission.counts(), Counts::default());
}

/// `enqueue` has its place before anything is polled.
pub async fn enqueue_takes_its_place_at_once<M: Mount>() {
    // rule W0
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let mut early = a.enqueue();
    assert_eq!(admission.counts().queued, 1);
    let late = t.call("late", &a).await;
    running.settle().await;
    assert!(!late.has_started(), "the one that was enqueued goes first");
    let permit = (&mut early).await.expect("it is its turn");
    assert!(!late.has_started());
    drop(permit);
    late.settle().await;
    assert_eq!(t.names(), ["running", "late"]);
}

/// With concurrency 1, a hundred calls start one after another, as they came.
pub async fn a_queue_is_served_in_the_order_of_submission<M: Mount>() {
    // rules E2, L1
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let mut calls = Vec::new();
    let names: Vec<String> = (0..100).map(|n| format!("a{n}")).collect();
    for name in &names {
        calls.push(t.call(name, &a).await);
    }
    for call in calls {
        call.settle().await;
    }
    assert_eq!(t.names(), names);
}

/// A provider that cools down, is full or is paced holds back nobody else.
pub async fn a_provider_that_waits_holds_back_no_other<M: Mount>() {
    // rules E1, E2, L5
    let t = Transcript::<M>::new();
    let minute = t.ms(600_000);
    let admission = t.build(|b| {
        b.max_concurrent(10)
            .provider("cooling", |p| p)
            .provider("paced", |p| p.interval(minute))
            .provider("spent", |p| p.window(1, minute))
            .provider("full", |p| p.max_concurrent(1))
            .provider("free", |p| p)
    });
    let provider = |name| admission.provider(name).expect("it is there");
    provider("cooling").cooldown(minute).unwrap();
    let mut waiting = Vec::new();
    for name in ["cooling", "paced", "spent", "full"] {
        waiting.push(t.call(name, &provider(name)).await);
        waiting.push(t.call(name, &provider(name)).await);
    }
    let free = t.call("free", &provider("free")).await;
    assert!(free.has_started());
    assert_eq!(t.names(), ["paced", "spent", "full", "free"]);
    free.settle().await;
    for call in waiting {
        call.drop_it().await;
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// A busy key waits for itself alone.
pub async fn a_busy_key_holds_back_only_that_key<M: Mount>() {
    // rules E2, L1, E6, D3
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(10));
    let first = t.call("first", a.key("same")).await;
    let second = t.call("second", a.key("same")).await;
    let other = t.call("other", a.key("another")).await;
    let none = t.call("none", &a).await;
    let third = t.call("third", a.key("same".to_owned())).await;
    assert_eq!(t.names(), ["first", "other", "none"]);
    assert_eq!(admission.counts().queued, 2);
    first.settle().await;
    second.started().await;
    assert!(!third.has_started());
    second.settle().await;
    third.started().await;
    assert_eq!(t.names(), ["first", "other", "none", "second", "third"]);
    settle_all([other, none, third]).await;
}

/// A key is one name in the whole coordinator, and goes to the oldest that may really start.
pub async fn a_key_that_comes_free_goes_to_the_oldest_that_is_eligible<M: Mount>() {
    // rules E6, L1
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.provider("a", |p| p).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let running = t.call("running", b.key("k")).await;
    a.cooldown(t.ms(600_000)).unwrap();
    let older = t.call("older", a.key("k")).await;
    let younger = t.call("younger", b.key("k")).await;
    assert_eq!(admission.counts().queued, 2, "a key is the same at both providers");
    running.settle().await;
    younger.started().await;
    assert!(!older.has_started(), "its provider holds it back, and it holds back nobody");
    younger.settle().await;
    older.drop_it().await;
    assert_eq!(t.names(), ["running", "younger"]);
}

/// Light calls do not starve a heavy one, and other providers are not asked to wait for it.
pub async fn a_heavy_ticket_is_not_starved_by_light_ones<M: Mount>() {
    // rule E3
    let t = Transcript::<M>::new();
    let tokens = |limit| Window::new(limit, t.ms(1_000)).unit("tokens");
    let admission = t.build(|b| b.unit("tokens").provider("a", |p| p.log(tokens(100))).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let a1 = t.call("a1", a.cost("tokens", 60)).await;
    let a2 = t.call("a2", a.cost("tokens", 80)).await;
    let b1 = t.call("b1", &b).await;
    let a3 = t.call("a3", a.cost("tokens", 10)).await;
    if M::EXACT {
        assert_eq!(t.names(), ["a1", "b1"], "10 would fit, but 80 came first");
    }
    settle_all([a1, b1]).await;
    settle_all([a2, a3]).await;
    t.expect(&[("a1", 0), ("b1", 0), ("a2", 1_000), ("a3", 1_000)]);
}

/// A heavy call that a key holds back too makes nobody wait.
pub async fn a_heavy_ticket_that_something_else_holds_back_stops_nobody<M: Mount>() {
    // rule E3
    let t = Transcript::<M>::new();
    let tokens = Window::new(100, t.ms(600_000)).unit("tokens");
    let admission = t.build(|b| b.unit("tokens").provider("a", |p| p.log(tokens)));
    let a = admission.provider("a").expect("it is there");
    let holder = t.call("holder", a.key("k").cost("tokens", 60)).await;
    let heavy = t.call("heavy", a.key("k").cost("tokens", 80)).await;
    let light = t.call("light", a.cost("tokens", 10)).await;
    assert_eq!(t.names(), ["holder", "light"]);
    heavy.drop_it().await;
    settle_all([holder, light]).await;
}

/// A heavy call that its own provider's budget holds back stops that provider only, even where the
/// client's budget holds it back too.
pub async fn a_heavy_ticket_of_one_provider_does_not_stop_another<M: Mount>() {
    // rule E3
    let t = Transcript::<M>::new();
    let tokens = |limit| Window::new(limit, t.ms(600_000)).unit("tokens");
    let admission = t.build(|b| {
        b.unit("tokens").log(tokens(150)).provider("a", |p| p.log(tokens(100))).provider("b", |p| p)
    });
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let a1 = t.call("a1", a.cost("tokens", 90)).await;
    let a2 = t.call("a2", a.cost("tokens", 80)).await;
    let a3 = t.call("a3", a.cost("tokens", 5)).await;
    let b1 = t.call("b1", b.cost("tokens", 30)).await;
    assert_eq!(t.names(), ["a1", "b1"]);
    a2.drop_it().await;
    a3.started().await;
    assert_eq!(t.names(), ["a1", "b1", "a3"], "who stood behind it goes in its stead");
    settle_all([a1, a3, b1]).await;
}

/// Two free slots, one place in the queue. `a1` waits for an interval that is over, but its timer is
/// late; `b1` does not jump it.
pub async fn a_newcomer_does_not_overtake_an_overdue_waiter<M: Mount>() {
    // rules E4, W6
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| {
        b.max_concurrent(2).max_queued(1).provider("a", |p| p.interval(hour)).provider("b", |p| p)
    });
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    t.call("a0", &a).await.settle().await;
    let mut a1 = t.hold("a1", &a).await;
    assert_eq!(admission.counts().queued, 1);

    // The interval ends, and nobody says so.
    clock.advance(hour + Duration::from_millis(1));
    let b1 = t.hold("b1", &b).await;
    assert!(matches!(b1.refusal(), Rejected::Overflow { .. }), "{:?}", b1.refusal());

    // What is due was granted in that very call, and a newcomer finds the other slot free.
    assert_eq!(admission.counts(), Counts { running: 0, granted: 1, queued: 0 });
    let b2 = t.call("b2", &b).await;
    assert!(b2.has_started());
    a1.poll().await;
    assert_eq!(t.names(), ["a0", "b2", "a1"]);
    b2.settle().await;
}

/// The same, with the waiter not yet due: the newcomer starts at once and takes no place.
pub async fn a_newcomer_that_may_start_takes_no_place<M: Mount>() {
    // rules E4, S6
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let admission = t.build(|b| {
        b.max_concurrent(2).max_queued(1).provider("a", |p| p.interval(hour)).provider("b", |p| p)
    });
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    t.call("a0", &a).await.settle().await;
    let a1 = t.call("a1", &a).await;
    let b1 = t.call("b1", &b).await;
    let counts = admission.counts();
    assert_eq!((counts.running, counts.granted, counts.queued), (1, 0, 1));
    b1.settle().await;
    a1.drop_it().await;
    assert_eq!(t.names(), ["a0", "b1"]);
}

/// Whoever fails and asks again stands at the tail.
pub async fn a_retry_stands_at_the_tail<M: Mount>() {
    // rule E5
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let attempt = t.call("attempt", &a).await;
    let patient = t.call("patient", &a).await;
    attempt.settle().await;
    let retry = t.call("retry", &a).await;
    patient.settle().await;
    retry.settle().await;
    assert_eq!(t.names(), ["attempt", "patient", "retry"]);
}

/// A greedy caller asks again in the very turn in which it lets go. It never beats the one who
/// waited.
pub async fn a_greedy_resubmitter_never_beats_the_one_who_waits<M: Mount>() {
    // rules E4, E5, S1; the fourth item of the checklist
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_concurrent(1).max_queued(4).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    for round in 0..1_000 {
        let greedy = a.acquire().await.expect("it is free");
        let mut patient = a.acquire();
        assert!(poll_once(&mut patient).await.is_pending());
        drop(greedy);
        let mut again = a.acquire();
        assert!(poll_once(&mut again).await.is_pending(), "round {round}: the slot is the other's");
        let counts = admission.counts();
        assert_eq!((counts.running, counts.granted, counts.queued), (0, 1, 1), "round {round}");
        drop(patient.await.expect("its turn"));
        drop(again.await.expect("its turn"));
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// For `acquire` the start is the poll that returns the permit: the gap runs from there.
pub async fn the_start_of_an_acquire_is_the_poll_that_returns_the_permit<M: Mount>() {
    // rules D1, S1, L2
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1).interval(t.ms(100)));
    let running = a.acquire().await.expect("it is free");
    let mut second = a.acquire();
    assert!(poll_once(&mut second).await.is_pending());
    t.until(150).await;
    drop(running);
    // Granted at 150; its caller comes for it at 200.
    t.until(200).await;
    let permit = second.await.expect("its turn");
    drop(permit);
    yield_now().await;
    drop(a.acquire().await.expect("its turn"));
    t.expect_now(300);
}

/// Overdue tickets expire before a newcomer is judged, so it finds their places free.
pub async fn the_overdue_expire_before_a_newcomer_is_judged<M: Mount>() {
    // rules E4, W2, W1
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.max_concurrent(1).max_queued(1).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let overdue = t.call("overdue", a.admission_timeout(hour)).await;
    assert!(matches!(t.hold("early", &a).await.refusal(), Rejected::Overflow { .. }));
    clock.advance(hour + Duration::from_nanos(1));
    let newcomer = t.call("newcomer", &a).await;
    assert!(matches!(overdue.refused().await, Rejected::AdmissionTimeout { .. }));
    running.settle().await;
    newcomer.settle().await;
    assert_eq!(t.names(), ["running", "newcomer"]);
}

/// A heavy call that an interval or a cooldown holds back too makes nobody wait for a budget.
pub async fn a_heavy_ticket_of_a_cooling_provider_does_not_stop_another<M: Mount>() {
    // rules E3, E2
    let t = Transcript::<M>::new();
    let tokens = Window::new(100, t.ms(600_000)).unit("tokens");
    let admission = t.build(|b| b.unit("tokens").log(tokens).provider("a", |p| p).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let b1 = t.call("b1", b.cost("tokens", 50)).await;
    a.cooldown(t.ms(600_000)).unwrap();
    let heavy = t.call("heavy", a.cost("tokens", 80)).await;
    let b2 = t.call("b2", b.cost("tokens", 30)).await;
    assert_eq!(t.names(), ["b1", "b2"]);
    // Where nothing but the client's budget holds it back, the other provider waits as well.
    let heavy_too = t.call("heavy too", b.cost("tokens", 50)).await;
    let light = t.call("light", b.cost("tokens", 10)).await;
    assert!(!light.has_started());
    heavy_too.drop_it().await;
    light.started().await;
    heavy.drop_it().await;
    settle_all([b1, b2, light]).await;
    assert_eq!(t.names(), ["b1", "b2", "light"]);
}
