//! Races of a call that is about to take over a ticket while other turns come and go, what such a call sees
//! of what others did before, and what two turns leave behind that end at once.
//!
//! Owns: those bodies. In one a ticket is left twice in the same words, under turns of two providers; in the
//! others nothing but the coordinator orders what two threads do. Lacks what they share with the other races, and
//! tests: a body says "By rules" for what it asserts, since a comment that begins with the rules marks a test, and
//! that is whoever runs it (`loom.rs`, say).

use std::sync::Arc;

#[cfg(all(admission_loom, not(admission_shuttle)))]
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
#[cfg(admission_shuttle)]
use shuttle::sync::atomic::{AtomicU32, Ordering::Relaxed};
#[cfg(not(any(admission_loom, admission_shuttle)))]
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::{go, narrow, nothing_is_left, started};
use crate::common::{Task, World, counts};

// By rules L1, E4.
pub(super) fn take_over_against_other_turns() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("p", |p| p).provider("q", |q| q.max_concurrent(1));
    let admission = admission.build().expect("in order");
    let [p, q] = ["p", "q"].map(|name| admission.provider(name).expect("it is configured"));
    drop(p.try_acquire().expect("nothing limits it"));
    let other = q.clone();
    let comes = go(&world, move || other.try_acquire());
    let left_twice = p.try_acquire().expect("nothing limits it");
    let in_q = q.try_acquire();
    let in_p = p.try_acquire().expect("nothing limits it");
    drop(left_twice);
    let also = comes();
    assert!(in_q.is_ok() != also.is_ok(), "one may be inside: {in_q:?}, {also:?}");
    assert_eq!(admission.counts(), counts(2, 0, 0));
    drop((in_q, in_p, also));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// By rules L1, W7.
pub(super) fn take_over_against_what_was_done() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let (p, done) = (place.p.clone(), Arc::new(AtomicU32::new(0)));
    let was_done = done.clone();
    let comes = go(&world, move || {
        if let Ok(permit) = p.try_acquire() {
            assert_eq!(was_done.load(Relaxed), 1, "whoever was inside before had done it");
            drop(permit);
        }
    });
    done.store(1, Relaxed);
    drop(permit);
    comes();
    nothing_is_left(&place);
}

// By rules L1, W7, W6.
pub(super) fn a_key_that_comes_free_against_who_wants_it() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = place.p.key(7).try_acquire().expect("nobody has it");
    let (p, done) = (place.p.clone(), Arc::new(AtomicU32::new(0)));
    let was_done = done.clone();
    let comes = go(&world, move || {
        if let Ok(permit) = p.key(7).try_acquire() {
            assert_eq!(was_done.load(Relaxed), 1, "whoever had the key before had done it");
            drop(permit);
        }
    });
    done.store(1, Relaxed);
    drop(permit);
    drop(place.p.try_acquire());
    comes();
    nothing_is_left(&place);
}

// By rules L1, W6.
pub(super) fn take_over_against_an_earlier_turn() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    place.p.set_limits(|p| p.max_concurrent(2)).expect("in order");
    let early = started(&place.p);
    let name = format!("{early:?}");
    assert_eq!(place.admission.counts(), counts(1, 0, 0), "and no place is open");
    let (p, done) = (place.p.clone(), Arc::new(AtomicU32::new(0)));
    let was_done = done.clone();
    let comes = go(&world, move || {
        let late = p.try_acquire();
        if late.as_ref().is_ok_and(|permit| format!("{permit:?}") == name) {
            assert_eq!(was_done.load(Relaxed), 1, "it was left where the other's turn had opened a place");
        }
        late
    });
    let ends = go(&world, move || drop(early));
    done.store(1, Relaxed);
    let opens = place.p.try_acquire();
    ends();
    drop((opens, comes()));
    nothing_is_left(&place);
}

// By rule S6: each leaves a guess behind, and neither undoes the other's. A call that starts at once then goes the
// short way, which asks for no runtime.
pub(super) fn refusal_against_the_end_of_a_queue() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let waiting = Task::waiting(place.p.acquire());
    let p = place.p.clone();
    let refused = go(&world, move || assert!(p.try_acquire().is_err(), "somebody runs"));
    let leaves = go(&world, move || drop(waiting));
    refused();
    leaves();
    drop(permit);
    // It is not refused, and so the next one will hardly be.
    drop(place.p.try_acquire().expect("nobody runs"));
    *world.when_asked.lock().unwrap() = Some(Box::new(|| panic!("it was made ready to wait")));
    drop(Task::new(place.p.key(1).acquire()).ready().expect("nobody runs"));
    world.when_asked.lock().unwrap().take();
    nothing_is_left(&place);
}
