//! Turns that find tickets left beside the lock, or leave some, and in whose midst something happens: the clock
//! panics, or an alarm or a waker starts calls of its own.
//!
//! Owns: those. Lacks what panics elsewhere (`clock_panics.rs`, `hostile.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use admission_rt::{Builder, Key, Limits, Rejected};

use super::clock::Watched;
use super::common::{Admission, Hand, Provider, Task, World, counts, ms};

/// The tickets of two calls, one after the other.
fn two(provider: &Provider) -> [String; 2] {
    [(); 2].map(|()| format!("{:?}", provider.try_acquire().unwrap()))
}

#[track_caller]
fn assert_taken_over(provider: &Provider) {
    let [first, second] = two(provider);
    assert_eq!(first, second, "the same ticket");
}

/// "p" takes three, "q" any number.
fn build(builder: Builder<Hand>) -> (Admission, Provider, Provider) {
    let three: fn(Limits) -> Limits = |p| p.max_concurrent(3);
    let admission = builder.provider("p", three).provider("q", |q| q).build().unwrap();
    let [p, q] = ["p", "q"].map(|name| admission.provider(name).unwrap());
    (admission, p, q)
}

// rules T5, W5, L1
#[test]
fn a_clock_that_panics_as_tickets_are_brought_in_loses_none_of_them() {
    // The turn that brings them in.
    type Turn = fn(&Admission, &Provider);
    let turns: [(&str, Turn); 4] = [
        ("a look", |admission, _| assert!(admission.counts().running > 9)),
        ("a snapshot", |admission, _| drop(admission.snapshot())),
        ("a change", |_, p| p.set_limits(|p| p.max_concurrent(3)).unwrap()),
        ("one that has its place at once", |_, p| drop(p.key(Key::from(7)).enqueue())),
    ];
    for (what, turn) in turns {
        let world = World::new();
        let _entered = world.enter();
        let clock = Arc::<Watched>::default();
        let (admission, p, q) = build(world.builder().clock(clock.clone()));
        let other = q.try_acquire().unwrap();
        let permits = [(); 3].map(|()| p.try_acquire().unwrap());
        assert_eq!(clock.readings_of(|| drop(permits)), 0);
        clock.panic_next();
        let raised = catch_unwind(AssertUnwindSafe(|| turn(&admission, &p)));
        assert!(raised.is_err() && !clock.will_panic(), "{what}: its caller hears of it");
        assert_eq!(admission.counts(), counts(1, 0, 0), "{what}");
        let permits = [(); 3].map(|()| p.try_acquire().unwrap());
        assert!(matches!(p.try_acquire(), Err(Rejected::Exhausted { .. })), "{what}: three run");
        assert_eq!(admission.counts(), counts(4, 0, 0), "{what}");
        drop((permits, other));
        assert_eq!(admission.counts(), counts(0, 0, 0), "{what}");
        assert_taken_over(&p);
    }
}

// rules T5, L10
#[test]
fn a_clock_that_panics_as_the_last_call_is_brought_in_keeps_no_provider() {
    let world = World::new();
    let _entered = world.enter();
    let clock = Arc::<Watched>::default();
    let admission = world.builder().clock(clock.clone()).template(|p| p.max_concurrent(1)).build().unwrap();
    let [a, b] = ["a", "b"].map(|name| admission.provider(name).unwrap());
    let permits = [&a, &b].map(|provider| provider.try_acquire().unwrap());
    assert_eq!(clock.readings_of(|| drop(permits)), 0);
    clock.panic_next();
    assert!(catch_unwind(AssertUnwindSafe(|| admission.counts())).is_err());
    assert_eq!(admission.snapshot().providers, []);
    let permits = [&a, &b].map(|provider| provider.try_acquire().unwrap());
    assert_eq!(admission.counts(), counts(2, 0, 0));
    drop(permits);
    drop((a, b));
    assert_eq!(admission.snapshot().providers, []);
}

// rules T5, W4, W6
#[test]
fn a_clock_that_panics_as_somebody_begins_to_wait_for_idle_keeps_nobody_waiting() {
    let world = World::new();
    let _entered = world.enter();
    let clock = Arc::<Watched>::default();
    let (admission, p, _q) = build(world.builder().clock(clock.clone()));
    drop(p.try_acquire().unwrap());
    let mut idle = Task::new(admission.idle());
    clock.panic_next();
    assert!(catch_unwind(AssertUnwindSafe(|| idle.poll())).is_err());
    idle.ready();
}

// rules T6, W5
#[test]
fn an_alarm_may_start_and_end_calls_as_it_is_set() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, p, q) = build(world.builder());
    let permits = [(); 3].map(|()| p.try_acquire().unwrap());
    let visits = Arc::<Mutex<Vec<[String; 2]>>>::default();
    let visit = || {
        let (q, visits) = (q.clone(), visits.clone());
        Some(Box::new(move || visits.lock().unwrap().push(two(&q))) as Box<dyn FnOnce() + Send>)
    };
    // As it is set for somebody who waits: both take a turn.
    *world.inside.lock().unwrap() = visit();
    let waits = Task::waiting(p.admission_timeout(ms(100)).acquire());
    assert_eq!(world.armed_nanos(), Some(100_000_001));
    assert_eq!(admission.counts(), counts(3, 1, 0));
    // As it is set for nobody: the one takes over from the other, and leaves its ticket in the midst of the turn.
    *world.inside.lock().unwrap() = visit();
    drop(waits);
    assert_eq!(world.armed(), None);
    let is_taken_over: Vec<_> =
        visits.lock().unwrap().iter().map(|[first, second]| first == second).collect();
    assert_eq!(is_taken_over, [false, true]);
    assert_eq!(admission.counts(), counts(3, 0, 0));
    drop(permits);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_taken_over(&p);
}

/// When it is woken, it starts and ends two calls.
struct Visitor {
    provider: Provider,
    visits: Mutex<Vec<[String; 2]>>,
}

impl Visitor {
    fn new(provider: &Provider) -> Arc<Self> {
        Arc::new(Self { provider: provider.clone(), visits: Mutex::default() })
    }

    /// Of each of its visits, whether its second call took over from the first.
    fn visits(&self) -> Vec<bool> {
        self.visits.lock().unwrap().iter().map(|[first, second]| first == second).collect()
    }
}

impl Wake for Visitor {
    fn wake(self: Arc<Self>) {
        let visit = two(&self.provider);
        self.visits.lock().unwrap().push(visit);
    }
}

// rules W4, W5
#[test]
fn a_waker_may_start_and_end_calls_in_the_midst_of_a_turn() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, p, q) = build(world.builder());
    let visitor = Visitor::new(&q);
    let waker = Waker::from(visitor.clone());
    let last = p.try_acquire().unwrap();
    // More than one turn wakes at once, so that it takes the lock again after the first of them.
    let mut idle: Vec<_> = (0..40).map(|_| Task::new(admission.idle())).collect();
    for task in &mut idle {
        assert!(task.poll_with(&waker).is_pending());
    }
    drop(last);
    let visits = visitor.visits();
    // The first who is woken visits while others have yet to be told, and its first call tells them: they visit
    // while it does.
    let (within, first) = (8, 1);
    assert_eq!(visits, [vec![true; within], vec![false; first], vec![true; 40 - within - first]].concat());
    for task in &mut idle {
        assert!(task.poll_with(&waker).is_ready(), "it was idle, if only for a moment");
    }
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_taken_over(&p);
}

// rules W6, S1, E4
#[test]
fn a_waker_that_starts_calls_takes_nothing_from_whoever_is_granted() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, p, q) = build(world.builder());
    let [first, second, third] = [(); 3].map(|()| p.try_acquire().unwrap());
    let visitor = Visitor::new(&q);
    let waker = Waker::from(visitor.clone());
    let mut waits: Vec<_> = (0..2).map(|_| Task::new(p.acquire())).collect();
    for task in &mut waits {
        assert!(task.poll_with(&waker).is_pending());
    }
    drop((first, second));
    assert_eq!(visitor.visits(), [false, false], "somebody waits or is granted");
    assert_eq!(admission.counts(), counts(1, 0, 2));
    assert!(matches!(p.try_acquire(), Err(Rejected::Exhausted { .. })));
    let permits: Vec<_> = waits.iter_mut().map(|task| task.ready().unwrap()).collect();
    drop((permits, third));
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_taken_over(&p);
}
