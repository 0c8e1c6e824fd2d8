//! A clock that stands still until somebody moves it.
//!
//! Owns: the two readings, monotonic and wall. Lacks: timers; who waits for an instant is the
//! executor's affair, so a clock that is moved by hand wakes nobody.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use admission_rt::Instant;
use admission_rt::runtime::Clock;

/// A clock that is moved by hand, or by the [`Simulation`](crate::Simulation) that it belongs to.
///
/// A clone is another handle of the same clock. It can be used anywhere, in or outside a simulation
/// and under any other runtime.
///
/// ```
/// use admission_testing::VirtualClock;
/// use std::time::Duration;
///
/// let clock = VirtualClock::new();
/// clock.advance(Duration::from_millis(50));
/// assert_eq!(clock.now().as_nanos(), 50_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct VirtualClock {
    readings: Arc<Mutex<Readings>>,
}

#[derive(Clone, Copy, Debug)]
struct Readings {
    now: Instant,
    wall: SystemTime,
}

impl VirtualClock {
    /// A clock that reads zero, at the Unix epoch.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Instant::ZERO)
    }

    /// A clock that reads `now`.
    #[must_use]
    pub fn at(now: Instant) -> Self {
        Self { readings: Arc::new(Mutex::new(Readings { now, wall: SystemTime::UNIX_EPOCH })) }
    }

    /// What it reads.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.with(|readings| readings.now)
    }

    /// What the wall clock reads.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        self.with(|readings| readings.wall)
    }

    /// Lets time pass, on the wall too. The largest instant is as far as it goes.
    pub fn advance(&self, by: Duration) {
        self.with(|readings| {
            readings.now = readings.now + by;
            readings.wall = readings.wall.checked_add(by).unwrap_or(readings.wall);
        });
    }

    /// Lets time pass until `now`; does nothing if that is over.
    pub fn advance_to(&self, now: Instant) {
        self.advance(now.saturating_duration_since(self.now()));
    }

    /// Sets the monotonic reading alone, back too: a clock that runs back is a fault to test with.
    pub fn set(&self, now: Instant) {
        self.with(|readings| readings.now = now);
    }

    /// Sets the wall clock alone.
    pub fn set_wall(&self, wall: SystemTime) {
        self.with(|readings| readings.wall = wall);
    }

    fn with<T>(&self, act: impl FnOnce(&mut Readings) -> T) -> T {
        act(&mut self.readings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        VirtualClock::now(self)
    }

    fn wall(&self) -> SystemTime {
        VirtualClock::wall(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_and_the_wall_is_its_own() {
        let clock = VirtualClock::new();
        clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), Instant::from_millis(1_000));
        assert_eq!(clock.wall(), SystemTime::UNIX_EPOCH + Duration::from_secs(6));
        clock.advance_to(Instant::from_millis(500));
        assert_eq!(clock.now(), Instant::from_millis(1_000));
        clock.set(Instant::from_millis(10));
        assert_eq!(clock.wall(), SystemTime::UNIX_EPOCH + Duration::from_secs(6));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Instant::NEVER);
    }
}
