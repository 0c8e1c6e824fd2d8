//! Why a ticket stands where it stands, and who has a key.
//!
//! Owns no judgement: it lists what `judge.rs` finds. It deliberately has no shortcut for a ticket
//! that waits behind others.

use crate::judge::{Held, Standing};
use crate::model::Model;
use crate::scope::first_room;
use crate::ticket::{Record, Stage};
use crate::types::{Explanation, HeldBack, Hold, KeyHolder, Limits, Side, Ticket};

impl Model {
    /// Why a ticket stands where it stands; none if it is gone or has ended.
    // rule O2
    pub fn explain(&self, ticket: Ticket) -> Option<Explanation> {
        let record = self.find(ticket).filter(|record| record.is_queued() || record.is_active())?;
        Some(self.explained(record, &self.standing(self.now)))
    }

    /// The same for all tickets that wait, in the order of submission.
    // rule O2
    pub fn explain_queued(&self) -> Vec<Explanation> {
        let queue = self.standing(self.now);
        let queued = self.tickets.iter().filter(|record| record.is_queued());
        queued.map(|record| self.explained(record, &queue)).collect()
    }

    /// Who has the key of a ticket, where that is what holds it back.
    pub(crate) fn key_holder_if(&self, hold: Option<Hold>, record: &Record) -> Option<KeyHolder> {
        if hold != Some(Hold::Key) {
            return None;
        }
        let has_it =
            |other: &&Record| other.ticket != record.ticket && other.key == record.key && other.is_active();
        let holder = self.tickets.iter().find(has_it)?;
        Some(KeyHolder {
            ticket: holder.ticket,
            provider: holder.provider,
            is_running: holder.is_running(),
            since: holder.since().unwrap_or(self.now),
        })
    }

    /// The limits of the scope whose limit a hold is: as they are, or as they would be made.
    // rule L10
    pub(crate) fn limits_of(&self, record: &Record, hold: Option<Hold>) -> Option<Limits> {
        let (Hold::Concurrency(side) | Hold::Interval(side, _) | Hold::Log(side, _)) = hold? else {
            return None;
        };
        let id = (side == Side::Provider).then_some(record.provider);
        if self.has_scope(id) { Some(self.scope(id).limits()) } else { self.template.clone() }
    }

    /// Whether a refused ticket's scope has other limits than those that held it back.
    pub(crate) fn has_other_limits(&self, record: &Record) -> bool {
        let Stage::Ended(refusal) = &record.stage else { return false };
        self.limits_of(record, refusal.held_by) != record.refused_by
    }

    fn explained(&self, record: &Record, queue: &[Standing]) -> Explanation {
        let holds = if record.is_queued() { self.all_holds(record, queue) } else { Vec::new() };
        let of_key = holds.iter().find(|held| held.hold == Hold::Key).map(|held| held.hold);
        // rule R1: from its own pacers and cooldown
        let opens = self.estimate(record, 0, self.now);
        let earliest = match (record.is_queued(), record.is_granted()) {
            (true, _) => Some(opens).filter(|&at| at > self.now),
            (false, true) => Some(self.now),
            (false, false) => None,
        };
        Explanation {
            ticket: record.ticket,
            state: record.state(),
            provider: record.provider,
            key: record.key,
            submitted: record.submitted,
            since: record.since(),
            deadline: Some(record.deadline).filter(|&at| at < u64::MAX && !record.is_running()),
            key_holder: self.key_holder_if(of_key, record),
            holds,
            earliest,
        }
    }

    /// Every condition of E1 that a queued ticket does not meet.
    // rules E1, O2
    fn all_holds(&self, record: &Record, queue: &[Standing]) -> Vec<HeldBack> {
        let mut all = Vec::new();
        if record.is_passed_over() {
            all.push(HeldBack { hold: Hold::Unpolled, until: None, by: None });
        }
        for held in self.holds(record, self.now) {
            all.push(HeldBack {
                hold: held.hold,
                until: self.time_ends(record, &held),
                by: self.key_holder_if(Some(held.hold), record).map(|holder| holder.ticket),
            });
        }
        let mut older = queue.iter().filter(|one| one.ticket < record.ticket);
        // rule E3
        while let Some(one) = older.find(|one| one.precedes(record.provider)) {
            all.push(HeldBack { hold: Hold::Order, until: None, by: Some(one.ticket) });
        }
        all
    }

    /// The instant at which time alone ends a hold: of a log only the entries leave with time.
    fn time_ends(&self, record: &Record, held: &Held) -> Option<u64> {
        let until = match (held.hold, held.side) {
            (Hold::Log(_, index), Some(side)) => {
                let id = (side == Side::Provider).then_some(record.provider);
                let pacer = &self.scope(id).pacers[usize::from(index)];
                let (cost, limit) = pacer.asks(&record.costs)?;
                // What a grant or an unsettled call holds stays for ever, if nobody calls.
                let entries = self.counted(id, usize::from(index), u64::MAX);
                Some(first_room(&entries, pacer.span(), limit, cost, self.now))
            }
            _ => held.until,
        };
        until.filter(|&at| at < u64::MAX)
    }
}
