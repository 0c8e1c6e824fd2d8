//! What a limit allows: concurrency, intervals, windows, cooldowns, and several of them at once.
//!
//! Owns: rules L1 to L6, L9, D2, and the edges of their half-open windows. Lacks: the order among
//! those who wait.

use std::sync::Arc;
use std::time::Duration;

use admission_rt::{Counts, Instant, Interval, LimitKind, Rejected, Scope, Window};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::poll_once;
use crate::transcript::{Transcript, settle_all};

/// Client, provider and key each have a bound of their own.
pub async fn concurrency_is_bounded_for_client_provider_and_key<M: Mount>() {
    // rule L1
    let t = Transcript::<M>::new();
    let admission =
        t.build(|b| b.max_concurrent(3).provider("a", |p| p.max_concurrent(2)).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let a1 = t.call("a1", a.key("k")).await;
    let a2 = t.call("a2", a.key("k")).await;
    let a3 = t.call("a3", &a).await;
    let a4 = t.call("a4", &a).await;
    let b1 = t.call("b1", &b).await;
    let b2 = t.call("b2", &b).await;
    // a2 waits for the key, a4 for its provider, b2 for the client.
    assert_eq!(t.names(), ["a1", "a3", "b1"]);
    assert_eq!(admission.counts(), Counts { running: 3, granted: 0, queued: 3 });
    b1.settle().await;
    b2.started().await;
    a1.settle().await;
    a2.started().await;
    assert!(!a4.has_started());
    a3.settle().await;
    a4.started().await;
    settle_all([a2, a4, b2]).await;
    assert_eq!(admission.counts(), Counts::default());
}

/// Without a concurrency there is no bound: there is no default.
pub async fn concurrency_has_no_default<M: Mount>() {
    // rules L1, D4
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p);
    let mut permits = Vec::new();
    for _ in 0..5_000 {
        permits.push(a.try_acquire().expect("nothing holds it back"));
    }
    assert_eq!(admission.counts().running, 5_000);
    drop(permits);
    assert_eq!(admission.counts(), Counts::default());
}

/// Two starts of a scope are at least the interval apart; the first is immediate.
pub async fn starts_are_an_interval_apart<M: Mount>() {
    // rules L2, I1
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.interval(t.ms(100)));
    let mut calls = Vec::new();
    for name in ["a1", "a2", "a3", "a4"] {
        calls.push(t.call(name, &a).await);
    }
    settle_all(calls).await;
    t.expect(&[("a1", 0), ("a2", 100), ("a3", 200), ("a4", 300)]);
}

/// A client's interval holds between the starts of different providers.
pub async fn a_clients_interval_paces_all_providers_together<M: Mount>() {
    // rules L2, L4
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.interval(t.ms(50)).provider("a", |p| p).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let calls = [t.call("a1", &a).await, t.call("b1", &b).await, t.call("a2", &a).await];
    settle_all(calls).await;
    t.expect(&[("a1", 0), ("b1", 50), ("a2", 100)]);
}

/// Ten intervals of idleness earn one start.
pub async fn idle_time_earns_no_credit<M: Mount>() {
    // rule L2
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.interval(t.ms(100)));
    t.call("a1", &a).await.settle().await;
    t.until(1_000).await;
    let calls = [t.call("a2", &a).await, t.call("a3", &a).await];
    settle_all(calls).await;
    t.expect(&[("a1", 0), ("a2", 1_000), ("a3", 1_100)]);
}

/// No window of the length of the log, wherever it begins, sees more than the limit.
pub async fn no_window_sees_twice_the_limit<M: Mount>() {
    // rule L3
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.window(3, t.ms(100)));
    t.until(90).await;
    let mut calls = Vec::new();
    for name in ["a1", "a2", "a3", "a4", "a5", "a6", "a7"] {
        calls.push(t.call(name, &a).await);
    }
    settle_all(calls).await;
    // A fixed window would start four more at 100.
    t.expect(&[("a1", 90), ("a2", 90), ("a3", 90), ("a4", 190), ("a5", 190), ("a6", 190), ("a7", 290)]);
}

/// A start exactly one window old no longer counts; one nanosecond less, and it does.
pub async fn a_window_is_half_open<M: Mount>() {
    // rules L3, T6; the sixth item of the checklist
    let clock = VirtualClock::new();
    let second = Duration::from_secs(1);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.max_queued(0).provider("a", |p| p.window(1, second)));
    let a = admission.provider("a").expect("it is there");
    let start = clock.now();
    drop(a.try_acquire().expect("the first is immediate"));
    clock.set(start + Duration::from_nanos(999_999_999));
    let refused = a.acquire().await.expect_err("one nanosecond is missing");
    assert!(matches!(refused, Rejected::Overflow { .. }), "{refused:?}");
    assert_eq!(refused.retry_after(), Some(Duration::from_nanos(1)));
    clock.set(start + second);
    drop(a.acquire().await.expect("exactly one window old"));
}

/// The same for an interval and for a cooldown.
pub async fn intervals_and_cooldowns_end_at_their_very_instant<M: Mount>() {
    // rules L2, L5, E4; the sixth item of the checklist
    let clock = VirtualClock::new();
    let second = Duration::from_secs(1);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.max_queued(0).provider("a", |p| p.interval(second)).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let start = clock.now();
    drop(a.try_acquire().expect("the first is immediate"));
    b.cooldown(second).unwrap();
    clock.set(start + Duration::from_nanos(999_999_999));
    for provider in [&a, &b] {
        let refused = provider.acquire().await.expect_err("one nanosecond is missing");
        assert_eq!(refused.retry_after(), Some(Duration::from_nanos(1)), "{refused:?}");
    }
    clock.set(start + second);
    drop(a.acquire().await.expect("the interval is over"));
    drop(b.acquire().await.expect("the cooldown is over"));
}

/// All pacers of a scope must agree.
pub async fn several_pacers_must_all_agree<M: Mount>() {
    // rule L4
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.interval(t.ms(10)).window(3, t.ms(100)).window(5, t.ms(1_000)));
    let names = ["a1", "a2", "a3", "a4", "a5", "a6"];
    let mut calls = Vec::new();
    for name in names {
        calls.push(t.call(name, &a).await);
    }
    settle_all(calls).await;
    t.expect(&[("a1", 0), ("a2", 10), ("a3", 20), ("a4", 100), ("a5", 110), ("a6", 1_000)]);
}

/// A refusal by one limit spends nothing of another: twenty refusals cost a window nothing.
pub async fn what_is_refused_spends_nothing<M: Mount>() {
    // rules L1, L2, L3, L4; the seventh item of the checklist
    let clock = VirtualClock::new();
    let at = Instant::from_millis;
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let gap = Duration::from_millis(10);
    let admission = t.build(|b| {
        b.max_queued(0).provider("a", |p| p.max_concurrent(1).interval(gap).window(10, gap * 6_000))
    });
    let a = admission.provider("a").expect("it is there");
    let a1 = a.acquire().await.expect("the first is immediate");
    for now in 1..=20 {
        clock.set(at(now));
        let refused = a.acquire().await.expect_err("the slot is taken");
        assert!(matches!(refused, Rejected::Overflow { .. }), "{refused:?}");
    }
    clock.set(at(30));
    drop(a1);
    for n in 0..9 {
        clock.set(at(30 + n * 10));
        drop(a.acquire().await.unwrap_or_else(|refused| panic!("number {n} of nine: {refused}")));
    }
    clock.set(at(59_999));
    let refused = a.acquire().await.expect_err("ten are in the window");
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(1)));
    clock.set(at(60_000));
    drop(a.acquire().await.expect("the first is out of it"));
}

/// A cooldown moves the not-before time forward only, and touches nothing that runs.
pub async fn a_cooldown_never_shortens_and_touches_no_running_call<M: Mount>() {
    // rule L5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p);
    let running = t.call("running", &a).await;
    a.cooldown(t.ms(200)).unwrap();
    admission.cooldown("a", t.ms(100)).expect("it is there");
    a.cooldown(Duration::ZERO).unwrap();
    assert_eq!(admission.counts().running, 1);
    let waiting = t.call("waiting", &a).await;
    running.settle().await;
    waiting.settle().await;
    t.expect(&[("running", 0), ("waiting", 200)]);
    assert!(admission.cooldown("nobody", t.ms(1)).is_err());
}

/// A cooldown that is lengthened while callers wait is waited for to its new end.
pub async fn a_cooldown_can_be_lengthened_while_callers_wait<M: Mount>() {
    // rules L5, T3
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p);
    a.cooldown(t.ms(100)).unwrap();
    let waiting = t.call("waiting", &a).await;
    a.cooldown(t.ms(300)).unwrap();
    waiting.settle().await;
    t.expect(&[("waiting", 300)]);
}

/// A cost above the limit is told at once, though the queue is full and the limit would wait.
pub async fn a_cost_above_the_limit_is_refused_at_once<M: Mount>() {
    // rules L6, D5
    let t = Transcript::<M>::new();
    let tokens = Window::new(100, t.ms(600_000)).unit("tokens");
    let admission = t.build(|b| b.unit("tokens").max_queued(0).provider("a", |p| p.log(tokens)));
    let a = admission.provider("a").expect("it is there");
    match a.cost("tokens", 101).acquire().await {
        Err(Rejected::ImpossibleCost { limit, cost, allowed }) => {
            assert_eq!((cost, allowed), (101, 100));
            assert_eq!(limit.scope, Scope::Provider("a".into()));
            assert!(matches!(limit.kind, LimitKind::Window { limit: 100, .. }), "{:?}", limit.kind);
        }
        other => panic!("{other:?}"),
    }
    drop(a.cost("tokens", 100).acquire().await.expect("exactly the limit"));
    let refused = a.cost("tokens", u64::MAX).acquire().await.expect_err("far too much");
    assert!(matches!(refused, Rejected::ImpossibleCost { .. }), "{refused:?}");
    assert_eq!(refused.retry_after(), None, "time mends nothing here");
}

/// A log does not ask about a call that costs nothing in it.
pub async fn a_call_that_costs_nothing_is_not_asked_about<M: Mount>() {
    // rule L3
    let t = Transcript::<M>::new();
    let tokens = Window::new(10, t.ms(600_000)).unit("tokens");
    let admission = t.build(|b| b.unit("tokens").provider("a", |p| p.log(tokens)));
    let a = admission.provider("a").expect("it is there");
    drop(a.cost("tokens", 10).acquire().await.expect("it fits"));
    drop(a.acquire().await.expect("it costs no tokens"));
    let refused = a.cost("tokens", 1).try_acquire().expect_err("nothing is left");
    assert!(matches!(refused, Rejected::Exhausted { .. }), "{refused:?}");
}

/// A log that counts from the start forgets a call one window after it started.
pub async fn a_log_counts_from_the_start_unless_told_otherwise<M: Mount>() {
    // rules L9, L3
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.window(1, t.ms(100)));
    let slow = t.call("slow", &a).await;
    let next = t.call("next", &a).await;
    next.started().await;
    settle_all([slow, next]).await;
    t.expect(&[("slow", 0), ("next", 100)]);
}

/// One that counts until settled holds the budget of a call one window longer than the call.
pub async fn a_log_until_settled_counts_from_the_end<M: Mount>() {
    // rule L9
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.log(Window::new(1, t.ms(100)).until_settled()));
    let first = t.call("first", &a).await;
    let next = t.call("next", &a).await;
    t.until(250).await;
    assert!(!next.has_started(), "the first still counts");
    first.settle().await;
    next.settle().await;
    t.expect(&[("first", 0), ("next", 350)]);
}

/// A margin is added to the window, and to the interval.
pub async fn a_margin_is_added<M: Mount>() {
    // rules L9, L2
    let t = Transcript::<M>::new();
    let admission = t.build(|b| {
        b.provider("paced", |p| p.paced(Interval::new(t.ms(100)).margin(t.ms(20))))
            .provider("logged", |p| p.log(Window::new(1, t.ms(200)).margin(t.ms(30))))
    });
    let paced = admission.provider("paced").expect("it is there");
    let logged = admission.provider("logged").expect("it is there");
    let calls = [
        t.call("p1", &paced).await,
        t.call("l1", &logged).await,
        t.call("p2", &paced).await,
        t.call("l2", &logged).await,
    ];
    settle_all(calls).await;
    t.expect(&[("p1", 0), ("l1", 0), ("p2", 120), ("l2", 230)]);
}

/// `reset` forgets the logs of its scope, and nothing else: not the interval, not the other scope.
pub async fn reset_forgets_the_logs_of_one_scope_only<M: Mount>() {
    // rule D2
    let t = Transcript::<M>::new();
    let minute = t.ms(600_000);
    let admission = t.build(|b| {
        b.window(3, minute).provider("a", |p| p.window(1, minute)).provider("b", |p| p.interval(minute))
    });
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    drop(a.try_acquire().expect("one is free"));
    drop(b.try_acquire().expect("the first is immediate"));
    assert!(a.try_acquire().is_err());
    a.reset().unwrap();
    drop(a.try_acquire().expect("its log is empty"));
    b.reset().unwrap();
    assert!(b.try_acquire().is_err(), "an interval is no log");
    a.reset().unwrap();
    assert!(a.try_acquire().is_err(), "the client's log is still full");
    admission.reset();
    drop(a.try_acquire().expect("both logs are empty"));
}

/// Each call that waits at a reset is free of those logs when it starts, and of nothing else.
pub async fn reset_exempts_those_who_wait_from_the_logs_alone<M: Mount>() {
    // rules D2, R3
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(2).window(1, t.ms(600_000)));
    let a1 = t.call("a1", &a).await;
    let a2 = t.call("a2", &a).await;
    let a3 = t.call("a3", &a).await;
    a.reset().unwrap();
    a2.started().await;
    assert_eq!(admission.counts(), Counts { running: 2, granted: 0, queued: 1 }, "two slots, no third");
    let mut a4 = a.acquire();
    assert!(poll_once(&mut a4).await.is_pending());
    a1.settle().await;
    a3.started().await;
    settle_all([a2, a3]).await;
    assert!(poll_once(&mut a4).await.is_pending(), "it came after the reset, and three starts are logged");
    assert_eq!(t.names(), ["a1", "a2", "a3"]);
}

/// A clock that begins at zero is no reason to wait, nor to start too early.
pub async fn a_window_may_be_longer_than_the_clock_has_run<M: Mount>() {
    // rules T1, L3, L2; the tenth item of the checklist
    for first in [Instant::ZERO, Instant::from_millis(27_000)] {
        let clock = VirtualClock::at(first);
        let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
        let ms = Duration::from_millis;
        let admission =
            t.build(|b| b.max_queued(0).provider("a", |p| p.window(5, ms(60_000)).interval(ms(10_000))));
        let a = admission.provider("a").expect("it is there");
        for n in 0..5 {
            drop(a.acquire().await.expect("the gap is over and the window has room"));
            let refused = a.acquire().await.expect_err("the gap");
            let wait = if n < 4 { ms(10_000) } else { ms(20_000) };
            assert_eq!(refused.retry_after(), Some(wait));
            clock.advance(ms(10_000));
        }
        assert!(a.acquire().await.is_err(), "five are in the window at 50 s");
        clock.advance(ms(10_000));
        drop(a.acquire().await.expect("at 60 s the first is out"));
    }
}

/// A grant that is abandoned counts for one window from the grant, in a log that counts until settled
/// too.
pub async fn an_abandoned_grant_counts_from_the_grant<M: Mount>() {
    // rules L9, S3
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1).log(Window::new(2, t.ms(100)).until_settled()));
    let running = t.call("running", &a).await;
    let held = t.hold("held", &a).await;
    t.until(10).await;
    running.settle().await;
    t.until(30).await;
    drop(held);
    t.call("next", &a).await.settle().await;
    t.expect(&[("running", 0), ("next", 110)]);
}

/// A call that never settles holds its budget, like its slot, until it is gone.
pub async fn a_call_that_never_settles_holds_its_budget<M: Mount>() {
    // rules L9, W7
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.log(Window::new(1, t.ms(20)).until_settled()));
    let stuck = t.call("stuck", &a).await;
    let waiting = t.call("waiting", &a).await;
    t.until(1_000).await;
    assert!(!waiting.has_started());
    stuck.drop_it().await;
    waiting.settle().await;
    t.expect(&[("stuck", 0), ("waiting", 1_020)]);
}

/// A client's window and a provider's must both have room, and a refusal by one spends nothing of the
/// other.
pub async fn client_and_provider_must_both_have_room<M: Mount>() {
    // rules L4, L3
    let t = Transcript::<M>::new();
    let minute = t.ms(600_000);
    let admission =
        t.build(|b| b.window(3, minute).provider("a", |p| p.window(1, minute)).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    drop(a.try_acquire().expect("both have room"));
    for _ in 0..10 {
        match a.try_acquire().expect_err("its provider's window is spent") {
            Rejected::Exhausted { held_by: Some(limit), .. } => {
                assert_eq!(limit.scope, Scope::Provider("a".into()));
                assert!(matches!(limit.kind, LimitKind::Window { limit: 1, .. }), "{limit:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    drop(b.try_acquire().expect("the client has room"));
    drop(b.try_acquire().expect("the client has room"));
    match b.try_acquire().expect_err("the client's window is spent") {
        Rejected::Exhausted { held_by: Some(limit), .. } => assert_eq!(limit.scope, Scope::Client),
        other => panic!("{other:?}"),
    }
}
