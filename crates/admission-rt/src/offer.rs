//! A grant that its call may take up without the lock.
//!
//! Owns: one place beside the lock for the ticket that is granted. The turn that grants it leaves it there; the call
//! that is polled takes it up, with one compare-exchange, and runs; and whoever takes the lock next closes the place
//! before anything else, and has the machine hear of the start. Lacks any decision: the place is open only where the
//! machine would start the ticket whenever it is asked, and needs no time for it.
//!
//! Why that is right: the lock closes the place, and only a turn that grants opens it. While it is open the machine is
//! as that turn left it: this ticket is granted, no other is, and nothing counts time but its hand-off time, for which a
//! start is never too late (rule S4). So the start may be told of as of the last reading of the clock, as it is of a start
//! that takes a turn of its own (see [`State::may_start_untimed`]).

use admission_core::{Step, TicketId};

use crate::shared::State;
use crate::sync::{AtomicU64, Ordering};

/// Nothing is offered, and nothing was taken up.
const CLOSED: u64 = u64::MAX;
/// The ticket was taken up. A word without this bit is the ticket that is offered.
const TAKEN: u64 = 1 << 63;

/// The place. What was done before a ticket was offered is done for whoever takes it up: an offer releases, and who
/// takes it up acquires.
pub(crate) struct Offer(AtomicU64);

impl Offer {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(CLOSED))
    }

    /// The ticket has been granted in this turn, and its waker is on its way.
    #[inline(always)]
    pub(crate) fn open(&self, ticket: TicketId) {
        self.0.store(ticket.to_bits(), Ordering::Release);
    }

    /// The call is polled: whether it has started by that.
    ///
    /// It is all the same whether the word went away and came back since it was read: its ticket is granted.
    #[inline(always)]
    pub(crate) fn take(&self, ticket: TicketId) -> bool {
        let offer = ticket.to_bits();
        self.0.load(Ordering::Relaxed) == offer
            && self.0.compare_exchange(offer, offer | TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The lock was taken: the machine hears of the start, if there was one, before it hears of anything else.
    #[inline(always)]
    pub(crate) fn close(&self, state: &mut State) {
        // Who opens the place has the lock, so this is never an old word.
        let word = self.0.load(Ordering::Relaxed);
        if word != CLOSED {
            self.close_after(word, state);
        }
    }

    #[inline(never)]
    fn close_after(&self, mut word: u64, state: &mut State) {
        if word & TAKEN == 0 {
            word = self.0.swap(CLOSED, Ordering::Relaxed);
        } else {
            // Nobody else does anything with it.
            self.0.store(CLOSED, Ordering::Relaxed);
        }
        if word & TAKEN != 0 {
            state.start_taken_up(TicketId::from_bits(word & !TAKEN));
        }
    }
}

impl State {
    /// Whether the ticket of this event may be offered: it is the only one that is granted, starts without a look at the
    /// clock, and nobody waits for what its start may bring (rule T6).
    #[inline(always)]
    pub(crate) fn may_offer(&self, ticket: TicketId) -> bool {
        self.attention.is_at_most_alarms() && self.core.due_of_only_grant(ticket).is_some()
    }

    /// A ticket that was offered has been taken up. Its waker went out with the offer.
    #[inline(always)]
    fn start_taken_up(&mut self, ticket: TicketId) {
        let _start = self.core.step(ticket, self.time.latest());
        debug_assert!(_start == Step::Start, "what was offered does not start");
        self.waiters.started(ticket, &mut self.alarms);
    }
}
