//! The entries of a log, in order, each with the running total: what is spent and what turns out not to be goes in
//! and out here, and what has left the window goes.
//!
//! Lacks what a start of cost 1 does in a log that has room or trades one start for another, which looks at no more
//! than the ends.

use super::{Entry, SlidingLog};
use crate::Instant;

impl SlidingLog {
    /// So much is spent at `at`, which is now or a little before.
    #[inline(always)]
    pub(super) fn spend(&mut self, cost: u64, at: Instant, now: Instant) {
        if self.left() < cost || self.vacant() == 0 {
            self.prune(now);
        }
        if cost == 0 || at.plus(self.window_nanos) <= now {
            return;
        }
        // Beyond 2^64 - 1, which only resets and corrections lead to, a window is as good as full.
        let cost = cost.min(u64::MAX - self.kept);
        self.kept += cost;
        self.through = self.through.wrapping_add(cost);
        self.last_at = self.last_at.max(at);
        match self.entries.back_mut() {
            Some(last) if last.at == at => last.through = self.through,
            Some(last) if last.at > at => self.spend_earlier(cost, at),
            _ => self.entries.push_back(Entry { at, through: self.through }),
        }
    }

    /// So much that was spent at `at` was not, if that is still in the window.
    pub(super) fn unspend(&mut self, cost: u64, at: Instant, now: Instant) {
        self.prune(now);
        let place = self.entries.partition_point(|entry| entry.at < at);
        let Some(entry) = self.entries.get(place).filter(|entry| entry.at == at) else { return };
        let (through, earlier) = (entry.through, self.through_before(place));
        let cost = cost.min(through.wrapping_sub(earlier));
        self.kept -= cost;
        self.through = self.through.wrapping_sub(cost);
        self.shift(place, cost.wrapping_neg());
        if through.wrapping_sub(cost) == earlier {
            self.entries.remove(place);
        }
    }

    #[inline(never)]
    fn spend_earlier(&mut self, cost: u64, at: Instant) {
        let place = self.entries.partition_point(|entry| {
            #[cfg(steps)]
            self.steps.count();
            entry.at < at
        });
        if self.entries.get(place).is_none_or(|entry| entry.at != at) {
            self.entries.insert(place, Entry { at, through: self.through_before(place) });
        }
        self.shift(place, cost);
    }

    /// The running total before the n-th entry.
    pub(super) fn through_before(&self, nth: usize) -> u64 {
        let earlier = nth.checked_sub(1).and_then(|earlier| self.entries.get(earlier));
        earlier.map_or(self.before(), |entry| entry.through)
    }

    /// The running totals from the n-th entry on are so much more.
    fn shift(&mut self, nth: usize, by: u64) {
        for later in nth..self.entries.len() {
            #[cfg(steps)]
            self.steps.count();
            if let Some(entry) = self.entries.get_mut(later) {
                entry.through = entry.through.wrapping_add(by);
            }
        }
    }

    /// Drops what is a whole window old. Only where it is in the way, of a start or of one more entry: so
    /// memory follows the starts in the window, and most starts look at none that came before.
    #[inline(always)]
    pub(super) fn prune(&mut self, now: Instant) {
        if !self.has_dead(now) {
            return;
        }
        if let Some(first) = self.entries.front() {
            self.kept = self.through.wrapping_sub(first.through);
            self.entries.drop_front(1);
        }
        // One start out, one in: mostly there is no second that has left.
        if self.has_dead(now) {
            self.prune_many(now);
        }
    }

    #[inline(never)]
    fn prune_many(&mut self, now: Instant) {
        let dead = if self.empty_from() <= now { self.entries.len() } else { self.dead(now) };
        self.kept = self.through.wrapping_sub(self.through_before(dead));
        self.entries.drop_front(dead);
    }

    /// Whether an entry has left the window.
    #[inline(always)]
    pub(super) fn has_dead(&self, now: Instant) -> bool {
        self.entries.front().is_some_and(|first| first.at.plus(self.window_nanos) <= now)
    }

    /// How many entries have left the window.
    pub(super) fn dead(&self, now: Instant) -> usize {
        self.entries.partition_point(|entry| {
            #[cfg(steps)]
            self.steps.count();
            entry.at.plus(self.window_nanos) <= now
        })
    }
}
