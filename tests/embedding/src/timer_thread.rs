//! A runtime in a page of code: one thread that keeps the time, for any executor or none.
//!
//! It is the worked example of `docs/runtimes.md`, which has this file word for word from here on; a test
//! compares the two. Owns: the alarms of all coordinators in one table, and the thread that sleeps until
//! the first of them. Lacks an executor: who polls the futures is nobody's business here.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use admission_rt::Instant;
use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, SystemClock};

/// The coordinator's handle, so that nobody writes the parameter.
pub type Admission = admission_rt::Admission<TimerThread>;

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerThread;

impl Runtime for TimerThread {
    type Alarm = ThreadAlarm;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// The same for every caller, since the thread is the process's. None where it could not be spawned:
    /// then a call that has to wait is refused, and does not wait for ever.
    fn current() -> Option<RuntimeId> {
        TIMER.as_ref().map(|_| RuntimeId::new::<Self>(0))
    }

    fn alarm(bell: Bell) -> ThreadAlarm {
        ThreadAlarm { bell, place: None }
    }
}

/// One coordinator's entry in the table.
#[derive(Debug)]
pub struct ThreadAlarm {
    bell: Bell,
    place: Option<Place>,
}

impl Alarm for ThreadAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        let timer = TIMER.as_ref().ok_or(Dead)?;
        let mut table = timer.lock();
        // It may have rung meanwhile; then there is nothing to remove.
        self.place.take().and_then(|place| table.alarms.remove(&place));
        let Some(delay) = delay else { return Ok(()) };
        table.made += 1;
        // This addition stops at the end of time and does not overflow.
        let place = (timer.clock.now() + delay, table.made);
        table.alarms.insert(place, self.bell.clone());
        self.place = Some(place);
        if table.alarms.first_key_value().is_some_and(|(first, _)| *first == place) {
            timer.changed.notify_one();
        }
        Ok(())
    }
}

impl Drop for ThreadAlarm {
    fn drop(&mut self) {
        // Disarming fails only where there is no timer.
        let _ = self.arm(None);
    }
}

/// When an alarm is due; of several at one instant, the one that was armed first.
type Place = (Instant, u64);

#[derive(Debug)]
struct Timer {
    clock: SystemClock,
    table: Mutex<Table>,
    /// There is a new first alarm.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    alarms: BTreeMap<Place, Bell>,
    made: u64,
}

impl Timer {
    fn keep_time(&self) {
        let mut table = self.lock();
        loop {
            let now = self.clock.now();
            match table.alarms.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let bell = first.remove();
                    // Whoever is woken may arm this alarm again, or drop it: no lock is held.
                    drop(table);
                    bell.ring();
                    table = self.lock();
                }
                first => {
                    let wait = first.map(|first| first.key().0.saturating_duration_since(now));
                    let wait = wait.unwrap_or(LONGEST).min(LONGEST);
                    let woken = self.changed.wait_timeout(table, wait);
                    (table, _) = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Made at the first wait of the process, and then there for good.
static TIMER: LazyLock<Option<Timer>> = LazyLock::new(|| {
    let keeper = || TIMER.as_ref().map_or((), Timer::keep_time);
    let spawned = thread::Builder::new().name("timer".to_owned()).spawn(keeper);
    spawned.is_ok().then(|| Timer {
        clock: SystemClock::new(),
        table: Mutex::default(),
        changed: Condvar::new(),
    })
});

/// The longest sleep that is asked of the host. What is longer is waited for in pieces.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
