//! The exact window by itself, for those who want nothing else of a coordinator.
//!
//! Owns: a log of starts, asked what [`judge`](crate::verdict::judge) asks of it and told what a scope tells it. Lacks
//! a queue, grants, costs, and any rule of its own: whoever finds it full has to come again, and whoever comes
//! first then goes first.

use core::time::Duration;

use crate::Instant;
use crate::config::{Limits, LimitsError, Log};
use crate::pace::{Room, SlidingLog};

/// At most so many starts in any window of one length, wherever it begins (rule L3): the log that a
/// [`Coordinator`](crate::Coordinator) keeps for [`Limits::window`], as an object of its own.
///
/// It answers in a few instructions, and keeps 16 bytes for each start in the window. It has no queue: who is told
/// to come later is not waited for, and may find that somebody else was faster. Where calls are to wait in order,
/// or anything else is limited too, take a coordinator.
///
/// ```
/// use admission_core::{Instant, SlidingWindow};
/// use core::time::Duration;
///
/// let at = Instant::from_millis;
/// let mut window = SlidingWindow::new(2, Duration::from_millis(1_000))?;
/// assert_eq!(window.try_start(at(0)), Ok(()));
/// assert_eq!(window.try_start(at(900)), Ok(()));
/// // The first is in the window until it is a whole window old, and the second is there still.
/// assert_eq!(window.try_start(at(999)), Err(at(1_000)));
/// assert_eq!(window.try_start(at(1_000)), Ok(()));
/// assert_eq!(window.try_start(at(1_001)), Err(at(1_900)));
/// # Ok::<(), admission_core::LimitsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SlidingWindow {
    log: SlidingLog,
}

impl SlidingWindow {
    /// At most `limit` starts in any `window`. A window of zero refuses nothing.
    ///
    /// Makes room beforehand for as many as the limit allows, but for no more than 4,096.
    ///
    /// # Errors
    ///
    /// The limit is 0, or there is no memory for the log.
    pub fn new(limit: u64, window: Duration) -> Result<Self, LimitsError> {
        Limits::new().window(limit, window).check(1)?;
        let mut log = SlidingLog::new(&Log::new(limit, window), 0);
        log.try_reserve().map_err(|_| LimitsError::OutOfMemory)?;
        Ok(Self { log })
    }

    /// Starts now, if there is room.
    ///
    /// Time does not run back (rule T1): an instant before the last start counts as that.
    ///
    /// # Errors
    ///
    /// There is none. Says from when there will be, if nothing starts before; and spends nothing.
    #[inline]
    pub fn try_start(&mut self, now: Instant) -> Result<(), Instant> {
        let now = now.min(Instant::LAST);
        if self.log.start_easily(0, now) || self.log.start_in_turn(0, now).is_some() {
            return Ok(());
        }
        self.try_otherwise(now)
    }

    /// The same where it is not plain to see that there is room.
    #[inline(never)]
    fn try_otherwise(&mut self, now: Instant) -> Result<(), Instant> {
        let now = self.log.latest(now);
        match self.log.room(1, 0, now) {
            Room::Now => {
                self.log.start(1, 0, now);
                Ok(())
            }
            Room::At(at) | Room::Held(at) => Err(at),
        }
    }

    /// When the next start has room: now, or the instant that [`try_start`](Self::try_start) would tell of.
    #[must_use]
    pub fn earliest(&self, now: Instant) -> Instant {
        let now = self.log.latest(now);
        match self.log.room(1, 0, now) {
            Room::Now => now,
            Room::At(at) | Room::Held(at) => at,
        }
    }

    /// How many starts there is room for right now.
    #[must_use]
    pub fn available(&self, now: Instant) -> u64 {
        self.log.available(0, self.log.latest(now))
    }
}
