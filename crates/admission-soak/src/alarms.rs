//! A runtime whose alarms are counted.
//!
//! Owns: how many alarms there are, and how many are set for a time that is still to come. Lacks the ring, which
//! goes from the runtime's alarm straight to the coordinator: so an alarm counts as set until its time is over. One
//! whose runtime has ended stays in its place until another runtime needs that, and is set for nothing.

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
        lock(&ALARMS).insert(number, (R::current(), None));
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
        if let Some((_, armed)) = lock(&ALARMS).get_mut(&self.number) {
            *armed = until;
        }
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

/// A runtime has ended, or is about to.
pub fn ended(runtime: RuntimeId) {
    lock(&ENDED).push(runtime);
}

/// Forgets the runtimes that have ended; when no alarm of theirs is left.
pub fn forget_ended() {
    *lock(&ENDED) = Vec::new();
}

/// How many alarms there are, and how many of them are set.
#[must_use]
pub fn alarms() -> (usize, usize) {
    let now = CLOCK.now();
    let ended = lock(&ENDED);
    let alarms = lock(&ALARMS);
    let lives = |runtime: &Option<RuntimeId>| runtime.is_none_or(|runtime| !ended.contains(&runtime));
    let set =
        alarms.values().filter(|(runtime, until)| until.is_some_and(|until| until > now) && lives(runtime));
    (alarms.len(), set.count())
}

type Set = (Option<RuntimeId>, Option<Instant>);

static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);
static ALARMS: Mutex<BTreeMap<u64, Set>> = Mutex::new(BTreeMap::new());
static ENDED: Mutex<Vec<RuntimeId>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
