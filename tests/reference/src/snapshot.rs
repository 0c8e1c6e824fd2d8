//! How everything stands, for those who watch.
//!
//! Owns no state, and no time passes in it: it tells of the latest instant that was seen.

use crate::model::Model;
use crate::scope::spent;
use crate::ticket::{Record, Stage};
use crate::types::{Counts, Pacer, PacerView, ScopeView, Snapshot};

impl Model {
    /// How everything stands.
    // rule O1
    pub fn snapshot(&self) -> Snapshot {
        let names = self.providers();
        Snapshot {
            client: self.view(None),
            providers: names.into_iter().map(|name| (name, self.view(Some(name)))).collect(),
            next: self.poll_timeout(),
        }
    }

    // rule O1: running, granted, queued, spent and left per pacer, not-before time
    fn view(&self, scope: Option<u32>) -> ScopeView {
        let its = self.scope(scope);
        ScopeView {
            counts: self.counts_in(scope),
            pacers: (0..its.pacers.len()).map(|index| self.pacer_view(scope, index)).collect(),
            not_before: its.not_before,
            next: self.next_in(scope),
        }
    }

    // rule O1: next instant at which something can change
    fn next_in(&self, scope: Option<u32>) -> Option<u64> {
        let its = self.scope(scope);
        let mut instants = vec![its.not_before];
        for pacer in &its.pacers {
            match pacer.rule {
                Pacer::Interval { .. } => instants.push(pacer.gap_over()),
                Pacer::Log { .. } => {
                    let spent = pacer.entries.iter().filter(|entry| entry.cost > 0);
                    instants.extend(spent.map(|entry| entry.at.saturating_add(pacer.span())));
                }
            }
        }
        for record in self.tickets.iter().filter(|record| record.is_in(scope)) {
            if let Stage::Granted { until, .. } = record.stage {
                instants.push(until);
            }
        }
        instants.into_iter().filter(|&at| at > self.now && at < u64::MAX).min()
    }

    /// How many tickets of a scope are where.
    pub(crate) fn counts_in(&self, scope: Option<u32>) -> Counts {
        let count = |is: fn(&Record) -> bool| {
            let its = self.tickets.iter().filter(|record| record.is_in(scope));
            its.filter(|record| is(record)).count() as u32
        };
        Counts {
            running: count(Record::is_running),
            granted: count(Record::is_granted),
            queued: count(Record::is_queued),
        }
    }

    /// What a pacer has spent and has left, grants that have not started (S2) and held calls (L9)
    /// included; for an interval, when it allows the next start.
    // rules O1, R3
    pub(crate) fn pacer_view(&self, scope: Option<u32>, index: usize) -> PacerView {
        let pacer = &self.scope(scope).pacers[index];
        match pacer.rule {
            Pacer::Interval { .. } => PacerView::Interval { next: pacer.gap_over().max(self.now) },
            Pacer::Log { limit, .. } => {
                let spent = spent(&self.counted(scope, index, self.now), pacer.span(), self.now);
                let left = u128::from(limit).saturating_sub(spent) as u64;
                PacerView::Log { spent: u64::try_from(spent).unwrap_or(u64::MAX), left }
            }
        }
    }
}
