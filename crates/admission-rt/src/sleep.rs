//! Waiting for time to pass: between two attempts, and until an attempt has had its time.
//!
//! Owns: the sleep of whatever is built *around* calls (retries, queries, streams), on the coordinator's
//! clock and by the runtime's one alarm, so that a virtual clock moves it like everything else. Lacks
//! a ticket, and with it any place in the queue: who sleeps delays nobody and holds nothing.
//! Futures of waiting calls never sleep; the machine knows their deadlines.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use admission_core::Instant;

use crate::Rejected;
use crate::alarms::{Alarms, Booked, Booking, Host};
use crate::runtime::RuntimeId;
use crate::shared::Shared;
use crate::slab::Slab;
use crate::unwind::quietly;
use crate::waiters::Wakes;

/// Ready once a time has passed on the coordinator's clock.
///
/// Lazy: the time counts from the first poll. Cancel safe. Where no runtime can wake it, it says
/// [`Rejected::NoRuntime`]. One that never ends (a delay beyond the clock) arms nothing.
pub(crate) struct Sleep {
    shared: Arc<Shared>,
    host: &'static Host,
    delay: Duration,
    until: Option<Instant>,
    seat: Option<u32>,
}

/// What a look at a sleeper says.
enum Look {
    Over,
    /// Its waker and its alarm are in place.
    Asleep,
    /// It has no alarm, or another waker.
    Restless,
}

impl Sleep {
    pub(crate) const fn new(shared: Arc<Shared>, host: &'static Host, delay: Duration) -> Self {
        Self { shared, host, delay, until: None, seat: None }
    }

    fn leave(&mut self) {
        let Self { shared, seat, .. } = self;
        if seat.is_some() {
            let (waker, unwind) = shared.turn_held(|state, _| state.sleepers.leave(seat, &mut state.alarms));
            drop(waker);
            unwind.resume();
        }
    }

    fn over(&mut self, outcome: Result<(), Rejected>) -> Poll<Result<(), Rejected>> {
        self.leave();
        Poll::Ready(outcome)
    }
}

impl Future for Sleep {
    type Output = Result<(), Rejected>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Self { shared, host, delay, until, seat } = this;
        let look = shared.turn(|state, now| {
            let until = *until.get_or_insert_with(|| now + *delay);
            if until <= now {
                Look::Over
            } else if state.sleepers.keeps(*seat, cx.waker()) {
                Look::Asleep
            } else {
                Look::Restless
            }
        });
        match look {
            Look::Over => return this.over(Ok(())),
            Look::Asleep => return Poll::Pending,
            Look::Restless => {}
        }
        // Whose alarm, and a clone of the waker: foreign code, so between two turns.
        let Some(runtime) = (host.current)() else { return this.over(Err(Rejected::NoRuntime)) };
        let mut waker = Some(cx.waker().clone());
        let mut booked = Booked::Done;
        let until = until.unwrap_or(Instant::NEVER);
        let (is_over, unwind) = shared.turn_held(|state, now| {
            if until <= now {
                return true;
            }
            if let Some(new) = waker.take() {
                (waker, booked) = state.sleepers.sit(seat, new, until, runtime, &mut state.alarms);
            }
            false
        });
        let has_alarm = shared.make(host, booked);
        drop(waker);
        unwind.resume();
        if is_over {
            this.over(Ok(()))
        } else if has_alarm {
            Poll::Pending
        } else {
            this.over(Err(Rejected::NoRuntime))
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        quietly(|| self.leave());
    }
}

/// Those who sleep, under the lock.
pub(crate) struct Sleepers {
    seats: Slab<Seat>,
    /// Those who have not been woken, by the time of their waking.
    due: BTreeSet<(Instant, u32)>,
    /// Those who are awake and have yet to be told. A seat may have got another sleeper meanwhile, who
    /// is then woken for nothing.
    awake: VecDeque<u32>,
}

struct Seat {
    waker: Option<Waker>,
    booking: Booking,
    until: Instant,
}

impl Sleepers {
    pub(crate) const fn new() -> Self {
        Self { seats: Slab::new(), due: BTreeSet::new(), awake: VecDeque::new() }
    }

    /// Whether there are any, awake or asleep.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        !self.seats.is_empty()
    }

    /// When the first of them is to be woken.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(until, _)| *until)
    }

    fn keeps(&mut self, seat: Option<u32>, waker: &Waker) -> bool {
        seat.and_then(|seat| self.seats.get_mut(seat)).is_some_and(|seat| {
            seat.booking.is_counted() && seat.waker.as_ref().is_some_and(|w| w.will_wake(waker))
        })
    }

    /// Keeps a waker, in a new seat if there is none yet, and books it. Drop the old waker outside
    /// the lock.
    fn sit(
        &mut self,
        seat: &mut Option<u32>,
        waker: Waker,
        until: Instant,
        runtime: RuntimeId,
        alarms: &mut Alarms,
    ) -> (Option<Waker>, Booked) {
        if seat.is_none() {
            *seat = self.seats.insert(Seat { waker: None, booking: Booking::NONE, until });
        }
        let (Some(number), Some(seat)) = (*seat, seat.and_then(|seat| self.seats.get_mut(seat))) else {
            return (Some(waker), Booked::Full);
        };
        // One that never ends is for no alarm to see to.
        if until < Instant::NEVER {
            self.due.insert((until, number));
        }
        (seat.waker.replace(waker), alarms.book(&mut seat.booking, runtime))
    }

    fn leave(&mut self, seat: &mut Option<u32>, alarms: &mut Alarms) -> Option<Waker> {
        let number = seat.take()?;
        let mut left = self.seats.remove(number)?;
        self.due.remove(&(left.until, number));
        alarms.end(&mut left.booking);
        left.waker
    }

    /// Time has passed: whoever is due is awake, and needs no alarm any more.
    pub(crate) fn mark(&mut self, now: Instant, alarms: &mut Alarms) {
        while let Some(&(until, number)) = self.due.first() {
            if until > now {
                return;
            }
            self.due.pop_first();
            if let Some(seat) = self.seats.get_mut(number) {
                alarms.end(&mut seat.booking);
                self.awake.push_back(number);
            }
        }
    }

    pub(crate) fn must_wake(&self) -> bool {
        !self.awake.is_empty()
    }

    /// The wakers of those who are awake, as many as there is room for.
    pub(crate) fn hand_out(&mut self, wakes: &mut Wakes) {
        while !wakes.is_full() {
            let Some(number) = self.awake.pop_front() else { return };
            wakes.push(self.seats.get_mut(number).and_then(|seat| seat.waker.take()));
        }
    }

    /// Tells those who are booked with a dead alarm: they book anew when they are polled.
    pub(crate) fn sweep(&mut self, lost: Booking, alarms: &mut Alarms, wakes: &mut Wakes) {
        for seat in self.seats.iter_mut().filter(|seat| seat.booking == lost) {
            if wakes.is_full() {
                return;
            }
            alarms.end(&mut seat.booking);
            wakes.push(seat.waker.take());
        }
    }
}
