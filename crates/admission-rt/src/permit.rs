//! What a granted call holds.
//!
//! Owns: the release, exactly once, whatever happens. Lacks a type parameter: it needs no runtime.

use std::fmt;
use std::sync::Arc;

use admission_core::TicketId;

use crate::baton::{Left, Likeness};
use crate::call::Extras;
use crate::shared::Shared;
use crate::{AbortSignal, Attempt, SettleError};

/// The right to run one call, from its start until this is dropped (rule W7).
///
/// It holds the call's place in the concurrency of its scopes, and its key; windows that count
/// `until_settled` begin to forget the call when it is dropped. Dropping never panics, also while
/// the thread is unwinding.
///
/// Dropping costs one turn of the lock at most, in which whoever may go next is woken; while nobody waits for
/// anything, mostly one compare-exchange. A permit that is leaked holds its place for ever.
#[must_use = "dropping a permit ends the call"]
pub struct Permit {
    shared: Arc<Shared>,
    ticket: TicketId,
    /// What other calls its call is like.
    likeness: Likeness,
    /// Dropped after the release: a provider's number must not be given away while it is in use. (Whoever gives
    /// one away takes a turn first. A key's is never given again.)
    _extras: Extras,
}

impl Permit {
    pub(crate) const fn new(
        shared: Arc<Shared>,
        ticket: TicketId,
        likeness: Likeness,
        extras: Extras,
    ) -> Self {
        Self { shared, ticket, likeness, _extras: extras }
    }

    /// Corrects what the call costs in a unit (rule L8): an estimate of 1,000 tokens turned out to be
    /// 350, or 4,000. As often as one likes, from a cost of 0 too.
    ///
    /// Windows count the new cost from here on, for as long as they count the call at all; calls that
    /// wait are looked at again, and those for which there is room now are woken. No call that was
    /// granted is held up by it. Once the permit is dropped the last cost stands.
    ///
    /// # Errors
    ///
    /// [`SettleError`] if the unit was not declared, or is `requests`; then nothing changes. While the
    /// permit is there, its call has not ended.
    pub fn settle(&self, unit: &str, cost: u64) -> Result<(), SettleError> {
        self.shared.settle(self.ticket, unit, cost)
    }

    /// The operation's view of the attempt that holds this permit.
    pub(crate) fn attempt(&self, number: u32, signal: AbortSignal) -> Attempt {
        Attempt::new(self.shared.clone(), self.ticket, number, signal)
    }

    #[inline(never)]
    fn end_at_length(&self) {
        if !self.shared.batons.leave(self.ticket, self.likeness) {
            self.shared.end(self.ticket);
        }
    }

    /// Whether it is to be let go as soon as the operation was called (rule I3).
    pub(crate) fn is_until_called(&self) -> bool {
        self.shared.manner.until_called
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        match self.shared.batons.leave_first(self.ticket, self.likeness) {
            Left::Here => {}
            // Mostly because others wait.
            Left::NoneOpen => self.shared.end(self.ticket),
            Left::NotHere => self.end_at_length(),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
