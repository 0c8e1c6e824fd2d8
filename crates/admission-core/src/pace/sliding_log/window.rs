//! What a log says of its window: how much is inside, and when so much of it has left.
//!
//! Owns: the searches in the entries. Lacks what grants and unsettled calls hold, which has no instant, and
//! changes nothing.

use super::SlidingLog;
use crate::Instant;

/// The part of the log that is inside the window.
pub(super) struct Live {
    /// The running total before it.
    before: u64,
    /// What it adds up to.
    pub(super) total: u64,
}

impl SlidingLog {
    #[inline(always)]
    pub(super) fn live(&self, now: Instant) -> Live {
        let before = if self.has_dead(now) { self.before_live(now) } else { self.before() };
        Live { before, total: self.through.wrapping_sub(before) }
    }

    /// The running total before the window, of which an entry has left it.
    #[inline(never)]
    fn before_live(&self, now: Instant) -> u64 {
        self.through_before(self.dead(now))
    }

    /// When `excess` of what is in the window has left it; `None` if entries do not hold that much.
    #[inline(always)]
    pub(super) fn freed(&self, excess: u128, live: &Live) -> Option<Instant> {
        let excess = u64::try_from(excess).ok().filter(|&excess| excess <= live.total)?;
        let first = self.entries.front()?;
        // One start out, one in: the usual case needs no search.
        let sum = first.through.wrapping_sub(live.before);
        let at = if sum >= excess && sum <= live.total { first.at } else { self.find(excess, live)? };
        Some(at.plus(self.window_nanos))
    }

    /// The instant of the start with which so much was spent in the window.
    #[inline(never)]
    fn find(&self, excess: u64, live: &Live) -> Option<Instant> {
        let place = self.entries.partition_point(|entry| {
            #[cfg(steps)]
            self.steps.count();
            let sum = entry.through.wrapping_sub(live.before);
            // An entry that is no longer live lies before `live.before`, and wraps.
            sum > live.total || sum < excess
        });
        self.entries.get(place).map(|entry| entry.at)
    }
}
