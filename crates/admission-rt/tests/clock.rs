//! When the clock is read: not where time changes nothing, and for every stamp that is told.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use admission_rt::runtime::Clock;
use admission_rt::{Instant, LimitKind, Limits, Strategy};
use common::{Admission, Provider, RateLimiter, Task, World, counts, ms};

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
    assert_eq!(clock.readings_of(|| drop(a.key(1).try_acquire().unwrap())), 0);
    assert_eq!(clock.readings_of(|| drop(Task::new(a.key(1).acquire()).ready().unwrap())), 0);
    assert_eq!(clock.readings_of(|| drop(a.key("text").try_acquire().unwrap())), 0);
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

// rules W3, W6, T5: time does nothing by itself, and whoever leaves lets nobody go
#[test]
fn who_leaves_a_queue_costs_no_reading_where_nothing_is_due() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 1, |p| p.max_concurrent(1));
    let permit = a.key(1).try_acquire().unwrap();
    let mut tasks: Vec<_> = (1..5).map(|key| Task::waiting(a.key(key % 2).acquire())).collect();
    for leaves in [2, 0] {
        assert_eq!(clock.readings_of(|| drop(tasks.remove(leaves))), 0);
    }
    let impatient = Task::waiting(a.admission_timeout(ms(5)).acquire());
    assert_eq!(clock.readings_of(|| drop(tasks.remove(0))), 1, "a deadline is due some time");
    assert_eq!(clock.readings_of(|| drop(impatient)), 1, "its own, until it has left");
    tasks.extend((0..2).map(|_| Task::waiting(a.acquire())));
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 2, 1));
    assert_eq!(clock.readings_of(|| drop(tasks.pop())), 1, "a grant is to be taken back some time");
    clock.set(1_000);
    assert_eq!(clock.readings_of(|| drop(tasks.remove(0))), 1, "the next is granted now");
    clock.set(1_199);
    assert_eq!(admission.counts(), counts(0, 0, 1));
    drop(tasks.pop().unwrap().ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules S4, W6, T5: a start in time, however late, and nobody is told when it was
#[test]
fn a_grant_starts_without_a_reading_where_nothing_is_due() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 1, |p| p);
    let permit = a.try_acquire().unwrap();
    let mut tasks: Vec<_> = (0..4).map(|_| Task::waiting(a.acquire())).collect();
    assert_eq!(clock.readings_of(|| drop(permit)), 1, "a grant has its time");
    clock.set(10_000);
    let mut started = None;
    assert_eq!(clock.readings_of(|| started = Some(tasks.remove(0).ready().unwrap())), 0);
    let mut impatient = Task::waiting(a.admission_timeout(ms(50)).acquire());
    drop(started.take());
    clock.set(10_051);
    assert_eq!(clock.readings_of(|| started = Some(tasks.remove(0).ready().unwrap())), 1, "a deadline");
    assert!(impatient.is_woken(), "its time has passed in that turn");
    assert!(impatient.ready().unwrap_err().is_admission_timeout());
    let mut keyed = Task::waiting(a.key(1).acquire());
    drop((started.take(), tasks));
    assert_eq!(clock.readings_of(|| drop(keyed.ready().unwrap())), 0, "it has its key since the grant");
    // Two grants, of which one is overdue when the other starts.
    admission.set_limits(|c| c.max_concurrent(2)).unwrap();
    let permits = [(); 2].map(|()| a.try_acquire().unwrap());
    let mut tasks = [(); 2].map(|()| Task::waiting(a.acquire()));
    drop(permits);
    assert_eq!(admission.counts(), counts(0, 0, 2));
    clock.set(11_000);
    assert_eq!(clock.readings_of(|| started = Some(tasks[1].ready().unwrap())), 1);
    assert_eq!(admission.counts(), counts(1, 1, 0), "taken back");
    drop(started);
}

// rules T5, S4: whoever only asks may read the clock, and lets no time pass
#[test]
fn who_has_waited_out_a_cooldown_is_granted_at_the_time_of_that_turn() {
    let world = World::new();
    let _entered = world.enter();
    let clock = Arc::<Counting>::default();
    let builder = world.builder().clock(clock.clone()).provider("a", |p| p.max_concurrent(1));
    let admission = builder.provider("b", |p| p.max_concurrent(1)).build().unwrap();
    let [a, b] = ["a", "b"].map(|name| admission.provider(name).unwrap());
    admission.cooldown("b", ms(10)).unwrap();
    let permit = a.try_acquire().unwrap();
    let mut granted = Task::waiting(a.acquire());
    let mut cooling = [(); 2].map(|()| Task::waiting(b.acquire()));
    drop(permit);
    clock.set(150);
    assert!(!admission.is_closed());
    clock.set(1_000);
    let _started = granted.ready().unwrap();
    assert!(cooling[0].is_woken(), "the cooldown is over, though its alarm is late");
    clock.set(1_199);
    assert_eq!(admission.counts(), counts(1, 1, 1));
    assert_eq!(cooling[0].future.explain().map(|waiting| waiting.is_granted), Some(true));
    drop(cooling[0].ready().unwrap());
}

/// For how long the call that runs with key 7 has had it, as somebody is told who wants it.
#[track_caller]
fn has_had_it_for(a: &Provider) -> Duration {
    let refused = a.key(7).try_acquire().unwrap_err();
    match refused.held_by().map(|limit| &limit.kind) {
        Some(LimitKind::Key(Some(other))) if other.runs => other.time,
        other => panic!("{other:?}"),
    }
}

// rule O2: where limits count time, a key's holder is told of with the time of its start
#[test]
fn who_has_a_key_has_had_it_since_its_start() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, _admission, a) = one(&world, 4, |p| p.window(9, ms(10)));
    clock.set(2_000);
    let _permit = a.key(7).try_acquire().unwrap();
    clock.set(2_500);
    assert_eq!(has_had_it_for(&a), ms(500));
}

// rule O2: where none does, nobody knew when it started, and it has had it for so long at least
#[test]
fn who_has_a_key_without_a_reading_has_had_it_since_somebody_came_upon_it() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one(&world, 4, |p| p.max_concurrent(3));
    clock.set(1_000);
    assert!(!admission.is_closed(), "a turn that reads the clock");
    clock.set(2_000);
    let permit = a.key(7).try_acquire().unwrap();
    clock.set(9_000);
    let waits = Task::waiting(a.key(7).acquire());
    clock.set(9_300);
    let held_by = waits.future.explain().unwrap().held_by;
    assert!(
        matches!(&held_by[0].limit.kind, LimitKind::Key(Some(other)) if other.runs && other.time == ms(300))
    );
    assert_eq!(has_had_it_for(&a), ms(300));
    drop((waits, permit));
    // The same where the client is full, too: whoever is refused has come upon it.
    let _permit = a.key(7).try_acquire().unwrap();
    let _others = [(); 2].map(|()| a.try_acquire().unwrap());
    clock.set(10_000);
    assert_eq!(has_had_it_for(&a), ms(0));
    clock.set(10_400);
    assert_eq!(has_had_it_for(&a), ms(400));
}

// rule O2: the same for one that does not start the usual way
#[test]
fn who_has_a_long_key_without_a_reading_has_had_it_since_somebody_came_upon_it() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, _admission, a) = one(&world, 4, |p| p.max_concurrent(3));
    clock.set(2_000);
    let _permit = a.key("seven").try_acquire().unwrap();
    for (at, time) in [(9_000, 0), (9_200, 200)] {
        clock.set(at);
        let refused = a.key("seven").try_acquire().unwrap_err();
        let limit = &refused.held_by().unwrap().kind;
        assert!(matches!(limit, LimitKind::Key(Some(other)) if other.time == ms(time)), "{limit:?}");
    }
}

// rule O2: who waited for its turn has its key from its grant on
#[test]
fn who_was_granted_has_had_its_key_since_then() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, _admission, a) = one(&world, 1, |p| p);
    let permit = a.try_acquire().unwrap();
    let mut waits = Task::waiting(a.key(7).acquire());
    clock.set(500);
    drop(permit);
    clock.set(600);
    let _permit = waits.ready().unwrap();
    clock.set(900);
    assert_eq!(has_had_it_for(&a), ms(400));
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

// rules R1, T5: an answer of no takes one reading, if the last was one
#[test]
fn a_limiter_that_rejects_reads_the_clock_once_for_each_refusal() {
    let world = World::new();
    let _entered = world.enter();
    let clock = Arc::<Counting>::default();
    let limiter = RateLimiter::builder(1, ms(10)).strategy(Strategy::Reject).clock(clock.clone());
    let limiter = limiter.build().unwrap();
    let refused = || drop(Task::new(limiter.acquire()).ready().unwrap_err());
    let started = || drop(Task::new(limiter.acquire()).ready().unwrap());
    started();
    refused();
    assert_eq!(clock.readings_of(refused), 1);
    let refused_at_once = || drop(limiter.try_acquire().unwrap_err());
    refused_at_once();
    assert_eq!(clock.readings_of(refused_at_once), 1);
    clock.set(20);
    started();
    clock.set(40);
    assert_eq!(clock.readings_of(started), 1);
}
