//! A coordinator that changes while it is in use: limits, costs, providers that come and go, and what
//! can be seen of it all.

mod common;

use std::time::Duration;

use admission_rt::{
    BuildError, ChangeError, LimitKind, PacerSnapshot, Rejected, Scope, SettleError, Snapshot, Window,
};
use common::{Acquire, Admission, IntervalLimiter, Provider, RateLimiter, Task, World, counts, ms};

fn one(
    world: &World,
    limits: impl FnOnce(admission_rt::Limits) -> admission_rt::Limits,
) -> (Admission, Provider) {
    let admission = world.builder().unit("tokens").provider("a", limits).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

fn tokens(limit: u64, window: Duration) -> Window {
    Window::new(limit, window).unit("tokens")
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Rejected>) -> String {
    answer.unwrap_err().to_string()
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.providers.iter().map(|provider| provider.name()).collect()
}

// rule L7: raising admits at once what now may start
#[test]
fn raising_wakes_who_may_go_now() {
    let world = World::new();
    let _entered = world.enter();
    let admission =
        world.builder().max_concurrent(1).provider("a", |p| p.window(1, ms(1_000))).build().unwrap();
    let a = admission.provider("a").unwrap();
    let _first = a.try_acquire().unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Task::waiting(a.acquire())).collect();
    admission.set_limits(|c| c.max_concurrent(3)).unwrap();
    assert!(!waiting[0].is_woken(), "there is still the window");
    a.set_limits(|p| p.window(10, ms(1_000))).unwrap();
    assert_eq!(waiting.iter().map(Task::wakes).collect::<Vec<_>>(), [1, 1, 0]);
    let held: Vec<_> = waiting[..2].iter_mut().map(|task| task.ready().unwrap()).collect();
    admission.set_limits(|c| c).unwrap();
    assert!(waiting[2].is_woken(), "no limit at all");
    assert_eq!(admission.counts(), counts(3, 0, 1));
    drop(held);
}

// rule L7: lowering revokes nothing that runs, and forgets nothing that is logged
#[test]
fn lowering_below_what_is_in_use_revokes_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one(&world, |p| p.max_concurrent(3).window(5, ms(1_000)));
    let mut running: Vec<_> = (0..3).map(|_| a.try_acquire().unwrap()).collect();
    let mut next = Task::waiting(a.acquire());
    a.set_limits(|p| p.max_concurrent(1).window(5, ms(1_000))).unwrap();
    assert_eq!(admission.counts(), counts(3, 1, 0));
    let words = "a: may not start at once, held back by 1 at once";
    assert_eq!(refused(a.try_acquire()), words, "described by the limits as they are");
    running.truncate(1);
    assert!(!next.is_woken());
    drop(running);
    drop(next.ready().unwrap());
    a.set_limits(|p| p.max_concurrent(1).window(4, ms(1_000))).unwrap();
    let words = "a: may not start at once, held back by 4 per 1 s; try again in at least 1 s";
    assert_eq!(refused(a.try_acquire()), words);
    a.set_limits(|p| p.window(5, ms(1_000))).unwrap();
    drop(a.try_acquire().unwrap());
    assert!(a.try_acquire().is_err());
}

// rules L7, L6: a queued ticket that can no longer fit
#[test]
fn who_can_no_longer_fit_is_told_so() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one(&world, |p| p.log(tokens(10, ms(1_000))));
    drop(a.cost("tokens", 10).try_acquire().unwrap());
    let mut heavy = Task::waiting(a.cost("tokens", 8).acquire());
    let mut unpolled = Task::new(a.cost("tokens", 9).enqueue());
    let mut light = Task::waiting(a.cost("tokens", 5).acquire());
    a.set_limits(|p| p.log(tokens(5, ms(1_000)))).unwrap();
    assert_eq!((heavy.wakes(), light.wakes()), (1, 0));
    match heavy.ready().unwrap_err() {
        Rejected::ImpossibleCost { limit, cost: 8, allowed: 5 } => {
            assert_eq!(limit.to_string(), "provider a: 5 tokens per 1 s");
        }
        other => panic!("{other:?}"),
    }
    // Changed again before the other was told: it would fit now, and was refused all the same.
    a.set_limits(|p| p.log(tokens(50, ms(1_000)))).unwrap();
    let told = unpolled.ready().unwrap_err();
    assert_eq!(told.held_by().map(|limit| &limit.kind), Some(&LimitKind::Changed));
    assert_eq!(told.to_string(), "a: its cost was above a limit that has changed since");
    drop(light.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules L7, S5: grants that have not started are taken back, so that no start breaks the new limit
#[test]
fn a_grant_is_taken_back_when_its_limits_change() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one(&world, |p| p.max_concurrent(2));
    let (first, second) = (a.try_acquire().unwrap(), a.try_acquire().unwrap());
    let mut waits = Task::waiting(a.acquire());
    drop(first);
    assert_eq!(admission.counts(), counts(1, 0, 1));
    a.set_limits(|p| p.max_concurrent(1)).unwrap();
    assert_eq!(admission.counts(), counts(1, 1, 0));
    assert!(waits.poll().is_pending());
    drop(second);
    assert_eq!(waits.wakes(), 2);
    drop(waits.ready().unwrap());
    // A new interval holds from the first start after it.
    let granted = Task::new(a.enqueue());
    a.set_limits(|p| p.interval(ms(100))).unwrap();
    assert_eq!(admission.counts(), counts(0, 0, 1));
    drop(granted);
    assert_eq!(a.try_acquire().unwrap_err().retry_after(), Some(ms(100)));
}

// rule L7
#[test]
fn an_interval_keeps_its_last_start_and_moves_the_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one(&world, |p| p.interval(ms(100)));
    drop(a.try_acquire().unwrap());
    let mut waits = Task::waiting(a.acquire());
    world.set(50);
    a.set_limits(|p| p.interval(ms(400))).unwrap();
    assert_eq!(world.armed(), Some(100), "too early, which is allowed (rule T3)");
    a.set_limits(|p| p.interval(ms(60))).unwrap();
    assert_eq!(world.armed(), Some(60));
    world.advance_to(60);
    drop(waits.ready().unwrap());
}

// rules L7, W1: lowering `max_queued` refuses nobody who waits
#[test]
fn max_queued_changes() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().max_queued(1).provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut tasks = vec![Task::waiting(a.acquire())];
    assert!(Task::new(a.acquire()).ready().unwrap_err().is_overflow());
    admission.set_max_queued(500);
    tasks.extend((0..499).map(|_| Task::waiting(a.acquire())));
    assert!(Task::new(a.acquire()).ready().unwrap_err().is_overflow());
    admission.set_max_queued(0);
    assert_eq!(admission.counts(), counts(1, 500, 0));
    assert!(Task::new(a.acquire()).ready().unwrap_err().is_overflow());
    drop(permit);
    for mut task in tasks {
        drop(task.ready().unwrap());
    }
}

// rules L1, L7: what is an error when it is built is one live too, and changes nothing
#[test]
fn wrong_limits_change_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one(&world, |p| p.max_concurrent(1));
    let scope = || Scope::Provider("a".into());
    let zero = ChangeError::Limits(BuildError::ZeroConcurrency { scope: scope() });
    assert_eq!(a.set_limits(|p| p.max_concurrent(0)), Err(zero.clone()));
    assert_eq!(zero.to_string(), "provider a: a concurrency of 0 would admit nothing");
    let unit = BuildError::UnknownUnit { scope: scope(), unit: "bytes".into() };
    assert_eq!(a.set_limits(|p| p.log(Window::new(1, ms(1)).unit("bytes"))), Err(unit.into()));
    let client = BuildError::ZeroLimit { scope: Scope::Client };
    assert_eq!(admission.set_limits(|c| c.window(0, ms(1))), Err(client.into()));
    let added = admission.add_provider("b", |p| p.interval(ms(0))).unwrap_err();
    assert_eq!(added.to_string(), "provider b: an interval of 0 paces nothing");
    assert!(admission.provider("b").is_err());
    let _permit = a.try_acquire().unwrap();
    assert_eq!(refused(a.try_acquire()), "a: may not start at once, held back by 1 at once");

    let template = world.builder().template(|p| p.max_concurrent(0)).build().unwrap_err();
    assert_eq!(template, BuildError::ZeroConcurrency { scope: Scope::Template });
    assert_eq!(template.to_string(), "template: a concurrency of 0 would admit nothing");
    let template = world.builder().template(|p| p.log(tokens(1, ms(1)))).build().unwrap_err();
    assert_eq!(template, BuildError::UnknownUnit { scope: Scope::Template, unit: "tokens".into() });
}

// rule L8: corrected down it admits a waiter at once
#[test]
fn an_estimate_that_was_too_high_admits_who_waits() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one(&world, |p| p.log(tokens(1_000, ms(60_000))));
    let permit = a.cost("tokens", 1_000).try_acquire().unwrap();
    let mut waits = Task::waiting(a.cost("tokens", 600).acquire());
    world.set(5_000);
    permit.settle("tokens", 350).unwrap();
    assert!(waits.is_woken());
    drop(waits.ready().unwrap());
    assert!(a.cost("tokens", 51).try_acquire().is_err());
    drop(a.cost("tokens", 50).try_acquire().unwrap());
}

// rule L8: corrected up it holds; as often as one likes; from a cost of 0 too
#[test]
fn an_estimate_that_was_too_low_holds() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one(&world, |p| p.log(tokens(1_000, ms(60_000))));
    let permit = a.try_acquire().unwrap();
    permit.settle("tokens", 4_000).unwrap();
    let mut waits = Task::waiting(a.cost("tokens", 1).acquire());
    assert_eq!(world.armed(), Some(60_000));
    permit.settle("tokens", 1_000).unwrap();
    assert!(!waits.is_woken());
    permit.settle("tokens", 999).unwrap();
    assert!(waits.is_woken());
    drop(waits.ready().unwrap());
    // Out of the window nothing is left to change.
    world.set(60_000);
    permit.settle("tokens", 4_000).unwrap();
    drop(a.cost("tokens", 1_000).try_acquire().unwrap());
}

// rule L8: while the permit is held; once it is dropped the last cost stands
#[test]
fn the_last_cost_stands_when_the_permit_is_gone() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one(&world, |p| p.log(tokens(10, ms(100)).until_settled()));
    let permit = a.cost("tokens", 9).try_acquire().unwrap();
    world.set(1_000);
    permit.settle("tokens", 4).unwrap();
    drop(permit);
    let left = |provider: &Provider| {
        (1..=10).rev().find(|cost| provider.cost("tokens", *cost).try_acquire().is_ok())
    };
    assert_eq!(left(&a), Some(6));
    world.set(1_100);
    assert_eq!(left(&a), Some(10));
}

// rule L8: for any unit but requests
#[test]
fn some_costs_cannot_be_corrected() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one(&world, |p| p.window(2, ms(1_000)));
    let permit = a.try_acquire().unwrap();
    assert_eq!(permit.settle("requests", 0), Err(SettleError::Requests));
    assert_eq!(permit.settle("bytes", 0), Err(SettleError::UnknownUnit("bytes".into())));
    assert_eq!(permit.settle("bytes", 0).unwrap_err().to_string(), "unknown unit: bytes");
    permit.settle("tokens", u64::MAX).unwrap();
    drop(a.try_acquire().unwrap());
    assert!(a.try_acquire().is_err());
}

fn templated(world: &World) -> Admission {
    let builder = world.builder().max_concurrent(100).provider("named", |p| p.max_concurrent(9));
    builder.template(|p| p.max_concurrent(1).window(2, ms(1_000))).build().unwrap()
}

// rule L10: a template makes a provider for each new name
#[test]
fn any_name_is_a_provider_with_a_template() {
    let world = World::new();
    let _entered = world.enter();
    let admission = templated(&world);
    let host = admission.provider("example.org").unwrap();
    assert_eq!((host.name(), format!("{host:?}")), ("example.org", "Provider(\"example.org\")".into()));
    assert_eq!(names(&admission.snapshot()), ["named"], "a handle makes nothing");
    let permit = host.try_acquire().unwrap();
    let mut waits = Task::waiting(admission.provider("example.org").unwrap().acquire());
    assert_eq!(names(&admission.snapshot()), ["named", "example.org"]);
    let words = "example.org: may not start at once, held back by 1 at once; try again in at least 1 s";
    assert_eq!(refused(host.try_acquire()), words);
    let other = admission.provider("example.com").unwrap().try_acquire().unwrap();
    drop(permit);
    drop(waits.ready().unwrap());
    drop(other);
    assert_eq!(
        refused(host.try_acquire()),
        "example.org: may not start at once, held back by 2 per 1 s; try again in at least 1 s"
    );
    assert_eq!(names(&admission.snapshot()), ["named", "example.com", "example.org"]);

    // Forgotten when nothing is left of it; the handle means the same name all along.
    world.set(1_000);
    assert_eq!(names(&admission.snapshot()), ["named"]);
    assert_eq!(host.name(), "example.org");
    drop(host.try_acquire().unwrap());
    assert_eq!(names(&admission.snapshot()), ["named", "example.org"]);
    admission.cooldown("cold", ms(500)).unwrap();
    let cold = admission.provider("cold").unwrap();
    assert_eq!(cold.try_acquire().unwrap_err().retry_after(), Some(ms(500)));
    assert!(admission.provider("new").unwrap().reset().is_err(), "there is nothing yet to forget");
}

// rule L10: a number is never another name's while anybody has it
#[test]
fn a_future_or_a_permit_keeps_its_name() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().template(|p| p.max_concurrent(1)).build().unwrap();
    let host = |name: &str| admission.provider(name).unwrap();
    // A future that is not submitted, one that waits, one that is granted, a permit, a call.
    let lazy: Acquire = host("lazy").acquire();
    let permit = host("a").try_acquire().unwrap();
    let mut waits = Task::waiting(host("a").acquire());
    let granted = Task::new(host("b").enqueue());
    let call = host("c").key("key");
    assert!(format!("{call:?}").contains("\"c\""), "{call:?}");
    // Others come and go meanwhile.
    for round in 0..100 {
        drop(host(&format!("host {round}")).try_acquire().unwrap());
    }
    assert_eq!(names(&admission.snapshot()), ["a", "b"]);
    assert_eq!(refused(host("a").try_acquire()), "a: may not start at once, held back by 1 at once");
    drop(permit);
    drop(waits.ready().unwrap());
    drop(granted);
    let _lazy = Task::new(lazy).ready().unwrap();
    let _call = call.try_acquire().unwrap();
    assert_eq!(names(&admission.snapshot()), ["c", "lazy"]);
    assert_eq!(refused(host("lazy").try_acquire()), "lazy: may not start at once, held back by 1 at once");
}

// rule L10: limits of its own keep a provider, until it has the template's again
#[test]
fn a_provider_with_limits_of_its_own_stays() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().template(|p| p.max_concurrent(1)).build().unwrap();
    admission.provider("big").unwrap().set_limits(|p| p.max_concurrent(3)).unwrap();
    assert_eq!(names(&admission.snapshot()), ["big"]);
    let big = admission.provider("big").unwrap();
    let permits: Vec<_> = (0..3).map(|_| big.try_acquire().unwrap()).collect();
    assert_eq!(refused(big.try_acquire()), "big: may not start at once, held back by 3 at once");
    drop(permits);
    big.set_limits(|p| p.max_concurrent(1)).unwrap();
    assert_eq!(names(&admission.snapshot()), [""; 0]);
    let _permit = big.try_acquire().unwrap();
    assert_eq!(refused(big.try_acquire()), "big: may not start at once, held back by 1 at once");
}

// rule L10: a thousand hosts, each by itself
#[test]
fn a_thousand_hosts_wait_each_for_its_own() {
    let world = World::new();
    let _entered = world.enter();
    // The audit looks at everything after every call.
    let hosts = if cfg!(audit) { 60 } else { 1_000 };
    let admission = world.builder().max_queued(hosts).template(|p| p.interval(ms(100))).build().unwrap();
    let host = |nth: u32| admission.provider(&format!("host-{nth:03}")).unwrap();
    let mut starts: Vec<_> = (0..hosts).map(|nth| host(nth).try_acquire().unwrap()).collect();
    let mut waits: Vec<_> = (0..hosts).map(|nth| Task::waiting(host(nth).acquire())).collect();
    assert_eq!(admission.snapshot().providers.len(), hosts as usize);
    starts.clear();
    world.advance_to(100);
    for task in &mut waits {
        assert_eq!(task.wakes(), 1);
        drop(task.ready().unwrap());
    }
    world.set(200);
    assert_eq!(admission.snapshot().providers.len(), 0);
    assert_eq!(world.armed(), None);
}

// rule L10: queued calls and grants that have not started are refused; running calls go on
#[test]
fn a_removed_provider_refuses_who_has_not_started() {
    let world = World::new();
    let _entered = world.enter();
    let admission =
        world.builder().provider("a", |p| p.max_concurrent(2)).provider("b", |p| p).build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    let runs = a.key("k").try_acquire().unwrap();
    let (handle, signal) = admission_rt::AbortHandle::new();
    let mut granted = Task::new(a.key("g").abort_signal(&signal).enqueue());
    let mut waits = Task::waiting(a.acquire());
    let mut after = Task::waiting(b.key("g").acquire());
    let mut same_key = Task::waiting(b.key("k").acquire());
    assert_eq!(admission.counts(), counts(1, 3, 1));
    admission.remove_provider("a").unwrap();
    assert_eq!((waits.wakes(), after.wakes(), same_key.wakes()), (1, 1, 0));
    for refused in [granted.ready(), waits.ready()] {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, Rejected::Removed { provider } if **provider == *"a"));
        assert!(refused.is_removed());
        assert_eq!(refused.to_string(), "a: the provider was removed");
    }
    handle.abort();
    drop(after.ready().unwrap());
    assert_eq!(admission.counts(), counts(1, 1, 0));
    assert_eq!(names(&admission.snapshot()), ["b"]);

    // Without a template its name is unknown, by whatever way.
    assert_eq!(refused(a.try_acquire()), "unknown provider: a");
    let refused = Task::new(a.acquire()).ready().unwrap_err();
    assert!(matches!(&refused, Rejected::UnknownProvider { provider } if **provider == *"a"));
    assert!(refused.is_removed());
    assert_eq!(admission.provider("a").unwrap_err().to_string(), "unknown provider: a");
    assert_eq!(a.cooldown(ms(1)).unwrap_err().to_string(), "unknown provider: a");
    assert!(a.reset().is_err());
    assert!(admission.cooldown("a", ms(1)).is_err());
    assert!(matches!(a.set_limits(|p| p), Err(ChangeError::UnknownProvider(_))));
    assert!(matches!(admission.remove_provider("a"), Err(ChangeError::UnknownProvider(_))));
    drop(runs);
    assert!(same_key.is_woken());
    drop(same_key.ready().unwrap());

    // Rule D5: closed comes first.
    admission.close();
    assert!(a.try_acquire().unwrap_err().is_closed());
}

// rule L10: a name that is added again goes on with what is left of it
#[test]
fn a_name_that_is_added_again_keeps_its_logs() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one(&world, |p| p.max_concurrent(2).window(3, ms(1_000)));
    let runs = a.try_acquire().unwrap();
    drop(a.try_acquire().unwrap());
    admission.remove_provider("a").unwrap();
    let again = admission.add_provider("a", |p| p.max_concurrent(2).window(3, ms(1_000))).unwrap();
    let last = again.try_acquire().unwrap();
    let words = "a: may not start at once, held back by 2 at once; try again in at least 1 s";
    assert_eq!(refused(a.try_acquire()), words);
    drop((runs, last));
    assert_eq!(a.try_acquire().unwrap_err().retry_after(), Some(ms(1_000)), "the old handle too");
    admission.remove_provider("a").unwrap();
    world.set(1_000);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    let _again = admission.add_provider("a", |p| p.window(1, ms(5_000))).unwrap();
    drop(a.try_acquire().unwrap());
    assert_eq!(
        refused(a.try_acquire()),
        "a: may not start at once, held back by 1 per 5 s; try again in at least 5 s"
    );
}

// rule L10: adding a name that is there, or removing one that is not
#[test]
fn providers_are_added_and_removed_by_name() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, _a) = one(&world, |p| p);
    let exists = admission.add_provider("a", |p| p).unwrap_err();
    assert_eq!(exists, ChangeError::ProviderExists { name: "a".into() });
    assert_eq!(exists.to_string(), "the provider exists: a");
    assert_eq!(admission.remove_provider("b").unwrap_err().to_string(), "unknown provider: b");
    let b = admission.add_provider("b", |p| p.max_concurrent(1)).unwrap();
    assert!(admission.add_provider("b", |p| p).is_err());
    let permit = b.try_acquire().unwrap();
    drop(b);
    let b = admission.provider("b").unwrap();
    assert_eq!(refused(b.try_acquire()), "b: may not start at once, held back by 1 at once");
    b.set_limits(|p| p.max_concurrent(2)).unwrap();
    drop(b.try_acquire().unwrap());
    drop(permit);
    // It stays although nobody has a handle, and until it is removed.
    drop(b);
    assert_eq!(names(&admission.snapshot()), ["a", "b"]);
    admission.remove_provider("b").unwrap();
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert!(admission.provider("b").is_err());
}

// rule L10: with a template a removed name is made again on demand, with the template's limits
#[test]
fn a_removed_name_is_made_again() {
    let world = World::new();
    let _entered = world.enter();
    let admission = templated(&world);
    let named = admission.provider("named").unwrap();
    let runs = named.try_acquire().unwrap();
    let mut granted = Task::new(named.enqueue());
    admission.remove_provider("named").unwrap();
    assert!(matches!(granted.ready(), Err(Rejected::Removed { .. })));
    assert_eq!(refused(named.try_acquire()), "named: may not start at once, held back by 1 at once");
    drop(runs);
    drop(named.try_acquire().unwrap());
    admission.remove_provider("named").unwrap();
    admission.provider("host").unwrap().cooldown(ms(10)).unwrap();
    admission.remove_provider("host").unwrap();
    let host = admission.add_provider("host", |p| p.max_concurrent(5)).unwrap();
    assert_eq!(host.try_acquire().unwrap_err().retry_after(), Some(ms(10)), "its cooldown goes on");
}

// rule O1
#[test]
fn a_snapshot_can_be_printed() {
    let world = World::new();
    let _entered = world.enter();
    let builder = world.builder().unit("tokens").max_concurrent(32).max_queued(64);
    let builder = builder.provider("github", |p| {
        p.max_concurrent(3).window(4, ms(60_000)).interval(ms(50)).log(tokens(90_000, ms(60_000)))
    });
    let admission = builder.provider("stripe", |p| p).template(|p| p.window(1, ms(1_000))).build().unwrap();
    let github = admission.provider("github").unwrap();
    let permit = github.cost("tokens", 5_000).try_acquire().unwrap();
    world.set(1_000);
    drop(github.try_acquire().unwrap());
    let _waits = Task::waiting(github.acquire());
    let _also = Task::waiting(github.acquire());
    admission.cooldown("stripe", ms(12_345)).unwrap();
    drop(admission.provider("b\n\u{1b}[2J").unwrap().enqueue());
    let _granted = admission.provider("a").unwrap().enqueue();
    let seen = admission.snapshot();
    let expected = r"
open, 2 of 64 queued, next alarm in 50 ms
scope         running  granted  queued  hand-off  cooldown  changes in  pacers
client           1/32        1       2    200 ms         -      200 ms  -
github            1/3        0       2    200 ms         -       50 ms  2/4 per 60 s (req), more in 59 s; 50 ms apart, next in 50 ms; 5000/90000 per 60 s (tokens), more in 59 s
stripe              0        0       0    200 ms    12.4 s      12.4 s  -
a                   0        1       0    200 ms         -      200 ms  1/1 per 1 s (req)
b\n\u{1b}[2J        0        0       0    200 ms         -         1 s  1/1 per 1 s (req), more in 1 s";
    assert_eq!(format!("\n{seen}"), expected);

    let github = seen.provider("github").unwrap();
    assert_eq!((github.running, github.granted, github.queued), (1, 0, 2));
    assert_eq!((github.max_concurrent, github.hand_off), (Some(3), ms(200)));
    let PacerSnapshot::Window { unit, limit, spent, left, .. } = &github.pacers[2] else {
        panic!("a window")
    };
    assert_eq!((&**unit, *limit, *spent, *left), ("tokens", 90_000, 5_000, 85_000));
    let PacerSnapshot::Interval { interval, next, .. } = &github.pacers[1] else { panic!("an interval") };
    assert_eq!((*interval, next.unwrap().as_nanos()), (ms(50), 1_050_000_000));
    assert!(seen.provider("b").is_none());

    // By the limits as they are.
    admission.provider("github").unwrap().set_limits(|p| p.window(1, ms(90_000))).unwrap();
    admission.close();
    let seen = admission.snapshot().to_string();
    assert!(seen.starts_with("closed, 0 of 64 queued\n"), "{seen}");
    assert!(seen.contains("2/1 per 90 s (req), more in 89 s\n"), "{seen}");
    drop(permit);
}

// rules O1, W6: time passes first
#[test]
fn time_passes_before_a_snapshot() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one(&world, |p| p.interval(ms(100)));
    drop(a.try_acquire().unwrap());
    let waits = Task::waiting(a.acquire());
    world.set(100);
    let seen = admission.snapshot();
    assert_eq!((seen.client.granted, seen.client.queued), (1, 0));
    assert!(waits.is_woken());
}

// rules L7, R5
#[test]
fn a_rate_limiters_limit_changes() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::builder(2, ms(1_000)).margin(ms(10)).until_settled().build().unwrap();
    let permits = [(); 2].map(|()| limiter.try_acquire().unwrap());
    let mut waits = Task::waiting(limiter.acquire());
    limiter.set_limit(3, ms(1_000)).unwrap();
    assert!(waits.is_woken());
    drop((waits.ready().unwrap(), permits));
    limiter.set_limit(0, ms(500)).unwrap();
    assert_eq!(limiter.available(), 0);
    let words =
        "rate limiter: may not start at once, held back by 1 per 500 ms; try again in at least 510 ms";
    assert_eq!(refused(limiter.try_acquire()), words, "the margin stays");
    let permit = {
        world.set(510);
        limiter.try_acquire().unwrap()
    };
    world.set(9_000);
    assert_eq!(limiter.available(), 0, "and what it counts from");
    drop(permit);

    let limiter = RateLimiter::builder(1, ms(1_000)).build().unwrap();
    drop(limiter.try_acquire().unwrap());
    limiter.set_limit_from_floats(f64::NAN, f64::INFINITY).unwrap();
    for _ in 0..10 {
        drop(limiter.try_acquire().expect("a window of 0 admits everything"));
    }
}

// rules L7, I2
#[test]
fn an_interval_limiters_interval_changes() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = IntervalLimiter::builder(ms(100)).margin(ms(10)).build().unwrap();
    Task::new(limiter.acquire()).ready().unwrap();
    let mut waits = Task::waiting(limiter.acquire());
    assert_eq!(world.armed(), Some(110));
    limiter.set_interval(ms(50)).unwrap();
    assert_eq!(world.armed(), Some(60));
    let zero = limiter.set_interval(Duration::ZERO).unwrap_err();
    assert_eq!(zero.to_string(), "provider interval limiter: an interval of 0 paces nothing");
    world.advance_to(60);
    waits.ready().unwrap();
}

// rules L10, W6: many threads, ever new names, and a snapshot now and then
#[test]
fn names_are_never_mixed_up() {
    common::within(60, || {
        let admission = Admission::builder().template(|p| p.max_concurrent(1)).build().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let admission = &admission;
                scope.spawn(move || {
                    for round in 0..5_000_u64 {
                        // Some names are shared, and nobody waits.
                        let name = format!("{}", (thread * round * 7) % 23);
                        let host = admission.provider(&name).unwrap();
                        let permit = host.try_acquire();
                        assert_eq!(host.name(), name);
                        match &permit {
                            Ok(permit) => {
                                let held = host.try_acquire().unwrap_err();
                                let scope = held.held_by().map(|limit| limit.scope.clone());
                                assert_eq!(scope, Some(Scope::Provider(name.as_str().into())));
                                if round % 64 == 0 {
                                    let seen = admission.snapshot();
                                    assert_eq!(seen.provider(&name).unwrap().running, 1, "{permit:?}");
                                }
                            }
                            Err(Rejected::Exhausted { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        assert_eq!(admission.counts(), counts(0, 0, 0));
        assert_eq!(admission.snapshot().providers, []);
    });
}
