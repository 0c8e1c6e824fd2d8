//! Races of a granted call that starts without the lock, against turns of others.
//!
//! Owns: those bodies. Lacks the one against an abort, which is with the others (`mod.rs`), and tests: a body
//! says "By rules" for what it asserts, since a comment that begins with the rules marks a test, and that is whoever
//! runs it (`loom.rs`, say).

use std::sync::Arc;
use std::task::Poll;

#[cfg(all(admission_loom, not(admission_shuttle)))]
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
#[cfg(admission_shuttle)]
use shuttle::sync::atomic::{AtomicU32, Ordering::Relaxed};
#[cfg(not(any(admission_loom, admission_shuttle)))]
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use admission_rt::{Permit, Rejected};

use super::{Answer, Place, answer, go, narrow, nothing_is_left, started, take_back_against_start_of};
use crate::common::{Acquire, Task, World, counts, ms};

/// A permit, the call that is granted when it is dropped, and one behind that. There was a grant before, whose alarm
/// stays: so nothing but a wake follows the next one, and it is offered.
fn before_an_offer(place: &Place) -> (Permit, Task<Acquire>, Task<Acquire>) {
    let permit = started(&place.p);
    let [mut first, next, behind] = [(); 3].map(|()| Task::waiting(place.p.acquire()));
    drop(permit);
    (first.ready().expect("its turn"), next, behind)
}

/// The same when it has been dropped: one that is offered, and one behind it.
fn offered(place: &Place) -> [Task<Acquire>; 2] {
    let (permit, next, behind) = before_an_offer(place);
    drop(permit);
    [next, behind]
}

// By rules L1, E4, S1.
pub(super) fn start_against_newcomer() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mut granted, mut last] = offered(&place);
    let p = place.p.clone();
    let comes = go(&world, move || {
        assert!(matches!(p.try_acquire(), Err(Rejected::Exhausted { .. })), "others are before it");
    });
    let starts = go(&world, move || {
        let permit = granted.ready().expect("its turn");
        assert!(granted.poll().is_pending(), "it has answered");
        drop(permit);
    });
    comes();
    starts();
    drop(answer(&mut last, Poll::Pending).expect("its turn"));
    nothing_is_left(&place);
}

// By rules L1, S1, W6.
pub(super) fn start_against_a_look() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mut granted, waiting] = offered(&place);
    let admission = place.admission.clone();
    let looks = go(&world, move || [(); 2].map(|()| admission.counts()));
    let starts = go(&world, move || granted.ready().expect("its turn"));
    for counts in looks() {
        assert_eq!((counts.running + counts.granted, counts.queued), (1, 1), "it is one or the other");
    }
    let permit = starts();
    assert_eq!(place.admission.counts().running, 1);
    drop((waiting, permit));
    nothing_is_left(&place);
}

// By rules S4, L1.
pub(super) fn start_against_take_back() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let tasks = offered(&place);
    take_back_against_start_of(&world, &place, tasks);
}

// By rules L1, W7.
pub(super) fn start_against_what_was_done() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let (permit, mut waiting, behind) = before_an_offer(&place);
    let done = Arc::new(AtomicU32::new(0));
    let was_done = done.clone();
    let starts = go(&world, move || {
        // It may be polled before it is woken.
        if let Poll::Ready(permit) = waiting.poll() {
            assert_eq!(was_done.load(Relaxed), 1, "whoever was inside before had done it");
            drop(permit.expect("its turn"));
        }
    });
    done.store(1, Relaxed);
    drop(permit);
    starts();
    drop(behind);
    nothing_is_left(&place);
}

// By rules L1, W7: the same for a call after that one, which the end of it has offered.
pub(super) fn start_and_end_against_the_next() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let (permit, mut first, mut second) = before_an_offer(&place);
    let behind = Task::waiting(place.p.acquire());
    let done = Arc::new(AtomicU32::new(0));
    // Not in one step: two at once would lose one of them.
    let work = |done: &AtomicU32| done.store(done.load(Relaxed) + 1, Relaxed);
    let [of_first, of_second] = [(); 2].map(|()| done.clone());
    let starts = go(&world, move || {
        let polled = first.poll();
        let has_started = polled.is_ready();
        if let Poll::Ready(permit) = polled {
            let permit = permit.expect("its turn");
            work(&of_first);
            drop(permit);
        }
        (first, has_started)
    });
    let next = go(&world, move || {
        let polled = second.poll();
        if polled.is_ready() {
            work(&of_second);
        }
        (second, polled)
    });
    work(&done);
    drop(permit);
    let (mut first, has_started) = starts();
    let (mut second, polled) = next();
    if !has_started {
        let permit = answer(&mut first, Poll::Pending).expect("its turn");
        assert!(polled.is_pending(), "the other is before it");
        work(&done);
        drop(permit);
    }
    let has_worked = polled.is_ready();
    let permit = answer(&mut second, polled).expect("its turn");
    if !has_worked {
        work(&done);
    }
    assert_eq!(done.load(Relaxed), 3, "each found what those before it had done");
    drop(permit);
    drop(behind);
    nothing_is_left(&place);
}

// By rules S4, L1, W6: the end of another call takes it back, or hears of its start before that.
pub(super) fn start_against_another_end() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().hand_off(ms(5)).provider("p", |p| p.max_concurrent(2)).build();
    let admission = admission.expect("a configuration that is in order");
    let p = admission.provider("p").expect("it is configured");
    let place = Place { world: world.clone(), admission, p };
    let [permit, last] = [(); 2].map(|()| started(&place.p));
    let [mut first, mut granted, mut second, mut third] = [(); 4].map(|()| Task::waiting(place.p.acquire()));
    drop(permit);
    drop(first.ready().expect("its turn"));
    // Its hand-off time is over.
    world.set(5);
    let ends = go(&world, move || drop(last));
    let starts = go(&world, move || {
        let polled = granted.poll();
        (granted, polled)
    });
    ends();
    let (mut granted, polled) = starts();
    assert_eq!((second.is_woken(), third.is_woken()), (true, polled.is_pending()), "two at once");
    let has_started = polled.is_ready();
    if has_started {
        drop(answer(&mut granted, polled).expect("its turn"));
    }
    for task in [&mut second, &mut third] {
        drop(answer(task, Poll::Pending).expect("its turn"));
    }
    if !has_started {
        drop(answer(&mut granted, Poll::Pending).expect("its turn, again"));
    }
    nothing_is_left(&place);
}

// By rules W4, W6.
pub(super) fn start_against_close() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mut granted, mut last] = offered(&place);
    let admission = place.admission.clone();
    let closes = go(&world, move || admission.close());
    let starts = go(&world, move || drop(granted.ready().expect("a grant that is out may still start")));
    closes();
    starts();
    match last.poll() {
        // It was granted by the end of the other, before the close.
        Poll::Ready(Ok(permit)) => drop(permit),
        polled => assert!(matches!(polled, Poll::Ready(Err(Rejected::Closed)))),
    }
    nothing_is_left(&place);
}

// By rules L7, S5, L1.
pub(super) fn start_against_new_limits() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mut granted, mut last] = offered(&place);
    let p = place.p.clone();
    let changes = go(&world, move || p.set_limits(|p| p.max_concurrent(1)).expect("limits in order"));
    let starts = go(&world, move || {
        // It is taken back, and granted anew in that turn.
        drop(granted.ready().expect("its turn"));
    });
    changes();
    starts();
    drop(answer(&mut last, Poll::Pending).expect("its turn"));
    nothing_is_left(&place);
}

/// A turn of another's, which closes the place and opens it again: a call comes to wait. Who it is, and what it was
/// answered.
fn comes(world: &Arc<World>, place: &Place) -> impl FnOnce() -> (Task<Acquire>, Poll<Answer>) {
    let mut newcomer = Task::new(place.p.acquire());
    go(world, move || {
        let polled = newcomer.poll();
        (newcomer, polled)
    })
}

// By rules S4, L1, W6: the alarm takes it back before it is offered again, after that, or not at all.
pub(super) fn start_against_newcomer_and_take_back() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mut granted, mut behind] = offered(&place);
    let comes = comes(&world, &place);
    let starts = go(&world, move || {
        let polled = granted.poll();
        (granted, polled)
    });
    world.set(5);
    world.ring();
    let (mut newcomer, came) = comes();
    assert!(came.is_pending(), "others are before it");
    let (mut granted, polled) = starts();
    let has_started = polled.is_ready();
    assert_eq!(behind.is_woken(), !has_started, "one of them has it");
    if has_started {
        drop(answer(&mut granted, polled).expect("its turn"));
        drop(answer(&mut behind, Poll::Pending).expect("its turn"));
    } else {
        drop(answer(&mut behind, Poll::Pending).expect("its turn"));
        drop(answer(&mut granted, Poll::Pending).expect("its turn, again"));
    }
    drop(answer(&mut newcomer, came).expect("its turn"));
    nothing_is_left(&place);
}

// By rules W4, W6.
pub(super) fn start_against_newcomer_and_close() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mut granted, behind] = offered(&place);
    let comes = comes(&world, &place);
    let starts = go(&world, move || granted.ready().expect("a grant that is out may still start"));
    place.admission.close();
    let newcomer = comes();
    let permit = starts();
    for (mut refused, polled) in [(behind, Poll::Pending), newcomer] {
        assert!(matches!(answer(&mut refused, polled), Err(Rejected::Closed)));
    }
    drop(permit);
    nothing_is_left(&place);
}

// By rules L1, E4, S1: each of them finds it granted or running, and offers it again or not.
pub(super) fn start_against_two_newcomers() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [mut granted, mut behind] = offered(&place);
    let come = [(); 2].map(|()| comes(&world, &place));
    let permit = granted.ready().expect("its turn");
    assert!(granted.poll().is_pending(), "it has answered");
    let newcomers = come.map(|comes| comes());
    assert_eq!(place.admission.counts(), counts(1, 3, 0));
    assert!(!behind.is_woken(), "one at a time");
    drop(permit);
    drop(answer(&mut behind, Poll::Pending).expect("its turn"));
    drop(newcomers);
    nothing_is_left(&place);
}

// By rules S3, W3, W6: whom its grant goes to is offered it, and nobody else.
pub(super) fn drop_against_newcomer() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let [granted, mut behind] = offered(&place);
    let comes = comes(&world, &place);
    let leaves = go(&world, move || drop(granted));
    let polled = behind.poll();
    let (mut newcomer, came) = comes();
    leaves();
    drop(answer(&mut behind, polled).expect("the chance of the one before it"));
    drop(answer(&mut newcomer, came).expect("its turn"));
    nothing_is_left(&place);
}
