//! A runtime whose alarms are counted.
//!
//! Owns: how many alarms there are, and how many are set for a time that is still to come. Lacks the ring, which
//! goes from the runtime's alarm straight to the coordinator: so an alarm counts as set until its time is over.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use admission_rt::Instant;
use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn, SystemClock};

use crate::observer::lock;

/// The runtime `R`, watched.
#[derive(Clone, Copy, Debug)]
pub struct Watched<R>(PhantomData<R>);

impl<R: Runtime> Runtime for Watched<R> {
    type Alarm = WatchedAlarm<R::Alarm>;

    fn clock() -> Arc<dyn Clock> {
        R::clock()
    }

    fn current() -> Option<RuntimeId> {
        R::current()
    }

    fn alarm(bell: Bell) -> Self::Alarm {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&ALARMS).insert(number, None);
        WatchedAlarm { alarm: Some(R::alarm(bell)), number }
    }
}

impl<R: Runtime + Spawn> Spawn for Watched<R> {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        R::spawn(future);
    }
}

/// Its alarm.
#[derive(Debug)]
pub struct WatchedAlarm<A> {
    alarm: Option<A>,
    number: u64,
}

impl<A: Alarm> Alarm for WatchedAlarm<A> {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        let armed = match &mut self.alarm {
            Some(alarm) => alarm.arm(delay),
            None => Err(Dead),
        };
        let until = delay.filter(|_| armed.is_ok()).map(|delay| CLOCK.now() + delay);
        lock(&ALARMS).insert(self.number, until);
        armed
    }
}

impl<A> Drop for WatchedAlarm<A> {
    fn drop(&mut self) {
        // The alarm may go on to whatever it likes.
        drop(self.alarm.take());
        lock(&ALARMS).remove(&self.number);
    }
}

/// How many alarms there are, and how many of them are set.
#[must_use]
pub fn alarms() -> (usize, usize) {
    let now = CLOCK.now();
    let alarms = lock(&ALARMS);
    (alarms.len(), alarms.values().filter(|until| until.is_some_and(|until| until > now)).count())
}

static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);
static ALARMS: Mutex<BTreeMap<u64, Option<Instant>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
