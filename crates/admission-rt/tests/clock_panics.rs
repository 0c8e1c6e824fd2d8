//! A clock that panics in the midst of a turn, which its contract forbids: nobody else pays for that.
//!
//! Owns: the reading that a turn makes once it has let the lock go, and the one of the turn that puts an alarm in. Lacks the one at its beginning, where
//! nothing has been done yet (`hostile.rs`).

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use admission_rt::Instant;
use admission_rt::runtime::Clock;
use common::{Admission, Provider, Task, World, counts, ms, within};

/// It stands still, and panics once: after so many readings.
struct Fuse(AtomicU32);

impl Clock for Fuse {
    fn now(&self) -> Instant {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
        assert!(left != 1, "no time");
        Instant::ZERO
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

fn one_at_a_time(world: &World) -> (Arc<Fuse>, Admission, Provider) {
    let clock = Arc::new(Fuse(AtomicU32::new(0)));
    let builder = world.builder().clock(clock.clone()).provider("a", |p| p.max_concurrent(1));
    let admission = builder.build().unwrap();
    let a = admission.provider("a").unwrap();
    (clock, admission, a)
}

/// More than one batch of wakes, so that the turn lets the lock go before it sets its alarm.
const GRANTED: u32 = 40;

// rules T5, W5
#[test]
fn a_clock_that_panics_once_the_lock_was_let_go_loses_no_wake() {
    within(30, || {
        let world = World::new();
        let _entered = world.enter();
        let (clock, admission, a) = one_at_a_time(&world);
        let permit = a.try_acquire().unwrap();
        let waiting: Vec<_> = (0..GRANTED + 1).map(|_| Task::waiting(a.acquire())).collect();
        clock.0.store(2, Ordering::SeqCst);
        let raised =
            catch_unwind(AssertUnwindSafe(|| a.set_limits(|p| p.max_concurrent(GRANTED + 1)).unwrap()));
        assert!(raised.is_err(), "its caller hears of it");
        assert_eq!(clock.0.load(Ordering::SeqCst), 0, "it was the second reading");
        assert_eq!(admission.counts(), counts(1, 1, GRANTED));
        let woken = waiting.iter().filter(|task| task.is_woken()).count();
        assert_eq!(woken, GRANTED as usize, "every grant was told");
        assert_eq!(world.armed(), Some(200), "and is watched");
        drop((waiting, permit));
        assert_eq!(admission.counts(), counts(0, 0, 0));
        assert_eq!(world.armed(), None);
    });
}

// rules T5, W5
#[test]
fn a_clock_that_panics_as_an_alarm_is_put_in_costs_nobody_else_the_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    clock.0.store(3, Ordering::SeqCst);
    let mut first = Task::new(a.acquire());
    assert!(catch_unwind(AssertUnwindSafe(|| first.poll())).is_err());
    assert_eq!(clock.0.load(Ordering::SeqCst), 0, "it was the third reading");
    drop(first);
    assert_eq!(admission.counts(), counts(1, 0, 0));
    let _second = Task::waiting(a.admission_timeout(ms(100)).acquire());
    assert_eq!(world.armed(), Some(100));
}

// rules T5, W5
#[test]
fn a_clock_that_panics_as_a_grant_starts_changes_nothing_about_the_grant() {
    let world = World::new();
    let _entered = world.enter();
    let (clock, admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let mut first = Task::waiting(a.acquire());
    let _second = Task::waiting(a.admission_timeout(ms(100)).acquire());
    drop(permit);
    clock.0.store(1, Ordering::SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| first.poll())).is_err());
    assert_eq!(clock.0.load(Ordering::SeqCst), 0, "it was the first reading");
    assert_eq!(admission.counts(), counts(0, 1, 1), "it has not started");
    drop(first.ready().unwrap());
}
