//! What a caller asks for, and what it is answered.
//!
//! Owns: the words of [`Coordinator::request`](super::Coordinator::request) and
//! [`Coordinator::step`](super::Coordinator::step). Lacks what is done about them.

use core::time::Duration;

use crate::{Key, ProviderId, Refusal, TicketId, UnitId};

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Whom the call goes to.
    pub provider: ProviderId,
    /// What the call is, if only one such call may run at a time.
    pub key: Option<Key>,
    /// What it costs in units other than requests: 0 in those that are not named, the sum in one
    /// that is named twice.
    pub costs: &'a [(UnitId, u64)],
    /// How long it may wait; for ever unless stated (rule W2).
    pub timeout: Option<Duration>,
    /// Whether it may wait at all. If not, it starts at once or is refused as exhausted.
    pub may_wait: bool,
    /// Whether its caller is running right now, so that it can start in this very call. If not, it
    /// is granted at most, and its own [`step`](crate::Coordinator::step) starts it (rule S1).
    pub may_start: bool,
}

impl<'a> Request<'a> {
    /// A call to `provider`: no key, no cost but 1 request, waiting as long as it takes.
    #[must_use]
    pub const fn new(provider: ProviderId) -> Self {
        Self { provider, key: None, costs: &[], timeout: None, may_wait: true, may_start: true }
    }

    /// Names the call.
    #[must_use]
    pub const fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// States its costs.
    #[must_use]
    pub const fn costs(mut self, costs: &'a [(UnitId, u64)]) -> Self {
        self.costs = costs;
        self
    }

    /// Bounds its wait.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Takes a place now, for a caller that will come for it later.
    #[must_use]
    pub const fn deferred(mut self) -> Self {
        self.may_start = false;
        self
    }

    /// Starts at once or not at all.
    #[must_use]
    pub const fn at_once(mut self) -> Self {
        self.may_wait = false;
        self
    }
}

/// A request that was not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// Granted and started in one step: call the operation now (rule S6).
    Started(TicketId),
    /// It waits, or is granted already: an [`Event`](crate::Event) says when its caller should
    /// [`step`](crate::Coordinator::step).
    Queued(TicketId),
}

/// What a waiter should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The call has just started: run its operation.
    Start,
    /// Wait for an [`Event`](crate::Event) about it.
    Wait,
    /// It ended without a start. The ticket is gone.
    GiveUp(Refusal),
    /// It started before.
    Running,
    /// There is no such ticket (any more).
    Gone,
}
