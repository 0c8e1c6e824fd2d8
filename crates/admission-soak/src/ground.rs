//! What the traffic runs on: one coordinator with several providers, two limiters, and what callers leave for
//! others to end.
//!
//! Owns: the limits, and pools of signals and of calls that strangers fire, poll and drop. Lacks the traffic.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use admission_rt::runtime::Runtime;
use admission_rt::{
    AbortHandle, Admission, BuildError, IntervalLimiter, Limits, Provider, Query, RateLimiter,
    UnknownProvider,
};
use admission_tokio::Tokio;

use crate::alarms::Watched;
use crate::guarded::boom;
use crate::host::{Boxed, Host};
use crate::observer::{CLIENT, INTERVAL, Observer, PACES, PLACES, RATE, Value, lock};
use crate::tally::Event;
use crate::{Dice, around};

/// As which handles are kept; whoever calls takes one of its own runtime.
pub type Base = Watched<Tokio>;

/// The error of an operation.
#[derive(Clone, Debug)]
pub struct Fail(pub Value);

/// See the module.
#[derive(Debug)]
pub struct Ground {
    /// Who watches.
    pub observer: Arc<Observer>,
    /// The coordinator.
    pub admission: Admission<Base>,
    /// A sliding log of its own.
    pub rate: RateLimiter<Base>,
    /// An interval of its own.
    pub interval: IntervalLimiter<Base>,
    queries: Mutex<Vec<Query<Value, Fail>>>,
    handles: Mutex<Vec<AbortHandle>>,
    strangers: Mutex<Vec<Stranger>>,
    left: AtomicI64,
}

struct Stranger(Boxed);

impl std::fmt::Debug for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stranger")
    }
}

impl Ground {
    /// A coordinator whose clock is that of the runtime `H`.
    ///
    /// # Errors
    ///
    /// None that a sound configuration has.
    pub fn new<H: Host>(observer: &Arc<Observer>) -> Result<Arc<Self>, BuildError> {
        let (watches, client) = (Arc::clone(observer), CLIENT);
        let mut builder = Admission::<Watched<H::Runtime>>::builder()
            .max_concurrent(client)
            .max_queued(QUEUE)
            .hand_off(Duration::from_millis(4))
            .unit("tokens")
            .window(6_000, Duration::from_millis(10))
            .template(|p| p.max_concurrent(3).window(300, Duration::from_millis(3)))
            .on_long_wait(Duration::from_millis(20), move |waiting| {
                // Long enough to be written down now and then.
                if watches.draw() % 64 == 0 {
                    drop(waiting.to_string());
                    boom(&watches, Event::PanicInHook, 4);
                }
            });
        for (place, at) in PLACES.iter().zip(0..) {
            builder = builder.provider(place.name, |p| limits(p, at));
        }
        let (limit, window) = PACES[RATE];
        let rate =
            RateLimiter::<Watched<H::Runtime>>::builder(limit as u64, window).max_queued(64).build()?;
        let (_, interval) = PACES[INTERVAL];
        let interval = IntervalLimiter::<Watched<H::Runtime>>::builder(interval).max_waiting(32).build()?;
        Ok(Arc::new(Self {
            observer: Arc::clone(observer),
            admission: builder.build()?.on(),
            rate: rate.on(),
            interval: interval.on(),
            queries: Mutex::default(),
            handles: Mutex::default(),
            strangers: Mutex::default(),
            left: AtomicI64::new(0),
        }))
    }

    /// Begins a round of so many calls.
    pub fn begin<H: Host>(self: &Arc<Self>, calls: u64, dice: &mut Dice) {
        self.left.store(calls.try_into().unwrap_or(i64::MAX), Ordering::SeqCst);
        self.observer.is_hostile.store(true, Ordering::SeqCst);
        // One that is removed is there again.
        drop(self.admission.add_provider(PLACES[COME_AND_GO].name, |p| limits(p, COME_AND_GO)));
        for at in 0..QUERIES {
            if let Some(query) = around::query::<H>(self, at, dice) {
                lock(&self.queries).push(query);
            }
        }
    }

    /// Whether there is one more call to make in this round.
    pub fn takes_one(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) > 0
    }

    /// How many calls are left to make.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed).try_into().unwrap_or(0)
    }

    /// Drops what callers have left, and disposes of the queries.
    pub fn end(&self) {
        self.observer.is_hostile.store(false, Ordering::SeqCst);
        let queries = std::mem::take(&mut *lock(&self.queries));
        queries.iter().for_each(Query::dispose);
        drop(std::mem::take(&mut *lock(&self.handles)));
        drop(std::mem::take(&mut *lock(&self.strangers)));
    }

    /// Some query of the round.
    pub fn query(&self, chance: u64) -> Option<Query<Value, Fail>> {
        let queries = lock(&self.queries);
        let at = chance as usize % queries.len().max(1);
        queries.get(at).cloned()
    }

    /// Puts another query in the place of one of the round's.
    pub fn replace(&self, chance: u64, query: Query<Value, Fail>) -> Option<Query<Value, Fail>> {
        let mut queries = lock(&self.queries);
        let at = chance as usize % queries.len().max(1);
        queries.get_mut(at).map(|place| std::mem::replace(place, query))
    }

    /// A provider of [`PLACES`], as a handle of the runtime `R`.
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`]: none, since there is a template.
    pub fn provider<R: Runtime>(&self, at: usize) -> Result<Provider<Watched<R>>, UnknownProvider> {
        Ok(self.admission.provider(PLACES[at].name)?.on())
    }

    /// Leaves a signal to be fired by a stranger, or by nobody.
    pub fn leave_handle(&self, handle: AbortHandle, chance: u64) {
        drop(put(&self.handles, handle, chance));
    }

    /// Fires a signal that somebody has left.
    pub fn fire(&self, chance: u64) {
        if let Some(handle) = take(&self.handles, chance) {
            self.observer.tally.count(Event::Fired);
            handle.abort_with("fired by a stranger");
        }
    }

    /// Leaves a call to strangers: they poll it from inside wakes, and drop it.
    pub fn leave(&self, call: Boxed, chance: u64) {
        self.observer.tally.count(Event::Left);
        drop(put(&self.strangers, Stranger(call), chance));
    }

    /// Drops a call that somebody has left.
    pub fn drop_stranger(&self, chance: u64) {
        drop(take(&self.strangers, chance));
    }

    /// Polls a call that somebody has left, here and now, and tells nobody when it is woken.
    pub fn poll_stranger(&self, chance: u64) {
        if let Some(mut stranger) = take(&self.strangers, chance) {
            self.observer.tally.count(Event::PolledInWake);
            let mut cx = Context::from_waker(Waker::noop());
            let polled = self.observer.polling(|| stranger.0.as_mut().poll(&mut cx));
            if polled.is_pending() {
                drop(put(&self.strangers, stranger, chance));
            }
        }
    }
}

/// The limits of a provider, as it is built and as it is added again.
pub fn limits(limits: Limits, at: usize) -> Limits {
    let place = &PLACES[at];
    match place.log {
        Some(log) => {
            let (limit, window) = PACES[log];
            if limit == 1 {
                limits.max_concurrent(place.most).interval(window)
            } else {
                let tokens = admission_rt::Window::new(2_000, window).unit("tokens").until_settled();
                limits.max_concurrent(place.most).window(limit as u64, window).log(tokens)
            }
        }
        None => limits.max_concurrent(place.most),
    }
}

/// Adds to a pool; the answer is whoever had to go, to be dropped without the lock.
fn put<T>(pool: &Mutex<Vec<T>>, item: T, chance: u64) -> Option<T> {
    let mut pool = lock(pool);
    if pool.len() < POOL {
        pool.push(item);
        return None;
    }
    let at = chance as usize % pool.len();
    pool.get_mut(at).map(|place| std::mem::replace(place, item))
}

fn take<T>(pool: &Mutex<Vec<T>>, chance: u64) -> Option<T> {
    let mut pool = lock(pool);
    let at = chance as usize % pool.len().max(1);
    (at < pool.len()).then(|| pool.swap_remove(at))
}

/// How many may wait; fewer than there are callers.
pub const QUEUE: u32 = 220;

/// The provider that is removed and added.
pub const COME_AND_GO: usize = 5;

/// The provider whose limits change.
pub const FLEX: usize = 4;

const QUERIES: usize = 8;
const POOL: usize = 12;
