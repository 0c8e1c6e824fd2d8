//! The machine's clock, for the adapters whose runtime has none of its own.
//!
//! Owns: the only readings of the standard clocks in this crate. Lacks, on purpose: any way to set or
//! stop it; where tests need that they build with another clock.

use std::time::SystemTime;

use admission_core::Instant;

use crate::runtime::Clock;

/// The machine's monotonic clock since this one's creation, and the machine's wall clock.
///
/// ```
/// use admission_rt::runtime::{Clock, SystemClock};
/// use std::time::Duration;
///
/// let clock = SystemClock::new();
/// let began = clock.now();
/// std::thread::sleep(Duration::from_millis(1));
/// assert!(clock.now().saturating_duration_since(began) >= Duration::from_millis(1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// A clock that reads zero now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others ask")]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that others ask")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}
