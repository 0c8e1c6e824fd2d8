//! A clock that is set by hand, counts its readings, and panics once if it is told to.
//!
//! Owns: the time, and what tells that a call which ended was left beside the lock: where every turn reads the
//! clock, an end that does not was no turn. Lacks alarms.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::SystemTime;

use admission_rt::Instant;
use admission_rt::runtime::Clock;

#[derive(Default)]
pub(crate) struct Watched {
    millis: AtomicU64,
    readings: AtomicU64,
    panics: AtomicBool,
}

impl Watched {
    pub(crate) fn set(&self, millis: u64) {
        self.millis.store(millis, SeqCst);
    }

    pub(crate) fn readings_of(&self, act: impl FnOnce()) -> u64 {
        let before = self.readings.load(SeqCst);
        act();
        self.readings.load(SeqCst) - before
    }

    /// The next reading panics, which the contract forbids.
    pub(crate) fn panic_next(&self) {
        self.panics.store(true, SeqCst);
    }

    /// Whether that reading has yet to come.
    pub(crate) fn will_panic(&self) -> bool {
        self.panics.load(SeqCst)
    }
}

impl Clock for Watched {
    fn now(&self) -> Instant {
        self.readings.fetch_add(1, SeqCst);
        assert!(!self.panics.swap(false, SeqCst), "no time");
        Instant::from_millis(self.millis.load(SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}
