//! Races of calls that take over the ticket of one like them that has just ended, which neither takes the lock
//! for: against each other, and against whoever changes what a call may do.
//!
//! Owns: those bodies. Lacks what they share with the other races, and tests: a body says "By rules" for what it
//! asserts, since a comment that begins with the rules marks a test, and that is whoever runs it (`loom.rs`, say).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::Poll;

use admission_rt::{Permit, Rejected};

use super::{Place, answer, go, narrow, nothing_is_left, started};
use crate::common::{Provider, Task, World};

/// How many are inside, and how many may be.
#[derive(Clone)]
struct Room {
    inside: Arc<AtomicU32>,
    most: u32,
}

impl Room {
    fn of(most: u32) -> Self {
        Self { inside: Arc::default(), most }
    }

    #[track_caller]
    fn enter(&self) {
        assert!(self.inside.fetch_add(1, SeqCst) < self.most, "rule L1: more than may run");
    }

    /// Goes in, if it may at once, and out again.
    #[track_caller]
    fn visit(&self, provider: &Provider) -> Result<(), Rejected> {
        self.leave(self.admitted(provider.try_acquire())?);
        Ok(())
    }

    #[track_caller]
    fn admitted(&self, answer: Result<Permit, Rejected>) -> Result<Permit, Rejected> {
        answer.inspect(|_| self.enter())
    }

    /// It is out before anybody may come in.
    fn leave(&self, permit: Permit) {
        self.inside.fetch_sub(1, SeqCst);
        drop(permit);
    }
}

// By rules L1, E4, S6.
pub(super) fn take_over_against_another() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let room = Room::of(1);
    let permit = room.admitted(Ok(started(&place.p))).expect("it is alone");
    let [mine, theirs] = [(place.p.clone(), room.clone()), (place.p.clone(), room.clone())];
    let one = go(&world, move || {
        mine.1.leave(permit);
        let _ = mine.1.visit(&mine.0);
    });
    let other = go(&world, move || {
        let _ = theirs.1.visit(&theirs.0);
        let _ = theirs.1.visit(&theirs.0);
    });
    one();
    other();
    room.visit(&place.p).expect("nobody is inside");
    nothing_is_left(&place);
}

// By rules L1, E4, W7.
pub(super) fn take_over_against_another_kind() {
    let world = World::new();
    let _entered = world.enter();
    let admission =
        world.builder().provider("p", |p| p.max_concurrent(1)).provider("q", |q| q.max_concurrent(1));
    let admission = admission.build().expect("in order");
    let [p, q] = ["p", "q"].map(|name| admission.provider(name).expect("it is configured"));
    let (at_p, at_q) = (Room::of(1), Room::of(1));
    let first = at_p.admitted(p.try_acquire()).expect("it is alone");
    let second = at_q.admitted(q.try_acquire()).expect("it is alone");
    let mine = (p.clone(), q.clone(), at_p.clone(), at_q.clone());
    let theirs = (p.clone(), at_p.clone(), at_q.clone());
    let one = go(&world, move || {
        mine.2.leave(first);
        let _ = mine.3.visit(&mine.1);
        let _ = mine.2.visit(&mine.0);
    });
    let other = go(&world, move || {
        theirs.2.leave(second);
        let _ = theirs.1.visit(&theirs.0);
    });
    one();
    other();
    at_p.visit(&p).expect("nobody is inside");
    at_q.visit(&q).expect("nobody is inside");
    nothing_is_left(&Place { world: world.clone(), admission, p });
}

// By rules E4, W6.
pub(super) fn take_over_against_waiter() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let room = Room::of(1);
    let permit = room.admitted(Ok(started(&place.p))).expect("it is alone");
    let mut waiter = Task::new(place.p.acquire());
    let (provider, inside) = (place.p.clone(), room.clone());
    let takes = go(&world, move || {
        inside.leave(permit);
        let _ = inside.visit(&provider);
        let _ = inside.visit(&provider);
    });
    let inside = room.clone();
    let waits = go(&world, move || match waiter.poll() {
        Poll::Ready(answer) => {
            inside.leave(inside.admitted(answer).expect("its turn"));
            None
        }
        Poll::Pending => Some(waiter),
    });
    takes();
    if let Some(mut waiter) = waits() {
        room.leave(room.admitted(answer(&mut waiter, Poll::Pending)).expect("its turn"));
    }
    nothing_is_left(&place);
}

/// Another thread, in which a call ends and one like it comes, which starts or is refused for this reason.
fn ends_and_comes(place: &Place, permit: Permit, may_be: fn(&Rejected) -> bool) -> impl FnOnce() {
    let p = place.p.clone();
    go(&place.world, move || {
        drop(permit);
        if let Err(refused) = p.try_acquire() {
            assert!(may_be(&refused), "{refused:?}");
        }
    })
}

// By rule W4.
pub(super) fn take_over_against_close() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let q = place.p.clone();
    let takes = ends_and_comes(&place, permit, |refused| matches!(refused, Rejected::Closed));
    let admission = place.admission.clone();
    let closes = go(&world, move || {
        admission.close();
        assert!(matches!(q.try_acquire(), Err(Rejected::Closed)), "it was closed before");
    });
    takes();
    closes();
    nothing_is_left(&place);
}

// By rules L10, D5.
pub(super) fn take_over_against_removal() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let q = place.p.clone();
    let takes = ends_and_comes(&place, permit, |refused| matches!(refused, Rejected::UnknownProvider { .. }));
    let admission = place.admission.clone();
    let removes = go(&world, move || {
        admission.remove_provider("p").expect("it is here");
        // Whether or not there is room: that comes later.
        let polled = q.try_acquire();
        assert!(matches!(polled, Err(Rejected::UnknownProvider { .. })), "it was removed before: {polled:?}");
    });
    takes();
    removes();
    nothing_is_left(&place);
}

// By rule L7.
pub(super) fn take_over_against_lower_limits() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("p", |p| p.max_concurrent(2)).build().expect("in order");
    let p = admission.provider("p").expect("it is configured");
    let [first, second] = [p.try_acquire(), p.try_acquire()].map(|answer| answer.expect("two may run"));
    let (mine, theirs) = (p.clone(), p.clone());
    let takes = go(&world, move || {
        drop(first);
        drop(mine.try_acquire());
    });
    let lowers = go(&world, move || {
        theirs.set_limits(|p| p.max_concurrent(1)).expect("in order");
        let polled = theirs.try_acquire();
        assert!(matches!(polled, Err(Rejected::Exhausted { .. })), "one runs, and that is all that may");
    });
    takes();
    lowers();
    drop(second);
    nothing_is_left(&Place { world: world.clone(), admission, p });
}
