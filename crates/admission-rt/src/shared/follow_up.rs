//! What follows a turn of which others must hear, where that is more than one wake.
//!
//! Owns: the batches of wakes, and the arming of alarms outside the lock. Lacks what is done about it under the
//! lock, which is in [`crate::attention`].

use std::task::Waker;
use std::time::Duration;

use admission_core::{Event, Instant};

use super::{Shared, State};
use crate::alarms::Wanted;
use crate::guests::Sightings;
use crate::sync::MutexGuard;
use crate::unwind::Unwind;
use crate::waiters::Wakes;
use crate::waiting::Found;

/// So many times one turn sets alarms without delay. Whoever is at it longer has an alarm that rings while it
/// is being set, by a clock that does not move meanwhile: a coarse one, or one that stands still until this
/// turn is over.
const IN_A_ROW: u32 = 8;
/// Then it is set for this much later at least, and rings when the turn is over.
const A_LITTLE_LATER: Duration = Duration::from_millis(1);

impl Shared {
    /// Mostly an alarm has to move, and that is all, unless there is more when it has.
    #[inline(never)]
    pub(super) fn follow_up_at_length<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        first: Option<Waker>,
        mut event: Option<Event>,
        now: Option<Instant>,
    ) -> Unwind {
        let mut unwind = Unwind::new();
        if event.is_some() || state.attention.is_unusual() {
            return self.follow_up_each(state, first, event, now, 0, unwind);
        }
        let wanted = state.wanted();
        let has_moved;
        (state, has_moved) = self.arm(state, wanted, now, Duration::ZERO, &mut unwind);
        event = state.core.poll_event();
        if event.is_some() || !state.is_quiet() {
            return self.follow_up_each(state, first, event, None, u32::from(has_moved), unwind);
        }
        self.guess.note_state(&state);
        self.open_offer(&state);
        drop(state);
        if let Some(waker) = first {
            unwind.catch(|| waker.wake());
        }
        unwind
    }

    /// For any number of those who are to be woken, of whom the first is known, and of alarms, of which so many were
    /// armed already.
    #[cold]
    #[inline(never)]
    fn follow_up_each<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        first: Option<Waker>,
        mut event: Option<Event>,
        mut now: Option<Instant>,
        mut armed: u32,
        mut unwind: Unwind,
    ) -> Unwind {
        let mut wakes = Wakes::new();
        wakes.push(first);
        let mut gone = Sightings::new();
        let mut long = Vec::new();
        loop {
            let may_be_more = state.drain(event.take(), &mut wakes, &mut gone);
            if let Some(long_waits) = &mut state.long_waits {
                long.append(&mut long_waits.take());
            }
            state.look_around();
            let wanted = state.wanted();
            let must_arm = state.alarms.must_move(state.time.latest(), wanted);
            // Alarms come first; but where others keep them moving, whoever is to be woken does not
            // wait for that.
            if may_be_more || (must_arm && armed > 0 && !wakes.is_empty()) {
                drop(state);
                self.guests.note(&mut gone);
                wakes.wake(&mut unwind);
                self.report(&mut long, &mut unwind);
                now = None;
                state = self.lock();
                continue;
            }
            if !must_arm {
                break;
            }
            let least = if armed < IN_A_ROW { Duration::ZERO } else { A_LITTLE_LATER };
            let has_moved;
            (state, has_moved) = self.arm(state, wanted, now.take(), least, &mut unwind);
            if !has_moved {
                break;
            }
            armed += 1;
        }
        self.guess.note_state(&state);
        self.open_offer(&state);
        drop(state);
        self.guests.note(&mut gone);
        wakes.wake(&mut unwind);
        self.report(&mut long, &mut unwind);
        unwind
    }

    /// Arms an alarm that must move, outside the lock, for `least` from now on at the earliest; says whether there was one.
    #[inline(never)]
    fn arm<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        wanted: Wanted,
        now: Option<Instant>,
        least: Duration,
        unwind: &mut Unwind,
    ) -> (MutexGuard<'a, State>, bool) {
        // Once the lock was let go, the time of the turn may be long ago. Should the clock panic, those
        // who are to be woken are, all the same, and the alarm is set by the last reading.
        let latest = state.time.latest();
        let read = now.or_else(|| unwind.catch(|| self.clock.now())).unwrap_or(latest);
        let Some(mut moved) = state.alarms.take_move(latest, wanted) else { return (state, false) };
        state.look_around();
        drop(state);
        let delay = moved.until.map(|until| until.saturating_duration_since(read).max(least));
        let answer = unwind.catch(|| moved.alarm.arm(delay));
        let mut state = self.lock();
        let spare = state.alarms.put_back(moved, answer != Some(Ok(())));
        state.look_around();
        if spare.is_some() {
            drop(state);
            unwind.catch(|| drop(spare));
            state = self.lock();
        }
        (state, true)
    }

    /// Tells of those who have waited long: foreign code, like a wake, and after those.
    fn report(&self, long: &mut Vec<Found>, unwind: &mut Unwind) {
        if let (Some(hook), false) = (&self.hook, long.is_empty()) {
            for waiting in self.in_words(&std::mem::take(long)) {
                unwind.catch(|| hook(&waiting));
            }
        }
    }
}
