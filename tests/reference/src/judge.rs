//! Who may start, and what holds back who may not.
//!
//! Owns the judgement of one ticket at one instant, and of the queue as a whole. It changes
//! nothing, and deliberately remembers nothing between two questions.

use crate::model::Model;
use crate::scope::{Entry, spent};
use crate::ticket::Record;
use crate::types::{Hold, Side, Ticket};

/// One thing that holds a ticket back by itself, whoever else waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    /// The scope that it belongs to; none for a key.
    pub(crate) side: Option<Side>,
    /// The first instant at which time ends it, if time does.
    pub(crate) until: Option<u64>,
}

/// How a queued ticket stands at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) ticket: Ticket,
    pub(crate) provider: u32,
    pub(crate) eligible: bool,
    /// The scope of which it stops every younger ticket (rule E3).
    pub(crate) stops: Option<Side>,
    /// Whether it waits for its turn at its provider: its key is free, and it is not passed over.
    pub(crate) in_line: bool,
    /// Whether it is the turn of this one at its provider, so that only the client holds it back.
    pub(crate) in_front: bool,
}

impl Standing {
    /// Whether this older ticket has precedence over a younger one of that provider.
    // rule E3
    pub(crate) fn precedes(&self, provider: u32) -> bool {
        match self.stops {
            Some(Side::Client) => true,
            Some(Side::Provider) => self.provider == provider,
            None => false,
        }
    }
}

impl Model {
    /// Whether another ticket with its key is granted or running.
    // rules L1, E1, E6
    pub(crate) fn is_key_busy(&self, record: &Record) -> bool {
        let same = |other: &&Record| other.ticket != record.ticket && other.key == record.key;
        record.key.is_some() && self.tickets.iter().filter(same).any(Record::is_active)
    }

    /// What a log counts at an instant: its entries, and what has no instant of its own yet, as
    /// if it had happened at that instant.
    pub(crate) fn counted(&self, scope: Option<u32>, index: usize, at: u64) -> Vec<Entry> {
        let pacer = &self.scope(scope).pacers[index];
        // rule S2: a granted ticket that has not started counts as inside the window
        // rule L9: a running call that the log holds counts until it has settled
        let holds_open =
            |record: &&Record| pacer.is_log() && (record.is_granted() || pacer.held.contains(&record.ticket));
        let mut entries = pacer.entries.clone();
        let members = self.tickets.iter().filter(|record| record.is_in(scope));
        for record in members.filter(holds_open) {
            if let Some((cost, _)) = pacer.asks(&record.costs) {
                entries.push(Entry { at, cost, ticket: Some(record.ticket) });
            }
        }
        entries
    }

    /// Everything that holds a ticket back by itself at an instant: each condition of E1 but the
    /// order (E3) and being passed over (S4). The provider's come before the client's.
    // rule E1
    pub(crate) fn holds(&self, record: &Record, at: u64) -> Vec<Held> {
        let mut holds = Vec::new();
        if self.is_key_busy(record) {
            let hold = Hold::Key;
            holds.push(Held { hold, side: None, until: None });
        }
        for (side, id) in record.scopes() {
            let scope = self.scope(id);
            let mut hold = |hold, until| {
                holds.push(Held { hold, side: Some(side), until });
            };
            let members = || self.tickets.iter().filter(|other| other.is_in(id));

            // rule L1
            let active = members().filter(|other| other.is_active()).count();
            if scope.max_concurrent.is_some_and(|bound| active as u64 >= u64::from(bound)) {
                hold(Hold::Concurrency(side), None);
            }
            // rule S2
            if scope.is_interval_paced() && members().any(Record::is_granted) {
                hold(Hold::HandOff(side), None);
            }
            // rule L5
            if side == Side::Provider && scope.not_before > at {
                hold(Hold::Cooldown, Some(scope.not_before));
            }
            // rule L4: all pacers must agree
            for (index, pacer) in scope.pacers.iter().enumerate() {
                if !pacer.is_log() {
                    // rule L2
                    if pacer.gap_over() > at {
                        hold(Hold::Interval(side, index as u16), Some(pacer.gap_over()));
                    }
                } else if let Some((cost, limit)) = pacer.asks(&record.costs) {
                    // rules L3, D2
                    let spent = spent(&self.counted(id, index, at), pacer.span(), at);
                    let fits = spent + u128::from(cost) <= u128::from(limit);
                    if !fits && !record.is_exempt(side) {
                        let until = self.log_room(record, id, index, at, 0);
                        hold(Hold::Log(side, index as u16), Some(until));
                    }
                }
            }
        }
        holds
    }

    /// The whole queue at an instant, in the order of submission.
    // rules E1, E2, E3
    pub(crate) fn standing(&self, at: u64) -> Vec<Standing> {
        let mut queue: Vec<Standing> = Vec::new();
        for record in self.tickets.iter().filter(|record| record.is_queued()) {
            let preceded = queue.iter().any(|older| older.precedes(record.provider));
            let holds = self.holds(record, at);
            let free = !preceded && !record.is_passed_over();
            let of_provider = |held: &Held| held.side != Some(Side::Client);
            let in_line = !record.is_passed_over() && holds.iter().all(|held| held.hold != Hold::Key);
            let behind =
                |older: &Standing| older.stops == Some(Side::Provider) && older.provider == record.provider;
            let in_front = in_line && !holds.iter().any(of_provider) && !queue.iter().any(behind);
            queue.push(Standing {
                in_line,
                in_front,
                ticket: record.ticket,
                provider: record.provider,
                eligible: free && holds.is_empty(),
                stops: if free { stops(&holds) } else { None },
            });
        }
        queue
    }

    /// The oldest queued ticket that may start.
    // rule E2
    pub(crate) fn first_eligible(&self, at: u64) -> Option<Ticket> {
        let queue = self.standing(at);
        queue.iter().find(|one| one.eligible).map(|one| one.ticket)
    }

    /// Which hold is told of a ticket, queued or not yet; none if it would be next. An older ticket is
    /// told of whether it may go (E2, E4) or stops this one (E3).
    pub(crate) fn held_by(&self, record: &Record, at: u64) -> Option<Hold> {
        if record.is_passed_over() {
            return Some(Hold::Unpolled);
        }
        let holds = self.holds(record, at);
        if let Some(key) = holds.iter().find(|held| held.side.is_none()) {
            return Some(key.hold);
        }
        for (side, _) in record.scopes() {
            let of_side = || holds.iter().filter(|held| held.side == Some(side));
            // those that a release ends: concurrency, then the hand-off
            if let Some(held) = of_side().find(|held| held.until.is_none()) {
                return Some(held.hold);
            }
            // those that time ends: the latest, and of several the first
            let latest = of_side().map(|held| held.until).max();
            if let Some(held) = of_side().find(|held| Some(held.until) == latest) {
                return Some(held.hold);
            }
        }
        let queue = self.standing(at);
        let mut older = queue.iter().filter(|one| one.ticket < record.ticket);
        let waits_before = |one: &Standing| one.in_front || (one.in_line && one.provider == record.provider);
        older.any(waits_before).then_some(Hold::Order)
    }
}

/// The scope of which a ticket with these holds stops every younger one.
// rule E3: nothing but log budgets; of its provider's, whether or not the client's too: only there
fn stops(holds: &[Held]) -> Option<Side> {
    let is_log_of = |held: &Held, side| matches!(held.hold, Hold::Log(of, _) if of == side);
    let by_provider = holds.iter().any(|held| is_log_of(held, Side::Provider));
    let by_client = holds.iter().any(|held| is_log_of(held, Side::Client));
    let by_else = holds.iter().any(|held| !matches!(held.hold, Hold::Log(..)));
    match (by_else, by_provider, by_client) {
        (false, true, _) => Some(Side::Provider),
        (false, false, true) => Some(Side::Client),
        _ => None,
    }
}
