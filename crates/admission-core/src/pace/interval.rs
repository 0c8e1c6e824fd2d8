//! The smallest gap between two actual starts (rule L2). One instant is all it knows, so idle time
//! earns no credit and a late timer causes no burst (rule T3).
//!
//! All intervals of a scope hear of the same starts, so that instant is the scope's. Of its own an interval
//! has what was before the limits last changed: one that is new then knows of no start.

use super::Room;
use crate::Instant;
use crate::config::Interval;

#[derive(Clone, Debug)]
pub(crate) struct IntervalPacer {
    pub(crate) gap_nanos: u64,
    /// The last start that it knows of from before the last change of limits.
    before: Option<Instant>,
}

impl IntervalPacer {
    pub(crate) fn new(config: &Interval) -> Self {
        Self { gap_nanos: config.gap_nanos(), before: None }
    }

    /// `last`: the last start in its scope since the limits last changed, here and below.
    pub(crate) fn room(&self, last: Option<Instant>, now: Instant) -> Room {
        let at = self.empty_from(last);
        if at > now { Room::At(at) } else { Room::Now }
    }

    /// When its gap is over; the origin if nothing ever started.
    pub(crate) fn empty_from(&self, last: Option<Instant>) -> Instant {
        self.before.max(last).map_or(Instant::ZERO, |last| last.plus(self.gap_nanos))
    }

    /// Goes on with another gap from the same last start (rule L7).
    pub(crate) fn adapt(&mut self, config: &Interval, last: Option<Instant>) {
        self.before = self.before.max(last);
        self.gap_nanos = config.gap_nanos();
    }
}
