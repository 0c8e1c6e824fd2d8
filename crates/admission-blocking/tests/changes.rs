//! Changes to what is in use, made and waited for by threads: same methods, same errors, same words as
//! over the async face. What the changes mean is tested there and by the conformance suite.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use admission_blocking::{Admission, Blocking, Call, IntervalLimiter, Provider, RateLimiter};
use admission_rt::{BuildError, ChangeError, Counts, Rejected, Scope};

const HOUR: Duration = Duration::from_secs(3_600);
const GAP: Duration = Duration::from_millis(10);

/// A coordinator whose providers have one slot each.
fn slots() -> (Admission, Provider) {
    // A machine that stops for a moment is not a caller that does not run.
    let builder = Admission::builder().hand_off(HOUR).provider("a", |p| p.max_concurrent(1));
    let admission = builder.build().expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

fn until_queued(counts: impl Fn() -> Counts, calls: u32) {
    while counts().queued < calls {
        thread::yield_now();
    }
}

#[test]
fn a_thread_goes_on_when_the_limits_are_raised() {
    // rule L7
    let (admission, a) = slots();
    let held = a.acquire().expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.acquire());
        until_queued(|| admission.counts(), 1);
        a.set_limits(|p| p.max_concurrent(2)).expect("sound limits");
        drop(waiting.join().expect("no panic").expect("its turn"));

        admission.set_limits(|client| client.max_concurrent(1)).expect("sound limits");
        let waiting = scope.spawn(|| a.acquire());
        until_queued(|| admission.counts(), 1);
        admission.set_limits(|client| client).expect("none are sound, too");
        drop(waiting.join().expect("no panic").expect("its turn"));
    });
    drop(held);
}

#[test]
fn limits_that_cannot_be_are_told_in_the_words_of_the_build() {
    // rules L1, L7
    let (admission, a) = slots();
    let zero = |scope| ChangeError::Limits(BuildError::ZeroConcurrency { scope });
    assert_eq!(a.set_limits(|p| p.max_concurrent(0)), Err(zero(Scope::Provider("a".into()))));
    assert_eq!(admission.set_limits(|client| client.max_concurrent(0)), Err(zero(Scope::Client)));
    let refused = admission.add_provider("b", |p| p.max_concurrent(0)).expect_err("it admits nothing");
    assert_eq!(refused, zero(Scope::Provider("b".into())));
    assert_eq!(refused.to_string(), "provider b: a concurrency of 0 would admit nothing");
}

#[test]
fn a_provider_comes_and_goes_while_threads_wait_for_it() {
    // rule L10
    let (admission, a) = slots();
    let exists = admission.add_provider("a", |p| p).expect_err("it is there");
    assert_eq!(exists, ChangeError::ProviderExists { name: "a".into() });
    let b = admission.add_provider("b", |p| p.max_concurrent(1)).expect("it is new");
    let held = b.acquire().expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| b.acquire());
        until_queued(|| admission.counts(), 1);
        admission.remove_provider("b").expect("it is there");
        let refused = waiting.join().expect("no panic").expect_err("it is removed");
        assert!(matches!(refused, Rejected::Removed { .. }), "{refused:?}");
    });
    assert!(matches!(b.set_limits(|p| p), Err(ChangeError::UnknownProvider(_))));
    assert!(matches!(admission.remove_provider("b"), Err(ChangeError::UnknownProvider(_))));
    drop(held);
    drop(a.acquire().expect("it stays"));
}

#[test]
fn the_queue_may_be_shortened() {
    // rules L7, W1
    let (admission, a) = slots();
    admission.set_max_queued(0);
    let held = a.acquire().expect("it is free");
    assert!(matches!(a.acquire(), Err(Rejected::Overflow { .. })));
    drop(held);
}

#[test]
fn a_template_makes_a_provider_of_any_name() {
    // rule L10
    let builder = Admission::builder().hand_off(HOUR).template(|p| p.max_concurrent(1));
    let admission = builder.build().expect("a sound configuration");
    let host = admission.provider("any.host").expect("any name will do");
    let held = host.acquire().expect("it is free");
    assert!(matches!(host.try_acquire(), Err(Rejected::Exhausted { .. })));
    drop(admission.provider("another.host").expect("any name will do").acquire().expect("it is free"));
    drop(held);
}

#[test]
fn a_snapshot_is_the_same_on_either_face() {
    // rule O1
    let (admission, a) = slots();
    let _held = a.acquire().expect("it is free");
    let (here, there) = (admission.snapshot(), admission.on::<Blocking>().snapshot());
    assert_eq!((here.client, here.providers), (there.client, there.providers));
}

#[test]
fn a_cooldown_and_a_reset_go_through() {
    // rules L5, D2
    let builder = Admission::builder().hand_off(HOUR).window(2, HOUR).provider("a", |p| p.window(1, HOUR));
    let admission = builder.build().expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    drop(a.acquire().expect("the first is immediate"));
    a.reset().expect("it is there");
    drop(a.acquire().expect("it forgot"));
    a.reset().expect("it is there");
    assert!(a.try_acquire().is_err(), "the client has not forgotten");
    admission.reset();
    drop(a.acquire().expect("now it has"));
    admission.cooldown("a", HOUR).expect("it is there");
    assert!(a.admission_timeout(GAP).acquire().expect_err("it cools down").is_admission_timeout());
    assert!(admission.cooldown("nobody", HOUR).is_err());
}

#[test]
fn the_limiters_change_while_threads_wait() {
    // rules L7, R5, I2
    let quota = RateLimiter::builder(1, HOUR).hand_off(HOUR).build().expect("clamped");
    drop(quota.acquire().expect("the first is immediate"));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| quota.acquire());
        until_queued(|| quota.counts(), 1);
        quota.set_limit(2, HOUR).expect("clamped");
        drop(waiting.join().expect("no panic").expect("its turn"));
    });
    assert_eq!(quota.available(), 0);
    quota.set_limit_from_floats(3.5, 3_600.0).expect("clamped");
    assert_eq!(quota.available(), 1);

    let pace = IntervalLimiter::builder(HOUR).hand_off(HOUR).build().expect("sound");
    pace.try_acquire().expect("the first is immediate");
    assert!(matches!(pace.try_acquire(), Err(Rejected::Exhausted { .. })));
    assert!(matches!(
        pace.set_interval(Duration::ZERO),
        Err(ChangeError::Limits(BuildError::ZeroInterval { .. }))
    ));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pace.acquire());
        until_queued(|| pace.counts(), 1);
        pace.set_interval(GAP).expect("sound");
        waiting.join().expect("no panic").expect("its turn");
    });
}

/// However the call was made: what it holds while its operation runs is the limiter's affair.
#[test]
fn a_call_of_an_interval_limiter_holds_nothing_while_its_operation_runs() {
    // rules I3, W7
    let pace = IntervalLimiter::builder(GAP).hand_off(HOUR).build().expect("sound");
    for call in [pace.call(), pace.call().key("k"), Call::from(pace.on::<Blocking>().call())] {
        assert_eq!(call.run(|| pace.counts()).expect("its turn"), Counts::default());
    }
    let (admission, a) = slots();
    for call in [a.call(), a.key("k"), Call::from(a.on::<Blocking>().call())] {
        let running = Counts { running: 1, ..Counts::default() };
        assert_eq!(call.run(|| admission.counts()).expect("its turn"), running);
        assert_eq!(admission.counts(), Counts::default());
    }
}

#[test]
fn whatever_the_async_handles_can_do_those_for_threads_can() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = |path: &str| fs::read_to_string(crates.join(path)).expect("a file of the workspace");
    for (handle, file, begins, file_for_threads) in [
        ("Admission", "admission", "impl Admission {", "admission"),
        ("Provider", "provider", "impl Provider {", "admission"),
        ("Call", "call", "impl Call {", "call"),
        ("RateLimiter", "rate_limiter", "impl RateLimiter {", "rate_limiter"),
        ("IntervalLimiter", "interval_limiter", "impl IntervalLimiter {", "interval_limiter"),
        ("Builder", "builder", " Builder builds Admission;", "builder"),
        ("RateLimiterBuilder", "rate_limiter", " RateLimiterBuilder builds", "builder"),
        ("IntervalLimiterBuilder", "interval_limiter", " IntervalLimiterBuilder builds", "builder"),
    ] {
        let theirs = text(&format!("admission-rt/src/{file}.rs"));
        let ours = text(&format!("admission-blocking/src/{file_for_threads}.rs"));
        let ours = block(&ours, begins);
        let mut methods = 0;
        for line in block(&theirs, &format!("impl<R: Runtime> {handle}<R> {{")).lines() {
            let Some((before, after)) = line.split_once("fn ") else { continue };
            // `build` is written once for all builders.
            if !before.starts_with("    pub ") || before.contains('(') || after.starts_with("build(") {
                continue;
            }
            let name = after.split(['(', '<']).next().expect("a name");
            let is_there = [format!("fn {name}("), format!("fn {name}<")].iter().any(|s| ours.contains(s));
            assert!(is_there, "{handle}::{name} is not there for threads");
            methods += 1;
        }
        assert!(methods > 3, "{handle} has methods");
    }
}

/// From where it begins to the brace that closes it.
fn block<'a>(text: &'a str, begins: &str) -> &'a str {
    let rest = &text[text.find(begins).unwrap_or_else(|| panic!("no {begins}"))..];
    &rest[..rest.find("\n}\n").expect("an end")]
}
