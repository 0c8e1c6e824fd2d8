//! The timers of a simulation, and the runtime that they make.
//!
//! Owns: the table of what is armed, in the order of time and then of arming; the faults that a test
//! asks of it; the alarm. Lacks: the decision when to look, which is the executor's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use admission_rt::Instant;
use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn};

use crate::VirtualClock;
use crate::executor::{current, try_spawn};

/// The runtime of a [`Simulation`](crate::Simulation): the name that `admission` knows it by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Virtual;

impl Runtime for Virtual {
    type Alarm = VirtualAlarm;

    /// The clock of the simulation that runs the caller; outside one, a fresh clock that nobody
    /// else moves.
    fn clock() -> Arc<dyn Clock> {
        match current() {
            Some(timers) => Arc::new(timers.clock.clone()),
            None => Arc::new(VirtualClock::new()),
        }
    }

    fn current() -> Option<RuntimeId> {
        current().map(|timers| RuntimeId::new::<Virtual>(timers.number))
    }

    fn alarm(bell: Bell) -> VirtualAlarm {
        let Some(timers) = current() else { return VirtualAlarm { timers: None, id: 0 } };
        let id = timers.hang(bell);
        VirtualAlarm { timers: Some(timers), id }
    }
}

/// A task of the simulation that runs the caller.
impl Spawn for Virtual {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(try_spawn(future));
    }
}

/// What a test may know about the alarms of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Alarms {
    /// Armed right now.
    pub armed: usize,
    /// How often one was armed.
    pub arms: u64,
    /// How often one rang.
    pub fires: u64,
}

/// An alarm that is about to be armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Arming {
    /// How many were armed before it in this simulation.
    pub nth: u64,
    /// When it is armed.
    pub now: Instant,
    /// When it should ring.
    pub due: Instant,
}

/// When an alarm really rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Firing {
    /// When it is due.
    OnTime,
    /// So much before, though not before it was armed.
    Early(Duration),
    /// So much after.
    Late(Duration),
    /// Not at all.
    Never,
}

type Policy = Box<dyn FnMut(Arming) -> Firing + Send>;

/// The table, shared by the executor, its alarms and its sleeps.
pub(crate) struct Timers {
    pub(crate) clock: VirtualClock,
    number: u64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    dead: bool,
    next: u64,
    queue: BTreeMap<Place, Due>,
    alarms: BTreeMap<u64, Hung>,
    arms: u64,
    fires: u64,
    policy: Option<Policy>,
}

/// A place among the timers: by time, then by the order of arming.
type Place = (Instant, u64);

enum Due {
    Alarm(u64),
    Sleep(Waker),
}

struct Hung {
    bell: Bell,
    place: Option<Place>,
}

impl Timers {
    pub(crate) fn new(clock: VirtualClock) -> Self {
        // Wraps after 2^64 simulations.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { clock, number: NEXT.fetch_add(1, Ordering::Relaxed), table: Mutex::default() }
    }

    pub(crate) fn alarms(&self) -> Alarms {
        let table = self.lock();
        let armed = table.alarms.values().filter(|alarm| alarm.place.is_some()).count();
        Alarms { armed, arms: table.arms, fires: table.fires }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let next = self.lock().queue.first_key_value().map(|(place, _)| place.0);
        next.filter(|at| *at < Instant::NEVER)
    }

    pub(crate) fn set_policy(&self, policy: Option<Policy>) {
        // The old one is dropped after the lock is gone: it is the test's own code.
        let old = std::mem::replace(&mut self.lock().policy, policy);
        drop(old);
    }

    /// Fires the earliest timer that is not later than `until`, and moves the clock there.
    pub(crate) fn fire(&self, until: Instant) -> bool {
        let mut table = self.lock();
        let Some((&place, _)) = table.queue.first_key_value() else { return false };
        if place.0 > until || place.0 == Instant::NEVER {
            return false;
        }
        let due = table.queue.remove(&place);
        self.clock.advance_to(place.0);
        match due {
            Some(Due::Alarm(id)) => {
                table.fires += 1;
                let bell = table.alarms.get_mut(&id).map(|alarm| {
                    alarm.place = None;
                    alarm.bell.clone()
                });
                drop(table);
                if let Some(bell) = bell {
                    bell.ring();
                }
            }
            Some(Due::Sleep(waker)) => {
                drop(table);
                waker.wake();
            }
            None => {}
        }
        true
    }

    /// Registers a sleeper, in place of what it registered before.
    pub(crate) fn sleep(&self, at: Instant, old: Option<Place>, waker: &Waker) -> Place {
        let waker = waker.clone();
        let mut table = self.lock();
        let place = old.unwrap_or_else(|| {
            table.next += 1;
            (at, table.next)
        });
        let replaced = table.queue.insert(place, Due::Sleep(waker));
        drop(table);
        drop(replaced);
        place
    }

    pub(crate) fn wake_up(&self, place: Place) {
        let removed = self.lock().queue.remove(&place);
        drop(removed);
    }

    /// The end of the simulation: every alarm is lost.
    pub(crate) fn die(&self) {
        let mut table = self.lock();
        table.dead = true;
        let queue = std::mem::take(&mut table.queue);
        let alarms = std::mem::take(&mut table.alarms);
        let policy = table.policy.take();
        drop(table);
        drop((queue, policy));
        for (_, alarm) in alarms {
            alarm.bell.lost();
        }
    }

    fn hang(&self, bell: Bell) -> u64 {
        let mut table = self.lock();
        table.next += 1;
        let id = table.next;
        if !table.dead {
            table.alarms.insert(id, Hung { bell, place: None });
        }
        id
    }

    fn arm(&self, id: u64, delay: Option<Duration>) -> Result<(), Dead> {
        let mut table = self.lock();
        let Some(place) = table.alarms.get_mut(&id).map(|alarm| alarm.place.take()) else { return Err(Dead) };
        if let Some(place) = place {
            table.queue.remove(&place);
        }
        let Some(delay) = delay else { return Ok(()) };
        let now = self.clock.now();
        let arming = Arming { nth: table.arms, now, due: now + delay };
        table.arms += 1;
        // The policy is the test's own code, so it is asked outside the lock.
        let firing = match table.policy.take() {
            None => Firing::OnTime,
            Some(mut policy) => {
                drop(table);
                let firing = policy(arming);
                table = self.lock();
                table.policy.get_or_insert(policy);
                firing
            }
        };
        let at = match firing {
            Firing::OnTime => arming.due,
            Firing::Late(by) => arming.due + by,
            Firing::Never => Instant::NEVER,
            Firing::Early(by) => now + arming.due.saturating_duration_since(now + by),
        };
        table.next += 1;
        let place = (at, table.next);
        if let Some(alarm) = table.alarms.get_mut(&id) {
            alarm.place = Some(place);
            table.queue.insert(place, Due::Alarm(id));
        }
        Ok(())
    }

    fn take_down(&self, id: u64) {
        let mut table = self.lock();
        let hung = table.alarms.remove(&id);
        if let Some(place) = hung.as_ref().and_then(|alarm| alarm.place) {
            table.queue.remove(&place);
        }
        drop(table);
        drop(hung);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("number", &self.number).field("alarms", &self.alarms()).finish()
    }
}

/// One timer of a coordinator in a simulation.
#[derive(Debug)]
pub struct VirtualAlarm {
    timers: Option<Arc<Timers>>,
    id: u64,
}

impl Alarm for VirtualAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        self.timers.as_ref().ok_or(Dead)?.arm(self.id, delay)
    }
}

impl Drop for VirtualAlarm {
    fn drop(&mut self) {
        if let Some(timers) = &self.timers {
            timers.take_down(self.id);
        }
    }
}
