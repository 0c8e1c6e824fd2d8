//! Who is to be woken: for each ticket a waker and an alarm; a batch of wakers on the stack.
//!
//! Owns: the tables, under the lock. Lacks every call of a waker's own code but `will_wake`, which
//! only compares: wakers are cloned, woken and dropped by others, outside the lock.

use std::task::Waker;

use admission_core::TicketId;

use crate::alarms::{Alarms, Booked, Booking};
use crate::runtime::RuntimeId;
use crate::slab::Slab;
use crate::unwind::Unwind;

/// A waker and a booking for each ticket, under [`TicketId::index`].
///
/// Two tables, because a pair would be padded from 18 bytes to 24. They are as long as the most
/// tickets that ever waited at once.
pub(crate) struct Waiters {
    wakers: Vec<Option<Waker>>,
    bookings: Vec<Booking>,
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self { wakers: Vec::new(), bookings: Vec::new() }
    }

    /// Whether the ticket has this very waker, so that nothing need be done. It has an alarm too
    /// then, where one can be had: whatever ends a booking takes the waker with it.
    pub(crate) fn keeps(&self, ticket: TicketId, waker: &Waker) -> bool {
        self.wakers.get(ticket.index()).is_some_and(|w| w.as_ref().is_some_and(|w| w.will_wake(waker)))
    }

    /// Keeps a waker, and books the ticket; notes if that calls for more. Drop the old waker outside the lock.
    /// `room`: how many tickets the machine has room for.
    #[inline(always)]
    pub(crate) fn sit(
        &mut self,
        ticket: TicketId,
        waker: Option<Waker>,
        runtime: RuntimeId,
        alarms: &mut Alarms,
        room: usize,
        booked: &mut Booked,
    ) -> Option<Waker> {
        let index = ticket.index();
        if self.wakers.len() <= index {
            self.make_room(index + 1, room);
        }
        match alarms.book(&mut self.bookings[index], runtime) {
            Booked::Done => {}
            more => *booked = more,
        }
        std::mem::replace(&mut self.wakers[index], waker)
    }

    /// As much as the machine has, once, and not up to twice as much.
    #[inline(never)]
    fn make_room(&mut self, len: usize, room: usize) {
        let more = room.max(len) - self.wakers.len();
        self.wakers.reserve_exact(more);
        self.bookings.reserve_exact(more);
        self.wakers.resize(len, None);
        self.bookings.resize(len, Booking::NONE);
    }

    /// The ticket is granted: its waker, to be woken.
    pub(crate) fn granted(&mut self, ticket: TicketId, alarms: &mut Alarms) -> Option<Waker> {
        let index = ticket.index();
        alarms.rest(self.bookings.get_mut(index)?);
        self.wakers[index].take()
    }

    /// The ticket, which was granted, has started. Its waker went out with its grant.
    #[inline(always)]
    pub(crate) fn started(&mut self, ticket: TicketId, alarms: &mut Alarms) {
        if let Some(booking) = self.bookings.get_mut(ticket.index()) {
            alarms.end(booking);
        }
    }

    /// The ticket has left: its waker, to be woken or dropped.
    pub(crate) fn leave(&mut self, ticket: TicketId, alarms: &mut Alarms) -> Option<Waker> {
        let index = ticket.index();
        alarms.end(self.bookings.get_mut(index)?);
        self.wakers[index].take()
    }

    /// The ticket's grant was taken back.
    pub(crate) fn taken_back(&mut self, ticket: TicketId, alarms: &mut Alarms) {
        if let Some(booking) = self.bookings.get_mut(ticket.index()) {
            alarms.resume(booking);
        }
    }

    /// The ticket's waker, to be woken for a reason of its own.
    pub(crate) fn nudge(&mut self, ticket: TicketId) -> Option<Waker> {
        self.wakers.get_mut(ticket.index())?.take()
    }

    /// Tells those who are booked with a dead alarm; says how far it came.
    pub(crate) fn sweep(
        &mut self,
        lost: Booking,
        from: usize,
        alarms: &mut Alarms,
        wakes: &mut Wakes,
    ) -> usize {
        for index in from..self.bookings.len() {
            if wakes.is_full() {
                return index;
            }
            if self.bookings[index] == lost {
                alarms.end(&mut self.bookings[index]);
                wakes.push(self.wakers[index].take());
            }
        }
        self.bookings.len()
    }
}

/// Those who wait for the coordinator to be idle, or to be closed.
pub(crate) struct Seats {
    seats: Slab<Seat>,
    waiting: usize,
    /// Whether somebody got what it waits for and may still have to be woken.
    must_wake: bool,
}

/// One of them.
#[derive(Default)]
struct Seat {
    waker: Option<Waker>,
    booking: Booking,
    /// What it waits for has come, if only for a moment: it need not be so any more when its future
    /// is polled, or a busy coordinator would keep it waiting for ever.
    reached: bool,
}

impl Seats {
    pub(crate) const fn new() -> Self {
        Self { seats: Slab::new(), waiting: 0, must_wake: false }
    }

    /// How many have not got what they wait for.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn has_reached(&mut self, seat: Option<u32>) -> bool {
        seat.and_then(|seat| self.seats.get_mut(seat)).is_some_and(|seat| seat.reached)
    }

    pub(crate) fn keeps(&mut self, seat: Option<u32>, waker: &Waker, needs_alarm: bool) -> bool {
        seat.and_then(|seat| self.seats.get_mut(seat)).is_some_and(|seat| {
            (seat.booking.is_counted() || !needs_alarm)
                && seat.waker.as_ref().is_some_and(|w| w.will_wake(waker))
        })
    }

    /// Keeps a waker, in a new seat if there is none yet, and books it if there is a runtime. Drop
    /// the old waker outside the lock.
    pub(crate) fn sit(
        &mut self,
        seat: &mut Option<u32>,
        waker: Waker,
        runtime: Option<RuntimeId>,
        alarms: &mut Alarms,
    ) -> (Option<Waker>, Booked) {
        if seat.is_none() {
            *seat = self.seats.insert(Seat::default());
            self.waiting += usize::from(seat.is_some());
        }
        let Some(seat) = seat.and_then(|seat| self.seats.get_mut(seat)) else {
            return (Some(waker), Booked::Full);
        };
        let booked = match runtime {
            Some(runtime) => alarms.book(&mut seat.booking, runtime),
            None => Booked::Done,
        };
        (seat.waker.replace(waker), booked)
    }

    /// Gives a seat back: its waker, to be dropped.
    pub(crate) fn leave(&mut self, seat: &mut Option<u32>, alarms: &mut Alarms) -> Option<Waker> {
        let mut left = self.seats.remove(seat.take()?)?;
        alarms.end(&mut left.booking);
        self.waiting -= usize::from(!left.reached);
        left.waker
    }

    /// What they wait for has come, for all of them.
    pub(crate) fn mark(&mut self, alarms: &mut Alarms) {
        for seat in self.seats.iter_mut().filter(|seat| !seat.reached) {
            seat.reached = true;
            alarms.end(&mut seat.booking);
        }
        self.waiting = 0;
        self.must_wake = true;
    }

    pub(crate) const fn must_wake(&self) -> bool {
        self.must_wake
    }

    /// The wakers of those who got what they wait for, as many as there is room for.
    pub(crate) fn hand_out(&mut self, wakes: &mut Wakes) {
        if !self.must_wake {
            return;
        }
        for seat in self.seats.iter_mut().filter(|seat| seat.reached) {
            if wakes.is_full() {
                return;
            }
            wakes.push(seat.waker.take());
        }
        self.must_wake = false;
    }

    /// Tells those who are booked with a dead alarm.
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

/// Wakers on their way from under the lock to their wakes. On the stack: a turn allocates nothing.
pub(crate) struct Wakes {
    wakers: [Option<Waker>; Self::BATCH],
    len: usize,
}

impl Wakes {
    const BATCH: usize = 32;

    pub(crate) const fn new() -> Self {
        Self { wakers: [const { None }; Self::BATCH], len: 0 }
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len == Self::BATCH
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One more, where there is room.
    pub(crate) fn push(&mut self, waker: Option<Waker>) {
        if waker.is_some() {
            self.wakers[self.len] = waker;
            self.len += 1;
        }
    }

    /// Wakes them all, in order, whoever of them panics.
    pub(crate) fn wake(&mut self, unwind: &mut Unwind) {
        for waker in self.wakers[..self.len].iter_mut().filter_map(Option::take) {
            unwind.catch(|| waker.wake());
        }
        self.len = 0;
    }
}
