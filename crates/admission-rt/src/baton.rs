//! Calls that have ended and of which the machine has yet to hear, because nobody waits for it: each leaves its
//! ticket like a baton, for the next call to take or the next turn to bring in.
//!
//! Owns: a few places for tickets beside the lock. The turn that starts a call while nobody waits opens them;
//! a call that ends leaves its ticket in one, with one compare-exchange; and whoever takes the lock next
//! closes them before anything else, and has the machine hear of those ends. A call that is like one of them
//! takes its ticket over, with one compare-exchange. So neither takes the lock. Lacks any decision: places
//! are open only where an end changes nothing but counts, and a ticket changes hands only where the machine
//! could not tell one call from the other.
//!
//! Why that is right: the lock closes the places, and only a turn that starts a call opens them. While they
//! are open the machine is as that turn left it, so what was true then is true now: nobody waits, nobody is
//! granted, nobody is to be told anything, and by the verdict on the call that opened them, all calls like
//! it that have a ticket may run at once. A ticket that changes hands makes them no more.

use admission_core::{ProviderId, TicketId};

use crate::shared::State;
use crate::sync::{AtomicU64, Ordering};

/// So many tickets are left at once, at most.
const PLACES: usize = 4;
/// For so long does one keep away who found that another thread was faster: about a microsecond. Then that
/// one takes several calls with what it has in its caches.
const PAUSE: u32 = 64;

/// So many providers have room in a word.
const PROVIDERS: u32 = 1 << 14;

/// Nothing can be left here, and nothing is.
const CLOSED: u64 = u64::MAX;
/// Nothing is left. In the lower half it says what call opened the place. A word without this bit is the ticket
/// that is left.
const OPEN: u64 = 1 << 63;
/// The ticket that is left may be taken over. Tickets whose number has this bit are not left at all.
const ALIKE: u64 = 1 << 62;
/// The ticket's part of such a word. Above it stands whose it is.
const TICKET: u64 = (1 << 48) - 1;

/// What tells a call from others, to the machine. Where nothing counts time, calls to one provider that have
/// no key and no cost are all alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Likeness(u32);

impl Likeness {
    /// Like no other call.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Like all calls to this provider that have no key and no cost.
    #[inline]
    pub(crate) const fn plain(provider: ProviderId) -> Self {
        Self(provider.number())
    }

    #[inline]
    const fn open(self) -> u64 {
        OPEN | self.0 as u64
    }

    /// The same for a ticket of such a call's, if there is room for both in one word: for the first 16,384 providers,
    /// and the first 65,536 calls at once. What is beyond is like no other.
    #[inline]
    pub(crate) const fn of(provider: ProviderId, ticket: TicketId) -> Self {
        let is_small = provider.number() < PROVIDERS && ticket.to_bits() <= TICKET;
        if is_small { Self::plain(provider) } else { Self::NONE }
    }

    /// The upper bits of the word for a ticket that calls like this may take over. They say whose it is.
    #[inline]
    const fn mark(self) -> u64 {
        ALIKE | (self.0 as u64) << 48
    }

    /// What is left of a ticket at a place that this word says to be open.
    #[inline(always)]
    const fn left(self, ticket: u64, word: u64) -> u64 {
        let is_alike = self.0 != Self::NONE.0 && word == self.open();
        if is_alike { self.mark() | ticket } else { ticket }
    }
}

/// Whether a ticket was left at the first place.
#[derive(Clone, Copy)]
pub(crate) enum Left {
    Here,
    NotHere,
    /// It was closed, and so are the others.
    NoneOpen,
}

/// The places. What a call did before it left its ticket is done for whoever takes it, and for the turn that brings
/// it in: a leave releases, the other two acquire.
pub(crate) struct Batons {
    places: [AtomicU64; PLACES],
}

impl Batons {
    pub(crate) fn new() -> Self {
        Self { places: std::array::from_fn(|_| AtomicU64::new(CLOSED)) }
    }

    /// A call has started in this turn: opens as many places as calls run, if that is right. Only those that
    /// run can end.
    #[inline]
    pub(crate) fn open(&self, state: &State, likeness: Likeness) {
        if state.is_at_rest() {
            self.open_at_rest(state, likeness);
        }
    }

    /// The same where it is known that nobody waits or is to be told anything. The end of a call changes nothing but
    /// counts then, whenever the machine hears of it, if nothing is counted from there either.
    #[inline(always)]
    pub(crate) fn open_at_rest(&self, state: &State, likeness: Likeness) {
        if !state.limits.await_ends() {
            self.places[0].store(likeness.open(), Ordering::Release);
            if state.core.counts().running > 1 {
                self.open_more(state, likeness);
            }
        }
    }

    #[inline(never)]
    fn open_more(&self, state: &State, likeness: Likeness) {
        let running = state.core.counts().running;
        for place in self.places.iter().take(running as usize).skip(1) {
            place.store(likeness.open(), Ordering::Release);
        }
    }

    /// The lock was taken: the machine hears of those that have ended, before it hears of anything else.
    ///
    /// As of the last reading of the clock that was noted, which is all the same to it: see
    /// [`open_at_rest`](Self::open_at_rest).
    #[inline(always)]
    pub(crate) fn close(&self, state: &mut State) {
        if self.is_any_open() {
            self.close_each(state);
        }
    }

    /// The same, with the usual case in line: that of a call which has run alone.
    #[inline(always)]
    pub(crate) fn close_here(&self, state: &mut State) {
        if self.is_any_open() {
            self.close_first_or_all(state);
        }
    }

    #[inline(always)]
    fn is_any_open(&self) -> bool {
        // Who opens a place has the lock, so this is never an old word.
        self.places[0].load(Ordering::Relaxed) != CLOSED
    }

    #[inline(never)]
    fn close_each(&self, state: &mut State) {
        self.close_first_or_all(state);
    }

    #[inline(always)]
    fn close_first_or_all(&self, state: &mut State) {
        if self.places[1].load(Ordering::Relaxed) != CLOSED {
            return self.close_all(state);
        }
        Self::close_one(&self.places[0], state);
    }

    #[inline(never)]
    fn close_all(&self, state: &mut State) {
        for place in &self.places {
            if place.load(Ordering::Relaxed) == CLOSED {
                return;
            }
            Self::close_one(place, state);
        }
    }

    #[inline(always)]
    fn close_one(place: &AtomicU64, state: &mut State) {
        let word = place.load(Ordering::Acquire);
        let ticket = if word & (OPEN | ALIKE) == 0 {
            // A ticket that nobody takes over is out of everybody else's hands.
            place.store(CLOSED, Ordering::Relaxed);
            TicketId::from_bits(word)
        } else {
            match place.swap(CLOSED, Ordering::Acquire) {
                word if word & OPEN != 0 => return,
                word => ticket_in(word),
            }
        };
        state.core.handle_release(ticket, state.time.latest());
    }

    /// A call has ended: whether its ticket is left here. If not, the machine is to hear of it in a turn.
    pub(crate) fn leave(&self, ticket: TicketId, likeness: Likeness) -> bool {
        let ticket = ticket.to_bits();
        if ticket & ALIKE != 0 {
            return false;
        }
        for place in &self.places {
            let word = place.load(Ordering::Relaxed);
            if word == CLOSED {
                return false;
            }
            if word & OPEN != 0 {
                if Self::leave_at(place, word, ticket, likeness) {
                    return true;
                }
                keep_away();
            }
        }
        false
    }

    /// The same at the first place alone, where a call that runs alone leaves its ticket.
    #[inline(always)]
    pub(crate) fn leave_first(&self, ticket: TicketId, likeness: Likeness) -> Left {
        let ticket = ticket.to_bits();
        let place = &self.places[0];
        let word = place.load(Ordering::Relaxed);
        if word == CLOSED {
            return Left::NoneOpen;
        }
        let is_left =
            word & OPEN != 0 && ticket & ALIKE == 0 && Self::leave_at(place, word, ticket, likeness);
        if is_left { Left::Here } else { Left::NotHere }
    }

    /// At a place that is open, as this word of its says.
    #[inline(always)]
    fn leave_at(place: &AtomicU64, word: u64, ticket: u64, likeness: Likeness) -> bool {
        let left = likeness.left(ticket, word);
        place.compare_exchange(word, left, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// A call begins: the ticket of one like it that has ended, if one is left. It runs from now on.
    ///
    /// A word that offers a ticket says all that has to be known: whose the ticket is, and that a call of that
    /// provider's opened the place. So it is all the same whether it went away and came back since it was read,
    /// which it may: the ticket was taken over, and left once more after other turns.
    #[inline]
    pub(crate) fn take(&self, likeness: Likeness) -> Option<TicketId> {
        if likeness.0 >= PROVIDERS {
            return None;
        }
        let mark = likeness.mark();
        for place in &self.places {
            let word = place.load(Ordering::Relaxed);
            if word == CLOSED {
                return None;
            }
            if word & !TICKET == mark {
                let open = likeness.open();
                if place.compare_exchange(word, open, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Some(ticket_in(word));
                }
                keep_away();
            }
        }
        None
    }
}

/// The ticket that is left, by the word for it.
#[inline]
const fn ticket_in(word: u64) -> TicketId {
    TicketId::from_bits(if word & ALIKE == 0 { word } else { word & TICKET })
}

#[cold]
fn keep_away() {
    for _ in 0..PAUSE {
        std::hint::spin_loop();
    }
}

impl State {
    /// Whether nobody waits or is granted, and nobody is to be told anything.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        let counts = self.core.counts();
        counts.queued == 0 && counts.granted == 0 && !self.attention.is_needed()
    }

    /// What a call is like that has started in this turn. `is_plain`: without a key, and without a time, which is read
    /// where anything counts it.
    #[inline]
    pub(crate) fn likeness(&self, provider: ProviderId, ticket: TicketId, is_plain: bool) -> Likeness {
        if is_plain && !self.limits.have_costs() { Likeness::of(provider, ticket) } else { Likeness::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Plan;
    use crate::runtime::SystemClock;
    use crate::shared::{Manner, Shared, Started};
    use crate::sync::Arc;
    use admission_core::{Admitted, Counts, Event, Request};

    const P: ProviderId = ProviderId::new(0);

    fn shared() -> Arc<Shared> {
        let plan = Plan { providers: vec![("p".into(), crate::Limits::default())], ..Plan::default() };
        plan.build(Arc::new(SystemClock::new()), Manner::default(), None).unwrap()
    }

    fn started(shared: &Shared) -> TicketId {
        let start = |state: &mut State, now| match state.core.request(&Request::new(P), now) {
            Ok(Admitted::Started(ticket)) => ticket,
            other => panic!("not started: {other:?}"),
        };
        shared.turn(start)
    }

    fn open(shared: &Shared, likeness: Likeness) {
        shared.turn_timed(|state, _| shared.batons.open(state, likeness)).1.resume();
    }

    fn running(shared: &Shared) -> u32 {
        let Counts { running, .. } = shared.counts();
        running
    }

    // rules L1, W7
    #[test]
    fn a_ticket_is_taken_over_once_and_by_one_like_it() {
        let shared = shared();
        let ticket = started(&shared);
        let (alike, other) = (Likeness::plain(P), Likeness::plain(ProviderId::new(1)));
        open(&shared, alike);
        assert_eq!(shared.batons.take(alike), None, "it runs");
        assert!(shared.batons.leave(ticket, alike));
        assert_eq!(shared.batons.take(other), None);
        assert_eq!(shared.batons.take(Likeness::NONE), None);
        assert_eq!(shared.batons.take(alike), Some(ticket));
        assert_eq!(shared.batons.take(alike), None, "once");
        assert!(shared.batons.leave(ticket, alike), "and left again");
        assert_eq!(running(&shared), 0);
    }

    // rule W7
    #[test]
    fn one_that_is_like_no_other_is_left_and_not_taken_over() {
        for (opened, ended) in [
            (Likeness::NONE, Likeness::NONE),
            (Likeness::NONE, Likeness::plain(P)),
            (Likeness::plain(P), Likeness::NONE),
            (Likeness::plain(ProviderId::new(1)), Likeness::plain(P)),
        ] {
            let shared = shared();
            let ticket = started(&shared);
            open(&shared, opened);
            assert!(shared.batons.leave(ticket, ended));
            for likeness in [opened, ended, Likeness::plain(P), Likeness::NONE] {
                assert_eq!(shared.batons.take(likeness), None);
            }
            assert_eq!(running(&shared), 0);
        }
    }

    // rules W7, W6
    #[test]
    fn as_many_are_left_as_run_and_no_turn_leaves_a_place_open() {
        let shared = shared();
        let tickets: Vec<_> = (0..6).map(|_| started(&shared)).collect();
        let alike = Likeness::plain(P);
        let left = |tickets: &[TicketId]| {
            tickets.iter().filter(|&&ticket| shared.batons.leave(ticket, alike)).count()
        };
        assert_eq!(left(&tickets), 0, "nobody has opened a place");
        open(&shared, alike);
        assert_eq!(left(&tickets[..5]), PLACES);
        assert_eq!(running(&shared), 2, "and that was a turn");
        assert_eq!(left(&tickets[4..]), 0);
        open(&shared, alike);
        assert_eq!(left(&tickets[4..5]), 1);
        assert_eq!(running(&shared), 1);
        open(&shared, alike);
        assert_eq!(left(&[tickets[5], tickets[5]]), 1, "one runs, so one may end");
    }

    // rules L10, W6
    #[test]
    fn a_provider_that_is_forgotten_as_a_call_starts_is_seen_to_in_that_turn() {
        let plan = Plan {
            providers: vec![("p".into(), crate::Limits::default())],
            template: Some(crate::Limits::default()),
            ..Plan::default()
        };
        let shared = plan.build(Arc::new(SystemClock::new()), Manner::default(), None).unwrap();
        let start = |provider| {
            shared.turn(|state, now| match state.core.request(&Request::new(provider), now) {
                Ok(Admitted::Started(ticket)) => ticket,
                other => panic!("not started: {other:?}"),
            })
        };
        let tickets = [ProviderId::new(5), P].map(start);
        open(&shared, Likeness::NONE);
        for ticket in tickets {
            assert!(shared.batons.leave(ticket, Likeness::NONE));
        }
        // Nothing would be done about it then, until another turn came.
        assert!(matches!(shared.start_without_key(P), Started::No), "it goes the long way");
        let (event, unwind) = shared.turn_timed(|state, _| state.core.poll_event());
        unwind.resume();
        assert_eq!(event, Some(Event::Forgotten(ProviderId::new(5))), "which hears of it");
    }

    // rules L1, W7
    #[test]
    fn what_has_no_room_in_a_word_is_left_all_the_same_or_not_at_all() {
        let last = (1 << 14) - 1;
        for (index, provider, is_left, is_offered) in [
            (0xffff, last, true, true),
            (0x1_0000, last, true, false),
            (0xffff, last + 1, true, false),
            ((1 << 30) - 1, 0, true, false),
            (1 << 30, 0, false, false),
            ((1 << 31) - 1, 0, false, false),
        ] {
            let (batons, alike) = (Batons::new(), Likeness::plain(ProviderId::new(provider)));
            let ticket = TicketId::from_bits(index << 32 | 7);
            batons.places[0].store(alike.open(), Ordering::Relaxed);
            let likeness = Likeness::of(ProviderId::new(provider), ticket);
            assert_eq!(batons.leave(ticket, likeness), is_left, "{index:#x}");
            let word = batons.places[0].load(Ordering::Relaxed);
            assert_eq!(word & OPEN == 0, is_left, "{index:#x}");
            if is_left {
                assert_eq!(ticket_in(word), ticket);
            }
            let other = Likeness::plain(ProviderId::new(provider ^ 1 << 14));
            assert_eq!(batons.take(other), None, "{index:#x} of {provider}");
            assert_eq!(batons.take(alike), is_offered.then_some(ticket), "{index:#x} of {provider}");
        }
    }
}
