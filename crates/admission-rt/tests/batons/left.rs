//! A call that has just ended and is left beside the lock, and what others may not make of that.
//!
//! Owns: one case for each condition on which a ticket is left or taken over. Lacks chance.

use std::sync::Arc;

use admission_rt::{
    AbortHandle, AbortSignal, Attempt, Builder, Key, Permit, Rejected, Retry, SettleError, Window,
};

use super::clock::Watched;
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

    /// The tickets of two calls in a row.
    fn two(&self) -> [String; 2] {
        [(); 2].map(|()| format!("{:?}", self.p.try_acquire().unwrap()))
    }

    /// That it is taken over, as these tests have it; and it is left once more.
    #[track_caller]
    fn assert_taken_over(&self) {
        let [first, second] = self.two();
        assert_eq!(first, second, "the same ticket");
    }

    #[track_caller]
    fn assert_not_taken_over(&self) {
        let [first, second] = self.two();
        assert_ne!(first, second, "another ticket");
    }
}

/// What a refusal is tried with, and how it is told.
type Refusal = (&'static str, fn(&Left) -> Rejected, fn(&Rejected) -> bool);

const REFUSALS: &[Refusal] = &[
    (
        "aborted, at once",
        |left| refused(left.p.abort_signal(&aborted()).try_acquire()),
        |refused| matches!(refused, Rejected::Aborted(_)),
    ),
    (
        "aborted",
        |left| refused(Task::new(left.p.abort_signal(&aborted()).acquire()).ready()),
        |refused| matches!(refused, Rejected::Aborted(_)),
    ),
    (
        "of an unknown unit",
        |left| refused(left.p.cost("tokens", 1).try_acquire()),
        |refused| matches!(refused, Rejected::UnknownUnit(_)),
    ),
    (
        "too many",
        |left| {
            let _runs = left.p.try_acquire().unwrap();
            refused(left.p.try_acquire())
        },
        |refused| matches!(refused, Rejected::Exhausted { .. }),
    ),
    (
        "too many to wait",
        |left| {
            left.admission.set_max_queued(0);
            left.assert_taken_over();
            let _runs = left.p.try_acquire().unwrap();
            refused(Task::new(left.p.acquire()).ready())
        },
        |refused| matches!(refused, Rejected::Overflow { .. }),
    ),
    (
        "one more than the client may have now",
        |left| {
            left.admission.set_limits(|limits| limits.max_concurrent(2)).unwrap();
            let [_runs, _also] = [(); 2].map(|()| left.q.try_acquire().unwrap());
            refused(left.p.try_acquire())
        },
        |refused| matches!(refused, Rejected::Exhausted { .. }),
    ),
    (
        "cooling",
        |left| {
            left.p.cooldown(ms(1)).unwrap();
            refused(left.p.try_acquire())
        },
        |refused| matches!(refused, Rejected::Exhausted { .. }),
    ),
    (
        "of a provider that was removed",
        |left| {
            left.admission.remove_provider("p").unwrap();
            refused(left.p.try_acquire())
        },
        |refused| matches!(refused, Rejected::UnknownProvider { .. }),
    ),
    (
        "closed",
        |left| {
            left.admission.close();
            refused(left.p.try_acquire())
        },
        |refused| matches!(refused, Rejected::Closed),
    ),
];

fn refused(answer: Result<Permit, Rejected>) -> Rejected {
    answer.expect_err("it takes over what it may not have")
}

fn aborted() -> AbortSignal {
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    signal
}

// rules L1, L5, L10, W1, W3, W4, D5
#[test]
fn whoever_is_to_be_refused_takes_nothing_over() {
    for (what, refused, is_right) in REFUSALS {
        let left = Left::new(|builder| builder);
        let _entered = left.world.enter();
        // A ticket is left here, right before the refusal.
        left.assert_taken_over();
        let refused = refused(&left);
        assert!(is_right(&refused), "{what}: {refused:?}");
        assert_eq!(left.admission.counts(), counts(0, 0, 0), "{what}");
    }
}

// rules L5, L10
#[test]
fn what_was_refused_goes_on_as_before() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    left.p.cooldown(ms(1)).unwrap();
    left.world.set(1);
    // That it is over is noted by this call's reading.
    left.leave();
    left.assert_taken_over();
    left.admission.remove_provider("p").unwrap();
    left.admission.add_provider("p", |p| p.max_concurrent(1)).unwrap();
    left.assert_taken_over();
}

// rules W4, W6, W7
#[test]
fn whoever_waits_for_idle_is_woken_by_the_very_end() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    let first = left.q.try_acquire().unwrap();
    let mut idle = Task::waiting(left.admission.idle());
    // A start while somebody waits for idle. It ends last.
    let last = left.p.try_acquire().unwrap();
    drop(first);
    assert_eq!(idle.wakes(), 0, "one runs");
    drop(last);
    assert_eq!(idle.wakes(), 1, "and this was the last");
    idle.ready();
    left.leave();
    left.assert_taken_over();
}

// rules W4, W6
#[test]
fn while_somebody_waits_for_the_close_nothing_is_left() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    let mut closed = Task::waiting(left.admission.closed());
    left.assert_not_taken_over();
    let last = left.p.try_acquire().unwrap();
    let mut idle = Task::waiting(left.admission.idle());
    left.admission.close();
    assert_eq!((closed.wakes(), idle.wakes()), (1, 0));
    drop(last);
    assert_eq!((closed.wakes(), idle.wakes()), (1, 1), "it was closed, and idle with the last end");
    closed.ready();
    idle.ready();
}

// rules W6, T6
#[test]
fn whoever_sleeps_is_woken_by_an_end_that_is_late_enough() {
    let left = Left::new(|builder| builder);
    let _entered = left.world.enter();
    let policy = Retry::times(1).delay(ms(10));
    let mut sleeper = Task::waiting(left.q.retry(policy).try_run(|attempt: Attempt| {
        std::future::ready(if attempt.number() == 1 { Err("not yet") } else { Ok(attempt.number()) })
    }));
    left.assert_not_taken_over();
    let [early, late] = [&left.p, &left.q].map(|provider| provider.try_acquire().unwrap());
    left.world.set(9);
    drop(early);
    assert_eq!(sleeper.wakes(), 0, "it sleeps until 10");
    left.world.set(10);
    drop(late);
    assert_eq!(sleeper.wakes(), 1, "no alarm has rung");
    assert!(matches!(sleeper.ready(), Ok(2)));
    left.leave();
    left.assert_taken_over();
}

// rules O2, W6
#[test]
fn where_long_waits_are_told_of_an_end_that_is_late_enough_tells() {
    let (tells, told) = std::sync::mpsc::channel();
    let clock = Arc::<Watched>::default();
    let left = Left::new(|builder| {
        builder
            .clock(clock.clone())
            .on_long_wait(ms(3), move |waiting| tells.send(waiting.provider.to_string()).unwrap())
    });
    let _entered = left.world.enter();
    // Before anybody waits, too.
    let runs = left.p.try_acquire().unwrap();
    assert_eq!(clock.readings_of(|| drop(runs)), 1, "its end was a turn");
    let runs = left.p.try_acquire().unwrap();
    let waits = Task::waiting(left.p.acquire());
    let other = left.q.try_acquire().unwrap();
    clock.set(2);
    drop(other);
    assert!(told.try_recv().is_err(), "it has waited 2");
    let other = left.q.try_acquire().unwrap();
    clock.set(3);
    drop(other);
    assert_eq!(told.try_recv().as_deref(), Ok("p"), "no alarm has rung");
    drop((waits, runs));
    assert_eq!(left.admission.counts(), counts(0, 0, 0));
}

// rules L5, L1
#[test]
fn while_a_provider_cools_down_nothing_is_left() {
    let clock = Arc::<Watched>::default();
    let left = Left::new(|builder| builder.clock(clock.clone()));
    let _entered = left.world.enter();
    let runs = left.p.try_acquire().unwrap();
    left.p.cooldown(ms(10)).unwrap();
    // A start at another provider, under which the end of the one that runs would be left.
    let other = left.q.try_acquire().unwrap();
    clock.set(4);
    assert_eq!(clock.readings_of(|| drop(runs)), 1, "its end was a turn");
    assert_eq!(refused(left.p.try_acquire()).retry_after(), Some(ms(6)));
    let name = format!("{other:?}");
    drop(other);
    assert_ne!(format!("{:?}", left.q.try_acquire().unwrap()), name, "another ticket");
    clock.set(10);
    left.leave();
    left.assert_taken_over();
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
