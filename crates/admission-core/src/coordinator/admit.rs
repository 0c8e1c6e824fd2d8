//! A newcomer (rules E4, D5, R1, R2): it starts at once, waits, or is refused.
//!
//! Owns: the order in which it is asked what could speak against it, and what a refusal says. Lacks the
//! judgement of limits, which is [`judge`]'s.

use core::time::Duration;

use super::ends::{impossible, limits_hold};
use super::{Admitted, Coordinator, Request};
use crate::queue::{Flags, Scattered};
use crate::scope::Ask;
use crate::time::nanos;
use crate::verdict::{Opening, Verdict, judge};
use crate::{Event, Hold, Instant, ProviderId, Reason, Refusal, Side};

impl Coordinator {
    #[inline(always)]
    pub(super) fn admit(&mut self, request: &Request<'_>, now: Instant) -> Result<Admitted, Refusal> {
        let refuse = |reason| Err(Refusal::new(reason));
        if self.is_closed {
            return refuse(Reason::Closed);
        }
        if !request.costs.is_empty() && self.is_unit_unknown(request) {
            return refuse(Reason::UnknownUnit);
        }
        let Ok(provider) = self.find_or_make(request.provider, now) else {
            return refuse(Reason::UnknownProvider);
        };
        // One request is never too much: no limit is below 1.
        if self.queue.has_more_units() {
            if let Some(hold) = self.judge_costs(request, provider) {
                return Err(Refusal { held_by: Some(hold), ..Refusal::new(Reason::ImpossibleCost) });
            }
        }
        let mut may_start = self.may_newcomer_start(provider, now) && self.queue.has_room_for_ticket();
        if !may_start {
            if let Some(reason) = self.why_not_queue(request, provider, now) {
                return Err(self.refusal_of_newcomer(reason, request, provider, now));
            }
        }
        let key = request.key.map(Scattered::of);
        let found = key.map(|key| self.queue.look_up(key));
        let entered = found.and_then(|found| found.entry);
        if let Some(key) = key {
            if let Some(entry) = entered {
                self.queue.stamp_holder(entry, now);
                may_start = may_start && self.queue.claim(key, entry);
                if !may_start {
                    if let Some(reason) = self.why_not_queue(request, provider, now) {
                        return Err(self.refusal_of_newcomer(reason, request, provider, now));
                    }
                }
            }
        }
        let (index, slot) = self.queue.create(request.provider.0, key, request.costs, found, now);
        let ticket = slot.ticket(index);
        if may_start && request.may_start {
            slot.run(now, self.starts);
            self.start_newcomer(provider, now);
            return Ok(Admitted::Started(ticket));
        }
        let (deadline, is_max_wait) = deadline(self.max_wait_nanos, request, now);
        slot.wait(deadline);
        if is_max_wait {
            slot.flags.set(Flags::MAX_WAIT);
        }
        if may_start {
            self.grant(index, Flags::default(), provider, now);
            self.queue.mark_changed(provider);
            self.events.push(Event::Granted(ticket));
        } else {
            self.queue.enqueue(index, provider, deadline, entered);
            self.note_instant(deadline);
        }
        Ok(Admitted::Queued(ticket))
    }

    /// A newcomer that must not wait, and does not start in the usual way: mostly it is refused, and that has no effect.
    #[inline(never)]
    pub(super) fn refuse_plainly(
        &mut self,
        request: &Request<'_>,
        now: Instant,
    ) -> Result<Admitted, Refusal> {
        let place = request.provider.0;
        let is_usual = request.key.is_none()
            && request.costs.is_empty()
            && !(self.is_closed || self.queue.has_more_units())
            && self.providers.is_kept(place);
        let hold = if is_usual { self.hold_of_newcomer(place, None, now) } else { None };
        if hold.is_none() {
            return self.request_otherwise(request, now);
        }
        let wait = self.newcomers_wait(place, now);
        self.seen = now;
        self.conclude(now);
        Err(Refusal { held_by: hold, retry_after: wait, ..Refusal::new(Reason::Exhausted) })
    }

    /// A newcomer that is to start now or not at all, without a cost, to a provider that is here; `None`, and nothing is
    /// changed, if it may not, or if others have to do with its key. `start`: when, or never if nobody knows.
    #[inline(never)]
    pub(super) fn start_at_length(
        &mut self,
        provider: ProviderId,
        key: Option<Scattered>,
        now: Instant,
        start: Instant,
    ) -> Option<u64> {
        if self.is_closed || now >= self.quiet_before {
            return None;
        }
        let place = self.find(provider)?;
        if self.queue.has_more_units() {
            self.queue.judge_newcomer(&[]);
        }
        if !self.may_newcomer_start(place, now) || !self.queue.has_room_for_ticket() {
            return None;
        }
        let found = key.map(|key| self.queue.look_up(key));
        if found.is_some_and(|found| found.entry.is_some()) {
            return None;
        }
        let (index, slot) = self.queue.create(provider.0, key, &[], found, now);
        slot.run(start, self.starts);
        let ticket = slot.ticket(index);
        self.seen = now;
        self.start_newcomer(place, now);
        self.conclude(now);
        Some(ticket.to_bits())
    }

    /// Whether a newcomer names a unit that is not there, and a provider that is.
    #[inline(never)]
    fn is_unit_unknown(&self, request: &Request<'_>) -> bool {
        let units = usize::from(self.units());
        request.costs.iter().any(|(unit, _)| unit.index() >= units) && self.can_have(request.provider)
    }

    /// Notes what a newcomer costs, and whether that is too much for ever (rule L6).
    #[inline(never)]
    fn judge_costs(&mut self, request: &Request<'_>, provider: u32) -> Option<Hold> {
        self.queue.judge_newcomer(request.costs);
        let ask = self.queue.ask_of_newcomer();
        impossible(&self.client, Side::Client, ask)
            .or_else(|| impossible(&self.providers[provider], Side::Provider, ask))
    }

    /// Why a newcomer that may not start is refused, if it is (rule D5).
    #[inline(always)]
    fn why_not_queue(&self, request: &Request<'_>, provider: u32, now: Instant) -> Option<Reason> {
        if !request.may_wait {
            Some(Reason::Exhausted)
        } else if self.max_wait_nanos.is_some_and(|most| self.is_wait_above(most, provider, now)) {
            Some(Reason::MaxWait)
        } else if self.is_queue_full() || !self.queue.has_room_for_ticket() {
            Some(Reason::Overflow)
        } else {
            None
        }
    }

    /// Whether as many wait as may (rule W1).
    #[inline(always)]
    pub(super) fn is_queue_full(&self) -> bool {
        self.queue.queued() >= self.max_queued
    }

    /// Whether a newcomer would wait for longer than this.
    #[inline(never)]
    fn is_wait_above(&self, most: u64, provider: u32, now: Instant) -> bool {
        most == 0 || self.newcomers_wait(provider, now).is_some_and(|wait| nanos(wait) > most)
    }

    #[inline(never)]
    fn refusal_of_newcomer(
        &mut self,
        reason: Reason,
        request: &Request<'_>,
        provider: u32,
        now: Instant,
    ) -> Refusal {
        let key = request.key.map(Scattered::of);
        if let Some(entry) = key.and_then(|key| self.queue.look_up(key).entry) {
            self.queue.stamp_holder(entry, now);
        }
        let hold = self.hold_of_newcomer(provider, key, now);
        let wait = self.newcomers_wait(provider, now);
        let key_holder = self.key_holder_if(hold, key);
        Refusal { reason, held_by: hold, retry_after: wait, key_holder, limits_changed: false }
    }

    /// Whether a newcomer may start in this call if its key is free (rules E1, E3, E4).
    #[inline]
    fn may_newcomer_start(&self, provider: u32, now: Instant) -> bool {
        let ask = self.queue.ask_of_newcomer();
        judge(&self.client, Side::Client, ask, now) == Verdict::Go
            && judge(&self.providers[provider], Side::Provider, ask, now) == Verdict::Go
            && self.order_holds(provider, u64::MAX).is_none()
    }

    /// What keeps a newcomer from starting in this call, if anything does (rules E1, E3, E4).
    fn hold_of_newcomer(&self, provider: u32, key: Option<Scattered>, now: Instant) -> Option<Hold> {
        let ask = self.queue.ask_of_newcomer();
        if key.is_some_and(|key| self.queue.holder(key).is_some()) {
            return Some(Hold::Key);
        }
        limits_hold(&self.client, &self.providers[provider], ask, ask, now)
            .or_else(|| self.order_holds(provider, u64::MAX))
    }

    /// For how long the newcomer that is being judged has to wait at least.
    fn newcomers_wait(&self, provider: u32, now: Instant) -> Option<Duration> {
        let ahead = self.queue.metered_in_line(provider);
        let ask = self.queue.ask_of_newcomer();
        self.wait_behind(provider, ask, ask, ahead, now)
    }

    /// For how long the pacers and the cooldown of a ticket's own scopes rule a start out, with
    /// `ahead` others before it (rules R1, R2).
    pub(super) fn wait_behind(
        &self,
        provider: u32,
        of_client: Ask<'_>,
        of_provider: Ask<'_>,
        ahead: u32,
        now: Instant,
    ) -> Option<Duration> {
        let scope = &self.providers[provider];
        let client = Opening::behind(&self.client, Side::Client, of_client, ahead, now);
        let provider = Opening::behind(scope, Side::Provider, of_provider, ahead, now);
        let wait = client.max(provider).saturating_duration_since(now);
        (!wait.is_zero()).then_some(wait)
    }

    /// A newcomer that has taken its key is granted and starts in one step (rule S6): nobody sees the
    /// grant.
    #[inline(always)]
    pub(super) fn start_newcomer(&mut self, provider: u32, now: Instant) {
        self.starts += 1;
        let ask = self.queue.ask_of_newcomer();
        self.client.start_at_once(ask, now);
        self.providers[provider].start_at_once(ask, now);
        // Nobody is in its line, or the newcomer would be behind.
        self.queue.mark_if_fleeting(provider);
    }
}

/// Until when a newcomer may wait, and whether that is the coordinator's limit or its own.
#[inline(always)]
fn deadline(max_wait_nanos: Option<u64>, request: &Request<'_>, now: Instant) -> (Instant, bool) {
    let own = request.timeout.map_or(Instant::NEVER, |timeout| now + timeout);
    match max_wait_nanos.map(|most| now.plus(most)) {
        Some(most) if most <= own => (most, true),
        _ => (own, false),
    }
}
