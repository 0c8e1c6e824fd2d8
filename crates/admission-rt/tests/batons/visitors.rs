//! Providers that come and go, whose last call is left beside the lock: the machine hears of that end in the next
//! turn, and forgets the provider when it would have been forgotten.
//!
//! Owns: those of a template's, and those that are added live. Each history is told twice, the second time with
//! somebody who waits for a close that never comes, so that every end is a turn. Lacks providers that the builder
//! names, which are never forgotten (`twins/`).

use std::sync::Arc;

use admission_rt::Rejected;

use super::clock::Watched;
use super::common::{Admission, Provider, Task, World, counts, ms};

/// A history, with what a permit costs that has ended: that many readings of the clock.
type History = fn(&Admission, &Watched, u64);

/// Tells it with ends that are left, and with ends that are turns.
fn tell(history: History, build: impl Fn(&World, Arc<Watched>) -> Admission) {
    for readings in [0, 1] {
        let world = World::new();
        let _entered = world.enter();
        let clock = Arc::<Watched>::default();
        let admission = build(&world, clock.clone());
        let _watcher = (readings > 0).then(|| Task::waiting(admission.closed()));
        history(&admission, &clock, readings);
        assert_eq!(admission.counts(), counts(0, 0, 0));
    }
}

fn names(admission: &Admission) -> Vec<String> {
    admission.snapshot().providers.iter().map(|provider| provider.name().to_owned()).collect()
}

fn host(admission: &Admission, name: &str) -> Provider {
    admission.provider(name).unwrap()
}

// rules L10, W6
#[test]
fn a_made_provider_is_forgotten_in_the_first_call_after_its_last_end() {
    let history: History = |admission, clock, readings| {
        let [a, b] = ["a", "b"].map(|name| host(admission, name));
        let [in_a, in_b] = [&a, &b].map(|provider| provider.try_acquire().unwrap());
        clock.set(5);
        assert_eq!(clock.readings_of(|| drop(in_a)), readings);
        assert_eq!(names(admission), ["b"], "the first call, once time has passed, that finds it so");
        let again = b.try_acquire();
        assert!(matches!(again, Err(Rejected::Exhausted { .. })), "one runs: {again:?}");
        // Its handle means the same all along, and the provider is made anew.
        let in_a = a.try_acquire().unwrap();
        assert!(matches!(a.try_acquire(), Err(Rejected::Exhausted { .. })));
        assert_eq!(names(admission), ["a", "b"]);
        assert_eq!(clock.readings_of(|| drop(in_b)), 1, "a look opens no place");
        drop(b.try_acquire().unwrap());
        assert_eq!(clock.readings_of(|| drop(in_a)), readings);
        assert_eq!(names(admission), [""; 0]);
    };
    tell(history, |world, clock| {
        world.builder().clock(clock).template(|p| p.max_concurrent(1)).build().unwrap()
    });
}

// rules L10, L3
#[test]
fn a_made_provider_is_remembered_for_as_long_as_its_window_counts() {
    let history: History = |admission, clock, readings| {
        let a = host(admission, "a");
        let permit = a.try_acquire().unwrap();
        clock.set(4);
        assert_eq!(clock.readings_of(|| drop(permit)), readings);
        clock.set(9);
        assert_eq!(names(admission), ["a"]);
        assert_eq!(a.try_acquire().unwrap_err().retry_after(), Some(ms(1)));
        clock.set(10);
        assert_eq!(names(admission), [""; 0]);
        // Left until the very call in which it is forgotten.
        let permit = a.try_acquire().unwrap();
        assert_eq!(clock.readings_of(|| drop(permit)), readings);
        clock.set(20);
        assert_eq!(names(admission), [""; 0]);
        drop(a.try_acquire().unwrap());
    };
    tell(history, |world, clock| {
        world.builder().clock(clock).template(|p| p.window(1, ms(10))).build().unwrap()
    });
}

// rule L10
#[test]
fn the_number_of_a_name_whose_end_is_left_is_nobody_elses() {
    let history: History = |admission, clock, readings| {
        let a = host(admission, "a");
        let permit = a.try_acquire().unwrap();
        assert_eq!(clock.readings_of(|| drop(permit)), readings);
        // The last who has the name goes while the machine has yet to hear of the end.
        drop(a);
        // If any of these had its number, they would be one.
        let hosts: Vec<_> = (0..20).map(|nth| host(admission, &format!("host {nth}"))).collect();
        let permits: Vec<_> = hosts.iter().map(|host| host.try_acquire().unwrap()).collect();
        let in_a = host(admission, "a").try_acquire().unwrap();
        assert_eq!(names(admission).len(), 21);
        assert_eq!(admission.counts(), counts(21, 0, 0));
        drop((in_a, permits));
    };
    tell(history, |world, clock| {
        world.builder().clock(clock).template(|p| p.max_concurrent(1)).build().unwrap()
    });
}

// rules L10, W5
#[test]
fn a_crowd_whose_ends_are_left_is_forgotten_like_any() {
    let history: History = |admission, _, _| {
        let hosts: Vec<_> = (0..50).map(|nth| host(admission, &format!("host {nth}"))).collect();
        for host in &hosts {
            drop(host.try_acquire().unwrap());
        }
        // No call forgets more than a few of them.
        for _ in 0..hosts.len() {
            assert_eq!(admission.counts(), counts(0, 0, 0));
        }
        assert_eq!(names(admission), [""; 0]);
        for host in &hosts {
            drop(host.try_acquire().unwrap());
        }
    };
    tell(history, |world, clock| {
        world.builder().clock(clock).template(|p| p.max_concurrent(1)).build().unwrap()
    });
}

// rules L10, L7
#[test]
fn a_provider_that_was_added_is_free_again_when_its_end_was_left() {
    let history: History = |admission, _, _| {
        let a = admission.add_provider("a", |a| a.max_concurrent(1)).unwrap();
        let p = host(admission, "p");
        // Left, and removed in the turn that brings it in.
        drop(a.try_acquire().unwrap());
        admission.remove_provider("a").unwrap();
        assert!(matches!(a.try_acquire(), Err(Rejected::UnknownProvider { .. })));
        admission.add_provider("a", |a| a.max_concurrent(1)).unwrap();
        let permit = a.try_acquire().unwrap();
        assert!(matches!(a.try_acquire(), Err(Rejected::Exhausted { .. })));
        // Removed while one runs that is left then: a start at another provider has opened a place.
        admission.remove_provider("a").unwrap();
        let other = p.try_acquire().unwrap();
        drop(permit);
        assert!(matches!(a.try_acquire(), Err(Rejected::UnknownProvider { .. })));
        assert!(admission.provider("a").is_err());
        assert_eq!(admission.counts(), counts(1, 0, 0));
        drop((a, other));
        // Its number is free now, and the name may have another.
        let [a, b] = ["a", "b"].map(|name| admission.add_provider(name, |of| of.max_concurrent(1)).unwrap());
        let permits = [&a, &b].map(|provider| provider.try_acquire().unwrap());
        for provider in [&a, &b] {
            assert!(matches!(provider.try_acquire(), Err(Rejected::Exhausted { .. })));
        }
        assert_eq!(names(admission), ["p", "a", "b"]);
        drop(permits);
    };
    tell(history, |world, clock| world.builder().clock(clock).provider("p", |p| p).build().unwrap());
}

// rules L10, L1
#[test]
fn a_running_call_of_a_removed_provider_counts_until_its_end_and_not_after_it() {
    let history: History = |admission, _, _| {
        let a = admission.add_provider("a", |a| a.max_concurrent(1)).unwrap();
        let p = host(admission, "p");
        let permit = a.try_acquire().unwrap();
        admission.remove_provider("a").unwrap();
        admission.add_provider("a", |a| a.max_concurrent(1)).unwrap();
        assert!(matches!(a.try_acquire(), Err(Rejected::Exhausted { .. })), "it runs");
        drop(p.try_acquire().unwrap());
        let other = p.try_acquire().unwrap();
        drop(permit);
        let permit = a.try_acquire().unwrap();
        drop((other, permit));
    };
    tell(history, |world, clock| world.builder().clock(clock).provider("p", |p| p).build().unwrap());
}
