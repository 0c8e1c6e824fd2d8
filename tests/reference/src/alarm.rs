//! When time alone changes something.
//!
//! Every instant that means anything is tried in turn; there is deliberately no timer state.

use crate::model::Model;
use crate::ticket::{Record, Stage};

impl Model {
    /// The first instant after the latest `now` at which time alone would change something: take
    /// a grant back, expire a ticket, or grant one.
    // rule T6
    pub fn poll_timeout(&self) -> Option<u64> {
        let counts = self.counts();
        let watched = self.watching_idle && counts.granted > 0;
        if counts.queued == 0 && !watched {
            return None;
        }
        let mut instants = self.instants();
        instants.retain(|&at| at > self.now && at < u64::MAX);
        instants.sort_unstable();
        instants.dedup();
        instants.into_iter().find(|&at| self.is_anything_due(at))
    }

    /// Whether a call at that instant would do anything of its own.
    // rule W6
    fn is_anything_due(&self, at: u64) -> bool {
        self.tickets.iter().any(|one| is_overdue(one, at) || is_expired(one, at))
            || self.first_eligible(at).is_some()
    }

    /// Every instant at which some condition changes by itself.
    fn instants(&self) -> Vec<u64> {
        let mut instants = Vec::new();
        for record in &self.tickets {
            match record.stage {
                Stage::Granted { until, .. } => instants.push(until),
                Stage::Queued { .. } => instants.push(record.deadline.saturating_add(1)),
                Stage::Running { .. } | Stage::Ended(_) => {}
            }
        }
        for scope in self.providers.iter().map(|one| &one.scope).chain([&self.client]) {
            instants.push(scope.not_before);
            for pacer in &scope.pacers {
                let over = |at: u64| at.saturating_add(pacer.span());
                instants.extend(pacer.entries.iter().map(|entry| over(entry.at)));
            }
        }
        instants
    }
}

/// Whether a grant is taken back at that instant.
// rule S4
pub(crate) fn is_overdue(record: &Record, at: u64) -> bool {
    matches!(record.stage, Stage::Granted { until, .. } if until <= at)
}

/// Whether a queued ticket expires at that instant; at the deadline itself a grant wins.
// rule W2
pub(crate) fn is_expired(record: &Record, at: u64) -> bool {
    record.is_queued() && at > record.deadline
}
