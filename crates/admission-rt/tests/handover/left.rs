//! A call that has just ended and is left beside the lock, and what others may not make of that.
//!
//! Owns: one case for each condition on which a ticket is left or taken over. Lacks chance.

use std::sync::Arc;

use admission_rt::{AbortHandle, Attempt, Builder, Key, Rejected, Retry, SettleError, Window};

use super::common::{Admission, Hand, Provider, Task, World, counts, ms};

/// A coordinator with "p" and "q", and a call to "p" that has just ended and is left beside the lock; from then
/// on whoever is like it may take its ticket.
struct Left {
    world: Arc<World>,
    admission: Admission,
    p: Provider,
    q: Provider,
}

impl Left {
    fn new(build: impl FnOnce(Builder<Hand>) -> Builder<Hand>) -> Self {
        let world = World::new();
        let _entered = world.enter();
        let builder = build(world.builder());
        let admission = builder.provider("p", |p| p.max_concurrent(1)).provider("q", |q| q).build().unwrap();
        let [p, q] = ["p", "q"].map(|name| admission.provider(name).unwrap());
        let left = Self { world, admission, p, q };
        left.leave();
        left
    }

    fn leave(&self) {
        drop(self.p.try_acquire().unwrap());
    }

    /// That it is taken over, as these tests have it.
    fn assert_taken_over(&self) {
        let [first, second] = [(); 2].map(|()| format!("{:?}", self.p.try_acquire().unwrap()));
        assert_eq!(first, second, "the same ticket");
    }
}

// rules W3, D5
#[test]
fn whoever_is_to_be_refused_takes_nothing_over() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    left.assert_taken_over();
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    assert!(matches!(left.p.abort_signal(&signal).try_acquire(), Err(Rejected::Aborted(_))));
    left.leave();
    assert!(matches!(Task::new(left.p.abort_signal(&signal).acquire()).ready(), Err(Rejected::Aborted(_))));
    left.leave();
    assert!(matches!(left.p.cost("tokens", 1).try_acquire(), Err(Rejected::UnknownUnit(_))));
    left.leave();
    left.admission.set_max_queued(0);
    left.leave();
    left.p.cooldown(ms(1)).unwrap();
    assert!(matches!(left.p.try_acquire(), Err(Rejected::Exhausted { .. })));
    left.world.set(1);
    left.leave();
    left.admission.remove_provider("p").unwrap();
    assert!(matches!(left.p.try_acquire(), Err(Rejected::UnknownProvider { .. })));
    left.admission.add_provider("p", |p| p).unwrap();
    left.leave();
    left.admission.close();
    assert!(matches!(left.p.try_acquire(), Err(Rejected::Closed)));
    assert_eq!(left.admission.counts(), counts(0, 0, 0));
}

// rules L1, E6, D3
#[test]
fn a_key_that_is_left_beside_the_lock_is_free() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    for key in [|| Key::from(7), || Key::from("seven")] {
        drop(left.p.key(key()).try_acquire().unwrap());
        let permit = left.q.key(key()).try_acquire().unwrap();
        assert!(matches!(left.p.key(key()).try_acquire(), Err(Rejected::Exhausted { .. })), "it is in use");
        left.leave();
        assert!(
            left.p.key(key()).try_acquire().is_err(),
            "who has a key takes over from nobody who has none"
        );
        left.leave();
        drop(permit);
        drop(left.p.key(key()).try_acquire().unwrap());
    }
}

// rules L9, L7
#[test]
fn what_counts_from_the_end_of_a_call_counts_from_its_very_end() {
    let window = || Window::new(2, ms(10)).until_settled();
    let of_client = Left::new(|builder| builder.log(window()).provider("r", |r| r));
    let of_provider = Left::new(|builder| builder.provider("r", |r| r.log(window())));
    let live = Left::new(|builder| builder.provider("r", |r| r));
    live.world.set(1_000);
    live.admission.set_limits(|limits| limits.log(window())).unwrap();
    for left in [of_client, of_provider, live] {
        let _entered = left.world.enter();
        let r = left.admission.provider("r").unwrap();
        left.world.set(1_000);
        let permits = [(); 2].map(|()| r.try_acquire().unwrap());
        left.world.set(1_005);
        drop(permits);
        left.world.set(1_014);
        assert!(r.try_acquire().is_err(), "from 1,005 to 1,015");
        left.world.set(1_015);
        assert!(r.try_acquire().is_ok());
    }
}

// rules L8, W7
#[test]
fn an_attempt_that_outlives_its_permit_corrects_nobody_elses_cost() {
    let left = Left::new(|builder| builder.unit("tokens"));
    let _entered = left.world.enter();
    let mut attempt = None;
    let operation = |of| {
        attempt = Some(of);
        std::future::ready(Ok::<_, ()>(()))
    };
    Task::new(left.p.retry(Retry::never()).try_run(operation)).ready().unwrap();
    let permit = left.p.try_acquire().unwrap();
    let settled = attempt.map(|attempt: Attempt| attempt.settle("tokens", 5));
    assert_eq!(settled, Some(Err(SettleError::Ended)));
    permit.settle("tokens", 5).unwrap();
}

// rules W6, W7, S4
#[test]
fn whoever_waits_unpolled_is_granted_when_a_call_ends() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    let permit = left.p.try_acquire().unwrap();
    let mut waits = Task::new(left.p.enqueue());
    // A start while it waits, and nobody is to be told anything.
    let other = left.q.try_acquire().unwrap();
    left.world.set(4);
    drop(permit);
    left.world.set(203);
    assert_eq!(left.admission.counts(), counts(1, 0, 1), "granted at 4, and so until 204");
    assert!(waits.ready().is_ok());
    drop(other);
}

// rules W2, W6, S4
#[test]
fn the_end_of_a_call_takes_back_a_grant_that_is_due() {
    let left = Left::new(|builder| builder.hand_off(ms(5)));
    let _entered = left.world.enter();
    let mut granted = Task::new(left.p.admission_timeout(ms(2)).enqueue());
    // A start while it is granted, and nobody waits.
    let other = left.q.try_acquire().unwrap();
    assert_eq!(left.admission.counts(), counts(1, 0, 1));
    let another = left.q.try_acquire().unwrap();
    left.world.set(6);
    drop(another);
    left.world.set(7);
    assert!(matches!(granted.ready(), Err(Rejected::AdmissionTimeout { .. })), "over since 6");
    drop(other);
}

// rules L2, L3, L7
#[test]
fn limits_that_count_time_count_from_the_next_start() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    let early = left.q.try_acquire().unwrap();
    left.leave();
    left.admission.set_limits(|limits| limits.window(1, ms(10))).unwrap();
    drop(early);
    left.leave();
    assert!(left.p.try_acquire().is_err(), "one was spent, and none for those before");
    left.world.set(10);
    left.leave();
    left.admission.set_limits(|limits| limits.interval(ms(10))).unwrap();
    left.leave();
    assert!(left.p.try_acquire().is_err());
    left.admission.set_limits(|limits| limits).unwrap();
    left.leave();
    left.leave();
}

// rules L1, L7
#[test]
fn a_call_of_another_providers_opens_no_place_for_those_who_are_too_many() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    left.p.set_limits(|p| p.max_concurrent(3)).unwrap();
    let mut three: Vec<_> = (0..3).map(|_| left.p.try_acquire().unwrap()).collect();
    left.p.set_limits(|p| p.max_concurrent(1)).unwrap();
    let other = left.q.try_acquire().unwrap();
    three.pop();
    assert!(left.p.try_acquire().is_err(), "two run, and one may");
    drop(other);
    let other = left.q.try_acquire().unwrap();
    three.pop();
    assert!(left.p.try_acquire().is_err(), "one runs, and that is all that may");
    drop((three, other));
    left.assert_taken_over();
}
