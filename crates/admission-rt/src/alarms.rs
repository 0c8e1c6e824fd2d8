//! Which runtimes have callers waiting, and for when their alarms are set.
//!
//! Owns: one entry per runtime, and the count of those who are booked with it. Lacks the act of
//! arming, which is foreign code and happens outside the lock (see [`crate::shared`]).

use admission_core::Instant;

use crate::runtime::{Alarm, Bell, Runtime, RuntimeId};

/// A [`Runtime`] as values, so that everything below the handles is compiled once.
pub(crate) struct Host {
    pub(crate) current: fn() -> Option<RuntimeId>,
    pub(crate) alarm: fn(Bell) -> Box<dyn Alarm>,
}

impl Host {
    pub(crate) const fn of<R: Runtime>() -> &'static Self {
        R::HOST
    }
}

trait Hosted {
    const HOST: &'static Host;
}

impl<R: Runtime> Hosted for R {
    const HOST: &'static Host = &Host { current: R::current, alarm: |bell| Box::new(R::alarm(bell)) };
}

/// Which alarm somebody counts on: none, or a place in the table, and whether it is counted there.
///
/// A ticket is counted while it waits. While it is granted it only remembers the place, for the
/// case that the grant is taken back from a future that nobody polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Booking(u16);

impl Booking {
    pub(crate) const NONE: Self = Self(0);
    const COUNTED: u16 = 1 << 15;
    /// How many places a booking can tell apart.
    const PLACES: usize = Self::COUNTED as usize - 1;

    const fn counted(place: usize) -> Self {
        Self((place as u16 + 1) | Self::COUNTED)
    }

    pub(crate) const fn is_counted(self) -> bool {
        self.0 & Self::COUNTED != 0
    }

    const fn resting(self) -> Self {
        Self(self.0 & !Self::COUNTED)
    }

    fn place(self) -> Option<usize> {
        usize::from(self.0 & !Self::COUNTED).checked_sub(1)
    }
}

/// What a booking calls for, once the lock is gone.
pub(crate) enum Booked {
    /// Nothing: the alarm is there, or somebody is making it.
    Done,
    /// Make the alarm with this number. Drop what was in its place.
    Make(u64, Option<Box<dyn Alarm>>),
    /// More runtimes than can be told apart.
    Full,
}

/// What alarms are for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// When time alone next changes something: `NEVER` if it does not.
    pub(crate) at: Instant,
    /// Whether a call waits. If none does and time changes nothing, no alarm is set (rule T6), whoever else
    /// counts on it.
    pub(crate) is_any_queued: bool,
}

/// An alarm that must move, taken out of the table to be armed outside the lock. While it is out it
/// counts as not there, so nobody else moves it.
pub(crate) struct Move {
    pub(crate) alarm: Box<dyn Alarm>,
    pub(crate) until: Option<Instant>,
    place: usize,
    number: u64,
}

pub(crate) struct Alarms {
    entries: Vec<Entry>,
    /// Where all stood when they were last looked at.
    standing: Standing,
    made: u64,
    /// Whether an alarm is dead and its callers have not all been told.
    any_lost: bool,
}

/// When those alarms ring that somebody counts on, if none of them had to move. Kept so that a turn need not look at
/// each: [`Standing::ANYHOW`] once an alarm or the count of its callers has changed in a way that matters.
#[derive(Clone, Copy)]
struct Standing {
    first: Instant,
    last: Instant,
}

impl Standing {
    /// It has to be looked at each of them.
    const ANYHOW: Self = Self { first: Instant::ZERO, last: Instant::NEVER };
    /// There is none.
    const NONE: Self = Self { first: Instant::NEVER, last: Instant::ZERO };
}

struct Entry {
    runtime: RuntimeId,
    /// Tells this alarm's bell from that of an earlier one in the same place.
    number: u64,
    /// Not there while it is being made, and while it is being armed.
    alarm: Option<Box<dyn Alarm>>,
    /// What it was last armed for and has not rung for: `NEVER` if there is nothing of the kind.
    armed: Instant,
    waiting: usize,
    dead: bool,
    /// If dead: nobody below this place among the tickets counts on it any more.
    told: usize,
}

impl Alarms {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), standing: Standing::ANYHOW, made: 0, any_lost: false }
    }

    /// Counts a caller in, in place of wherever it was booked before.
    #[inline]
    pub(crate) fn book(&mut self, booking: &mut Booking, runtime: RuntimeId) -> Booked {
        self.end(booking);
        let mut entries = self.entries.iter_mut().enumerate();
        match entries.find(|(_, entry)| entry.runtime == runtime && !entry.dead) {
            Some((place, entry)) => {
                if entry.waiting == 0 {
                    self.standing = Standing::ANYHOW;
                }
                entry.waiting += 1;
                *booking = Booking::counted(place);
                Booked::Done
            }
            None => self.book_first(booking, runtime),
        }
    }

    /// The first caller of a runtime.
    #[inline(never)]
    fn book_first(&mut self, booking: &mut Booking, runtime: RuntimeId) -> Booked {
        self.made += 1;
        self.standing = Standing::ANYHOW;
        let entry = Entry {
            runtime,
            number: self.made,
            alarm: None,
            armed: Instant::NEVER,
            waiting: 1,
            dead: false,
            told: 0,
        };
        if let Some(place) = self.entries.iter().position(|e| e.dead && e.waiting == 0) {
            let old = std::mem::replace(&mut self.entries[place], entry);
            *booking = Booking::counted(place);
            return Booked::Make(self.made, old.alarm);
        }
        let place = self.entries.len();
        if place == Booking::PLACES {
            return Booked::Full;
        }
        self.entries.push(entry);
        *booking = Booking::counted(place);
        Booked::Make(self.made, None)
    }

    /// The caller waits no more.
    pub(crate) fn end(&mut self, booking: &mut Booking) {
        self.rest(booking);
        *booking = Booking::NONE;
    }

    /// The caller does not wait for the moment: its ticket is granted.
    pub(crate) fn rest(&mut self, booking: &mut Booking) {
        if booking.is_counted() {
            if let Some(entry) = booking.place().and_then(|place| self.entries.get_mut(place)) {
                entry.waiting -= 1;
                if entry.waiting == 0 {
                    self.standing = Standing::ANYHOW;
                }
            }
            *booking = booking.resting();
        }
    }

    /// The caller waits again, and may not know it: its grant was taken back. If its alarm is gone
    /// by now, any other will serve.
    pub(crate) fn resume(&mut self, booking: &mut Booking) {
        let (false, Some(place)) = (booking.is_counted(), booking.place()) else { return };
        let lives = |place: &usize| self.entries.get(*place).is_some_and(|e| !e.dead);
        let place = Some(place).filter(lives).or_else(|| self.entries.iter().position(|e| !e.dead));
        *booking = place.map_or(Booking::NONE, Booking::counted);
        if let Some(place) = place {
            self.entries[place].waiting += 1;
            self.standing = Standing::ANYHOW;
        }
    }

    /// Puts a new alarm into its place, or gives it back if its place is gone.
    pub(crate) fn install(&mut self, number: u64, alarm: Box<dyn Alarm>) -> Option<Box<dyn Alarm>> {
        match self.entry(number) {
            Some(entry) => entry.alarm.replace(alarm),
            None => Some(alarm),
        }
    }

    /// Whether the alarm is in its place and its runtime is not known to be gone.
    pub(crate) fn lives(&mut self, number: u64) -> bool {
        self.entry(number).is_some_and(|entry| !entry.dead)
    }

    /// The alarm has rung, and is set for nothing any more.
    pub(crate) fn rang(&mut self, number: u64) {
        if let Some(entry) = self.entry(number) {
            entry.armed = Instant::NEVER;
        }
    }

    /// The alarm's runtime is gone. It stays in its place until the next booking needs one, because
    /// this may be called from the alarm's own code.
    pub(crate) fn lose(&mut self, number: u64) {
        let Some(entry) = self.entry(number) else { return };
        if !entry.dead {
            entry.dead = true;
            entry.armed = Instant::NEVER;
            entry.told = 0;
            self.any_lost |= entry.waiting > 0;
        }
    }

    pub(crate) const fn any_lost(&self) -> bool {
        self.any_lost
    }

    /// The next dead alarm that somebody counts on: the booking to look for, and how far the
    /// tickets have been told.
    pub(crate) fn next_lost(&mut self) -> Option<(Booking, usize)> {
        let lost = self.entries.iter().position(|e| e.dead && e.waiting > 0);
        self.any_lost = lost.is_some();
        lost.map(|place| (Booking::counted(place), self.entries[place].told))
    }

    /// Remembers how far the tickets have been told, or that everybody has been.
    pub(crate) fn told(&mut self, booking: Booking, told: usize, all: bool) {
        self.standing = Standing::ANYHOW;
        if let Some(entry) = booking.place().and_then(|place| self.entries.get_mut(place)) {
            debug_assert!(!all || entry.waiting == 0, "a booking that is in no table");
            entry.told = told;
            if all {
                entry.waiting = 0;
            }
        }
    }

    /// Whether anybody counts on an alarm, or one is set for somebody who did.
    #[inline]
    pub(crate) fn are_of_use(&self) -> bool {
        self.entries.iter().any(Entry::is_of_use)
    }

    /// Whether any alarm must move, if it is `now` and `wanted` says what for.
    #[inline]
    pub(crate) fn must_move(&self, now: Instant, wanted: Wanted) -> bool {
        self.entries.iter().any(|entry| entry.must_move(now, wanted))
    }

    /// Whether anybody counts on an alarm or one is set, and whether one must move. Notes where they stand.
    pub(crate) fn look(&mut self, now: Instant, wanted: Wanted) -> (bool, bool) {
        let mut standing = Standing::NONE;
        let (mut are_of_use, mut must_move) = (false, false);
        for entry in &self.entries {
            are_of_use |= entry.is_of_use();
            must_move |= entry.must_move(now, wanted);
            if entry.waiting > 0 && entry.is_at_hand() {
                standing.first = standing.first.min(entry.armed);
                standing.last = standing.last.max(entry.armed);
            }
        }
        self.standing = if must_move { Standing::ANYHOW } else { standing };
        (are_of_use, must_move)
    }

    /// Whether no alarm must move for as long as calls wait, as it is known before it is looked at each: it is `now`, and
    /// `wanted` says from when on any is wanted.
    #[inline]
    pub(crate) fn stay(&self, now: Instant, wanted: impl FnOnce() -> Instant) -> bool {
        now < self.standing.first && self.standing.last <= wanted()
    }

    /// Takes out an alarm that must move, as already moved: if it rings while it is being armed,
    /// that is noted here and not lost.
    pub(crate) fn take_move(&mut self, now: Instant, wanted: Wanted) -> Option<Move> {
        let place = self.entries.iter().position(|entry| entry.must_move(now, wanted))?;
        self.standing = Standing::ANYHOW;
        let entry = &mut self.entries[place];
        let alarm = entry.alarm.take()?;
        entry.armed = entry.target(wanted);
        let until = Some(entry.armed).filter(|until| *until < Instant::NEVER);
        Some(Move { alarm, until, place, number: entry.number })
    }

    /// Puts an alarm back after it was armed, or gives it back if its place has been given away.
    pub(crate) fn put_back(&mut self, moved: Move, dead: bool) -> Option<Box<dyn Alarm>> {
        let Move { alarm, place, number, .. } = moved;
        let Some(entry) = self.entries.get_mut(place).filter(|e| e.number == number) else {
            return Some(alarm);
        };
        entry.alarm = Some(alarm);
        self.standing = Standing::ANYHOW;
        if dead {
            self.lose(number);
        }
        None
    }

    /// All alarms, for the end.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = Box<dyn Alarm>> + use<> {
        std::mem::take(&mut self.entries).into_iter().filter_map(|entry| entry.alarm)
    }

    /// An alarm about which something is about to change.
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.standing = Standing::ANYHOW;
        self.entries.iter_mut().find(|e| e.number == number)
    }
}

impl Entry {
    #[inline]
    fn is_of_use(&self) -> bool {
        self.waiting > 0 || self.armed < Instant::NEVER
    }

    /// An alarm that nobody counts on is set for nothing.
    #[inline]
    fn target(&self, wanted: Wanted) -> Instant {
        if self.waiting > 0 { wanted.at } else { Instant::NEVER }
    }

    /// One that is set for an earlier instant than is wanted stays, as long as somebody counts on it and there is
    /// such an instant or a queue: it rings for nothing once (rule T3), and is then set for what is wanted. A
    /// queue that moves fast has another grant to watch with every turn, and would move the alarm as often.
    ///
    /// One whose instant has passed is as good as not set. It is late, or it will never ring: whatever turn
    /// comes first does what was due, and sets it for what is next.
    #[inline]
    fn must_move(&self, now: Instant, wanted: Wanted) -> bool {
        let target = self.target(wanted);
        let is_too_late = target < self.armed;
        let is_past = self.armed <= now && now < target;
        let is_for_nobody = target == Instant::NEVER && !(self.waiting > 0 && wanted.is_any_queued);
        let is_needless = is_for_nobody && self.armed < Instant::NEVER;
        (is_too_late || is_past || is_needless) && self.is_at_hand()
    }

    /// Whether it can be moved.
    #[inline]
    fn is_at_hand(&self) -> bool {
        !self.dead && self.alarm.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::runtime::{Clock, Dead, SystemClock};

    struct Nowhere;

    impl Alarm for Nowhere {
        fn arm(&mut self, _: Option<std::time::Duration>) -> Result<(), Dead> {
            Err(Dead)
        }
    }

    impl Runtime for Nowhere {
        type Alarm = Self;

        fn clock() -> Arc<dyn Clock> {
            Arc::new(SystemClock::new())
        }

        fn current() -> Option<RuntimeId> {
            None
        }

        fn alarm(_: Bell) -> Self {
            Self
        }
    }

    // rule W5
    #[test]
    fn more_runtimes_than_can_be_told_apart_are_refused_until_one_ends() {
        let runtime = |number| RuntimeId::new::<Nowhere>(number);
        let most = Booking::PLACES as u64;
        let mut alarms = Alarms::new();
        // As if each had booked in its turn, without a look at all the others.
        for number in 0..most {
            let mut one = Alarms { made: number, ..Alarms::new() };
            one.book(&mut Booking::default(), runtime(number));
            alarms.entries.append(&mut one.entries);
        }
        alarms.made = most;
        let mut booking = Booking::NONE;
        assert!(matches!(alarms.book(&mut booking, runtime(most)), Booked::Full));
        assert!(booking == Booking::NONE, "it is counted nowhere");
        let mut last = Booking::NONE;
        assert!(matches!(alarms.book(&mut last, runtime(most - 1)), Booked::Done));
        assert!(last.is_counted(), "who is known has its place");
        assert_eq!(last.place(), Some(Booking::PLACES - 1), "and it is told from all others");
        // One ends, and when whoever counted on it has been told, there is room.
        alarms.lose(7);
        let Some((lost, _)) = alarms.next_lost() else { panic!("somebody counts on it") };
        alarms.end(&mut lost.clone());
        alarms.told(lost, 0, true);
        assert!(matches!(alarms.book(&mut booking, runtime(most)), Booked::Make(_, None)));
        assert!(booking == lost, "the place of the one that ended");
    }
}
