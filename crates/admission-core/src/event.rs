//! What the machine says on its own account, to be drained after every call.

use alloc::collections::{TryReserveError, VecDeque};

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
    /// later, since no call forgets more than a few, and then the provider may be there again. If several
    /// are gone, their order is not promised, nor which of them a call tells first.
    Forgotten(ProviderId),
}

/// What has not been told yet.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    /// The oldest one. Most calls have one event or none.
    first: Option<Event>,
    /// Those after it.
    rest: VecDeque<Event>,
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self { first: None, rest: VecDeque::new() }
    }

    pub(crate) fn try_reserve(&mut self, events: usize) -> Result<(), TryReserveError> {
        self.rest.try_reserve_exact(events)
    }

    pub(crate) fn shrink_to(&mut self, events: usize) {
        self.rest.shrink_to(events);
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, event: Event) {
        if self.first.is_none() {
            self.first = Some(event);
        } else {
            self.rest.push_back(event);
        }
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        first
    }
}
