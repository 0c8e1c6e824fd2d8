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
    /// The oldest one, if it is a grant: most calls have one, or nothing to tell. As one number, which is stored and
    /// loaded as it is: an event of two is put together in the same moment, and to load it otherwise costs a stall.
    granted: u64,
    /// Those after it.
    rest: VecDeque<Event>,
}

/// No grant's number.
const NOTHING: u64 = u64::MAX;

impl Events {
    pub(crate) const fn new() -> Self {
        Self { granted: NOTHING, rest: VecDeque::new() }
    }

    pub(crate) fn try_reserve(&mut self, events: usize) -> Result<(), TryReserveError> {
        self.rest.try_reserve_exact(events)
    }

    pub(crate) fn shrink_to(&mut self, events: usize) {
        self.rest.shrink_to(events);
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.granted == NOTHING && self.rest.is_empty()
    }

    /// The first one is a grant.
    #[inline(always)]
    pub(crate) fn begin_with_grant(&mut self, ticket: TicketId) {
        debug_assert!(self.is_empty(), "something happened before");
        self.granted = ticket.to_bits();
    }

    /// The ticket, if there is nothing but one grant.
    #[inline(always)]
    pub(crate) fn only_grant(&self) -> Option<TicketId> {
        (self.granted != NOTHING && self.rest.is_empty()).then_some(TicketId::from_bits(self.granted))
    }

    /// That has been told.
    #[inline(always)]
    pub(crate) fn forget_grant(&mut self) {
        self.granted = NOTHING;
    }

    #[inline]
    pub(crate) fn push(&mut self, event: Event) {
        match event {
            Event::Granted(ticket) if self.is_empty() => self.begin_with_grant(ticket),
            event => self.rest.push_back(event),
        }
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        match core::mem::replace(&mut self.granted, NOTHING) {
            NOTHING if self.rest.is_empty() => None,
            NOTHING => self.rest.pop_front(),
            granted => Some(Event::Granted(TicketId::from_bits(granted))),
        }
    }
}
