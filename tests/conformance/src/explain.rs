//! Why a call waits, said in numbers and in words.
//!
//! Owns: rule O2, as far as it can be seen from outside, and the hook for calls that wait long. Lacks: every
//! combination of limits, whose explanations the core's own tests compare with the model.

use std::sync::{Arc, Mutex};

use admission_rt::{LimitKind, Rejected, Scope};

use crate::mount::Mount;
use crate::puppet::until;
use crate::signal::poll_once;
use crate::transcript::Transcript;

/// A call that waits says all that holds it back, each thing by itself.
pub async fn a_call_that_waits_says_what_holds_it_back<M: Mount>() {
    // rule O2
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let build = |b: admission_rt::Builder<M::Runtime>| {
        b.max_concurrent(2).provider("a", |p| p.max_concurrent(1).window(1, hour)).provider("b", |p| p)
    };
    let admission = t.build(build);
    let (a, b) = (admission.provider("a").expect("there"), admission.provider("b").expect("there"));
    let first = a.key("repo").try_acquire().expect("it may start");
    let other = b.try_acquire().expect("it may start");
    let mut waits = a.key("repo").admission_timeout(hour).acquire();
    assert!(waits.explain().is_none(), "not submitted yet");
    assert!(poll_once(&mut waits).await.is_pending());
    a.cooldown(hour).expect("it is there");

    let told = waits.explain().expect("it waits");
    assert_eq!((&*told.provider, &told.key), ("a", &Some("repo".into())));
    let kinds: Vec<_> = told.held_by.iter().map(|held| (&held.limit.scope, &held.limit.kind)).collect();
    let a_scope = Scope::Provider("a".into());
    assert!(matches!(kinds[0], (scope, LimitKind::Key(Some(other))) if *scope == a_scope && other.runs));
    assert_eq!(kinds[1], (&a_scope, &LimitKind::Concurrency(1)));
    assert_eq!(kinds[2], (&a_scope, &LimitKind::Cooldown));
    assert!(matches!(kinds[3], (scope, LimitKind::Window { limit: 1, .. }) if *scope == a_scope));
    assert_eq!(kinds[4..], [(&Scope::Client, &LimitKind::Concurrency(2))]);
    let times: Vec<_> = told.held_by.iter().map(|held| held.time_left.is_some()).collect();
    assert_eq!(times, [false, false, true, true, false], "time alone ends the cooldown and the window");
    assert!(told.not_before.is_some_and(|not_before| not_before <= hour));
    assert!(told.time_left.is_some_and(|time_left| time_left <= hour));
    let words = told.to_string();
    assert!(words.starts_with("a, key repo: has waited "), "{words}");
    assert!(words.contains("its key, which a call to a has"), "{words}");
    assert!(words.ends_with("the client's 2 at once"), "{words}");

    let all = admission.waiting();
    assert_eq!((all.len(), &all[0].key), (1, &Some("repo".into())));
    drop((first, other, waits));
    assert_eq!(admission.waiting(), []);
}

/// The list of those who wait has the order of submission.
pub async fn whoever_waits_is_listed_in_order<M: Mount>() {
    // rules O2, E2, E3
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let (admission, a) = t.provider(|p| p.window(1, hour));
    drop(a.try_acquire().expect("it may start"));
    let mut calls: Vec<_> = (0..3u64).map(|key| a.key(key).acquire()).collect();
    for call in &mut calls {
        assert!(poll_once(call).await.is_pending());
    }
    let keys = |waiting: Vec<admission_rt::Waiting>| waiting.into_iter().map(|w| w.key).collect::<Vec<_>>();
    let key = |key: u64| Some(key.into());
    assert_eq!(keys(admission.waiting()), [key(0), key(1), key(2)]);
    let last = calls[2].explain().expect("it waits").held_by;
    assert!(matches!(last[1].limit.kind, LimitKind::Order(Some(_))), "{last:?}");
    drop(calls.remove(0));
    assert_eq!(keys(admission.waiting()), [key(1), key(2)]);
}

/// A call whose key is held by one that does not end is told by whom, and for how long.
pub async fn a_refusal_says_who_has_the_key<M: Mount>() {
    // rules O2, Q7
    let t = Transcript::<M>::new();
    let build = |b: admission_rt::Builder<M::Runtime>| b.provider("a", |p| p).provider("b", |p| p);
    let admission = t.build(build);
    let (a, b) = (admission.provider("a").expect("there"), admission.provider("b").expect("there"));
    let holder = b.key(7).try_acquire().expect("it may start");
    t.until(20).await;
    let Err(refused) = a.key(7).admission_timeout(t.ms(10)).acquire().await else {
        panic!("the key is taken")
    };
    let Rejected::AdmissionTimeout { held_by: Some(limit), .. } = &refused else { panic!("{refused:?}") };
    let LimitKind::Key(Some(other)) = &limit.kind else { panic!("{limit:?}") };
    assert_eq!((&*other.provider, other.runs), ("b", true));
    // Nobody noted when it started: it is known to run since the other came.
    assert!(other.time >= t.ms(10), "{:?}", other.time);
    let words = refused.to_string();
    assert!(words.contains("held back by its key, which a call to b has had for at least "), "{words}");
    drop(holder);
}

/// A call that waits longer than a threshold is reported once, while it waits.
pub async fn a_call_that_waits_long_is_reported_once<M: Mount>() {
    // rule O2
    let t = Transcript::<M>::new();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let build = |b: admission_rt::Builder<M::Runtime>| {
        let reports = reports.clone();
        let report = move |waiting: &admission_rt::Waiting| {
            let line = (waiting.key.clone(), waiting.age, waiting.held_by.len());
            reports.lock().expect("nobody panics").push(line);
        };
        b.provider("a", |p| p.max_concurrent(1)).on_long_wait(t.ms(50), report)
    };
    let admission = t.build(build);
    let a = admission.provider("a").expect("it is there");
    let first = t.call("first", &a).await;
    let brief = t.call("brief", a.key(1)).await;
    t.until(10).await;
    let long = t.call("long", a.key(2)).await;
    first.finish();
    brief.started().await;
    t.until(100).await;
    // Where time is real the brief one may have had to wait as long, and be reported too.
    let of_long = || {
        let reports = reports.lock().expect("nobody panics");
        assert!(!M::EXACT || reports.len() <= 1, "{reports:?}");
        reports.iter().filter(|(key, ..)| *key == Some(2.into())).cloned().collect::<Vec<_>>()
    };
    until(|| !of_long().is_empty()).await;
    let (_, age, held_by) = of_long()[0];
    assert!(age >= t.ms(50), "{age:?}");
    // Where time is real the brief one may have stood before it all that time, which is a second cause.
    assert!(held_by == 1 || (held_by == 2 && !M::EXACT), "{held_by}");
    brief.settle().await;
    long.settle().await;
    first.settle().await;
    assert_eq!(of_long().len(), 1, "once");
}
