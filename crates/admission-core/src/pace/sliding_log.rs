//! At most so much in any window (rule L3): the exact log of starts.
//!
//! Each entry carries the running total of all costs up to and with it, so the instant at which a
//! given amount is free again is one binary search, whatever the cost. What a grant or an unsettled
//! call holds is a plain sum beside the entries: time does not free it.

use alloc::collections::{TryReserveError, VecDeque};

use super::Room;
use crate::config::{CountsFrom, Log};
use crate::{Instant, UnitId};

/// Room that is made beforehand at most; a log grows when more starts than this are in its window.
const RESERVED_ENTRIES: u64 = 4_096;

#[derive(Clone, Debug)]
pub(crate) struct SlidingLog {
    pub(crate) unit: UnitId,
    pub(crate) counts: CountsFrom,
    limit: u64,
    window_nanos: u64,
    /// What grants that have not started, and calls that have not settled, hold.
    held: u128,
    /// Oldest first; starts of one instant share an entry.
    entries: VecDeque<Entry>,
    /// The running total before the first entry.
    before: u64,
    #[cfg(steps)]
    pub(crate) steps: crate::steps::Steps,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    /// The running total with this entry; it wraps, and only differences are read.
    through: u64,
}

impl SlidingLog {
    pub(crate) fn try_new(config: &Log) -> Result<Self, TryReserveError> {
        let mut entries = VecDeque::new();
        if config.window_nanos() > 0 {
            // A limit counts costs, so no more entries than that; most windows hold fewer.
            entries.try_reserve_exact(config.limit.min(RESERVED_ENTRIES) as usize)?;
        }
        Ok(Self {
            unit: config.unit,
            counts: config.counts,
            limit: config.limit,
            window_nanos: config.window_nanos(),
            held: 0,
            entries,
            before: 0,
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        })
    }

    /// A log without a window forgets at once and refuses nothing.
    pub(crate) fn forgets_at_once(&self) -> bool {
        self.window_nanos == 0
    }

    /// Whether this cost could ever be admitted (rule L6).
    pub(crate) fn fits(&self, cost: u64) -> bool {
        self.forgets_at_once() || cost <= self.limit
    }

    /// When a start of this cost has room (rule L3). What costs nothing is not asked about.
    pub(crate) fn room(&self, cost: u64, now: Instant) -> Room {
        if cost == 0 || self.forgets_at_once() {
            return Room::Now;
        }
        let live = self.live(now);
        let wanted = self.held + u128::from(live.total) + u128::from(cost);
        match wanted.saturating_sub(u128::from(self.limit)) {
            0 => Room::Now,
            excess => self.freed(excess, &live).map_or(Room::Held(now.plus(self.window_nanos)), Room::At),
        }
    }

    /// When a start of this cost would have room after `ahead` more of cost 1, if all that is held
    /// were to count from now (rule R2). Starts come in rounds of one limit: the n-th is one window
    /// after the (n - limit)-th.
    pub(crate) fn room_behind(&self, ahead: u64, cost: u64, now: Instant) -> Room {
        if cost == 0 || self.forgets_at_once() {
            return Room::Now;
        }
        let (rounds, in_round) = (ahead / self.limit, ahead % self.limit);
        let live = self.live(now);
        let wanted = self.held + u128::from(live.total) + u128::from(in_round) + u128::from(cost);
        let first = match wanted.saturating_sub(u128::from(self.limit)) {
            0 => now,
            excess => self.freed(excess, &live).unwrap_or_else(|| now.plus(self.window_nanos)),
        };
        Room::At(first.plus(rounds.saturating_mul(self.window_nanos)))
    }

    /// How much is free right now (rule R3).
    pub(crate) fn available(&self, now: Instant) -> u64 {
        if self.forgets_at_once() {
            return self.limit;
        }
        let spent = self.held + u128::from(self.live(now).total);
        u64::try_from(u128::from(self.limit).saturating_sub(spent)).unwrap_or(0)
    }

    /// A ticket is granted: from here on it counts as inside the window (rule S2).
    pub(crate) fn hold(&mut self, cost: u64) {
        if !self.forgets_at_once() {
            self.held += u128::from(cost);
        }
    }

    /// What was held is not any more, and nothing was spent.
    pub(crate) fn let_go(&mut self, cost: u64) {
        if !self.forgets_at_once() {
            self.held -= u128::from(cost);
        }
    }

    /// What was held counts as spent at `at`, which is now or, for a grant that was abandoned
    /// (rule S3), a little before.
    pub(crate) fn spend_held(&mut self, cost: u64, at: Instant, now: Instant) {
        if cost == 0 || self.forgets_at_once() {
            return;
        }
        self.let_go(cost);
        self.prune(now);
        if at.plus(self.window_nanos) <= now {
            return;
        }
        // Only a reset lets a window hold more than its limit; beyond 2^64 - 1 it is as good as full.
        let cost = cost.min(u64::MAX - self.live(now).total);
        match self.entries.back_mut() {
            Some(last) if last.at == at => last.through = last.through.wrapping_add(cost),
            Some(last) if last.at > at => self.spend_earlier(cost, at),
            last => {
                let through = last.map_or(self.before, |entry| entry.through).wrapping_add(cost);
                self.entries.push_back(Entry { at, through });
            }
        }
    }

    /// Forgets all starts (rule D2). What is held stays.
    pub(crate) fn reset(&mut self) {
        self.entries.clear();
    }

    fn spend_earlier(&mut self, cost: u64, at: Instant) {
        let place = self.entries.partition_point(|entry| {
            #[cfg(steps)]
            self.steps.count();
            entry.at < at
        });
        if self.entries[place].at != at {
            let through = place.checked_sub(1).map_or(self.before, |i| self.entries[i].through);
            self.entries.insert(place, Entry { at, through });
        }
        for entry in self.entries.range_mut(place..) {
            #[cfg(steps)]
            self.steps.count();
            entry.through = entry.through.wrapping_add(cost);
        }
    }

    /// Drops what is a whole window old, so that memory follows the starts in the window.
    fn prune(&mut self, now: Instant) {
        while let Some(first) = self.entries.front() {
            #[cfg(steps)]
            self.steps.count();
            if first.at.plus(self.window_nanos) > now {
                break;
            }
            self.before = first.through;
            self.entries.pop_front();
        }
    }

    fn live(&self, now: Instant) -> Live {
        let dead = match self.entries.front() {
            Some(first) if first.at.plus(self.window_nanos) <= now => self.entries.partition_point(|entry| {
                #[cfg(steps)]
                self.steps.count();
                entry.at.plus(self.window_nanos) <= now
            }),
            _ => 0,
        };
        let before = dead.checked_sub(1).map_or(self.before, |last| self.entries[last].through);
        let through = self.entries.back().map_or(before, |last| last.through);
        Live { before, total: through.wrapping_sub(before) }
    }

    /// When `excess` of what is in the window has left it; `None` if entries do not hold that much.
    fn freed(&self, excess: u128, live: &Live) -> Option<Instant> {
        let excess = u64::try_from(excess).ok().filter(|&excess| excess <= live.total)?;
        let first = self.entries.front()?;
        // One start out, one in: the usual case needs no search.
        let entry = if first.through.wrapping_sub(live.before) >= excess
            && first.through.wrapping_sub(live.before) <= live.total
        {
            first
        } else {
            let place = self.entries.partition_point(|entry| {
                #[cfg(steps)]
                self.steps.count();
                let sum = entry.through.wrapping_sub(live.before);
                // An entry that is no longer live lies before `live.before`, and wraps.
                sum > live.total || sum < excess
            });
            self.entries.get(place)?
        };
        Some(entry.at.plus(self.window_nanos))
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self, held: u128) {
        assert_eq!(self.held, if self.forgets_at_once() { 0 } else { held }, "log: what is held");
        assert!(self.entries.iter().zip(self.entries.iter().skip(1)).all(|(a, b)| a.at < b.at), "log: order");
    }
}

/// The part of the log that is inside the window.
struct Live {
    /// The running total before it.
    before: u64,
    /// What it adds up to.
    total: u64,
}
