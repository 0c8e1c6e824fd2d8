//! When the clock is read: not where time changes nothing, and for every stamp that is told.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use admission_rt::runtime::Clock;
use admission_rt::{Instant, LimitKind, Limits};
use common::{Admission, Provider, Task, World, counts, ms};

/// A clock that is set by hand, and counts how often it is read.
#[derive(Default)]
struct Counting {
    millis: AtomicU64,
    readings: AtomicU64,
}

impl Counting {
    fn set(&self, millis: u64) {
        self.millis.store(millis, Ordering::Relaxed);
    }

    fn readings_of(&self, act: impl FnOnce()) -> u64 {
        let before = self.readings.load(Ordering::Relaxed);
        act();
        self.readings.load(Ordering::Relaxed) - before
    }
}

impl Clock for Counting {
    fn now(&self) -> Instant {
        self.readings.fetch_add(1, Ordering::Relaxed);
        Instant::from_millis(self.millis.load(Ordering::Relaxed))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

fn one(
    world: &World,
    calls: u32,
    limits: impl FnOnce(Limits) -> Limits,
) -> (Arc<Counting>, Admission, Provider) {
    let clock = Arc::<Counting>::default();
    let builder = world.builder().clock(clock.clone()).max_concurrent(calls).provider("a", limits);
    let admission = builder.build().unwrap();
    let a = admission.provider("a").unwrap();
    (clock, admission, a)
}

// rules T5, S6
#[test]
fn a_permit_reads_no_clock_where_no_limit_counts_time() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, _admission, a) = one(&world, 2, |p| p.max_concurrent(1));
    assert_eq!(clock.readings_of(|| drop(Task::new(a.acquire()).ready().unwrap())), 0);
    assert_eq!(clock.readings_of(|| drop(a.try_acquire().unwrap())), 0);
    assert_eq!(clock.readings_of(|| drop(a.admission_timeout(ms(5)).try_acquire().unwrap())), 0);
    // Its start is told to whoever waits for its key.
    assert_eq!(clock.readings_of(|| drop(a.key(1).try_acquire().unwrap())), 1);
    let _permit = a.try_acquire().unwrap();
    assert_eq!(clock.readings_of(|| drop(a.try_acquire().unwrap_err())), 0);
}

// rules T5, W4
#[test]
fn who_has_stopped_waiting_for_idle_or_the_close_asks_for_no_time() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 2, |p| p);
    let _permit = a.try_acquire().unwrap();
    drop((Task::waiting(admission.idle()), Task::waiting(admission.closed())));
    assert_eq!(clock.readings_of(|| drop(a.try_acquire().unwrap())), 0);
}

// rules L2, L5: limits that count time, and a cooldown until it is over
#[test]
fn what_time_changes_is_asked_of_the_clock() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 2, |p| p);
    drop(a.try_acquire().unwrap());
    clock.set(100);
    a.cooldown(ms(50)).unwrap();
    clock.set(120);
    assert_eq!(a.try_acquire().unwrap_err().retry_after(), Some(ms(30)));
    clock.set(150);
    drop(a.try_acquire().unwrap());
    assert_eq!(clock.readings_of(|| drop(a.try_acquire().unwrap())), 0, "it is over");
    clock.set(200);
    admission.set_limits(|c| c.interval(ms(10))).unwrap();
    clock.set(300);
    drop(a.try_acquire().unwrap());
    clock.set(304);
    assert_eq!(a.try_acquire().unwrap_err().retry_after(), Some(ms(6)));
}

// rules W2, S4, O2: who has to wait does so from now on, and not from the last reading
#[test]
fn who_waits_has_the_time_of_its_own_turn() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 1, |p| p);
    clock.set(1_000);
    let permit = a.try_acquire().unwrap();
    clock.set(5_000);
    let mut first = Task::waiting(a.acquire());
    let mut second = Task::waiting(a.admission_timeout(ms(400)).acquire());
    clock.set(5_300);
    let ages: Vec<_> = admission.waiting().iter().map(|waiting| waiting.age).collect();
    assert_eq!(ages, [ms(300), ms(300)]);
    drop(permit);
    clock.set(5_399);
    assert_eq!(admission.counts(), counts(0, 1, 1), "the hand-off time is not over");
    let permit = first.ready().unwrap();
    clock.set(5_401);
    assert!(second.ready().unwrap_err().is_admission_timeout());
    drop(permit);
    // A place that is taken and granted at once is watched from then on.
    clock.set(9_000);
    let granted = a.enqueue();
    clock.set(9_199);
    assert_eq!(admission.counts(), counts(0, 0, 1));
    clock.set(9_200);
    assert_eq!(admission.counts(), counts(0, 1, 0), "taken back");
    drop(granted);
}

// rules W0, W6: whoever joins a queue has its waker at hand, and is done in one turn
#[test]
fn a_call_that_joins_a_queue_takes_one_turn() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 1, |p| p);
    let permit = a.try_acquire().unwrap();
    let first = Task::waiting(a.acquire());
    let mut second = Task::new(a.acquire());
    assert_eq!(clock.readings_of(|| assert!(second.poll().is_pending())), 1);
    assert_eq!(second.wakers_held(), 1);
    drop(first);
    drop(permit);
    assert_eq!((second.wakes(), second.wakers_held()), (1, 0));
    drop(second.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule O2: a key's holder is told of with the time of its start
#[test]
fn who_has_a_key_has_had_it_since_its_start() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, _admission, a) = one(&world, 4, |p| p);
    clock.set(2_000);
    let _permit = a.key(7).try_acquire().unwrap();
    clock.set(2_500);
    let refused = a.key(7).try_acquire().unwrap_err();
    let Some(LimitKind::Key(Some(other))) = refused.held_by().map(|limit| &limit.kind) else {
        panic!("{refused}");
    };
    assert!(other.runs);
    assert_eq!(other.time, ms(500));
}

// rule T5
#[test]
fn who_waits_for_the_close_or_for_idle_costs_no_reading() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 2, |p| p);
    let held = a.try_acquire().unwrap();
    let _closed = Task::waiting(admission.closed());
    let mut idle = Task::waiting(admission.idle());
    assert_eq!(clock.readings_of(|| drop(a.try_acquire().unwrap())), 0);
    assert_eq!(clock.readings_of(|| drop(held)), 0);
    assert!(idle.is_woken());
    idle.ready();
}
