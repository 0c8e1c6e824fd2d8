//! What is told when something is wrong: with a configuration, with a name, with a number.
//!
//! Owns: the zeros of rule L1, rules T2, D3, D4, D5 and R5, and that bad input is an error or a clamp and
//! never a panic. Lacks: refusals that time mends.

use std::time::Duration;

use admission_rt::{
    AbortHandle, Admission, BuildError, Counts, IntervalLimiter, RateLimiter, Rejected, Window,
};

use crate::mount::Mount;
use crate::signal::poll_once;
use crate::transcript::Transcript;

/// Durations that overflow something somewhere.
const HUGE: [Duration; 5] = [
    Duration::MAX,
    Duration::from_millis(u64::MAX),
    Duration::from_secs(u64::MAX / 10),
    Duration::from_nanos(u64::MAX),
    Duration::from_secs(100 * 365 * 24 * 60 * 60),
];

/// A concurrency, an interval or a limit of 0 is told when it is built, and where it is.
pub async fn zeros_are_configuration_errors<M: Mount>() {
    // rules L1, I2, D4
    type Build<M> = admission_rt::Builder<<M as Mount>::Runtime>;
    let build = |with: fn(Build<M>) -> Build<M>| with(Admission::builder()).build().map(drop);
    let second = Duration::from_secs(1);
    assert!(matches!(build(|b| b.max_concurrent(0)), Err(BuildError::ZeroConcurrency { .. })));
    assert!(matches!(build(|b| b.interval(Duration::ZERO)), Err(BuildError::ZeroInterval { .. })));
    assert!(matches!(build(|b| b.window(0, Duration::MAX)), Err(BuildError::ZeroLimit { .. })));
    let provider = build(|b| b.provider("a", |p| p.max_concurrent(0)));
    match provider {
        Err(BuildError::ZeroConcurrency { scope }) => {
            assert_eq!(scope, admission_rt::Scope::Provider("a".into()));
        }
        other => panic!("{other:?}"),
    }
    let provider = build(|b| b.provider("a", |p| p.interval(Duration::ZERO)));
    assert!(matches!(provider, Err(BuildError::ZeroInterval { .. })));
    let provider = build(|b| b.provider("a", |p| p.window(0, Duration::ZERO)));
    assert!(matches!(provider, Err(BuildError::ZeroLimit { .. })));
    assert!(matches!(build(|b| b.hand_off(Duration::ZERO)), Err(BuildError::HandOffTooShort)));
    let twice = build(|b| b.provider("a", |p| p).provider("a", |p| p));
    assert!(matches!(twice, Err(BuildError::DuplicateProvider(_))));
    assert!(matches!(build(|b| b.unit("x").unit("x")), Err(BuildError::DuplicateUnit(_))));
    let unknown = build(|b| b.log(Window::new(1, Duration::MAX).unit("nothing")));
    assert!(matches!(unknown, Err(BuildError::UnknownUnit { .. })));
    // A margin does not make an interval of a zero; a unit may be named after its use.
    let margin = admission_rt::Interval::new(Duration::ZERO).margin(second);
    let margin = Admission::<M::Runtime>::builder().paced(margin).build().map(drop);
    assert!(matches!(margin, Err(BuildError::ZeroInterval { .. })));
    assert!(build(|b| b.log(Window::new(1, Duration::MAX).unit("late")).unit("late")).is_ok());
    let zero = IntervalLimiter::<M::Runtime>::builder(Duration::ZERO).build().map(drop);
    assert!(matches!(zero, Err(BuildError::ZeroInterval { .. })));
}

/// An unknown provider is told when it is asked for, an unknown unit when it is used.
pub async fn unknown_names_are_typed_errors<M: Mount>() {
    // rules D3, D5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let unknown = admission.provider("b").map(drop).expect_err("there is no b");
    assert!(unknown.to_string().contains('b'), "{unknown}");
    assert!(admission.provider("A").is_err(), "names are compared exactly");
    assert!(admission.provider("").is_err());
    match a.cost("tokens", 1).acquire().await {
        Err(Rejected::UnknownUnit(unit)) => assert_eq!(&*unit, "tokens"),
        other => panic!("{other:?}"),
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// The longest durations there are mean "practically never", wherever they stand.
pub async fn huge_durations_mean_never<M: Mount>() {
    // rules T2, W2, W3, W4; the ninth item of the checklist
    for huge in HUGE {
        let t = Transcript::<M>::new();
        let admission = t.build(|b| {
            b.provider("gap", |p| p.interval(huge))
                .provider("window", |p| p.window(1, huge))
                .provider("margin", |p| p.log(Window::new(1, huge).margin(huge).until_settled()))
                .provider("cooling", |p| p)
                .provider("full", |p| p.max_concurrent(1))
                .provider("free", |p| p)
        });
        let provider = |name| admission.provider(name).expect("it is there");
        provider("cooling").cooldown(huge).unwrap();
        provider("cooling").cooldown(huge).unwrap();
        let full = provider("full").try_acquire().expect("it is free");
        let (handle, signal) = AbortHandle::new();
        let mut waiting = Vec::new();
        for name in ["gap", "window", "margin", "cooling", "full"] {
            let provider = provider(name);
            if !matches!(name, "cooling" | "full") {
                drop(provider.admission_timeout(huge).acquire().await.expect("the first is immediate"));
            }
            let mut aborted = provider.admission_timeout(huge).abort_signal(&signal).acquire();
            assert!(poll_once(&mut aborted).await.is_pending(), "{name} {huge:?}");
            let mut closed = provider.admission_timeout(huge).acquire();
            assert!(poll_once(&mut closed).await.is_pending(), "{name} {huge:?}");
            waiting.push((aborted, closed));
        }
        // The others are not concerned, nor is whoever is patient for a moment only.
        drop(provider("free").admission_timeout(huge).acquire().await.expect("it is free"));
        let brief = provider("gap").admission_timeout(t.ms(5)).acquire().await;
        assert!(matches!(brief, Err(Rejected::AdmissionTimeout { .. })), "{brief:?}");
        handle.abort();
        let mut rest = Vec::new();
        for (aborted, closed) in waiting {
            assert!(aborted.await.expect_err("it is aborted").is_aborted());
            rest.push(closed);
        }
        admission.close();
        for closed in rest {
            assert!(matches!(closed.await, Err(Rejected::Closed)), "nothing starts early");
        }
        drop(full);
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// So do a hand-off time and a longest wait of any length.
pub async fn huge_settings_are_settings_like_any_other<M: Mount>() {
    // rules T2, R5, D4
    for huge in HUGE {
        let t = Transcript::<M>::new();
        let admission = t.build(|b| {
            b.hand_off(huge)
                .max_wait(huge)
                .max_queued(u32::MAX)
                .max_concurrent(u32::MAX)
                .window(u64::MAX, huge)
                .provider("a", |p| p.max_concurrent(1))
        });
        let a = admission.provider("a").expect("it is there");
        let running = t.call("running", &a).await;
        let next = t.call("next", &a).await;
        running.settle().await;
        next.settle().await;
        assert_eq!(t.names(), ["running", "next"]);
    }
}

/// Limits at the largest value of their type are limits like any other.
pub async fn the_largest_limits_are_limits<M: Mount>() {
    // rules T2, L6
    let t = Transcript::<M>::new();
    let all = Window::new(u64::MAX, t.ms(600_000)).unit("bytes");
    let admission = t.build(|b| b.unit("bytes").provider("a", |p| p.max_concurrent(u32::MAX).log(all)));
    let a = admission.provider("a").expect("it is there");
    drop(a.cost("bytes", u64::MAX).acquire().await.expect("exactly the limit"));
    let refused = a.cost("bytes", 1).try_acquire().expect_err("nothing is left");
    assert!(matches!(refused, Rejected::Exhausted { .. }), "{refused:?}");
    drop(a.cost("bytes", 0).try_acquire().expect("it costs nothing"));
    let refused = a.cost("bytes", u64::MAX).try_acquire().expect_err("nothing is left");
    assert!(matches!(refused, Rejected::Exhausted { .. }), "{refused:?}");
}

/// A rate limiter clamps what is out of range; it has no errors for numbers.
pub async fn a_rate_limiter_clamps_what_is_out_of_range<M: Mount>() {
    // rule R5
    let hour = Duration::from_secs(3_600);
    let build = |limit, window| {
        RateLimiter::<M::Runtime>::builder_from_floats(limit, window).build().expect("everything is clamped")
    };
    for limit in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.999, 1.0, f64::MIN_POSITIVE] {
        let limiter = build(limit, 3_600.0);
        assert_eq!(limiter.available(), 1, "{limit}");
        drop(limiter.try_acquire().expect("one is free"));
        assert!(limiter.try_acquire().is_err(), "{limit}");
    }
    for window in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let limiter = build(1.0, window);
        for _ in 0..100 {
            drop(limiter.try_acquire().expect("a window of 0 admits everything"));
        }
    }
    for window in [f64::MAX, 1e300] {
        let limiter = build(1.0, window);
        drop(limiter.try_acquire().expect("one is free"));
        assert!(limiter.try_acquire().is_err(), "a finite float saturates: {window}");
    }
    let zero = RateLimiter::<M::Runtime>::builder(0, hour).build().expect("everything is clamped");
    assert_eq!(zero.available(), 1);
    let most = RateLimiter::<M::Runtime>::builder(u64::MAX, Duration::MAX).build().expect("it is in range");
    drop(most.try_acquire().expect("it has room"));
    assert_eq!(most.available(), u64::MAX - 1);
    for wait in [f64::NAN, -1.0, f64::INFINITY, 0.0] {
        let limiter = RateLimiter::<M::Runtime>::builder(1, hour).max_wait_secs(wait).build();
        let limiter = limiter.expect("everything is clamped");
        drop(limiter.acquire().await.expect("one is free"));
        let refused = limiter.acquire().await.expect_err("it may not wait at all");
        assert!(matches!(refused, Rejected::MaxWait { .. }), "{wait}: {refused:?}");
    }
}

/// Of several reasons the first in the list is told.
pub async fn of_several_reasons_the_first_is_told<M: Mount>() {
    // rule D5
    let t = Transcript::<M>::new();
    let second = t.ms(1_000);
    let admission = t.build(|b| {
        b.unit("tokens")
            .max_queued(0)
            .max_wait(t.ms(10))
            .provider("a", |p| p.window(1, second * 600).log(Window::new(10, second).unit("tokens")))
    });
    let a = admission.provider("a").expect("it is there");
    let (handle, signal) = AbortHandle::new();
    drop(a.try_acquire().expect("one is free"));
    let refused = a.acquire().await.expect_err("there is no room");
    assert!(matches!(refused, Rejected::MaxWait { .. }), "before overflow: {refused:?}");
    let refused = a.try_acquire().expect_err("there is no room");
    assert!(matches!(refused, Rejected::Exhausted { .. }), "before overflow: {refused:?}");
    let refused = a.cost("tokens", 11).try_acquire().expect_err("it never fits");
    assert!(matches!(refused, Rejected::ImpossibleCost { .. }), "before exhausted: {refused:?}");
    admission.close();
    let refused = a.cost("tokens", 11).acquire().await.expect_err("it is closed");
    assert!(matches!(refused, Rejected::Closed), "before impossible: {refused:?}");
    handle.abort();
    let refused = a.cost("tokens", 11).abort_signal(&signal).acquire().await.expect_err("it is aborted");
    assert!(refused.is_aborted(), "before closed: {refused:?}");
}

/// Text keys are compared exactly, and forgotten when nobody has them.
pub async fn keys_are_compared_exactly<M: Mount>() {
    // rules D3, L1
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(100_000));
    let names = ["k", "K", "k ", "", "\u{6b}\u{301}", "ḱ"];
    let mut permits = Vec::new();
    for name in names {
        permits.push(a.key(name).try_acquire().expect("each is a key of its own"));
    }
    for name in names {
        assert!(a.key(name).try_acquire().is_err(), "{name:?} is busy");
        assert!(a.key(name.to_owned()).try_acquire().is_err(), "{name:?} is busy");
    }
    for number in [0, 1, u64::MAX] {
        permits.push(a.key(number).try_acquire().expect("each is a key of its own"));
        assert!(a.key(number).try_acquire().is_err(), "{number} is busy");
    }
    drop(permits);
    for name in names {
        drop(a.key(name).try_acquire().expect("it is free again"));
    }
    for n in 0..10_000_u32 {
        drop(a.key(format!("key {n}")).try_acquire().expect("each is a key of its own"));
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// The operation's own errors pass through unchanged, apart from refusals.
pub async fn the_operations_errors_pass_through<M: Mount>() {
    // rules R6, E5
    #[derive(Debug, PartialEq)]
    struct Broken(u32);
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let answer = a.run(|| async { Err::<(), _>(Broken(7)) }).await;
    assert_eq!(answer.expect("it was admitted"), Err(Broken(7)));
    match a.try_run(|| async { Err::<(), _>(Broken(8)) }).await {
        Err(admission_rt::RunError::Operation(broken)) => assert_eq!(broken, Broken(8)),
        other => panic!("{other:?}"),
    }
    assert_eq!(a.try_run(|| async { Ok::<_, Broken>(9) }).await.expect("it works"), 9);
    admission.close();
    match a.try_run(|| async { Err::<(), _>(Broken(10)) }).await {
        Err(admission_rt::RunError::Rejected(Rejected::Closed)) => {}
        other => panic!("{other:?}"),
    }
}
