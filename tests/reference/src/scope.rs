//! A scope (the client or a provider): its limits and what they remember.
//!
//! Owns the entries of started calls, the not-before time and the hand-off time. It deliberately
//! does not count what runs or is granted: that is counted from the tickets each time.

use crate::types::{Limits, Pacer};

/// The hand-off time is never halved below this (rule S4a).
const SHORTEST_HAND_OFF: u64 = 1_000_000;

/// Something that a pacer counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) cost: u64,
}

/// A pacer with its entries.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    pub(crate) rule: Pacer,
    pub(crate) entries: Vec<Entry>,
}

/// The limits of one scope and what they remember.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) pacers: Vec<Paced>,
    pub(crate) hand_off: u64,
    /// Rule L5; stays 0 for the client.
    pub(crate) not_before: u64,
}

impl Paced {
    /// How long an entry matters: the interval or window with its margin (rule L9).
    pub(crate) fn span(&self) -> u64 {
        match self.rule {
            Pacer::Interval { interval, margin } => interval.saturating_add(margin),
            Pacer::Log { window, margin, .. } => window.saturating_add(margin),
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        matches!(self.rule, Pacer::Log { .. })
    }

    /// The cost and the limit, if this is a log that is asked about a ticket with these costs.
    // rule L3: a log is not asked about a ticket that costs 0 in it
    // rule L6: a log whose window is 0 forgets at once and refuses no cost
    pub(crate) fn asks(&self, costs: &[u64]) -> Option<(u64, u64)> {
        match self.rule {
            Pacer::Log { unit, limit, .. } => {
                let cost = costs.get(usize::from(unit)).copied().unwrap_or(0);
                (cost > 0 && self.span() > 0).then_some((cost, limit))
            }
            Pacer::Interval { .. } => None,
        }
    }

    /// Remembers a start of a ticket with these costs.
    pub(crate) fn enter(&mut self, at: u64, costs: &[u64]) {
        if self.is_log() {
            if let Some((cost, _)) = self.asks(costs) {
                self.entries.push(Entry { at, cost });
            }
        } else {
            self.entries.push(Entry { at, cost: 0 });
        }
    }

    /// For an interval: the first instant at which the next start is allowed.
    // rule L2
    pub(crate) fn gap_over(&self) -> u64 {
        let last = self.entries.iter().map(|entry| entry.at).max();
        last.map_or(0, |at| at.saturating_add(self.span()))
    }

    /// Drops what has no influence any more; decides nothing.
    pub(crate) fn forget_before(&mut self, now: u64) {
        let span = self.span();
        self.entries.retain(|entry| entry.at.saturating_add(span) > now);
    }
}

impl Scope {
    pub(crate) fn new(limits: &Limits, hand_off: u64) -> Scope {
        let fresh = |rule: &Pacer| Paced { rule: *rule, entries: Vec::new() };
        Scope {
            max_concurrent: limits.max_concurrent,
            pacers: limits.pacers.iter().map(fresh).collect(),
            hand_off,
            not_before: 0,
        }
    }

    pub(crate) fn is_interval_paced(&self) -> bool {
        self.pacers.iter().any(|pacer| !pacer.is_log())
    }

    // rule S4a
    pub(crate) fn halve_hand_off(&mut self) {
        self.hand_off = (self.hand_off / 2).max(SHORTEST_HAND_OFF);
    }
}

/// What of these entries is inside the half-open window `(at - span, at]`.
// rule L3
pub(crate) fn spent(entries: &[Entry], span: u64, at: u64) -> u128 {
    let inside = entries.iter().filter(|entry| entry.at.saturating_add(span) > at);
    inside.map(|entry| u128::from(entry.cost)).sum()
}

/// The first instant, not before `from`, at which `cost` more fits under `limit`, if nothing is
/// added to these entries.
// rule L3
pub(crate) fn first_room(entries: &[Entry], span: u64, limit: u64, cost: u64, from: u64) -> u64 {
    let mut instants = vec![from];
    instants.extend(entries.iter().map(|entry| entry.at.saturating_add(span)));
    instants.retain(|&at| at >= from && at < u64::MAX);
    instants.sort_unstable();
    instants.dedup();
    let fits = |&at: &u64| spent(entries, span, at) + u128::from(cost) <= u128::from(limit);
    instants.into_iter().find(fits).unwrap_or(u64::MAX)
}
