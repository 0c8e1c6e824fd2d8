//! A scope (the client or a provider): its limits and what they remember.
//!
//! Owns the entries of started calls, the not-before time and the hand-off time. It deliberately
//! does not count what runs or is granted: that is counted from the tickets each time.

use crate::ticket::Record;
use crate::types::{Limits, Pacer, Ticket};

/// The hand-off time is never halved below this (rule S4a).
const SHORTEST_HAND_OFF: u64 = 1_000_000;

/// Something that a pacer counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) cost: u64,
    /// Whose it is; none if it is only supposed, in an estimate.
    pub(crate) ticket: Option<Ticket>,
}

/// A pacer and what it knows.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    pub(crate) rule: Pacer,
    pub(crate) entries: Vec<Entry>,
    /// For a log: the running tickets that it counts until they have settled (rule L9).
    pub(crate) held: Vec<Ticket>,
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

/// A provider: one that is there, or what is kept of one that was removed.
// rule L10
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) name: u32,
    pub(crate) is_removed: bool,
    /// Whether it was made on demand.
    pub(crate) is_from_template: bool,
    pub(crate) scope: Scope,
}

impl Paced {
    // rule L7: a new one starts empty
    fn new(rule: &Pacer) -> Paced {
        Paced { rule: *rule, entries: Vec::new(), held: Vec::new() }
    }

    /// Whether another pacer is of its kind and unit.
    // rule L7: what a log counts from is not part of its kind
    fn is_like(&self, other: &Pacer) -> bool {
        match (self.rule, *other) {
            (Pacer::Interval { .. }, Pacer::Interval { .. }) => true,
            (Pacer::Log { unit: mine, .. }, Pacer::Log { unit, .. }) => mine == unit,
            _ => false,
        }
    }

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

    /// What a ticket costs here.
    fn cost_of(&self, record: &Record) -> u64 {
        match self.rule {
            Pacer::Log { unit, .. } => record.costs.get(usize::from(unit)).copied().unwrap_or(0),
            Pacer::Interval { .. } => 0,
        }
    }

    /// Remembers a ticket at an instant, one of cost 0 too: it may be corrected (rule L8).
    // rule L6: a log whose window is 0 forgets at once
    pub(crate) fn enter(&mut self, at: u64, record: &Record) {
        if !self.is_log() || self.span() > 0 {
            self.entries.push(Entry { at, cost: self.cost_of(record), ticket: Some(record.ticket) });
        }
    }

    /// A ticket starts: a call counts as the log counted when the call started, whatever the log
    /// counts from later (rule L7).
    // rules L2, L3, L9
    pub(crate) fn start(&mut self, at: u64, record: &Record) {
        match self.rule {
            Pacer::Log { until_settled: true, .. } => self.held.push(record.ticket),
            Pacer::Log { .. } | Pacer::Interval { .. } => self.enter(at, record),
        }
    }

    /// A running ticket settles: if it was held, it counts for one window from now.
    // rule L9
    pub(crate) fn settle(&mut self, at: u64, record: &Record) {
        if self.held.contains(&record.ticket) {
            self.held.retain(|&ticket| ticket != record.ticket);
            self.enter(at, record);
        }
    }

    /// The cost of a running ticket was corrected: its entry is changed if there is one. What is
    /// held is counted from the ticket, and needs no change.
    // rule L8
    pub(crate) fn correct(&mut self, record: &Record) {
        let cost = self.cost_of(record);
        for entry in &mut self.entries {
            if entry.ticket == Some(record.ticket) {
                entry.cost = cost;
            }
        }
    }

    /// Forgets what it logged, running calls included.
    // rule D2
    pub(crate) fn reset(&mut self) {
        self.entries.clear();
        self.held.clear();
    }

    /// For an interval: the first instant at which the next start is allowed.
    // rule L2
    pub(crate) fn gap_over(&self) -> u64 {
        let last = self.entries.iter().map(|entry| entry.at).max();
        last.map_or(0, |at| at.saturating_add(self.span()))
    }

    /// Drops what can have no influence any more.
    // rule L7: a window that grows later counts only what is inside this one then, while an
    // interval keeps its last start, however old. rule L6: a window of 0 forgets at once
    pub(crate) fn forget_before(&mut self, now: u64) {
        let span = self.span();
        if self.is_log() {
            self.entries.retain(|entry| entry.at.saturating_add(span) > now);
            if span == 0 {
                self.held.clear();
            }
        } else {
            let last = self.entries.iter().map(|entry| entry.at).max();
            self.entries.retain(|entry| Some(entry.at) == last);
        }
    }

    /// Whether nothing that it knows matters any more, as long as it stays as it is.
    // rule L10: a log is empty, an interval is over
    pub(crate) fn is_over(&self, now: u64) -> bool {
        if self.is_log() { spent(&self.entries, self.span(), now) == 0 } else { self.gap_over() <= now }
    }
}

impl Scope {
    pub(crate) fn new(limits: &Limits, hand_off: u64) -> Scope {
        Scope {
            max_concurrent: limits.max_concurrent,
            pacers: limits.pacers.iter().map(Paced::new).collect(),
            hand_off,
            not_before: 0,
        }
    }

    /// The limits as they are now.
    pub(crate) fn limits(&self) -> Limits {
        let pacers = self.pacers.iter().map(|pacer| pacer.rule).collect();
        Limits { max_concurrent: self.max_concurrent, pacers }
    }

    /// Puts other limits in force.
    // rule L7: a pacer keeps what it knows if its kind and unit stay, of several alike the n-th
    // takes over from the n-th; a new one starts empty
    pub(crate) fn change(&mut self, limits: &Limits, now: u64) {
        let mut pacers: Vec<Paced> = Vec::new();
        for rule in &limits.pacers {
            let nth = pacers.iter().filter(|pacer| pacer.is_like(rule)).count();
            let mut pacer = match self.pacers.iter().filter(|old| old.is_like(rule)).nth(nth) {
                Some(old) => Paced { rule: *rule, ..old.clone() },
                None => Paced::new(rule),
            };
            pacer.forget_before(now);
            pacers.push(pacer);
        }
        self.max_concurrent = limits.max_concurrent;
        self.pacers = pacers;
    }

    /// Whether nothing that it remembers matters any more, as long as its limits stay.
    // rule L10: its logs are empty, its intervals and cooldown are over
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.not_before <= now && self.pacers.iter().all(|pacer| pacer.is_over(now))
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
