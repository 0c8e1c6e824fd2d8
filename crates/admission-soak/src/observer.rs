//! Who watches from outside: what runs at one time, when it started, and what is still alive.
//!
//! Owns: counters that the operations keep themselves, and the checks of them. Lacks any knowledge of what the
//! coordinator believes: that is compared with this afterwards.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission_rt::runtime::{Clock, SystemClock};

use crate::tally::{Event, Tally};

/// How many calls may run at one time.
pub const CLIENT: u32 = 32;

/// How many keys the observer knows.
pub const KEYS: usize = 24;

/// A provider of the soak.
#[derive(Debug)]
pub struct Place {
    /// Its name.
    pub name: &'static str,
    /// The most that may ever run there at one time.
    pub most: u32,
    /// The log of its starts, if its limits on those never change.
    pub log: Option<usize>,
}

/// The providers. Those whose limits change are held to the most that they ever are.
pub const PLACES: [Place; 6] = [
    Place { name: "slots", most: 8, log: None },
    Place { name: "lone", most: 2, log: None },
    Place { name: "paced", most: 16, log: Some(0) },
    Place { name: "quota", most: CLIENT, log: Some(1) },
    Place { name: "flex", most: 6, log: None },
    Place { name: "come-and-go", most: 4, log: None },
];

/// The log of the rate limiter's starts, and of the interval limiter's.
pub const RATE: usize = 2;
/// See [`RATE`].
pub const INTERVAL: usize = 3;

/// How many may start in which time, for each log.
pub const PACES: [(usize, Duration); 4] = [
    (1, Duration::from_micros(200)),
    (100, Duration::from_millis(10)),
    (120, Duration::from_millis(10)),
    (1, Duration::from_micros(300)),
];

thread_local! {
    /// When the poll began that this thread is in, if it is one of ours.
    static BEGAN: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// What is seen.
#[derive(Debug)]
pub struct Observer {
    clock: SystemClock,
    /// What was done.
    pub tally: Tally,
    running: AtomicU32,
    running_at: [AtomicU32; PLACES.len()],
    keys: [AtomicBool; KEYS],
    starts: [Mutex<Vec<(Duration, Duration)>>; PACES.len()],
    /// Wakers that somebody still has.
    pub wakers: AtomicI64,
    /// Values, errors and operations that somebody still has.
    pub values: AtomicI64,
    faults: Mutex<Vec<String>>,
    /// A seed for those that draw with no dice of their own.
    pub chance: AtomicU64,
    /// Whether wakers and destructors misbehave.
    pub is_hostile: AtomicBool,
}

impl Observer {
    /// Sees nothing yet.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            clock: SystemClock::new(),
            tally: Tally::new(),
            running: AtomicU32::new(0),
            running_at: [const { AtomicU32::new(0) }; PLACES.len()],
            keys: [const { AtomicBool::new(false) }; KEYS],
            starts: [(); PACES.len()].map(|()| Mutex::new(Vec::with_capacity(STARTS))),
            wakers: AtomicI64::new(0),
            values: AtomicI64::new(0),
            faults: Mutex::default(),
            chance: AtomicU64::new(seed),
            is_hostile: AtomicBool::new(true),
        })
    }

    /// Some number, for whoever has no dice.
    pub fn draw(&self) -> u64 {
        let seed = self.chance.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        crate::dice::Dice::new(seed).any()
    }

    /// What the observer's clock says.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.clock.now().saturating_duration_since(admission_rt::Instant::ZERO)
    }

    /// Something is wrong.
    pub fn fault(&self, what: impl Into<String>) {
        let mut faults = lock(&self.faults);
        if faults.len() < 100 {
            faults.push(what.into());
        }
    }

    /// What was wrong until now.
    pub fn faults(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.faults))
    }

    /// Polls something of ours: what it starts, it starts after this moment.
    pub fn polling<T>(&self, poll: impl FnOnce() -> T) -> T {
        struct Back(Option<Duration>);
        impl Drop for Back {
            fn drop(&mut self) {
                BEGAN.set(self.0);
            }
        }
        let _back = Back(BEGAN.replace(Some(self.now())));
        poll()
    }

    /// A start that was just made by the poll that this thread is in. The stamp that the coordinator took of
    /// it lies between the beginning of that poll and now; where that is not known, nothing can be said.
    pub fn started(&self, log: usize) {
        self.tally.count(Event::Started);
        if let Some(began) = BEGAN.get() {
            let now = self.now();
            let mut starts = lock(&self.starts[log]);
            if starts.len() < STARTS {
                starts.push((began, now));
            }
        }
    }

    /// Looks through the starts, and forgets them. More than may start in a window did for certain, if so many began
    /// to be polled and were called within less than one.
    pub fn check_starts(&self) -> usize {
        let mut seen = 0;
        for (log, (limit, window)) in PACES.into_iter().enumerate() {
            let mut starts = lock(&self.starts[log]);
            seen += starts.len();
            starts.sort_unstable();
            let mut worst = 0;
            for (nth, &(began, _)) in starts.iter().enumerate() {
                let end = began + window;
                let near = starts[nth..].iter().take_while(|(began, _)| *began < end);
                worst = worst.max(near.filter(|(_, called)| *called < end).count());
            }
            if worst > limit {
                self.fault(format!("{worst} starts in {window:?} by log {log}, of {limit}"));
            }
            starts.clear();
        }
        seen
    }

    /// Whether nothing runs and no key is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0 && !self.keys.iter().any(|key| key.load(Ordering::SeqCst))
    }
}

/// An operation that is running: counted from its call until it is dropped, which comes before its permit is
/// released.
#[derive(Debug)]
pub struct Inside {
    observer: Arc<Observer>,
    place: Option<usize>,
    key: Option<usize>,
}

impl Inside {
    /// An operation has begun at a provider of [`PLACES`], or of a template, with a key of [`KEYS`].
    #[must_use]
    pub fn enter(observer: &Arc<Observer>, place: Option<usize>, key: Option<usize>) -> Self {
        let running = observer.running.fetch_add(1, Ordering::SeqCst) + 1;
        if running > CLIENT {
            observer.fault(format!("{running} run, of {CLIENT}"));
        }
        match place {
            None => observer.tally.count(Event::Started),
            Some(place) => {
                let Place { name, most, log } = &PLACES[place];
                let running = observer.running_at[place].fetch_add(1, Ordering::SeqCst) + 1;
                if running > *most {
                    observer.fault(format!("{running} run at {name}, of {most}"));
                }
                match log {
                    Some(log) => observer.started(*log),
                    None => observer.tally.count(Event::Started),
                }
            }
        }
        if key.is_some_and(|key| observer.keys[key].swap(true, Ordering::SeqCst)) {
            observer.fault(format!("two calls of key {key:?} run"));
        }
        Self { observer: Arc::clone(observer), place, key }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let Self { observer, place, key } = self;
        if let Some(key) = key {
            observer.keys[*key].store(false, Ordering::SeqCst);
        }
        if let Some(place) = place {
            observer.running_at[*place].fetch_sub(1, Ordering::SeqCst);
        }
        observer.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A value that is counted while it is there.
#[derive(Debug)]
pub struct Value(Arc<Observer>);

impl Value {
    /// One more.
    #[must_use]
    pub fn new(observer: &Arc<Observer>) -> Self {
        observer.values.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(observer))
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.values.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A lock, whoever panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many starts are remembered in a round, and no more.
const STARTS: usize = 1 << 15;
