//! Races of two or three threads on one coordinator: what each does, and what must be true when all are done,
//! in whatever order their steps came.
//!
//! Owns: the bodies. Lacks the order: loom tries every one (`loom.rs`), shuttle draws many (`shuttle.rs`), and
//! without either the machine's threads do what they like (`threads.rs`).

mod batons;
mod names;
mod offers;
mod other_turns;

use std::sync::Arc;
use std::task::Poll;

use admission_rt::{AbortHandle, Permit, Rejected};

#[cfg(all(admission_loom, not(admission_shuttle)))]
use loom::thread;
#[cfg(admission_shuttle)]
use shuttle::thread;
#[cfg(not(any(admission_loom, admission_shuttle)))]
use std::thread;

use crate::common::{Acquire, Admission, Provider, Task, World, counts, ms};

type Answer = Result<Permit, Rejected>;

/// Every body, under the name of what it shows.
pub(crate) const RACES: &[(&str, fn())] = &[
    ("a newcomer against a release", newcomer_against_release),
    ("a waiter that is polled and dropped against a release", poll_then_drop_against_release),
    ("a newcomer against close", newcomer_against_close),
    ("an alarm against a cancellation", alarm_against_cancel),
    ("an abort against a grant", abort_against_grant),
    ("an abort against a poll", abort_against_poll),
    ("an abort against an enqueue", abort_against_enqueue),
    ("an abort against a drop", abort_against_drop),
    ("an abort against another", abort_against_abort),
    ("a waiter that is dropped against a newcomer", drop_against_newcomer),
    ("new limits against a newcomer", limits_against_newcomer),
    ("two that set one alarm", two_set_one_alarm),
    ("an alarm that rings against one that is set", ring_against_set),
    ("a hand-off time that is over against a start", take_back_against_start),
    ("idle against a release", idle_against_release),
    ("the last handle against an alarm", end_against_alarm),
    #[cfg(any(admission_loom, admission_shuttle))]
    ("a runtime's death against a newcomer", death_against_newcomer),
    ("a call that takes over against another", batons::take_over_against_another),
    ("a call that takes over against another kind", batons::take_over_against_another_kind),
    ("a call that takes over against a waiter", batons::take_over_against_waiter),
    ("a call that takes over against close", batons::take_over_against_close),
    ("a call that takes over against a removal", batons::take_over_against_removal),
    ("a call that takes over against lower limits", batons::take_over_against_lower_limits),
    ("a name's last handle against its next", names::last_handle_against_next),
    ("a key's last call against its next", names::last_key_against_next),
    ("a key's last user against its next", names::last_user_against_next),
    ("a removal against a lookup", names::removal_against_lookup),
    ("a granted call that starts against a newcomer", offers::start_against_newcomer),
    ("a granted call that starts against a look", offers::start_against_a_look),
    ("a granted call that starts against its hand-off time", offers::start_against_take_back),
    ("a granted call that starts against what was done before", offers::start_against_what_was_done),
    ("a granted call that starts and ends against the next", offers::start_and_end_against_the_next),
    ("a granted call that starts against another's end", offers::start_against_another_end),
    ("a granted call that starts against close", offers::start_against_close),
    ("a granted call that starts against new limits", offers::start_against_new_limits),
    ("a granted call and a newcomer against its hand-off time", offers::start_against_newcomer_and_take_back),
    ("a granted call and a newcomer against close", offers::start_against_newcomer_and_close),
    ("a granted call against two newcomers", offers::start_against_two_newcomers),
    ("a granted call that is dropped against a newcomer", offers::drop_against_newcomer),
    ("a refusal against the end of a queue", other_turns::refusal_against_the_end_of_a_queue),
    ("a call that takes over against other turns", other_turns::take_over_against_other_turns),
    ("a call that takes over against what was done before", other_turns::take_over_against_what_was_done),
    ("a key that comes free against who wants it", other_turns::a_key_that_comes_free_against_who_wants_it),
    ("a call that takes over against an earlier turn", other_turns::take_over_against_an_earlier_turn),
];

/// Another thread in the same runtime.
fn go<T: Send + 'static>(world: &Arc<World>, act: impl FnOnce() -> T + Send + 'static) -> impl FnOnce() -> T {
    let world = world.clone();
    let thread = thread::spawn(move || {
        let _entered = world.enter();
        act()
    });
    move || thread.join().expect("no panic in a thread")
}

struct Place {
    world: Arc<World>,
    admission: Admission,
    p: Provider,
}

/// One provider that takes one call at a time.
fn narrow(world: &Arc<World>) -> Place {
    let admission = world.builder().hand_off(ms(5)).provider("p", |p| p.max_concurrent(1)).build();
    let admission = admission.expect("a configuration that is in order");
    let p = admission.provider("p").expect("it is configured");
    Place { world: world.clone(), admission, p }
}

fn started(p: &Provider) -> Permit {
    Task::new(p.acquire()).ready().expect("it may start at once")
}

/// The answer of one that was polled; if it waits it must have been woken, and then has one.
#[track_caller]
fn answer(task: &mut Task<Acquire>, polled: Poll<Answer>) -> Answer {
    match polled {
        Poll::Ready(answer) => answer,
        Poll::Pending => {
            assert!(task.is_woken(), "its wake was lost");
            task.ready()
        }
    }
}

/// Rule W5: nothing is left of anybody.
#[track_caller]
fn nothing_is_left(place: &Place) {
    assert_eq!(place.admission.counts(), counts(0, 0, 0));
    assert_eq!(place.world.armed(), None);
}

// rules W6, S1
fn newcomer_against_release() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let mut newcomer = Task::new(place.p.acquire());
    let comes = go(&world, move || {
        let polled = newcomer.poll();
        (newcomer, polled)
    });
    let releases = go(&world, move || drop(permit));
    let (mut newcomer, polled) = comes();
    releases();
    drop(answer(&mut newcomer, polled).expect("its turn"));
    nothing_is_left(&place);
}

// rules W3, W5, S3
fn poll_then_drop_against_release() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let mut first = Task::waiting(place.p.acquire());
    let mut second = Task::waiting(place.p.acquire());
    let leaves = go(&world, move || {
        // What it is answered, if it is, goes with it.
        let _ = first.poll();
        drop(first);
    });
    let releases = go(&world, move || drop(permit));
    leaves();
    releases();
    drop(answer(&mut second, Poll::Pending).expect("the chance of the one before it"));
    nothing_is_left(&place);
}

// rule W4
fn newcomer_against_close() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let mut newcomer = Task::new(place.p.admission_timeout(ms(50)).acquire());
    let comes = go(&world, move || {
        let polled = newcomer.poll();
        (newcomer, polled)
    });
    let admission = place.admission.clone();
    let closes = go(&world, move || admission.close());
    let (mut newcomer, polled) = comes();
    closes();
    assert!(matches!(answer(&mut newcomer, polled), Err(Rejected::Closed)));
    drop(permit);
    nothing_is_left(&place);
}

// rules S3, T6, L2
fn alarm_against_cancel() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("p", |p| p.interval(ms(10))).build().expect("in order");
    let p = admission.provider("p").expect("it is configured");
    let place = Place { world: world.clone(), admission, p };
    drop(started(&place.p));
    let first = Task::waiting(place.p.acquire());
    let mut second = Task::waiting(place.p.acquire());
    world.set(10);
    let ringing = world.clone();
    let rings = go(&world, move || ringing.ring());
    let leaves = go(&world, move || drop(first));
    rings();
    leaves();
    if !second.is_woken() {
        // The first was granted and did not start: its interval counts from there.
        assert_eq!(world.armed(), Some(20));
        world.advance_to(20);
    }
    drop(answer(&mut second, Poll::Pending).expect("its turn"));
    nothing_is_left(&place);
}

// rules W3, S3
fn abort_against_grant() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let (handle, signal) = AbortHandle::new();
    let mut first = Task::waiting(place.p.abort_signal(&signal).acquire());
    let mut second = Task::waiting(place.p.acquire());
    let aborts = go(&world, move || handle.abort_with("enough"));
    let releases = go(&world, move || drop(permit));
    aborts();
    releases();
    assert!(matches!(answer(&mut first, Poll::Pending), Err(Rejected::Aborted(_))));
    drop(answer(&mut second, Poll::Pending).expect("its turn"));
    nothing_is_left(&place);
}

// rules W3, S3
fn abort_against_poll() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let (handle, signal) = AbortHandle::new();
    let mut newcomer = Task::new(place.p.abort_signal(&signal).acquire());
    let comes = go(&world, move || {
        let polled = newcomer.poll();
        (newcomer, polled)
    });
    let aborts = go(&world, move || handle.abort_with("enough"));
    let releases = go(&world, move || drop(permit));
    let (mut newcomer, polled) = comes();
    aborts();
    releases();
    // It may have started before it was aborted, and then it is no affair of the signal's.
    match answer(&mut newcomer, polled) {
        Ok(permit) => drop(permit),
        Err(rejected) => assert!(matches!(rejected, Rejected::Aborted(_)), "{rejected:?}"),
    }
    nothing_is_left(&place);
}

// rule W3
fn abort_against_enqueue() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let (handle, signal) = AbortHandle::new();
    let call = place.p.abort_signal(&signal);
    let comes = go(&world, move || call.enqueue());
    let aborts = go(&world, move || handle.abort_with("enough"));
    let mut newcomer = Task::new(comes());
    aborts();
    assert_eq!(place.admission.counts(), counts(1, 0, 0), "it is out, although nobody has polled it");
    assert!(matches!(newcomer.ready(), Err(Rejected::Aborted(_))));
    drop(permit);
    nothing_is_left(&place);
}

// rules W3, W5
fn abort_against_drop() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let (handle, signal) = AbortHandle::new();
    let waiting = Task::waiting(place.p.abort_signal(&signal).acquire());
    let leaves = go(&world, move || drop(waiting));
    let admission = place.admission.clone();
    let aborts = go(&world, move || {
        handle.abort_with("enough");
        admission.counts()
    });
    assert_eq!(aborts(), counts(1, 0, 0), "whoever aborts may say that it is out");
    leaves();
    drop(permit);
    nothing_is_left(&place);
}

// rule W3
fn abort_against_abort() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let (handle, signal) = AbortHandle::new();
    let mut waiting = Task::waiting(place.p.abort_signal(&signal).acquire());
    let other = handle.clone();
    let aborts = go(&world, move || handle.abort_with("one"));
    let aborts_too = go(&world, move || other.abort_with("other"));
    aborts();
    aborts_too();
    assert_eq!(place.admission.counts(), counts(1, 0, 0));
    assert!(matches!(answer(&mut waiting, Poll::Pending), Err(Rejected::Aborted(_))));
    drop(permit);
    nothing_is_left(&place);
}

// rules W5, W6
fn drop_against_newcomer() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let waiting = Task::waiting(place.p.acquire());
    let leaves = go(&world, move || drop(waiting));
    // It may get the number that the other had.
    let mut newcomer = Task::new(place.p.acquire());
    let comes = go(&world, move || {
        assert!(newcomer.poll().is_pending());
        newcomer
    });
    leaves();
    let mut newcomer = comes();
    drop(permit);
    drop(answer(&mut newcomer, Poll::Pending).expect("its turn"));
    nothing_is_left(&place);
}

// rule L7
fn limits_against_newcomer() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let mut newcomer = Task::new(place.p.acquire());
    let comes = go(&world, move || {
        let polled = newcomer.poll();
        (newcomer, polled)
    });
    let p = place.p.clone();
    let raises = go(&world, move || p.set_limits(|p| p.max_concurrent(2)));
    let (mut newcomer, polled) = comes();
    raises().expect("limits that are in order");
    let other = answer(&mut newcomer, polled).expect("there is room for two");
    assert_eq!(place.admission.counts(), counts(2, 0, 0));
    drop((permit, other));
    nothing_is_left(&place);
}

// rules T6, W2
fn two_set_one_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let comes = |millis| {
        let mut newcomer = Task::new(place.p.admission_timeout(ms(millis)).acquire());
        go(&world, move || {
            assert!(newcomer.poll().is_pending());
            newcomer
        })
    };
    let late = comes(20);
    let early = comes(10);
    let (mut late, mut early) = (late(), early());
    // At the deadline itself a grant wins; it has passed a nanosecond later.
    assert_eq!(world.armed_nanos(), Some(10_000_001));
    world.advance_to(15);
    assert!(matches!(answer(&mut early, Poll::Pending), Err(Rejected::AdmissionTimeout { .. })));
    assert_eq!(world.armed_nanos(), Some(20_000_001));
    drop(permit);
    drop(answer(&mut late, Poll::Pending).expect("its turn"));
    nothing_is_left(&place);
}

// rules T3, T6
fn ring_against_set() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let mut first = Task::waiting(place.p.admission_timeout(ms(10)).acquire());
    world.set(11);
    let ringing = world.clone();
    let rings = go(&world, move || ringing.ring());
    let mut second = Task::new(place.p.admission_timeout(ms(1)).acquire());
    let comes = go(&world, move || {
        assert!(second.poll().is_pending());
        second
    });
    rings();
    let mut second = comes();
    assert!(matches!(answer(&mut first, Poll::Pending), Err(Rejected::AdmissionTimeout { .. })));
    assert_eq!(world.armed_nanos(), Some(12_000_001));
    drop(permit);
    drop(answer(&mut second, Poll::Pending).expect("its turn"));
    nothing_is_left(&place);
}

// rules S4, L1
fn take_back_against_start() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let tasks = [(); 2].map(|()| Task::waiting(place.p.acquire()));
    drop(permit);
    take_back_against_start_of(&world, &place, tasks);
}

/// The first is granted, and its hand-off time is over as it is polled.
fn take_back_against_start_of(world: &Arc<World>, place: &Place, tasks: [Task<Acquire>; 2]) {
    let [mut first, mut second] = tasks;
    world.set(5);
    let ringing = world.clone();
    let rings = go(world, move || ringing.ring());
    let starts = go(world, move || {
        let polled = first.poll();
        (first, polled)
    });
    rings();
    let (mut first, polled) = starts();
    let is_first = polled.is_ready();
    assert_eq!(second.is_woken(), !is_first, "one of them has it");
    if is_first {
        drop(answer(&mut first, polled).expect("its turn"));
        drop(answer(&mut second, Poll::Pending).expect("its turn"));
    } else {
        drop(answer(&mut second, Poll::Pending).expect("its turn"));
        drop(answer(&mut first, Poll::Pending).expect("its turn, again"));
    }
    nothing_is_left(place);
}

// rules W4, S4
fn idle_against_release() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let mut idle = Task::new(place.admission.idle());
    let waits = go(&world, move || {
        let is_idle = idle.poll().is_ready();
        (idle, is_idle)
    });
    let releases = go(&world, move || drop(permit));
    let (mut idle, is_idle) = waits();
    releases();
    if !is_idle {
        assert!(idle.is_woken(), "its wake was lost");
        assert!(idle.poll().is_ready());
    }
    nothing_is_left(&place);
}

// rules W5, W6
fn end_against_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let waiting = Task::waiting(place.p.admission_timeout(ms(1)).acquire());
    let Place { admission, p, .. } = place;
    world.set(2);
    let ringing = world.clone();
    let rings = go(&world, move || ringing.ring());
    let ends = go(&world, move || drop((admission, p, permit, waiting)));
    rings();
    ends();
    assert_eq!(world.faces(), 0, "its alarm went with it");
}

// rule W5
#[cfg(any(admission_loom, admission_shuttle))]
fn death_against_newcomer() {
    let world = World::new();
    let _entered = world.enter();
    let place = narrow(&world);
    let permit = started(&place.p);
    let mut newcomer = Task::new(place.p.admission_timeout(ms(10)).acquire());
    let comes = go(&world, move || {
        let polled = newcomer.poll();
        (newcomer, polled)
    });
    let dying = world.clone();
    let dies = go(&world, move || dying.die(true));
    let (mut newcomer, polled) = comes();
    dies();
    assert!(matches!(answer(&mut newcomer, polled), Err(Rejected::NoRuntime)));
    drop(permit);
    assert_eq!(place.admission.counts(), counts(0, 0, 0));
}
