//! A runtime around embassy's executor and embassy's time: the worked adapter of the page about runtimes.
//!
//! Owns: one task that keeps the time for every coordinator, a clock that is embassy's, and a pool of tasks
//! for what goes on by itself. Lacks an executor and a time driver: whoever links this chooses both, so
//! that a test may have a clock that it advances by hand.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use admission_rt::Instant;
use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn, SystemClock};
use embassy_executor::SendSpawner;
use embassy_time::{TICK_HZ, Timer};

admission_rt::aliases!(Embassy);

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Embassy;

impl Embassy {
    /// Has this executor keep the time for every coordinator of the process. Before the first wait; a second
    /// time changes nothing.
    pub fn start(spawner: SendSpawner) {
        if let (Ok(task), Ok(())) = (keep_time(), SPAWNER.set(spawner)) {
            spawner.spawn(task);
        }
    }
}

impl Runtime for Embassy {
    type Alarm = TaskAlarm;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(EmbassyClock { origin: embassy_time::Instant::now(), system: SystemClock::new() })
    }

    /// The same for every caller, since a bell wakes whatever polls. None before the start: then a call that
    /// has to wait is refused, and does not wait for ever.
    fn current() -> Option<RuntimeId> {
        SPAWNER.get().map(|_| RuntimeId::new::<Self>(0))
    }

    fn alarm(bell: Bell) -> TaskAlarm {
        TaskAlarm { bell, place: None }
    }
}

impl Spawn for Embassy {
    /// Where every task of the pool is taken the future is dropped, which is how others hear of it.
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let (Some(spawner), Ok(task)) = (SPAWNER.get(), run(Box::pin(future))) {
            spawner.spawn(task);
        }
    }
}

/// Embassy's time, so that a clock that stands still stands still for the coordinator, too.
struct EmbassyClock {
    origin: embassy_time::Instant,
    /// For the wall clock, which embassy has not.
    system: SystemClock,
}

impl Clock for EmbassyClock {
    fn now(&self) -> Instant {
        let now = embassy_time::Instant::now();
        Instant::ZERO + Duration::from_micros(now.saturating_duration_since(self.origin).as_micros())
    }

    fn wall(&self) -> SystemTime {
        self.system.wall()
    }
}

/// One coordinator's entry in the table.
#[derive(Debug)]
pub struct TaskAlarm {
    bell: Bell,
    place: Option<Place>,
}

impl Alarm for TaskAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        let mut table = lock();
        // It may have rung meanwhile; then there is nothing to remove.
        self.place.take().and_then(|place| table.alarms.remove(&place));
        let Some(delay) = delay else { return Ok(()) };
        table.made += 1;
        let place = (now().saturating_add(ticks(delay)), table.made);
        table.alarms.insert(place, self.bell.clone());
        self.place = Some(place);
        let is_first = table.alarms.first_key_value().is_some_and(|(first, _)| *first == place);
        let keeper = if is_first { table.keeper.clone() } else { None };
        drop(table);
        keeper.iter().for_each(Waker::wake_by_ref);
        Ok(())
    }
}

impl Drop for TaskAlarm {
    fn drop(&mut self) {
        // Disarming cannot fail.
        let _ = self.arm(None);
    }
}

/// When an alarm is due, in ticks; of several at one tick, the one that was armed first.
type Place = (u64, u64);

#[derive(Debug)]
struct Table {
    alarms: BTreeMap<Place, Bell>,
    made: u64,
    /// Wakes the task that keeps the time.
    keeper: Option<Waker>,
}

fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rings what is due, and asks to be polled when the next is. A bell must not be the waker of the timer itself:
/// embassy's drivers hold a lock while they wake, and a bell that rings may set the next timer.
#[embassy_executor::task]
async fn keep_time() {
    let forever = poll_fn(|context| -> Poll<()> {
        loop {
            let mut table = lock();
            match table.alarms.first_entry() {
                Some(first) if first.key().0 <= now() => {
                    let bell = first.remove();
                    // Whoever is woken may arm this alarm again, or drop it: no lock is held.
                    drop(table);
                    bell.ring();
                }
                first => {
                    let next = first.map(|first| first.key().0);
                    table.keeper = Some(context.waker().clone());
                    drop(table);
                    if let Some(at) = next {
                        // Its first poll has it wake this task, and nothing takes that back; an alarm that is
                        // disarmed costs one poll for nothing.
                        let timer = pin!(Timer::at(embassy_time::Instant::from_ticks(at)));
                        let _ = timer.poll(context);
                    }
                    return Poll::Pending;
                }
            }
        }
    });
    forever.await;
}

/// Polls a future to its end. A panic ends it, and not the executor, which catches none.
#[embassy_executor::task(pool_size = 64)]
async fn run(mut future: Pin<Box<dyn Future<Output = ()> + Send>>) {
    let caught = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or(Poll::Ready(()))
    });
    caught.await;
}

fn now() -> u64 {
    embassy_time::Instant::now().as_ticks()
}

/// Rounded up, or the last bit of a wait would be waited for again and again. What is too long for the driver
/// is waited for in pieces.
fn ticks(delay: Duration) -> u64 {
    let ticks = (delay.min(LONGEST).as_nanos() * u128::from(TICK_HZ)).div_ceil(1_000_000_000);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// The executor that was started, for good: embassy's executors have no end.
static SPAWNER: OnceLock<SendSpawner> = OnceLock::new();

static TABLE: Mutex<Table> = Mutex::new(Table { alarms: BTreeMap::new(), made: 0, keeper: None });

/// The longest sleep that is asked of the driver.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
