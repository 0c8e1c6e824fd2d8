//! Who goes next, and the way from there to a start (rules E2, S1).
//!
//! Owns: which providers are judged again and how they are sorted by it, the grant, and the start. Lacks
//! judgement, which is [`judge`](crate::verdict::judge)'s, and the grants that nobody takes, which are in
//! `take_back`.

use super::Coordinator;
use crate::queue::{Flags, Front, NIL, Rank};
use crate::verdict::{Verdict, held_whoever_asks, judge, judge_at_once};
use crate::{Event, Instant, Side, TicketId};

impl Coordinator {
    /// Judges the providers whose line or limits changed, and sorts them by what holds them back.
    #[inline]
    pub(super) fn judge_changed(&mut self, now: Instant) {
        if self.queue.has_changed() {
            self.judge_each_changed(now);
        }
    }

    #[inline(never)]
    fn judge_each_changed(&mut self, now: Instant) {
        while let Some(provider) = self.queue.next_changed() {
            self.judge_provider(provider, now);
        }
    }

    /// Judges a provider whose line or limits changed, unless nothing there could have become otherwise.
    #[inline(always)]
    pub(super) fn judge_if_of_interest(&mut self, provider: u32, now: Instant) {
        if self.queue.is_of_interest(provider) {
            self.judge_provider(provider, now);
        }
    }

    /// Judges the oldest ticket of a provider, and sorts the provider by what holds that one back.
    #[inline(never)]
    pub(super) fn judge_provider(&mut self, provider: u32, now: Instant) {
        self.judge_front(provider, self.queue.front_of(provider), now);
    }

    /// The same, in its place.
    #[inline(always)]
    pub(super) fn judge_front(&mut self, provider: u32, front: Front, now: Instant) -> Rank {
        let before = front.rank;
        let rank = self.sort_by_front(provider, front, now);
        if rank != before {
            self.queue.note_rank(provider, rank);
            match before {
                Rank::Ready => self.ready.remove(provider),
                Rank::Timed => self.timed.remove(provider),
                Rank::Held => {}
            }
        }
        rank
    }

    /// The same for one that was held, of which the verdict is known.
    #[inline(always)]
    pub(super) fn sort_held(&mut self, provider: u32, front: u32, verdict: Verdict) -> Rank {
        let rank = self.sort(provider, front, verdict);
        self.queue.note_rank(provider, rank);
        rank
    }

    /// The same for one that was timed, and is not any more: its time has come.
    #[inline(always)]
    pub(super) fn judge_opened(&mut self, provider: u32, now: Instant) {
        let rank = self.sort_by_front(provider, self.queue.front_of(provider), now);
        self.queue.note_rank(provider, rank);
    }

    /// Judges the oldest ticket of a provider, and puts the provider where it belongs.
    #[inline(always)]
    fn sort_by_front(&mut self, provider: u32, front: Front, now: Instant) -> Rank {
        let Front { index, is_fleeting, .. } = front;
        if is_fleeting {
            self.rest(provider);
        }
        if index == NIL {
            return Rank::Held;
        }
        let verdict = judge(&self.providers[provider], Side::Provider, self.queue.ask(index), now);
        self.sort(provider, index, verdict)
    }

    /// Puts a provider where it belongs, which may be where it is.
    #[inline(always)]
    fn sort(&mut self, provider: u32, front: u32, verdict: Verdict) -> Rank {
        match verdict {
            Verdict::Go => {
                self.ready.set(provider, self.queue.slot(front).seq);
                Rank::Ready
            }
            Verdict::Until(at, _) if at < Instant::NEVER => {
                self.timed.set(provider, at);
                self.note_instant(at);
                Rank::Timed
            }
            _ => Rank::Held,
        }
    }

    /// Notes whether a provider is at rest, if it is one that is forgotten some day.
    #[inline(never)]
    pub(super) fn rest(&mut self, provider: u32) {
        let scope = &self.providers[provider];
        let has_tickets = self.queue.queued_at(provider) + scope.running + scope.granted > 0;
        let fades = self.providers.rest(provider, has_tickets);
        self.queue.note_fleeting(provider, fades);
        self.note_instant(self.providers.first_rested());
    }

    /// The provider whose oldest ticket is to go next, if one may go now.
    #[inline(always)]
    fn next_due(&mut self, now: Instant) -> Option<u32> {
        self.judge_changed(now);
        if held_whoever_asks(&self.client, Side::Client).is_some() {
            return None;
        }
        let place = self.ready.take_note_of_first()?;
        let verdict = judge_at_once(&self.client, Side::Client, now).unwrap_or_else(|| {
            let ask = self.queue.ask(self.queue.front(place));
            judge(&self.client, Side::Client, ask, now)
        });
        (verdict == Verdict::Go).then_some(place)
    }

    /// Grants whoever may go, in the order of submission. The waiter whose caller is running starts
    /// when its turn comes (rule S4).
    #[inline]
    pub(super) fn grant_due(&mut self, waiter: u32, now: Instant) {
        let may_any_go = self.ready.may_have_any() && held_whoever_asks(&self.client, Side::Client).is_none();
        if may_any_go || self.queue.has_changed() {
            self.grant_each_due(waiter, now);
        }
    }

    #[inline(never)]
    pub(super) fn grant_each_due(&mut self, waiter: u32, now: Instant) {
        while let Some(place) = self.next_due(now) {
            let (index, flags, behind) = self.queue.take_first(place);
            let ticket = self.grant(index, flags, place, now);
            if index == waiter {
                self.start(index, now);
            } else {
                self.events.push(Event::Granted(ticket));
            }
            self.judge_front(place, behind, now);
        }
    }

    /// A ticket that has taken its key may start, and has a hand-off time to do so. Its provider is to be
    /// judged.
    #[inline(always)]
    pub(super) fn grant(&mut self, index: u32, flags: Flags, provider: u32, now: Instant) -> TicketId {
        let scope = &mut self.providers[provider];
        self.client.grant(self.queue.ask(index), now);
        scope.grant(self.queue.ask(index), now);
        let halvings = if flags.has(Flags::FULL_TIME) { 0 } else { self.client.halvings.max(scope.halvings) };
        let (ticket, due) = self.hand_off.insert(self.queue.slab_mut(), index, halvings, now);
        self.note_instant(due);
        ticket
    }

    /// A granted ticket starts: pacers count from here (rule S1). Its provider, whose place is told, is to be
    /// judged.
    #[inline(never)]
    pub(super) fn start(&mut self, index: u32, now: Instant) -> u32 {
        let slot = self.queue.slot_mut(index);
        slot.run(now, self.starts);
        let provider = slot.provider;
        self.hand_off.remove(self.queue.slab_mut(), index);
        self.starts += 1;
        let provider = self.queue.place_with_ticket(provider);
        self.client.start(self.queue.ask(index), now);
        self.providers[provider].start(self.queue.ask(index), now);
        provider
    }
}
