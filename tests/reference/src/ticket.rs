//! One ticket: what was asked for, and where it stands.
//!
//! Deliberately lacks every decision: it is only remembered here.

use crate::types::{Limits, Reason, Refusal, Side, State, Ticket};

/// Where a ticket is, with what belongs to that place.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// It waits.
    Queued {
        /// Rule S4.
        passed_over: bool,
    },
    /// It may start.
    Granted {
        /// The instant of the grant.
        at: u64,
        /// The instant at which it is taken back (rule S4).
        until: u64,
    },
    /// It started.
    Running {
        /// When.
        at: u64,
    },
    /// It was refused.
    Ended(Refusal),
}

/// One accepted ticket.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) ticket: Ticket,
    pub(crate) provider: u32,
    pub(crate) key: Option<u64>,
    /// Its cost in every unit.
    pub(crate) costs: Vec<u64>,
    /// It expires once `now` is past this (rule W2).
    pub(crate) deadline: u64,
    /// The reason with which it does (rules W2 and R2).
    pub(crate) late: Reason,
    pub(crate) submitted: u64,
    pub(crate) stage: Stage,
    /// Once refused, the limits of the scope that held it back.
    pub(crate) refused_by: Option<Limits>,
    /// Queued when the client was reset: its logs are not asked about it (rule D2).
    pub(crate) exempt_client: bool,
    /// The same for its provider.
    pub(crate) exempt_provider: bool,
    /// Its last grant was taken back (rule S4a).
    pub(crate) taken_back: bool,
    /// It was polled since (rule S4a).
    pub(crate) polled_since: bool,
    /// It started as of an earlier call, and nobody knows when.
    pub(crate) is_undated: bool,
    /// When the first other call came upon it after that.
    pub(crate) come_upon: Option<u64>,
}

impl Record {
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued { .. })
    }

    pub(crate) fn is_passed_over(&self) -> bool {
        matches!(self.stage, Stage::Queued { passed_over: true })
    }

    pub(crate) fn is_granted(&self) -> bool {
        matches!(self.stage, Stage::Granted { .. })
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    /// When it was granted or, if it runs, started, as far as anybody knows.
    // rule O2
    pub(crate) fn since(&self) -> Option<u64> {
        match self.stage {
            Stage::Running { .. } if self.is_undated => self.come_upon,
            Stage::Granted { at, .. } | Stage::Running { at } => Some(at),
            Stage::Queued { .. } | Stage::Ended(_) => None,
        }
    }

    /// Whether it holds its slots and its key.
    pub(crate) fn is_active(&self) -> bool {
        self.is_granted() || self.is_running()
    }

    /// Whether the logs of one of its scopes are not asked about it.
    // rule D2
    pub(crate) fn is_exempt(&self, side: Side) -> bool {
        match side {
            Side::Client => self.exempt_client,
            Side::Provider => self.exempt_provider,
        }
    }

    /// Whether a scope (`None`: the client) is one of its own two.
    pub(crate) fn is_in(&self, scope: Option<u32>) -> bool {
        scope.is_none() || scope == Some(self.provider)
    }

    /// Its own two scopes, in the order in which holds are told.
    pub(crate) fn scopes(&self) -> [(Side, Option<u32>); 2] {
        [(Side::Provider, Some(self.provider)), (Side::Client, None)]
    }

    pub(crate) fn state(&self) -> State {
        match &self.stage {
            Stage::Queued { passed_over } => State::Queued { passed_over: *passed_over },
            Stage::Granted { .. } => State::Granted,
            Stage::Running { .. } => State::Running,
            Stage::Ended(refusal) => State::Ended(refusal.reason),
        }
    }
}
