//! The state behind all handles and futures of one coordinator, and the one function that locks it.
//!
//! Owns: the lock and the order of a turn; what follows one at length is [`follow_up`]'s. Lacks type parameters, and lacks
//! foreign code under the lock: no wake, no waker's clone or drop, no closure or destructor of a
//! user's, no adapter. (The clock is the one exception, and says so in its contract.)
//!
//! A turn is: lock → bring in the calls that have started and ended meanwhile ([`crate::offer`], [`crate::baton`]) → read
//! the clock → act on the machine → take out the wakers of those whom that concerns → unlock → arm → wake. `now` is read
//! *after* locking, so that no stamp is older than the decision it belongs to (rule T5). Three turns are short, because
//! mostly there is nothing else to see to: that of a call that starts at once, that of one whose end grants the next, and
//! that of one that waits behind others and leaves.
//!
//! Arming happens outside the lock, and each alarm is in one thread's hands at a time: a thread takes
//! an alarm that must move out of the table, unlocks, arms it, locks, puts it back, and looks again,
//! until no alarm must move. Turns that find an alarm gone leave it at that: whoever has it will see
//! what they wanted. So an alarm may ring from inside `arm`, and is never armed by two threads in the
//! wrong order.

mod follow_up;

use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use admission_core::{Coordinator, Counts, Event, Instant, Key, Presence, ProviderId, ScopeId, TicketId};

use crate::alarms::{Alarms, Booked, Host};
use crate::attention::Attention;
use crate::baton::{Batons, Likeness};
use crate::bell::Bell;
use crate::guess::Guess;
use crate::guests::{Guests, Target};
use crate::in_force::InForce;
use crate::key::Keys;
use crate::names::Names;
use crate::offer::Offer;
use crate::reading::{Reading, Timekeeping};
use crate::rejected::REQUESTS;
use crate::runtime::{Alarm, Clock};
use crate::sleep::Sleepers;
use crate::sync::{self, Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use crate::unwind::{Unwind, quietly};
use crate::waiters::{Seats, Waiters};
use crate::waiting::{Hook, LongWaits};
use crate::{ChangeError, Limits, Scope, SettleError};

/// How often it is looked whether a turn is over before going to sleep: some tens of microseconds in all, which is
/// what going to sleep and being woken takes.
const LOOKS: u32 = 6;

/// One coordinator.
///
/// What every turn writes lies together, in one line of the caches with the lock as far as it fits: the places beside
/// the lock too, for which calls come instead. It lies neither with the count of the handles, which other threads
/// write, nor with what they only read; of that, what every call reads comes first.
#[repr(C, align(64))]
pub(crate) struct Shared {
    pub(crate) batons: Batons,
    pub(crate) offer: Offer,
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) manner: Manner,
    pub(crate) guess: Guess,
    /// Whether a provider was ever removed. Set in that turn, before anybody hears that it is gone.
    has_removed: sync::AtomicBool,
    pub(crate) names: Names,
    pub(crate) guests: Guests,
    /// Who is told when a call has waited long.
    hook: Option<Hook>,
}

/// Whether a call has started in one short turn, and if so, its ticket.
#[derive(Clone, Copy)]
pub(crate) enum Started {
    No,
    /// Like all calls of its provider's that have neither key nor cost.
    Alike(u64),
    /// Like no other.
    Alone(u64),
}

/// What a limiter does otherwise than a coordinator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Its calls do not wait (rule R1).
    pub(crate) at_once: bool,
    /// Its calls let go of their permit as soon as the operation was called (rule I3).
    pub(crate) until_called: bool,
}

/// What the lock guards, in the order in which a turn needs it.
#[repr(C)]
pub(crate) struct State {
    /// Whether there is more to see to than the machine. Right whenever the lock is free.
    pub(crate) attention: Attention,
    pub(crate) time: Timekeeping,
    pub(crate) core: Coordinator,
    pub(crate) alarms: Alarms,
    pub(crate) waiters: Waiters,
    pub(crate) idle: Seats,
    pub(crate) closed: Seats,
    pub(crate) sleepers: Sleepers,
    pub(crate) limits: InForce,
    /// Those who may have to be reported, if anybody wants to know.
    pub(crate) long_waits: Option<LongWaits>,
    /// How many times it was looked whether a provider is known.
    pub(crate) sightings: u64,
}

impl Shared {
    pub(crate) fn new(
        core: Coordinator,
        limits: InForce,
        clock: Arc<dyn Clock>,
        names: Names,
        guests: Guests,
        manner: Manner,
        long_wait: Option<(Duration, Hook)>,
    ) -> Arc<Self> {
        let (after, hook) = long_wait.unzip();
        let mut state = State {
            attention: Attention::NONE,
            core,
            alarms: Alarms::new(),
            waiters: Waiters::new(),
            idle: Seats::new(),
            closed: Seats::new(),
            sleepers: Sleepers::new(),
            limits,
            time: Timekeeping::new(),
            long_waits: after.map(LongWaits::new),
            sightings: 0,
        };
        state.look_around();
        let guess = Guess::new(&state);
        Arc::new(Self {
            batons: Batons::new(),
            offer: Offer::new(),
            state: Mutex::new(state),
            clock,
            names,
            guests,
            keys: Arc::default(),
            manner,
            hook,
            guess,
            has_removed: sync::AtomicBool::new(false),
        })
    }

    /// A call of which nothing but its provider was said takes over the ticket of one like it, or else it starts in one
    /// short turn, where that looks likely. If not, nothing has happened.
    #[inline(always)]
    pub(crate) fn start_plainly(&self, provider: ProviderId) -> Option<(u64, Likeness)> {
        let likeness = Likeness::plain(provider);
        match self.batons.take(likeness) {
            Some(ticket) => Some((ticket.to_bits(), likeness)),
            None if self.guess.is_short() => match self.start_without_key(provider) {
                Started::No => None,
                Started::Alike(ticket) => Some((ticket, likeness)),
                Started::Alone(ticket) => Some((ticket, Likeness::NONE)),
            },
            None => None,
        }
    }

    /// A call has started by its first turn at length; says what others it is like. `is_plain`: it has neither key nor
    /// cost, and was not told the time.
    #[inline]
    pub(crate) fn note_start(
        &self,
        state: &mut State,
        provider: ProviderId,
        ticket: TicketId,
        is_plain: bool,
    ) -> Likeness {
        self.guess.note_refusal(state, false);
        let likeness = state.likeness(provider, ticket, is_plain);
        self.batons.open(state, likeness);
        likeness
    }

    /// The turn of a call that starts while nobody waits and nobody is to be told anything, which is nothing to anybody
    /// else. In any other case nothing has happened, and the call goes the long way.
    #[inline(never)]
    pub(crate) fn start_with_key(&self, provider: ProviderId, key: Key) -> Option<u64> {
        match self.start_short(provider, Some(key)) {
            Started::No => None,
            Started::Alike(ticket) | Started::Alone(ticket) => Some(ticket),
        }
    }

    /// The same for one without a key.
    #[inline(never)]
    pub(crate) fn start_without_key(&self, provider: ProviderId) -> Started {
        self.start_short(provider, None)
    }

    #[inline(always)]
    fn start_short(&self, provider: ProviderId, key: Option<Key>) -> Started {
        let mut state = self.lock_and(Batons::close_here);
        self.offer.close(&mut state);
        let mut started = Started::No;
        if state.is_at_rest() {
            let now = if state.attention.needs_clock() { Some(self.clock.now()) } else { None };
            if let Some(ticket) = state.core.start_at_once(provider, key, now) {
                state.time_as_read(now);
                let likeness = state.likeness(provider, ticket, key.is_none() && now.is_none());
                self.batons.open_at_rest(&state, likeness);
                let ticket = ticket.to_bits();
                started =
                    if likeness == Likeness::NONE { Started::Alone(ticket) } else { Started::Alike(ticket) };
            }
        }
        drop(state);
        started
    }

    /// A turn. If a waker panics the others are woken all the same, and then the panic goes on.
    pub(crate) fn turn<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let (value, unwind) = self.turn_held(act);
        unwind.resume();
        value
    }

    /// A turn whose caller has more to do before a waker's panic may go on.
    pub(crate) fn turn_held<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> (T, Unwind) {
        self.turn_timed(|state, time| {
            let now = state.read_time(time);
            let value = act(state, now);
            // Whatever that was.
            state.attention.ask();
            value
        })
    }

    /// A turn that reads the clock only if somebody asks for the time: where time changes nothing, it is for
    /// the act to ask. It is for the act, too, to ask for attention, if it has begun what needs some.
    #[inline]
    pub(crate) fn turn_timed<T>(&self, act: impl FnOnce(&mut State, &mut Reading<'_>) -> T) -> (T, Unwind) {
        self.turn_timed_unless(State::is_timeless, act)
    }

    /// A turn that need not know the time if the state says so.
    #[inline]
    pub(crate) fn turn_timed_unless<T>(
        &self,
        is_timeless: impl FnOnce(&State) -> bool,
        act: impl FnOnce(&mut State, &mut Reading<'_>) -> T,
    ) -> (T, Unwind) {
        self.turn_begun(self.lock(), is_timeless, act)
    }

    /// The same for who has the lock.
    #[inline(always)]
    fn turn_begun<T>(
        &self,
        mut state: MutexGuard<'_, State>,
        is_timeless: impl FnOnce(&State) -> bool,
        act: impl FnOnce(&mut State, &mut Reading<'_>) -> T,
    ) -> (T, Unwind) {
        let mut time = Reading::new(&self.clock);
        if !is_timeless(&state) {
            time.now();
        }
        let value = act(&mut state, &mut time);
        let event = state.core.poll_event();
        if event.is_none() && state.is_calm(time.read().is_some()) {
            self.open_offer(&state);
            return (value, Unwind::new());
        }
        let unwind = self.see_to_others(state, event, time.read());
        (value, unwind)
    }

    /// The time by the coordinator's clock, for what is only told: nothing is decided by it.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The wall clock's time, for stamps that people read (rule T4).
    pub(crate) fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    /// Who only reads is not to blame for a waker that panics.
    pub(crate) fn counts(&self) -> Counts {
        let (counts, unwind) = self.turn_held(|state, now| {
            state.core.handle_timeout(now);
            state.core.counts()
        });
        unwind.swallow();
        counts
    }

    /// Whom calls by this name go to, if there is such a provider or one would be made (rule L10).
    pub(crate) fn target(self: &Arc<Self>, name: &str) -> Option<Target> {
        let target = self.named(name, self.names.has_template)?;
        let was_always_there = target.guest.is_none() && !self.has_removed.load(Acquire);
        let is_there = self.names.has_template
            || was_always_there
            || self.turn(|state, _| state.core.presence(target.id)) == Presence::Here;
        is_there.then_some(target)
    }

    /// Who has this name; `None` if nobody has, and none is to be made.
    pub(crate) fn named(self: &Arc<Self>, name: &str, make: bool) -> Option<Target> {
        match self.names.configured(name) {
            Some(id) => Some(Target::configured(id)),
            None => {
                let guest = self.guests.find(self, name, make)?;
                Some(Target { id: guest.id, guest: Some(guest) })
            }
        }
    }

    /// Removes a provider (rule L10).
    pub(crate) fn remove(&self, provider: ProviderId) -> Result<(), admission_core::ChangeError> {
        let (outcome, old) = self.turn(|state, now| match state.core.remove_provider(provider, now) {
            Ok(()) => {
                self.has_removed.store(true, Release);
                (Ok(()), state.limits.remove(provider))
            }
            Err(error) => (Err(error), None),
        });
        drop(old);
        outcome
    }

    /// Changes the limits of one scope, and what refusals are described by with them.
    pub(crate) fn set_limits(&self, scope: ScopeId, words: Scope, limits: Limits) -> Result<(), ChangeError> {
        let limits = Arc::new(limits.numbered(&words, self.names.units())?);
        let (outcome, old) = self.turn(|state, now| match state.core.set_limits(scope, &limits, now) {
            Ok(()) => (Ok(()), state.limits.set(scope, limits.clone())),
            Err(error) => (Err(error), None),
        });
        drop(old);
        outcome.map_err(|error| self.names.not_changed(error, words))
    }

    /// Makes the alarm that a booking called for, and drops what was in its place; says whether there
    /// is an alarm now. There is none where the runtime is already gone: whoever booked would only be
    /// woken to find that out again.
    #[inline]
    pub(crate) fn make(self: &Arc<Self>, host: &'static Host, booked: Booked) -> bool {
        match booked {
            Booked::Done => true,
            Booked::Full => false,
            Booked::Make(number, old) => self.make_alarm(host, number, old),
        }
    }

    #[inline(never)]
    fn make_alarm(self: &Arc<Self>, host: &'static Host, number: u64, old: Option<Box<dyn Alarm>>) -> bool {
        let unmade = Unmade { shared: self, number };
        drop(old);
        let alarm = (host.alarm)(Bell::new(Arc::downgrade(self), number));
        let ((spare, lives), unwind) = self.turn_held(|state, _| {
            let spare = state.alarms.install(number, alarm);
            (spare, state.alarms.lives(number))
        });
        std::mem::forget(unmade);
        drop(spare);
        unwind.resume();
        lives
    }

    /// Corrects what a running call costs in a unit (rule L8).
    pub(crate) fn settle(&self, ticket: TicketId, unit: &str, cost: u64) -> Result<(), SettleError> {
        let Some(id) = self.names.unit(unit) else {
            return Err(match unit {
                REQUESTS => SettleError::Requests,
                unit => SettleError::UnknownUnit(unit.into()),
            });
        };
        // The unit is known: nothing but the ticket can be wrong, and it is never another's.
        let outcome = self.turn(|state, now| state.core.settle_cost(ticket, id, cost, now));
        outcome.map_err(|_| SettleError::Ended)
    }

    /// Starts nothing of a provider's for so long, for callers whose own affairs must not suffer from
    /// a waker that panics. A provider that is gone remembers nothing, and nobody is to blame for it.
    pub(crate) fn cool(&self, provider: ProviderId, delay: Duration) {
        let (_, unwind) = self.turn_held(|state, now| state.cooldown(provider, delay, now));
        unwind.swallow();
    }

    /// Ends a call that has started: for destructors. It has neither a waker nor an alarm any more.
    ///
    /// While calls wait, the next one mostly is granted by that and its waker to be woken, and that is all.
    #[inline(never)]
    pub(crate) fn end(&self, ticket: TicketId) {
        quietly(|| {
            let mut state = self.lock();
            if state.is_timeless() {
                return self.end_untimed(state, ticket);
            }
            let read = self.clock.now();
            let now = state.time_as_read(Some(read));
            state.core.handle_release(ticket, now);
            match state.core.poll_only_grant() {
                Some((next, due)) => {
                    // First: it may have been the last who counted on its alarm.
                    let waker = state.granted(next);
                    if !state.has_only_to_wake(due) {
                        return self.see_to_others_beside(state, waker, read).swallow();
                    }
                    self.offer.open(next);
                    drop(state);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
                None => {
                    let event = state.core.poll_event();
                    if event.is_some() || !state.is_calm(true) {
                        return self.see_to_others(state, event, Some(read)).swallow();
                    }
                    self.open_offer(&state);
                }
            }
        });
    }

    /// The same where time changes nothing.
    #[inline(never)]
    fn end_untimed(&self, mut state: MutexGuard<'_, State>, ticket: TicketId) {
        let now = state.time.latest();
        state.core.handle_release(ticket, now);
        let event = state.core.poll_event();
        if event.is_some() || !state.is_calm(false) {
            self.see_to_others(state, event, None).swallow();
        }
    }

    /// Lets go of a ticket in whatever state it is: for destructors.
    pub(crate) fn release(&self, ticket: TicketId) {
        quietly(|| {
            let mut state = self.lock();
            // Mostly it waits behind others, to whom it is nothing.
            if !(state.attention.is_nothing_but_alarms() && state.core.leave_behind_others(ticket)) {
                return self.release_at_length(state, ticket);
            }
            let waker = state.leave(ticket);
            if state.is_calm(false) {
                drop(state);
            } else {
                self.see_to_others(state, None, None).swallow();
            }
            drop(waker);
        });
    }

    #[inline(never)]
    fn release_at_length(&self, state: MutexGuard<'_, State>, ticket: TicketId) {
        let may_leave = |state: &State| state.may_leave_untimed(ticket);
        let (waker, unwind) = self.turn_begun(state, may_leave, |state, time| {
            let waker = state.leave(ticket);
            let now = state.time_of(time);
            state.core.handle_release(ticket, now);
            // One that nobody ever polled leaves without anything to see to.
            self.guess.note_state(state);
            waker
        });
        unwind.swallow();
        drop(waker);
    }

    /// What follows an act that others may have to hear of: wakers out, unlock, arm, wake; and names that may
    /// be forgotten.
    #[inline(never)]
    fn see_to_others<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        mut event: Option<Event>,
        now: Option<Instant>,
    ) -> Unwind {
        state.see_to_the_unusual(now);
        // Nearly always there is one to be woken, and that is all.
        let mut first = None;
        if let Some(Event::Granted(ticket)) = event {
            first = state.granted(ticket);
            event = state.core.poll_event();
        }
        self.see_to_alarms(state, first, event, now)
    }

    /// The same when the waker is out of the one whose grant was all that happened.
    #[inline(never)]
    fn see_to_others_beside<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        waker: Option<Waker>,
        now: Instant,
    ) -> Unwind {
        state.see_to_the_unusual(Some(now));
        self.see_to_alarms(state, waker, None, Some(now))
    }

    #[inline(always)]
    fn see_to_alarms<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        first: Option<Waker>,
        event: Option<Event>,
        now: Option<Instant>,
    ) -> Unwind {
        if event.is_some() || !(state.is_calm(true) || state.is_quiet()) {
            return self.follow_up_at_length(state, first, event, now);
        }
        self.guess.note_state(&state);
        self.open_offer(&state);
        drop(state);
        let mut unwind = Unwind::new();
        if let Some(waker) = first {
            unwind.catch(|| waker.wake());
        }
        unwind
    }

    #[inline(always)]
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock_and(Batons::close);
        self.offer.close(&mut state);
        state
    }

    /// The same; `bring_in` has the machine hear of those that have ended.
    #[inline(always)]
    fn lock_and(&self, bring_in: impl FnOnce(&Batons, &mut State)) -> MutexGuard<'_, State> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            // The lock is ours in this case, too, and must not be asked for again.
            Err(TryLockError::Poisoned(poisoned)) => unpoisoned(poisoned),
            Err(TryLockError::WouldBlock) => self.lock_in_time(),
        };
        bring_in(&self.batons, &mut state);
        debug_assert_eq!(state.attention, state.seen_around(), "the lock was let go without a look around");
        state
    }

    /// Another turn is under way. It is over in less time than going to sleep and being woken takes, and who
    /// does sleep makes the other pay for the wake: so this one looks again a few times, after four times as long
    /// each time. The other then takes several turns with what it has in its caches, where they would be
    /// fetched from the other core for each.
    #[cold]
    #[inline(never)]
    fn lock_in_time(&self) -> MutexGuard<'_, State> {
        for look in 0..LOOKS {
            for _ in 0..2_u32 << (2 * look) {
                std::hint::spin_loop();
            }
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(poisoned)) => return unpoisoned(poisoned),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.state.lock().unwrap_or_else(unpoisoned)
    }
}

/// A panic under the lock can only come from the clock, before anything was changed that matters: the reading
/// that is made later in a turn is caught.
fn unpoisoned(poisoned: PoisonError<MutexGuard<'_, State>>) -> MutexGuard<'_, State> {
    poisoned.into_inner()
}

/// Whoever lets go of a coordinator last, a permit in a panicking task perhaps, drops its alarms, and they
/// are adapters' code, and what its hook has captured, which is the user's.
impl Drop for Shared {
    fn drop(&mut self) {
        let hook = self.hook.take();
        quietly(|| drop(hook));
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for alarm in state.alarms.clear() {
            quietly(|| drop(alarm));
        }
    }
}

/// An alarm that is being made and put in. If that panics, those who count on it are told.
struct Unmade<'a> {
    shared: &'a Arc<Shared>,
    number: u64,
}

impl Drop for Unmade<'_> {
    fn drop(&mut self) {
        quietly(|| self.shared.turn(|state, _| state.alarms.lose(self.number)));
    }
}
