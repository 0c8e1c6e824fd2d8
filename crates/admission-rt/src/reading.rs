//! When the clock is read, and when it need not be.
//!
//! Owns: the one reading of the clock in a turn, and what says that a turn can do without. To read the
//! clock costs as much as the rest of an undisturbed call, so a coordinator of whose limits none counts
//! time does not while nobody waits: then nothing is due, and a start is undated: whoever wants its key is told that it has
//! had that since somebody came upon it. And one that waits leaves, and one that is granted starts, without one where
//! nothing is due, whoever else waits. Lacks any say about limits: it is careful, and where it is in
//! doubt the clock is read.
//!
//! A turn without a reading gives the machine the time of the last one. To the machine that is a call at
//! which no time has passed (rule T1), and what it decides is the same, as nothing that time changes is
//! there: no interval, window or cooldown, no deadline, no grant but one that starts (rule S4), no
//! provider that is forgotten some day.

use std::time::Duration;

use admission_core::{Admitted, ChangeError, Instant, ProviderId, Refusal, Request, TicketId, TicketState};

use crate::runtime::Clock;
use crate::shared::State;
use crate::sync::Arc;

/// The time of a turn, read when it is first asked for: under the lock (rule T5), and once.
pub(crate) struct Reading<'a> {
    clock: &'a Arc<dyn Clock>,
    read: Option<Instant>,
}

impl<'a> Reading<'a> {
    #[inline]
    pub(crate) const fn new(clock: &'a Arc<dyn Clock>) -> Self {
        Self { clock, read: None }
    }

    /// The time.
    #[inline]
    pub(crate) fn now(&mut self) -> Instant {
        match self.read {
            Some(now) => now,
            None => *self.read.insert(self.clock.now()),
        }
    }

    /// The time, if it was read.
    pub(crate) const fn read(&self) -> Option<Instant> {
        self.read
    }
}

/// What is known of the time between turns.
pub(crate) struct Timekeeping {
    /// The last reading.
    latest: Instant,
    /// The end of the longest cooldown that there was.
    cooldown: Instant,
}

impl Timekeeping {
    pub(crate) const fn new() -> Self {
        Self { latest: Instant::ZERO, cooldown: Instant::ZERO }
    }

    /// The last reading.
    #[inline]
    pub(crate) const fn latest(&self) -> Instant {
        self.latest
    }

    /// Whether there was a cooldown that was not over at the last reading.
    #[inline]
    pub(crate) fn is_cooling(&self) -> bool {
        self.cooldown > self.latest
    }
}

impl State {
    /// Whether time alone changes nothing at the moment, and nothing that begins now is told of later.
    #[inline]
    pub(crate) fn is_timeless(&self) -> bool {
        let counts = self.core.counts();
        counts.queued == 0 && counts.granted == 0 && !self.attention.needs_clock()
    }

    /// Whether a ticket may leave without a look at the clock: time alone changes nothing, and the ticket does nothing
    /// but wait. It has no slot and no key that could come free, and where no limit counts time it is in nobody's way:
    /// whoever could go was granted in the turn before. So no stamp comes of it.
    #[inline]
    pub(crate) fn may_leave_untimed(&self, ticket: TicketId) -> bool {
        self.is_timeless()
            || (self.core.counts().granted == 0
                && !self.attention.needs_clock()
                && self.core.are_only_grants_timed()
                && self.core.state(ticket) == Some(TicketState::Queued))
    }

    /// Whether a granted ticket may start without a look at the clock: time alone takes grants back at most, and there is
    /// no other. This one starts in time, however late (rule S4). Whoever waits for its key is told that it has had that
    /// since the last reading, which was in the turn of its grant or later.
    ///
    /// The machine is asked, too: what a cooldown held back may have yet to be granted, though the last reading says that
    /// it is over. Not all who read the clock let time pass.
    #[inline]
    pub(crate) fn may_start_untimed(&self, ticket: TicketId) -> bool {
        self.core.counts().granted == 1
            && !self.attention.needs_clock()
            && self.core.are_only_grants_timed()
            && self.core.state(ticket) == Some(TicketState::Granted)
    }

    /// The time of a turn that must know it.
    #[inline]
    pub(crate) fn read_time(&mut self, reading: &mut Reading<'_>) -> Instant {
        reading.now();
        self.time_of(reading)
    }

    /// The time of a turn that has been read, or else of the last that was.
    #[inline]
    pub(crate) fn time_of(&mut self, reading: &Reading<'_>) -> Instant {
        self.time_as_read(reading.read())
    }

    /// Notes a time that was read, if one was, and says the latest.
    #[inline]
    pub(crate) fn time_as_read(&mut self, read: Option<Instant>) -> Instant {
        if let Some(now) = read {
            self.time.latest = self.time.latest.max(now);
        }
        self.time.latest
    }

    /// A newcomer. It is first asked whether it may start without a look at the clock, where that is all
    /// the same; if not, the machine hears the time from which it waits. Who must not wait is refused without one, too,
    /// unless it has a key: it is told how long the other has had it.
    #[inline]
    pub(crate) fn request(
        &mut self,
        request: &Request<'_>,
        time: &mut Reading<'_>,
    ) -> Result<Admitted, Refusal> {
        if time.read().is_none() && request.may_start && request.costs.is_empty() {
            if let Some(ticket) = self.core.start_at_once(request.provider, request.key, None) {
                return Ok(Admitted::Started(ticket));
            }
            if !request.may_wait && request.key.is_none() {
                return self.core.request(request, self.time.latest);
            }
        }
        let now = self.read_time(time);
        self.core.request(request, now)
    }

    /// A provider cools down.
    pub(crate) fn cooldown(
        &mut self,
        provider: ProviderId,
        delay: Duration,
        now: Instant,
    ) -> Result<(), ChangeError> {
        self.time.cooldown = self.time.cooldown.max(now + delay);
        self.core.cooldown(provider, delay, now)
    }
}
