//! Where a call is between its request and its end.
//!
//! Owns: the stages, in 16 bytes, and what the machine's answer about a ticket makes of them. Lacks the turns in
//! which it is asked, which are [`crate::acquire`]'s.

use std::task::Waker;

use admission_core::{Instant, ProviderId, Step, TicketId};

use crate::Rejected;
use crate::baton::Likeness;
use crate::in_force::Told;
use crate::millis::Millis;
use crate::shared::State;

/// Where the call is. The fields are arranged to be 16 bytes in all.
pub(crate) enum Stage {
    /// Not submitted: the coordinator knows nothing of it.
    Lazy { timeout: Millis, provider: ProviderId },
    /// The same, with a key.
    LazyKey { timeout: Millis, provider: ProviderId, key: u64 },
    /// Submitted. It may wait, be granted or be refused by now: the next step tells.
    Waiting { provider: ProviderId, ticket: TicketId },
    /// The ticket is gone, and its place may be another's by now.
    Ended { provider: ProviderId },
    /// Refused when it was enqueued, or in a poll that ended in another's panic: the next poll will tell.
    Refused(Box<Rejected>),
}

/// What a turn says about the ticket. Why one was refused is told beside it: that is large, and seldom there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It has started, and is like these others.
    Start(Likeness),
    Refused,
    /// It waits, and its waker and alarm are in place.
    Settled,
    /// It waits, and has no alarm or another waker.
    Unsettled,
    /// It waits, and no alarm can be had.
    NoRuntime,
}

impl Stage {
    /// The ticket, while there is one.
    #[inline]
    pub(crate) const fn ticket(&self) -> Option<TicketId> {
        match *self {
            Self::Waiting { ticket, .. } => Some(ticket),
            _ => None,
        }
    }

    /// Asks the machine about the ticket, and notes at once if it is gone; `wait` says how a
    /// waiting one is settled. With it comes a waker to be dropped outside the lock.
    pub(crate) fn step(
        &mut self,
        state: &mut State,
        now: Instant,
        told: &mut Option<Told>,
        wait: impl FnOnce(&mut State, TicketId) -> Heard,
    ) -> (Heard, Option<Waker>) {
        let Self::Waiting { provider, ticket, .. } = *self else { return (Heard::Refused, None) };
        match state.core.step(ticket, now) {
            Step::Wait => (wait(state, ticket), None),
            Step::Start | Step::Running => (Heard::Start(Likeness::NONE), state.leave(ticket)),
            Step::GiveUp(refusal) => {
                *self = Self::Ended { provider };
                *told = Some(state.limits.told(refusal, provider, now));
                (Heard::Refused, state.leave(ticket))
            }
            Step::Gone => {
                *self = Self::Ended { provider };
                (Heard::Refused, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_16_bytes() {
        assert_eq!(size_of::<Stage>(), 16);
    }
}
