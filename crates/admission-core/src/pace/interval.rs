//! The smallest gap between two actual starts (rule L2). One instant is all it knows, so idle time
//! earns no credit and a late timer causes no burst (rule T3).

use super::Room;
use crate::Instant;
use crate::config::Interval;

#[derive(Clone, Debug)]
pub(crate) struct IntervalPacer {
    gap_nanos: u64,
    last: Option<Instant>,
}

impl IntervalPacer {
    pub(crate) fn new(config: &Interval) -> Self {
        Self { gap_nanos: config.gap_nanos(), last: None }
    }

    pub(crate) fn room(&self, now: Instant) -> Room {
        let at = self.empty_from();
        if at > now { Room::At(at) } else { Room::Now }
    }

    /// When its gap is over; the origin if nothing ever started.
    pub(crate) fn empty_from(&self) -> Instant {
        self.last.map_or(Instant::ZERO, |last| last.plus(self.gap_nanos))
    }

    /// Goes on with another gap from the same last start (rule L7).
    pub(crate) fn adapt(&mut self, config: &Interval) {
        self.gap_nanos = config.gap_nanos();
    }

    /// A start, or a grant that was abandoned and counts as one (rule S3): that may be older than
    /// the last start.
    pub(crate) fn stamp(&mut self, at: Instant) {
        self.last = self.last.max(Some(at));
    }
}
