//! How a ticket ends, and what its caller is told (rules W3, W7, D5).
//!
//! Owns: the ways out (settled, withdrawn, refused), and what held a refused one back. Lacks the decision
//! that a ticket is to end, which is the calls' and time's.

use core::time::Duration;

use super::Coordinator;
use crate::queue::{Ending, NIL, Queue, State};
use crate::ready::Ready;
use crate::scope::{Ask, Pacer, Scope};
use crate::verdict::{Verdict, judge};
use crate::{Event, Hold, Instant, Limits, ProviderId, Reason, Refusal, Side};

impl Coordinator {
    /// A running ticket is over.
    #[inline(always)]
    pub(super) fn settle(&mut self, index: u32, now: Instant) {
        let slot = self.queue.slot(index);
        let (number, provider, key) = (slot.start_number(), slot.provider, slot.key());
        self.client.settle(self.queue.ask(index), number, now);
        let place = self.queue.place_with_ticket(provider);
        self.providers[place].settle(self.queue.ask(index), number, now);
        self.queue.finish_with(index, key);
        self.judge_if_of_interest(place, now);
    }

    /// A ticket that has not started leaves whatever holds it.
    #[inline(always)]
    pub(super) fn withdraw(&mut self, index: u32, now: Instant) {
        let state = self.queue.slot(index).state;
        if state.is_queued() {
            self.queue.leave(index);
        } else if state == State::Granted {
            self.abandon(index, now);
        }
    }

    /// A granted ticket goes away before its start (rule S3).
    #[inline(never)]
    fn abandon(&mut self, index: u32, now: Instant) {
        let since = self.queue.slot(index).since();
        self.hand_off.remove(self.queue.slab_mut(), index);
        self.client.abandon(self.queue.ask(index), since, now);
        let place = self.queue.place(index);
        self.providers[place].abandon(self.queue.ask(index), since, now);
        self.queue.finish(index);
        self.queue.mark_changed(place);
    }

    /// What holds a waiting ticket back, if anything does.
    pub(super) fn hold_of(&mut self, index: u32, now: Instant) -> Option<Hold> {
        self.judge_changed(now);
        let slot = *self.queue.slot(index);
        if slot.state == State::Aside {
            return Some(Hold::Unpolled);
        }
        if slot.key().is_some_and(|key| self.queue.holder(key).is_some()) {
            return Some(Hold::Key);
        }
        let of_client = self.queue.ask(index);
        let of_provider = self.queue.ask(index);
        let place = self.queue.place(index);
        limits_hold(&self.client, &self.providers[place], of_client, of_provider, now)
            .or_else(|| self.order_holds(place, slot.seq))
    }

    /// Whether somebody older goes before a ticket that its own limits let go: whoever is ready may go
    /// now or waits for nothing but the client's budgets, and whoever stands in its line waits for
    /// nothing but the provider's (rules E2, E3, E4).
    pub(super) fn order_holds(&self, provider: u32, seq: u64) -> Option<Hold> {
        if is_nobody_before(&self.queue, &self.ready, provider) {
            return None;
        }
        let front = self.queue.front(provider);
        let is_older_in_line = front != NIL && self.queue.slot(front).seq < seq;
        let is_older_ready = self.ready.least() < seq;
        (is_older_in_line || is_older_ready).then_some(Hold::Order)
    }

    /// A ticket that has left ends without a start; its slot waits for its caller.
    pub(super) fn end(&mut self, index: u32, reason: Reason, hold: Option<Hold>, now: Instant) {
        let can_time_mend = matches!(reason, Reason::MaxWait | Reason::AdmissionTimeout);
        let slot = *self.queue.slot(index);
        let place = self.queue.place(index);
        let (of_client, of_provider) = (self.queue.ask(index), self.queue.ask(index));
        let wait = can_time_mend.then(|| self.wait_behind(place, of_client, of_provider, 0, now)).flatten();
        let retry_at = now + wait.unwrap_or(Duration::ZERO);
        let key_holder = self.key_holder_if(hold, slot.key());
        let limits = match hold.and_then(Hold::limit_of) {
            Some(Side::Client) => self.client.fingerprint,
            Some(Side::Provider) => self.providers[place].fingerprint,
            None => 0,
        };
        self.queue.slot_mut(index).end(&Ending { reason, hold, retry_at, limits, key_holder });
        self.events.push(Event::Refused(self.queue.ticket(index), reason));
    }

    /// Tells an ended ticket's caller why, and forgets the ticket.
    pub(super) fn tell(&mut self, index: u32, now: Instant) -> Refusal {
        let slot = self.queue.slot(index);
        let (told, provider) = (slot.ending(), ProviderId(slot.provider));
        self.queue.forget(index);
        let wait = told.retry_at.saturating_duration_since(now);
        let limits_changed = match told.hold.and_then(Hold::limit_of) {
            Some(Side::Client) => told.limits != self.client.fingerprint,
            // Those that it has, or would have if it were made now.
            Some(Side::Provider) => {
                let template = || self.providers.template.as_ref().map(Limits::fingerprint);
                let found = self.find(provider).map(|place| self.providers[place].fingerprint);
                Some(told.limits) != found.or_else(template)
            }
            None => false,
        };
        Refusal {
            reason: told.reason,
            held_by: told.hold,
            retry_after: (!wait.is_zero()).then_some(wait),
            key_holder: told.key_holder,
            limits_changed,
        }
    }
}

/// Whether nobody stands in this provider's line and nobody is ready: then nobody can be before a ticket that its own
/// limits let go, however young it is. It says no, too, where one that is ready no more has yet to be taken out.
#[inline(always)]
pub(super) fn is_nobody_before(queue: &Queue, ready: &Ready, provider: u32) -> bool {
    queue.front(provider) == NIL && !ready.may_have_any()
}

/// The first limit of a ticket's two scopes that holds it back: its provider's, then the client's.
pub(super) fn limits_hold(
    client: &Scope,
    provider: &Scope,
    of_client: Ask<'_>,
    of_provider: Ask<'_>,
    now: Instant,
) -> Option<Hold> {
    let hold = |verdict| match verdict {
        Verdict::Go => None,
        Verdict::Until(_, hold) | Verdict::Blocked(hold) => Some(hold),
    };
    hold(judge(provider, Side::Provider, of_provider, now))
        .or_else(|| hold(judge(client, Side::Client, of_client, now)))
}

/// The first log that a cost can never fit into (rule L6).
pub(super) fn impossible(scope: &Scope, side: Side, ask: Ask<'_>) -> Option<Hold> {
    if ask.is_exempt(side) {
        return None;
    }
    scope.pacers.iter().enumerate().find_map(|(index, pacer)| match pacer {
        Pacer::Log(log) if !log.fits(ask.cost(log.unit)) => Some(Hold::Log(side, index as u16)),
        Pacer::Log(_) | Pacer::Interval(_) => None,
    })
}
