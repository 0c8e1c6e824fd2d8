//! What a turn has to see to beside the machine: those who sleep, who wait for idle or for the close, and
//! alarms.
//!
//! Owns: one word that says whether there is anything of the kind. It is found anew in every turn in which
//! it may have changed, and kept with the state, so that a turn of which nobody else must hear looks at it
//! alone. And what has to be done about it under the lock. Lacks what is done outside of it, the wakes and
//! the arming of alarms, which are the turn's (see [`crate::shared`]).

use std::task::Waker;

use admission_core::{Event, Instant, TicketId};

use crate::alarms::{Booked, Wanted};
use crate::guests::Sightings;
use crate::runtime::RuntimeId;
use crate::shared::State;
use crate::waiters::Wakes;
use crate::waiting::LongWaits;

/// What there is to see to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attention(u8);

impl Attention {
    pub(crate) const NONE: Self = Self(0);
    /// Limits that count time. They are the machine's to see to: it needs to be told the time, and that is
    /// all.
    const CLOCK: u8 = 1;
    /// A cooldown that was not over when the clock was last read.
    const COOLDOWN: u8 = 1 << 1;
    /// Somebody waits for something that no ticket is about.
    const WATCHED: u8 = 1 << 2;
    /// Somebody has got that, and has yet to be told; or counts on an alarm that is lost.
    const UNTOLD: u8 = 1 << 3;
    /// Somebody counts on an alarm, or one is set.
    const ALARMS: u8 = 1 << 4;
    /// Somebody sleeps, or may have to be reported: of those who are watched they alone wait for time.
    const TIMED: u8 = 1 << 5;
    /// Something has begun or ended, and it is to be looked what.
    const ASKED: u8 = 1 << 7;
    /// What a queue of calls brings with it.
    const USUAL: u8 = Self::CLOCK | Self::ALARMS;

    /// Whether there is anything to which time matters.
    #[inline]
    pub(crate) const fn needs_clock(self) -> bool {
        self.has(Self::CLOCK | Self::COOLDOWN | Self::TIMED)
    }

    /// Whether there is anything to see to but the machine.
    #[inline]
    pub(crate) const fn is_needed(self) -> bool {
        self.0 > Self::CLOCK
    }

    /// Whether alarms are all there is to see to but the machine, and no limit counts time.
    #[inline]
    pub(crate) const fn is_nothing_but_alarms(self) -> bool {
        self.0 == Self::ALARMS
    }

    /// Whether there is nothing else to see to than that.
    #[inline]
    pub(crate) const fn is_at_most_alarms(self) -> bool {
        !self.has(!Self::ALARMS)
    }

    /// Whether there is anything but the machine and alarms.
    #[inline]
    pub(crate) const fn is_unusual(self) -> bool {
        self.has(!Self::USUAL)
    }

    #[inline]
    pub(crate) const fn is_watched(self) -> bool {
        self.has(Self::WATCHED)
    }

    /// Somebody begins to count on an alarm.
    #[inline]
    pub(crate) const fn ask_for_alarms(&mut self) {
        self.0 |= Self::ALARMS;
    }

    /// Anything may have begun.
    #[inline]
    pub(crate) const fn ask(&mut self) {
        self.0 |= Self::ASKED;
    }

    #[inline]
    const fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

impl State {
    /// Finds the word anew. To be done in each turn that may have changed any of it, before the lock is let
    /// go.
    #[inline]
    pub(crate) fn look_around(&mut self) {
        self.attention = self.seen_around();
    }

    /// Notes what some wait for, where anybody does, and finds the word anew.
    #[inline(always)]
    pub(crate) fn see_to_the_unusual(&mut self, now: Option<Instant>) {
        if self.attention.is_unusual() {
            self.look_around();
            if self.attention.is_watched() {
                let now = self.time_as_read(now);
                self.mark(now);
                self.look_around();
            }
        }
    }

    /// The word as it should be.
    #[inline]
    pub(crate) fn seen_around(&self) -> Attention {
        let long_waits = self.long_waits.as_ref();
        let is_timed = self.sleepers.are_there() | long_waits.is_some();
        let is_watched = is_timed | (self.idle.waiting() > 0) | (self.closed.waiting() > 0);
        let is_untold = self.idle.must_wake()
            | self.closed.must_wake()
            | self.sleepers.must_wake()
            | long_waits.is_some_and(LongWaits::must_tell)
            | self.alarms.any_lost();
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        Attention(
            bit(self.limits.count_time(), Attention::CLOCK)
                | bit(self.time.is_cooling(), Attention::COOLDOWN)
                | bit(is_watched, Attention::WATCHED)
                | bit(is_timed, Attention::TIMED)
                | bit(is_untold, Attention::UNTOLD)
                | bit(self.alarms.are_of_use(), Attention::ALARMS),
        )
    }

    /// Whether nobody is to be woken, and no alarm to be armed, when there are no events, as far as that is seen
    /// at a glance: there is nothing to see to but the machine, or a queue whose alarms stand well. In a turn that could
    /// do without the time nothing is due, now or later.
    #[inline]
    pub(crate) fn is_calm(&self, is_anything_due: bool) -> bool {
        !self.attention.is_needed() || (!self.attention.is_unusual() && self.may_alarms_stay(is_anything_due))
    }

    /// Whether there is nothing to see to when one was granted and its waker is out, no limit counts time, and nothing is
    /// due before `due`: that waker is to be woken, and no alarm to be armed, for others wait and their alarms stand well.
    #[inline(always)]
    pub(crate) fn has_only_to_wake(&self, due: Instant) -> bool {
        let has_only = self.attention.is_nothing_but_alarms()
            && self.core.counts().queued > 0
            && self.alarms.stay(self.time.latest(), || due);
        debug_assert!(!has_only || self.is_calm(true), "there is something to see to");
        has_only
    }

    #[inline]
    fn may_alarms_stay(&self, is_anything_due: bool) -> bool {
        debug_assert!(is_anything_due || self.core.poll_timeout().is_none(), "something is due");
        let timeout = || {
            let timeout = if is_anything_due { self.core.poll_timeout() } else { None };
            timeout.unwrap_or(Instant::NEVER)
        };
        let may_stay = self.core.counts().queued > 0 && self.alarms.stay(self.time.latest(), timeout);
        debug_assert!(
            !may_stay || !self.alarms.must_move(self.time.latest(), self.wanted()),
            "one must move"
        );
        may_stay
    }

    /// The same by a look at each alarm. Notes at once if they have become of no use.
    pub(crate) fn is_quiet(&mut self) -> bool {
        if !self.attention.has(Attention::ALARMS) {
            return !self.attention.has(Attention::UNTOLD);
        }
        let (are_of_use, must_move) = self.alarms.look(self.time.latest(), self.wanted());
        if !are_of_use {
            self.attention.0 &= !Attention::ALARMS;
        }
        !must_move && !self.attention.has(Attention::UNTOLD)
    }

    /// What alarms are for now.
    #[inline]
    pub(crate) fn wanted(&self) -> Wanted {
        let at = self.core.poll_timeout().unwrap_or(Instant::NEVER);
        let at = if self.attention.is_watched() { self.wanted_by_others().min(at) } else { at };
        Wanted { at, is_any_queued: self.core.counts().queued > 0 }
    }

    #[cold]
    fn wanted_by_others(&self) -> Instant {
        let sleeper = self.sleepers.next().unwrap_or(Instant::NEVER);
        self.long_waits.as_ref().and_then(LongWaits::next).map_or(sleeper, |long_wait| long_wait.min(sleeper))
    }

    /// Notes that what some wait for has come. In the very turn, before anybody is woken: those who are
    /// may take it away again.
    #[cold]
    pub(crate) fn mark(&mut self, now: Instant) {
        self.sleepers.mark(now, &mut self.alarms);
        self.mark_long_waits(now);
        if self.idle.waiting() > 0 && self.core.is_idle() {
            self.idle.mark(&mut self.alarms);
            self.watch_idle();
        }
        if self.closed.waiting() > 0 && self.core.is_closed() {
            self.closed.mark(&mut self.alarms);
        }
    }

    /// Tells the machine whether anybody waits for idle.
    pub(crate) fn watch_idle(&mut self) {
        self.core.watch_idle(self.idle.waiting() > 0);
    }

    /// The ticket waits no more: its waker, to be dropped outside the lock.
    pub(crate) fn leave(&mut self, ticket: TicketId) -> Option<Waker> {
        self.waiters.leave(ticket, &mut self.alarms)
    }

    /// The ticket waits: keeps its waker, and books it; notes if that calls for more. Drop what comes back outside
    /// the lock.
    #[inline]
    pub(crate) fn sit(
        &mut self,
        ticket: TicketId,
        waker: Option<Waker>,
        runtime: RuntimeId,
        booked: &mut Booked,
    ) -> Option<Waker> {
        self.attention.ask_for_alarms();
        let room = self.core.capacity();
        self.waiters.sit(ticket, waker, runtime, &mut self.alarms, room, booked)
    }

    /// The ticket is granted: its waker, to be woken.
    pub(crate) fn granted(&mut self, ticket: TicketId) -> Option<Waker> {
        self.waiters.granted(ticket, &mut self.alarms)
    }

    /// Takes out the wakers of those who are to be woken; says whether there may be more.
    ///
    /// Between two batches others take turns, and an event may then be about a ticket that is gone
    /// and whose place has another. That one is woken for nothing, which is harmless: a future that
    /// is woken is polled, and one that is polled and waits puts its waker and booking back.
    pub(crate) fn drain(
        &mut self,
        mut event: Option<Event>,
        wakes: &mut Wakes,
        gone: &mut Sightings,
    ) -> bool {
        loop {
            match event {
                Some(Event::Granted(ticket)) => wakes.push(self.granted(ticket)),
                Some(Event::Refused(ticket, _)) => wakes.push(self.leave(ticket)),
                Some(Event::TakenBack(ticket)) => self.waiters.taken_back(ticket, &mut self.alarms),
                // Made again since, perhaps: what counts is how it is now.
                Some(Event::Forgotten(id)) => gone.push(self.sight(id)),
                Some(_) | None => {}
            }
            if wakes.is_full() || gone.is_full() {
                return true;
            }
            event = self.core.poll_event();
            if event.is_none() {
                break;
            }
        }
        while let Some((lost, told)) = self.alarms.next_lost() {
            let told = self.waiters.sweep(lost, told, &mut self.alarms, wakes);
            self.idle.sweep(lost, &mut self.alarms, wakes);
            self.sleepers.sweep(lost, &mut self.alarms, wakes);
            self.alarms.told(lost, told, !wakes.is_full());
            if wakes.is_full() {
                return true;
            }
        }
        self.idle.hand_out(wakes);
        self.closed.hand_out(wakes);
        self.sleepers.hand_out(wakes);
        wakes.is_full()
    }
}
