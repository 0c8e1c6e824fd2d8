//! The coordinator's clock in the simulated world, which can be made to lie.
//!
//! Owns: the difference to the time that timers follow, and a note of the latest reading, which is what
//! the coordinator goes by (rule T1). Lacks timers: those are the runtimes', and honest or not by themselves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use admission_rt::Instant;
use admission_rt::runtime::Clock;
use admission_testing::VirtualClock;

/// A clock over that of the runtimes.
pub(crate) struct SkewedClock {
    host: VirtualClock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Added to the host's time, in nanoseconds.
    skew: i128,
    /// What it reads while it stalls.
    stalled: Option<u64>,
    /// The latest time that anybody has read.
    seen: u64,
    reads: u64,
}

impl SkewedClock {
    pub(crate) fn new(host: VirtualClock) -> Self {
        Self { host, state: Mutex::default() }
    }

    /// What the coordinator takes the time to be.
    pub(crate) fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// What it would read now; nobody has seen it yet.
    pub(crate) fn reading(&self) -> u64 {
        self.lock().reading(&self.host)
    }

    /// How often it has been read.
    pub(crate) fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// From here on it stands still.
    pub(crate) fn stall(&self) {
        let mut state = self.lock();
        let now = state.reading(&self.host);
        state.stalled = Some(now);
    }

    /// It moves again, from where it stood.
    pub(crate) fn go_on(&self) {
        let mut state = self.lock();
        if let Some(stalled) = state.stalled.take() {
            state.skew = i128::from(stalled) - i128::from(self.host.now().as_nanos());
        }
    }

    /// Moves by so much, back too.
    pub(crate) fn jump(&self, nanos: i64) {
        let mut state = self.lock();
        state.skew += i128::from(nanos);
        if let Some(stalled) = &mut state.stalled {
            *stalled = stalled.saturating_add_signed(nanos);
        }
    }

    /// It moves with the host's from here on, and is not behind what was seen.
    pub(crate) fn mend(&self) {
        self.go_on();
        let mut state = self.lock();
        let now = state.reading(&self.host).max(state.seen);
        state.skew = i128::from(now) - i128::from(self.host.now().as_nanos());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reading(&self, host: &VirtualClock) -> u64 {
        let now = self.skew + i128::from(host.now().as_nanos());
        self.stalled.unwrap_or(now.clamp(0, i128::from(u64::MAX / 2)) as u64)
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Instant {
        let mut state = self.lock();
        state.reads += 1;
        let now = state.reading(&self.host);
        state.seen = state.seen.max(now);
        Instant::from_nanos(now)
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}
