//! Where blocked threads park, and who of them keeps the time.
//!
//! Owns: the runtime of threads. All that park in this process form one, and the one that has parked
//! longest leads: it sleeps until the next alarm of any coordinator is due and rings it, and is roused
//! when an earlier one is armed. When its own call goes on, the next takes over. The others sleep until
//! they are woken. So time costs one wake-up for all of them together, and no thread is spawned.
//!
//! Lacks, on purpose: a duty of its own for a thread that runs. Only one that parks leads, so however
//! long an operation takes it keeps no alarm from ringing as long as anybody waits.
//!
//! The lot has one lock. Nothing is rung, woken, polled or dropped under it: who is to be roused is taken
//! out, and roused when the lock is gone.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use admission_rt::Instant;
use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn, SystemClock};
use event_listener::{Event, Listener};

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocking;

impl Runtime for Blocking {
    type Alarm = BlockingAlarm;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// There is one where a future is polled by a thread that will park for it: in [`block_on`], which
    /// is what every wait of this crate is.
    fn current() -> Option<RuntimeId> {
        let polls = POLLS.try_with(Cell::get).unwrap_or(0);
        (polls > 0).then(|| RuntimeId::new::<Blocking>(0))
    }

    fn alarm(bell: Bell) -> BlockingAlarm {
        BlockingAlarm { number: Lot::lock().number(), due: None, bell }
    }
}

/// A thread for each future, which parks for it. Where no thread can be had the future is dropped.
impl Spawn for Blocking {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let thread = std::thread::Builder::new().name("admission".into());
        drop(thread.spawn(|| block_on(future)));
    }
}

/// An entry among the alarms for which the leader sleeps.
#[derive(Debug)]
pub struct BlockingAlarm {
    number: u64,
    /// Where its entry is, unless it has rung.
    due: Option<Instant>,
    bell: Bell,
}

impl Alarm for BlockingAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        let mut lot = Lot::lock();
        let old = self.disarm(&mut lot);
        let mut leader = None;
        if let Some(delay) = delay {
            let due = CLOCK.now() + delay;
            self.due = Some(due);
            lot.alarms.insert((due, self.number), self.bell.clone());
            if due < lot.asleep {
                leader = lot.rouse();
            }
        }
        drop(lot);
        drop(old);
        if let Some(leader) = leader {
            leader.look_again();
        }
        Ok(())
    }
}

impl BlockingAlarm {
    /// Takes its entry out, to be dropped outside the lock.
    fn disarm(&mut self, lot: &mut Lot) -> Option<Bell> {
        let due = self.due.take()?;
        lot.alarms.remove(&(due, self.number))
    }
}

impl Drop for BlockingAlarm {
    fn drop(&mut self) {
        let old = self.disarm(&mut Lot::lock());
        drop(old);
    }
}

/// Drives a future on this thread, which parks whenever the future has to wait.
///
/// Every wait of this crate goes through here. It is public for what the handles have no method for:
/// futures that come from a coordinator's [`on::<Blocking>()`](admission_rt::Admission::on), and
/// futures made of those. It drives any future that brings its own wake-ups.
///
/// It may be called on any thread, but one that belongs to an executor is better not blocked. Nor should
/// another executor's `block_on` be called inside the future: the thread would park over there, and ring
/// no alarm while it does. Nobody can tell: seen from here, that executor is one more future that polls
/// others with wakers of its own, as those that join futures do. (This crate's own waits may stand inside
/// one another as they like.)
///
/// What a thread parks with is kept for its next wait, so a call that need not wait allocates nothing.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let kept = PARKER.try_with(Cell::take).ok().flatten();
    let mut parker = kept.unwrap_or_default();
    let output = drive(&parker, future);
    // Only if no waker of this wait is left, which could disturb the next.
    if let Some(alone) = Arc::get_mut(&mut parker) {
        *alone.is_woken.get_mut() = false;
        let _ = PARKER.try_with(|kept| kept.set(Some(parker)));
    }
    output
}

fn drive<F: IntoFuture>(parker: &Arc<Parker>, future: F) -> F::Output {
    let waker = Waker::from(Arc::clone(parker));
    let mut future = pin!(future.into_future());
    loop {
        let polls = Polls::begin();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        drop(polls);
        park(parker);
    }
}

/// Returns when the parker was woken.
fn park(parker: &Arc<Parker>) {
    if parker.take_wake() {
        return;
    }
    let seat = Seat::take(parker);
    loop {
        // It listens before it looks, so that nothing is missed in between.
        let listener = parker.event.listen();
        if parker.take_wake() {
            return;
        }
        match seat.look() {
            Watch::Sleep => listener.wait(),
            Watch::SleepFor(time) => drop(listener.wait_timeout(time)),
            Watch::Ring(bell) => seat.ring(&bell),
        }
    }
}

/// One parked thread. Its event is notified when its future is woken, and when the lead is to be looked
/// at; which of the two it was is seen from the flag.
#[derive(Default)]
struct Parker {
    event: Event,
    is_woken: AtomicBool,
}

impl Parker {
    fn look_again(&self) {
        self.event.notify(1);
    }

    fn take_wake(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.look_again();
    }
}

/// A parked thread's place among the others; the lowest number leads.
///
/// A ring runs foreign code: wakers, reports. Should that wait in turn, on this very thread, it waits in
/// the leader's own seat, and so leads: nobody else would keep the time meanwhile.
struct Seat {
    number: u64,
    /// Whose it was, and will be again: that of the wait outside, which rings.
    outside: Option<Arc<Parker>>,
}

/// What a parked thread is to do.
enum Watch {
    /// Sleep until it is woken: another leads, or no alarm is armed.
    Sleep,
    /// Lead: sleep so long at most.
    SleepFor(Duration),
    /// Lead: ring this, and look again.
    Ring(Bell),
}

impl Seat {
    fn take(parker: &Arc<Parker>) -> Self {
        let rings = RINGS.try_with(Cell::get).ok().flatten();
        let mut lot = Lot::lock();
        let number = rings.unwrap_or_else(|| lot.number());
        let outside = lot.parked.insert(number, Arc::clone(parker));
        Self { number, outside }
    }

    fn ring(&self, bell: &Bell) {
        let before = RINGS.try_with(|rings| rings.replace(Some(self.number)));
        bell.ring();
        let _ = RINGS.try_with(|rings| rings.set(before.ok().flatten()));
    }

    fn look(&self) -> Watch {
        let mut lot = Lot::lock();
        if !lot.is_led_by(self) {
            return Watch::Sleep;
        }
        let Some(next) = lot.alarms.first_entry() else {
            lot.asleep = Instant::NEVER;
            return Watch::Sleep;
        };
        let (due, now) = (next.key().0, CLOCK.now());
        if due <= now {
            let bell = next.remove();
            lot.asleep = AWAKE;
            return Watch::Ring(bell);
        }
        lot.asleep = due;
        Watch::SleepFor(due.saturating_duration_since(now))
    }
}

impl Drop for Seat {
    /// Whoever leads hands over.
    fn drop(&mut self) {
        let mut lot = Lot::lock();
        let led = lot.is_led_by(self);
        let is_inside = self.outside.is_some();
        let parker = match self.outside.take() {
            Some(outside) => lot.parked.insert(self.number, outside),
            None => lot.parked.remove(&self.number),
        };
        let mut next = None;
        if is_inside {
            // The one outside is awake, and looks when it has rung.
            lot.asleep = AWAKE;
        } else if led {
            // The next one sleeps without end, and may go on so while nothing is armed.
            lot.asleep = Instant::NEVER;
            if !lot.alarms.is_empty() {
                next = lot.rouse();
            }
        }
        drop(lot);
        drop(parker);
        if let Some(next) = next {
            next.look_again();
        }
    }
}

/// All the threads that park, and all that they keep time for.
struct Lot {
    alarms: BTreeMap<(Instant, u64), Bell>,
    parked: BTreeMap<u64, Arc<Parker>>,
    /// Until when the leader sleeps, unless it is roused.
    asleep: Instant,
    numbers: u64,
}

impl Lot {
    fn lock() -> MutexGuard<'static, Self> {
        LOT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn is_led_by(&self, seat: &Seat) -> bool {
        self.parked.first_key_value().is_some_and(|(number, _)| *number == seat.number)
    }

    /// Takes out the leader, who is to look again, once the lock is gone.
    #[must_use]
    fn rouse(&mut self) -> Option<Arc<Parker>> {
        self.asleep = AWAKE;
        self.parked.first_key_value().map(|(_, leader)| Arc::clone(leader))
    }
}

/// Whoever is awake looks before it sleeps, and need not be roused.
const AWAKE: Instant = Instant::ZERO;

static LOT: Mutex<Lot> =
    Mutex::new(Lot { alarms: BTreeMap::new(), parked: BTreeMap::new(), asleep: Instant::NEVER, numbers: 0 });

/// What alarms are due by. The coordinators decide by clocks of their own.
static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

thread_local! {
    /// How many futures this thread is polling, one inside another.
    static POLLS: Cell<u32> = const { Cell::new(0) };

    /// The number of the seat from which this thread rings, if it does.
    static RINGS: Cell<Option<u64>> = const { Cell::new(None) };

    /// What this thread parked with the last time, for the next. A wait inside another finds none.
    static PARKER: Cell<Option<Arc<Parker>>> = const { Cell::new(None) };
}

/// While a future is polled by a thread that will park for it.
struct Polls;

impl Polls {
    fn begin() -> Self {
        let _ = POLLS.try_with(|polls| polls.set(polls.get() + 1));
        Self
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        let _ = POLLS.try_with(|polls| polls.set(polls.get().saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use admission_rt::AbortHandle;

    use super::*;
    use crate::Admission;

    // rules T6, W5
    #[test]
    fn a_wait_that_is_aborted_leaves_neither_an_alarm_nor_a_seat() {
        let hour = Duration::from_secs(3_600);
        let admission = Admission::builder().provider("a", |p| p.interval(hour)).build().unwrap();
        let a = admission.provider("a").unwrap();
        drop(a.acquire().unwrap());
        let (handle, signal) = AbortHandle::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| a.abort_signal(&signal).acquire());
            while Lot::lock().parked.is_empty() {
                thread::yield_now();
            }
            assert_eq!(Lot::lock().alarms.len(), 1);
            handle.abort();
            assert!(waiting.join().unwrap().unwrap_err().is_aborted());
        });
        let lot = Lot::lock();
        assert!(lot.alarms.is_empty() && lot.parked.is_empty());
    }
}
