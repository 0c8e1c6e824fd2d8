//! What time does by itself (rules T1, W6): take-backs, then expiries, and the end of what only time held
//! back.
//!
//! Owns: the latest `now`, and the instant before which nothing happens. Lacks the grants to whom that
//! opens, which every call makes at its end.

use super::Coordinator;
use super::take_back::TakenBack;
use crate::queue::Flags;
use crate::{Instant, Reason};

impl Coordinator {
    /// Time does not run back (rule T1).
    #[inline(always)]
    pub(super) fn latest(&self, now: Instant) -> Instant {
        now.max(self.seen)
    }

    /// Nor does it ever reach the end (rule T2).
    #[inline]
    pub(super) fn see(&mut self, now: Instant) -> Instant {
        self.seen = self.latest(now.min(Instant::LAST));
        self.seen
    }

    /// What time does by itself, whatever the timers did (rule W6): take-backs, then expiries. What
    /// it opens is left to [`Self::grant_due`].
    #[inline(never)]
    pub(super) fn pass_time(&mut self, now: Instant) -> Instant {
        let now = self.see(now);
        self.pass_time_to(now);
        now
    }

    /// The same for a time that was seen already. Nothing has changed that was not judged.
    #[inline(always)]
    pub(super) fn pass_time_to(&mut self, now: Instant) {
        if self.quiet_before <= now {
            self.act_on_time(now);
        }
    }

    /// Something may happen at `at` by itself.
    #[inline(always)]
    pub(super) fn note_instant(&mut self, at: Instant) {
        self.quiet_before = self.quiet_before.min(at);
    }

    /// The first instant at which something may happen by itself.
    #[inline(always)]
    pub(super) fn first_instant(&self) -> Instant {
        let (timed, hand_off) = (self.timed.first_at(), self.hand_off.first_due());
        let (deadline, resting) = (self.queue.first_deadline(), self.providers.first_rested());
        timed.min(hand_off).min(deadline).min(resting)
    }

    /// Someone's time may have come: of one that only time held back, of a grant, of a deadline, of a
    /// provider of which nothing is left.
    #[inline(never)]
    pub(super) fn act_on_time(&mut self, now: Instant) {
        while let Some(provider) = self.timed.take_due(now) {
            self.judge_opened(provider, now);
        }
        // Mostly that was all.
        self.quiet_before = self.first_instant();
        if self.quiet_before <= now || self.queue.has_changed() {
            self.act_on_grants_and_deadlines(now);
        }
    }

    #[inline(never)]
    fn act_on_grants_and_deadlines(&mut self, now: Instant) {
        if self.hand_off.first_due() <= now {
            self.hand_off.due(self.queue.slab(), now, &mut self.batch);
            self.take_back_batch(TakenBack::Unpolled, now);
        }
        if self.queue.first_deadline() < now {
            self.expire(now);
        }
        self.judge_changed(now);
        if self.providers.first_rested() <= now {
            self.providers.look(now);
            self.forget_some();
        }
        self.quiet_before = self.first_instant();
    }

    /// Ends the tickets whose deadline has passed, in the order of submission.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(index) = self.queue.take_expired(now) {
            self.batch.push(index);
        }
        self.queue.sort(&mut self.batch);
        for place in 0..self.batch.len() {
            self.end_late(self.batch[place], now);
        }
        self.batch.clear();
    }

    /// Ends a waiting ticket whose deadline has passed (rules W2, R2).
    pub(super) fn end_late(&mut self, index: u32, now: Instant) {
        let hold = self.hold_of(index, now);
        let is_max_wait = self.queue.slot(index).flags.has(Flags::MAX_WAIT);
        let reason = if is_max_wait { Reason::MaxWait } else { Reason::AdmissionTimeout };
        self.queue.leave(index);
        self.end(index, reason, hold, now);
    }
}
