//! The usual way of the three calls that every operation makes: a request, a step, a release.
//!
//! Nearly always time does nothing by itself, the provider is the configuration's, and none of what is rare is
//! asked for: no cost, no timeout, no key that others have. Then a call is a few lines in a row, and what may
//! still be to do at its end, to pace a start or to judge a provider, is done by another function that ends
//! it: so the registers need not be put by. Each of these either does all, or says no before it has changed
//! anything; then the call goes the long way, which knows every case.
//!
//! Owns: which cases are usual. Lacks all decisions: those are [`verdict`](crate::verdict)'s, here too.

use super::ends::is_nobody_before;
use super::{Admitted, Coordinator, Request};
use crate::queue::{Front, NIL, Rank, Scattered};
use crate::verdict::{Verdict, held_whoever_asks, judge, judge_at_once};
use crate::{Instant, Side, TicketId};

/// What is still to be done when a newcomer is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Further {
    Nothing,
    /// Its provider is to be judged.
    Judge,
    /// It has started, and its provider's pacers are to hear of that.
    Pace,
    /// The client's too.
    PaceBoth,
}

/// What came of a ticket that may be over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// It was, and its provider is there.
    At(u32),
    /// It is, but its key is not the first in its chain. Nothing is changed.
    ButForItsKey(u32),
    /// It may not run, or others may have to hear of it. Nothing is changed.
    No,
}

impl Coordinator {
    /// A newcomer to a provider of the configuration, which has at most one key that nobody else has, starts at
    /// once or waits without a deadline.
    #[inline(always)]
    pub(super) fn admit_plainly(
        &mut self,
        request: &Request<'_>,
        now: Instant,
    ) -> Option<(Admitted, Further)> {
        if self.asks_more || !request.costs.is_empty() || request.timeout.is_some() {
            return None;
        }
        let place = request.provider.0;
        let key = request.key.map(Scattered::of);
        if held_whoever_asks(&self.client, Side::Client).is_some() {
            self.providers.kept_mut(place)?;
            if !request.may_wait || self.is_queue_full() {
                return None;
            }
            let (index, slot) = self.queue.create_plainly(place, key, now)?;
            slot.wait(Instant::NEVER);
            let ticket = slot.ticket(index);
            self.seen = now;
            let further = if self.queue.join(index, place) { Further::Judge } else { Further::Nothing };
            return Some((Admitted::Queued(ticket), further));
        }
        if !request.may_start {
            return None;
        }
        let (ticket, further) = self.start_newcomer_plainly(place, key, now, now)?;
        Some((Admitted::Started(ticket), further))
    }

    /// The same for one that starts at once; `start` is when, or never if nobody knows.
    #[inline(always)]
    pub(super) fn start_newcomer_plainly(
        &mut self,
        place: u32,
        key: Option<Scattered>,
        now: Instant,
        start: Instant,
    ) -> Option<(TicketId, Further)> {
        let scope = self.providers.kept_mut(place)?;
        let may_go = judge_at_once(&self.client, Side::Client, now) == Some(Verdict::Go)
            && judge_at_once(scope, Side::Provider, now) == Some(Verdict::Go)
            && is_nobody_before(&self.queue, &self.ready, place);
        if !may_go {
            return None;
        }
        let (index, slot) = self.queue.create_plainly(place, key, now)?;
        slot.run(start, self.starts);
        let ticket = slot.ticket(index);
        self.seen = now;
        self.starts += 1;
        self.client.run();
        scope.run();
        // (A provider that was never removed is never at rest: nothing is to be noted of it.)
        let further = if self.client.is_paced() {
            Further::PaceBoth
        } else if scope.is_paced() {
            Further::Pace
        } else {
            Further::Nothing
        };
        Some((ticket, further))
    }

    /// What is still to be done when a newcomer is in, which is handed through as a number: so it need not be put by.
    #[inline(always)]
    pub(super) fn do_further(
        &mut self,
        further: Further,
        place: u32,
        now: Instant,
        ticket: TicketId,
    ) -> Option<u64> {
        let ticket = ticket.to_bits();
        match further {
            Further::Nothing => self.end_call(),
            Further::Judge => self.judge_and_conclude(place, now),
            Further::Pace => return self.pace_newcomer(place, now, ticket),
            Further::PaceBoth => return self.pace_newcomer_everywhere(place, now, ticket),
        }
        Some(ticket)
    }

    /// A ticket that is granted starts.
    #[inline(always)]
    pub(super) fn start_plainly(&mut self, ticket: TicketId, now: Instant) -> bool {
        if now >= self.quiet_before {
            return false;
        }
        let Some((index, provider)) = self.queue.granted(ticket) else { return false };
        let Some(scope) = self.providers.configured_mut(provider) else { return false };
        self.queue.slot_mut(index).run(now, self.starts);
        let is_only = self.hand_off.remove_only(index);
        self.seen = now;
        self.starts += 1;
        self.client.run_granted();
        scope.run_granted();
        if !is_only || self.client.is_paced() || scope.is_paced() {
            self.pace_granted(index, provider, is_only, now);
        } else if self.queue.is_of_interest(provider) {
            self.judge_and_conclude(provider, now);
        } else {
            self.end_call();
        }
        true
    }

    /// A ticket that runs is over; says where its provider is.
    #[inline(always)]
    pub(super) fn settle_plainly(&mut self, ticket: TicketId, now: Instant) -> Settled {
        if now >= self.quiet_before {
            return Settled::No;
        }
        let Some(running) = self.queue.running(ticket) else { return Settled::No };
        let Some(scope) = self.providers.configured_mut(running.provider) else { return Settled::No };
        if self.client.hears_of_ends() || scope.hears_of_ends() {
            return Settled::No;
        }
        if self.queue.forget_running(&running).is_none() {
            return Settled::ButForItsKey(running.provider);
        }
        self.seen = now;
        self.client.running -= 1;
        scope.running -= 1;
        Settled::At(running.provider)
    }

    /// The same where its key is not the first in its chain, and all else was looked at.
    #[inline(never)]
    pub(super) fn settle_far(&mut self, ticket: TicketId, place: u32, now: Instant) {
        if self.queue.forget_running_far(ticket.index).is_none() {
            return self.release_otherwise(ticket, now);
        }
        self.seen = now;
        self.client.running -= 1;
        self.providers[place].running -= 1;
        self.go_on(place, now);
    }

    /// A ticket goes away that does not run: mostly it waits behind others, whom that is nothing to.
    #[inline(never)]
    pub(super) fn leave_plainly(&mut self, ticket: TicketId, now: Instant) {
        if now < self.quiet_before {
            // (Whoever waits for the client's pacers may go as time passes, whatever this call is about.)
            if !self.client.is_paced() && self.queue.leave_plainly::<false>(ticket).is_some() {
                self.seen = now;
                return self.end_call();
            }
        }
        self.leave_first(ticket, now);
    }

    /// Or the first of its line goes away, and the next is to be judged.
    #[inline(never)]
    fn leave_first(&mut self, ticket: TicketId, now: Instant) {
        if now < self.quiet_before && !self.client.is_paced() {
            if let Some(place) = self.queue.leave_plainly::<true>(ticket) {
                self.seen = now;
                self.judge_provider(place, now);
                // It may have been the last ticket of a provider that was removed, which is forgotten in this very call.
                self.pass_time_to(now);
                return self.conclude(now);
            }
        }
        self.release_otherwise(ticket, now);
    }

    /// The end of a call in which a call of this provider has ended.
    #[inline(always)]
    pub(super) fn go_on(&mut self, place: u32, now: Instant) {
        if self.queue.is_of_interest(place) {
            return self.judge_and_conclude(place, now);
        }
        if self.ready.may_have_any() && held_whoever_asks(&self.client, Side::Client).is_none() {
            return self.grant_next(now);
        }
        self.end_call();
    }

    /// Where somebody may go, if the client lets it: grants the first of the ready, and then whoever else may go.
    #[inline(never)]
    fn grant_next(&mut self, now: Instant) {
        let Some((place, seq)) = self.grant_plainly(now) else {
            return self.grant_each_due_and_end(now);
        };
        if held_whoever_asks(&self.client, Side::Client).is_none() {
            return self.sort_and_go_on(place, seq, now);
        }
        if seq < u64::MAX {
            self.ready.move_first(seq);
        } else {
            self.ready.leave(place);
        }
        self.end_call();
    }

    #[inline(never)]
    fn sort_and_go_on(&mut self, place: u32, seq: u64, now: Instant) {
        self.ready.set(place, seq);
        self.grant_each_due_and_end(now);
    }

    #[inline(never)]
    fn grant_each_due_and_end(&mut self, now: Instant) {
        self.grant_each_due(NIL, now);
        self.end_call();
    }

    /// Grants the first of those that are ready; says by whom that one's provider is to be sorted from now on, by the
    /// largest number if it is not ready any more. `None`, and nothing is changed, if that is not all there is to it.
    #[inline(always)]
    fn grant_plainly(&mut self, now: Instant) -> Option<(u32, u64)> {
        if judge_at_once(&self.client, Side::Client, now) != Some(Verdict::Go) || !self.events.is_empty() {
            return None;
        }
        let place = self.ready.take_note_of_first()?;
        let scope = self.providers.get_mut(place)?;
        if self.client.hears_of_grants() || scope.hears_of_grants() || self.hand_off.has_any() {
            return None;
        }
        scope.granted += 1;
        // As it will be when this one is granted.
        let verdict = judge_at_once(scope, Side::Provider, now);
        let taken = verdict.and_then(|verdict| self.queue.take_first_plainly(place, verdict == Verdict::Go));
        let Some((index, slot, seq)) = taken else {
            scope.granted -= 1;
            return None;
        };
        self.client.granted += 1;
        let halvings = self.client.halvings.max(scope.halvings);
        let (ticket, due) = self.hand_off.insert_only(slot, index, halvings, now);
        self.note_instant(due);
        self.events.begin_with_grant(ticket);
        Some((place, seq))
    }

    /// The pacers hear of a start that nobody saw granted.
    #[inline(never)]
    fn pace_newcomer(&mut self, place: u32, now: Instant, ticket: u64) -> Option<u64> {
        self.providers[place].pace(self.queue.ask_of_newcomer(), now);
        self.end_call();
        Some(ticket)
    }

    #[inline(never)]
    fn pace_newcomer_everywhere(&mut self, place: u32, now: Instant, ticket: u64) -> Option<u64> {
        let ask = self.queue.ask_of_newcomer();
        self.client.pace_if_any(ask, now);
        self.providers[place].pace_if_any(ask, now);
        self.conclude(now);
        Some(ticket)
    }

    /// The pacers hear of the start of a ticket that was granted, and if it was not the only one, the other grants.
    #[inline(never)]
    fn pace_granted(&mut self, index: u32, place: u32, was_only: bool, now: Instant) {
        let scope = &mut self.providers[place];
        if !was_only || self.client.is_paced() || scope.has_costs() {
            return self.pace_granted_everywhere(index, place, was_only, now);
        }
        scope.pace(self.queue.ask(index), now);
        let Front { index, rank, is_fleeting } = self.queue.front_of(place);
        if is_fleeting || rank == Rank::Timed {
            return self.judge_and_conclude(place, now);
        }
        // Nobody else may go since; and nobody of this one, mostly, before some time has passed.
        if rank == Rank::Held && index != NIL {
            let verdict = judge(scope, Side::Provider, self.queue.ask(index), now);
            if self.sort_held(place, index, verdict) == Rank::Ready {
                return self.conclude(now);
            }
        }
        self.end_call();
    }

    #[inline(never)]
    fn pace_granted_everywhere(&mut self, index: u32, place: u32, was_only: bool, now: Instant) {
        if !was_only {
            self.hand_off.remove(self.queue.slab_mut(), index);
        }
        let ask = self.queue.ask(index);
        self.client.pace_granted(ask, now);
        self.providers[place].pace_granted(ask, now);
        self.judge_if_of_interest(place, now);
        self.pass_time_to(now);
        self.conclude(now);
    }

    #[inline(never)]
    fn judge_and_conclude(&mut self, place: u32, now: Instant) {
        self.judge_provider(place, now);
        self.conclude(now);
    }
}
