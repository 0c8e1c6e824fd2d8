//! What the machine says on its own account, to be drained after every call.

use crate::{ProviderId, Reason, TicketId};

/// Something that happened to a ticket other than the one a call was about, or to that one too.
///
/// Within a call events come in the order of rule W6: take-backs, expiries, the call's own effect,
/// grants, each in order of submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// It may start: wake its caller, whose [`step`](crate::Coordinator::step) starts it.
    Granted(TicketId),
    /// It ended without a start: wake its caller, whose [`step`](crate::Coordinator::step) hears
    /// the [`Refusal`](crate::Refusal).
    Refused(TicketId, Reason),
    /// Its grant is gone again, and it waits as before. Nobody needs to be woken.
    TakenBack(TicketId),
    /// Nothing is left of a provider that was removed or made on demand (rule L10): its number is
    /// free for another name. It is gone in the first call that finds it so; this may be told a little
    /// later, since no call forgets more than a few, and then the provider may be there again.
    Forgotten(ProviderId),
}
