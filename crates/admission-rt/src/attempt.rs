//! What an operation is told about the attempt that it is.
//!
//! Owns: the view of one attempt that is handed to the operation. Lacks the permit: whoever keeps an
//! [`Attempt`] keeps no slot, no key and no place.

use std::fmt;
use std::sync::Arc;

use admission_core::TicketId;

use crate::shared::Shared;
use crate::{AbortSignal, SettleError};

/// One attempt at an operation, as the operation sees it: the how manieth it is, when to stop, and
/// what it has really cost.
///
/// Clones are the same attempt, and may be kept for as long as one likes: they hold nothing of the
/// call, and keep the coordinator alive like any handle.
#[derive(Clone)]
pub struct Attempt {
    shared: Arc<Shared>,
    ticket: TicketId,
    number: u32,
    signal: AbortSignal,
}

impl Attempt {
    pub(crate) const fn new(shared: Arc<Shared>, ticket: TicketId, number: u32, signal: AbortSignal) -> Self {
        Self { shared, ticket, number, signal }
    }

    /// Which attempt this is: 1 for the first, 2 for the first retry.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Fires when the attempt is told to stop. Nothing stops by itself: an operation that wants to end
    /// early listens, and one that does not holds what it holds until its future is finished or
    /// dropped (rule W7).
    #[must_use]
    pub const fn signal(&self) -> &AbortSignal {
        &self.signal
    }

    /// Corrects what this attempt costs in a unit, while its permit is held; see
    /// [`Permit::settle`](crate::Permit::settle) (rule L8). Each attempt has a cost of its own, and
    /// begins with the one that the call states.
    ///
    /// # Errors
    ///
    /// [`SettleError`] if the unit was not declared, or is `requests`, or if the permit was released:
    /// the operation's future is finished or dropped, or it is a limiter's that lets go once the
    /// operation was called (rule I3). Then nothing changes.
    pub fn settle(&self, unit: &str, cost: u64) -> Result<(), SettleError> {
        self.shared.settle(self.ticket, unit, cost)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("number", &self.number).finish_non_exhaustive()
    }
}
