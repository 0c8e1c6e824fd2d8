//! Races about names and keys: whose they are when the last who has one leaves as the next comes, and whether a
//! provider is there.
//!
//! Owns: those bodies. Lacks what they share with the other races, and tests: a body says "By rules" for what it
//! asserts, since a comment that begins with the rules marks a test, and that is whoever runs it (`loom.rs`, say).

use std::sync::Arc;

use admission_rt::Permit;

use super::{Place, answer, go, narrow, nothing_is_left, started};
use crate::common::{Task, World, counts};

/// A provider without limits, and a call to it that runs with the key "k".
fn keyed(world: &Arc<World>) -> (Place, Permit) {
    let admission = world.builder().provider("p", |p| p).build().expect("in order");
    let p = admission.provider("p").expect("it is configured");
    let place = Place { world: world.clone(), admission, p };
    let permit = Task::new(place.p.key("k").acquire()).ready().expect("it may start at once");
    (place, permit)
}

// By rules L10, L1.
pub(super) fn last_handle_against_next() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().template(|p| p.max_concurrent(1)).build().expect("in order");
    let p = admission.provider("a").expect("made on demand");
    let leaves = go(&world, move || drop(p));
    let again = admission.clone();
    let comes = go(&world, move || again.provider("a").expect("made on demand"));
    leaves();
    let a = comes();
    let b = admission.provider("b").expect("made on demand");
    let permit = started(&a);
    // Another name has another number, and the same name has the same.
    let other = started(&b);
    assert!(admission.provider("a").expect("it is there").try_acquire().is_err());
    drop((permit, other));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// By rules D3, L1, E6.
pub(super) fn last_key_against_next() {
    let world = World::new();
    let _entered = world.enter();
    let (place, permit) = keyed(&world);
    let mut newcomer = Task::new(place.p.key("k").acquire());
    let comes = go(&world, move || {
        let polled = newcomer.poll();
        (newcomer, polled)
    });
    let releases = go(&world, move || drop(permit));
    let (mut newcomer, polled) = comes();
    releases();
    let permit = answer(&mut newcomer, polled).expect("its turn");
    assert!(place.p.key("k").try_acquire().is_err(), "one call at a time has a key");
    drop(permit);
    nothing_is_left(&place);
}

// By rules D3, L1.
pub(super) fn last_user_against_next() {
    let world = World::new();
    let _entered = world.enter();
    let (place, permit) = keyed(&world);
    let leaves = go(&world, move || drop(permit));
    let p = place.p.clone();
    let comes = go(&world, move || {
        let mut newcomer = Task::new(p.key("k").acquire());
        let polled = newcomer.poll();
        (newcomer, polled)
    });
    leaves();
    let (mut newcomer, polled) = comes();
    let permit = answer(&mut newcomer, polled).expect("its turn");
    assert!(place.p.key("k").try_acquire().is_err(), "the name has one number as long as anybody has it");
    drop(permit);
    nothing_is_left(&place);
}

// By rule L10.
pub(super) fn removal_against_lookup() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mine, theirs] = [(); 2].map(|()| place.admission.clone());
    let looks = go(&world, move || {
        let [first, second] = [(); 2].map(|()| theirs.provider("p").map_err(|unknown| unknown.name));
        for found in [&first, &second] {
            assert_eq!(found.as_ref().map_or_else(|name| &**name, |p| p.name()), "p");
        }
        assert!(first.is_ok() || second.is_err(), "it was seen to be gone before");
    });
    let removes = go(&world, move || {
        mine.remove_provider("p").expect("it is here");
        assert!(mine.provider("p").is_err(), "it was removed before");
    });
    looks();
    removes();
    assert!(place.admission.provider("p").is_err(), "nobody has added it since");
    nothing_is_left(&place);
}
