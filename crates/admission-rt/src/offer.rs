//! A grant that its call may take up without the lock.
//!
//! Owns: one place beside the lock for the ticket that is granted. The turn that grants it leaves it there; the call
//! that is polled takes it up, with one compare-exchange, and runs; and whoever takes the lock next closes the place
//! before anything else, and has the machine hear of the start. Lacks any decision: the place is open only where the
//! machine would start the ticket whenever it is asked, and needs no time for it.
//!
//! **The invariant**: whoever has the lock has closed the place; and while it is open, the machine is as the turn that
//! opened it has left it, and [`State::may_offer`] names that ticket: it is granted, no other is, and nothing counts time
//! but its hand-off time, for which a start is never too late (rule S4). So the start may be told of as of the last reading
//! of the clock, as it is of a start that takes a turn of its own (see [`State::may_start_untimed`]).
//!
//! Any turn opens the place again at its end, whoever granted the ticket and when: nothing is remembered of an offer that
//! a turn has closed, and the machine is asked anew what may be offered. A task that loops needs that: it asks for its next
//! call as soon as it has let one go, and so before that one is polled. What a turn has done meanwhile shows in the answer.
//! If the grant was taken back, refused or given to another, that ticket is not granted, or it is so once more and may
//! start; if new limits or a cooldown count time now, or somebody waits for idle, nothing is offered. If its hand-off time
//! is over and no turn has yet taken it back, it may still start, offered or not. (Two short turns open nothing: that of
//! a newcomer, which a longer one follows where anybody is granted, and that of one who leaves, which there is only where
//! nobody is.)
//!
//! Memory: a ticket is opened under the lock, with release, and taken up with acquire. So who takes it up finds done
//! what was done before the grant, by whichever turn it was opened last. A call that read the word before it went away
//! and came back takes it up all the same: one future alone has this ticket, and it is granted.

use admission_core::{Step, TicketId};

use crate::shared::{Shared, State};
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

    /// The turn is over, and this ticket [may be offered](State::may_offer). Its waker is out.
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
        debug_assert!(
            word == CLOSED || state.may_offer() == Some(TicketId::from_bits(word & !TAKEN)),
            "what is offered is not what may be"
        );
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

impl Shared {
    /// The turn is over, and there is no event: offers the grant that is out, if there is one that may be offered.
    #[inline(always)]
    pub(crate) fn open_offer(&self, state: &State) {
        if state.core.counts().granted == 1 {
            self.open_offer_if_right(state);
        }
    }

    #[inline(never)]
    fn open_offer_if_right(&self, state: &State) {
        if let Some(ticket) = state.may_offer() {
            self.offer.open(ticket);
        }
    }
}

impl State {
    /// The ticket that may be offered: it is the only one that is granted, starts without a look at the clock, and nobody
    /// waits for what its start may bring (rule T6).
    #[inline(always)]
    pub(crate) fn may_offer(&self) -> Option<TicketId> {
        if !self.attention.is_at_most_alarms() {
            return None;
        }
        self.core.only_grant().map(|(ticket, _)| ticket)
    }

    /// A ticket that was offered has been taken up. Its waker went out with the offer.
    #[inline(always)]
    fn start_taken_up(&mut self, ticket: TicketId) {
        let _start = self.core.step(ticket, self.time.latest());
        debug_assert!(_start == Step::Start, "what was offered does not start");
        self.waiters.started(ticket, &mut self.alarms);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use admission_core::{Admitted, ProviderId, Request, ScopeId};

    use super::*;
    use crate::builder::Plan;
    use crate::runtime::SystemClock;
    use crate::shared::Manner;
    use crate::sync::Arc;
    use crate::{Limits, Scope};

    const P: ProviderId = ProviderId::new(0);

    fn asks(shared: &Shared) -> TicketId {
        shared.turn(|state, now| match state.core.request(&Request::new(P), now) {
            Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) => ticket,
            Err(refusal) => panic!("refused: {refusal:?}"),
        })
    }

    fn one_at_a_time() -> Limits {
        Limits::default().max_concurrent(1)
    }

    /// A coordinator in which one call has ended, and the first of these was granted by that.
    fn granted(waiting: usize) -> (Arc<Shared>, Vec<TicketId>) {
        let plan = Plan { providers: vec![("p".into(), one_at_a_time())], ..Plan::default() };
        let shared = plan.build(Arc::new(SystemClock::new()), Manner::default(), None).unwrap();
        let running = asks(&shared);
        let waiting = (0..waiting).map(|_| asks(&shared)).collect();
        shared.end(running);
        (shared, waiting)
    }

    fn offered(shared: &Shared) -> Option<TicketId> {
        let word = shared.offer.0.load(Ordering::Relaxed);
        (word & TAKEN == 0).then_some(TicketId::from_bits(word))
    }

    // rules S1, S4: a turn that leaves a grant as it was leaves it offered, however many there are
    #[test]
    fn turns_in_between_leave_a_grant_offered() {
        let (shared, waiting) = granted(2);
        assert_eq!(offered(&shared), Some(waiting[0]));
        let newcomer = asks(&shared);
        assert_eq!(offered(&shared), Some(waiting[0]));
        shared.counts();
        assert_eq!(offered(&shared), Some(waiting[0]));
        shared.release(newcomer);
        assert_eq!(offered(&shared), Some(waiting[0]), "another leaves");
        assert!(!shared.offer.take(waiting[1]) && shared.offer.take(waiting[0]));
        assert_eq!(shared.counts().running, 1);
        assert_eq!(offered(&shared), None, "it runs");
        shared.end(waiting[0]);
        assert_eq!(offered(&shared), Some(waiting[1]));
    }

    // rules S3, S5: who is granted now is offered, and nobody else
    #[test]
    fn what_a_turn_has_done_to_a_grant_it_has_done_to_its_offer() {
        let (shared, waiting) = granted(2);
        shared.release(waiting[0]);
        assert_eq!(offered(&shared), Some(waiting[1]), "the next one has its turn");
        let number = waiting[0].index();
        let newcomer = asks(&shared);
        assert_eq!(newcomer.index(), number, "another is in its place");
        assert_eq!(offered(&shared), Some(waiting[1]));
        assert!(!shared.offer.take(waiting[0]) && !shared.offer.take(newcomer));
        shared.cool(P, Duration::from_secs(3600));
        assert_eq!(offered(&shared), None, "it was taken back");
        shared.counts();
        assert_eq!(offered(&shared), None);
        shared.release(waiting[1]);
        shared.release(newcomer);
    }

    // rules L2, L7, T5: a start from which time is counted takes a turn that reads the clock
    #[test]
    fn new_limits_that_count_time_leave_nothing_offered() {
        let (shared, waiting) = granted(1);
        let paced = one_at_a_time().interval(Duration::from_nanos(1));
        for (limits, is_offered) in [(one_at_a_time(), true), (paced, false)] {
            shared.set_limits(ScopeId::Provider(P), Scope::Provider("p".into()), limits).unwrap();
            assert_eq!(offered(&shared), is_offered.then_some(waiting[0]));
            assert_eq!(shared.counts().granted, 1);
            assert_eq!(offered(&shared), is_offered.then_some(waiting[0]), "and another turn");
        }
    }

    // rules S1, L1: of two that are granted neither is offered, until the other has started
    #[test]
    fn one_of_two_that_are_granted_is_offered_when_the_other_has_started() {
        let limits = Limits::default().max_concurrent(2);
        let plan = Plan { providers: vec![("p".into(), limits)], ..Plan::default() };
        let shared = plan.build(Arc::new(SystemClock::new()), Manner::default(), None).unwrap();
        let running = [(); 2].map(|()| asks(&shared));
        let waiting = [(); 2].map(|()| asks(&shared));
        shared.end(running[0]);
        assert_eq!(offered(&shared), Some(waiting[0]));
        shared.end(running[1]);
        assert_eq!((shared.counts().granted, offered(&shared)), (2, None));
        shared.turn(|state, now| assert_eq!(state.core.step(waiting[0], now), Step::Start));
        assert_eq!(offered(&shared), Some(waiting[1]));
    }
}
