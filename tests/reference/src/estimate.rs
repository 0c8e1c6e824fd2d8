//! How long it may take: the estimate of rule R2, what is told with a refusal, and what is free.
//!
//! It looks at a ticket's own pacers and cooldown only, and deliberately not at concurrency, keys
//! or other providers: the estimate is a lower bound (exact where R2 says so).

use crate::model::Model;
use crate::scope::{Entry, first_room};
use crate::ticket::Record;
use crate::types::{Hold, Pacer, Reason, Refusal, Side};

impl Model {
    /// The first instant at which a log has room for a ticket, after so many calls ahead of it.
    // rule R2: grants are counted as started now, running calls as settled now
    pub(crate) fn log_room(
        &self,
        record: &Record,
        scope: Option<u32>,
        index: usize,
        at: u64,
        ahead: usize,
    ) -> u64 {
        let pacer = &self.scope(scope).pacers[index];
        let Some((cost, limit)) = pacer.asks(&record.costs) else {
            return 0;
        };
        // rule D2
        let side = scope.map_or(Side::Client, |_| Side::Provider);
        if record.is_exempt(side) {
            return 0;
        }
        let mut entries = self.counted(scope, index, at);
        let mut from = at;
        for _ in 0..ahead {
            from = first_room(&entries, pacer.span(), limit, 1, from);
            if from == u64::MAX {
                return u64::MAX;
            }
            entries.push(Entry { at: from, cost: 1, ticket: None });
        }
        first_room(&entries, pacer.span(), limit, cost, from)
    }

    /// How many calls of a ticket's own provider are ahead of it for the estimate.
    // rule R2
    pub(crate) fn calls_ahead(&self, record: &Record) -> usize {
        let waits = |other: &&Record| {
            other.is_queued() && !other.is_passed_over() && other.provider == record.provider
        };
        let waiting: Vec<&Record> = self.tickets.iter().filter(waits).collect();
        let behind_its_key = |one: &Record| {
            let mut older = waiting.iter().filter(|other| other.ticket < one.ticket);
            one.key.is_some() && older.any(|other| other.key == one.key)
        };
        let older = waiting.iter().filter(|one| one.ticket < record.ticket);
        let counts = |one: &&&Record| {
            let key_is_free = !self.is_key_busy(one) && !behind_its_key(one);
            key_is_free && !one.exempt_client && !one.exempt_provider
        };
        older.filter(counts).count()
    }

    /// The instant before which a ticket cannot start, by its own pacers and cooldown.
    // rule R2
    pub(crate) fn estimate(&self, record: &Record, ahead: usize, at: u64) -> u64 {
        let mut latest = self.scope(Some(record.provider)).not_before;
        for (_, id) in record.scopes() {
            for (index, pacer) in self.scope(id).pacers.iter().enumerate() {
                let instant = match pacer.rule {
                    Pacer::Interval { .. } => pacer.gap_over(),
                    Pacer::Log { unit: 0, .. } => self.log_room(record, id, index, at, ahead),
                    Pacer::Log { .. } => self.log_room(record, id, index, at, 0),
                };
                latest = latest.max(instant);
            }
        }
        latest
    }

    /// The refusal of a ticket that waited too long: the estimate is for the place that it had.
    // rules R1, R2, W2
    pub(crate) fn late_refusal(&self, record: &Record) -> Refusal {
        Refusal {
            reason: record.late,
            held_by: self.held_by(record, self.now),
            retry_after: self.wait_until(self.estimate(record, 0, self.now)),
            key_holder: self.key_holder_if(self.held_by(record, self.now), record),
            limits_changed: false,
        }
    }

    /// How long it is until an instant, if that is ahead.
    pub(crate) fn wait_until(&self, instant: u64) -> Option<u64> {
        instant.checked_sub(self.now).filter(|&wait| wait > 0)
    }

    /// The first log that costs like these can never fit, the client's first.
    // rule L6; rule D2: a log that it is exempt from refuses it nothing
    pub(crate) fn impossible(&self, record: &Record) -> Option<Hold> {
        for (side, id) in [(Side::Client, None), (Side::Provider, Some(record.provider))] {
            for (index, pacer) in self.scope(id).pacers.iter().enumerate() {
                let is_above = pacer.asks(&record.costs).is_some_and(|(cost, limit)| cost > limit);
                if is_above && !record.is_exempt(side) {
                    return Some(Hold::Log(side, index as u16));
                }
            }
        }
        None
    }
}

/// A refusal that time cannot mend.
pub(crate) fn flat(reason: Reason) -> Refusal {
    Refusal { reason, held_by: None, retry_after: None, key_holder: None, limits_changed: false }
}
