//! The machine: every call into it, and what comes out.
//!
//! Owns: the order of things within a call (rule W6) and the moves of a ticket from one state to the
//! next. Each call runs in the same way: time passes (take-backs, then expiries), the call has its
//! own effect, and whoever may go is granted. Lacks judgement, which is
//! [`judge`](crate::verdict::judge)'s, and order, which is the [`Queue`]'s.

#[cfg(audit)]
mod audit;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::handoff::HandOff;
use crate::heap::Heap;
use crate::queue::{Flags, NIL, Queue, State, add_costs};
use crate::scope::{Ask, Pacer, Scope};
use crate::time::nanos;
use crate::verdict::{Opening, Verdict, held_whoever_asks, judge};
use crate::{
    Config, ConfigError, Event, Hold, Instant, Key, ProviderId, Reason, Refusal, ScopeId, Side, TicketId,
    UnitId,
};

/// Tickets that room is made for beforehand at most: a million, 64 MiB that are not touched until
/// they are needed.
const RESERVED_TICKETS: u32 = 1 << 20;
/// Calls in flight that room is made for beforehand at most.
const RESERVED_IN_FLIGHT: u32 = 1 << 12;
/// Events that room is made for beforehand at most.
const RESERVED_EVENTS: u32 = 1 << 10;

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Whom the call goes to.
    pub provider: ProviderId,
    /// What the call is, if only one such call may run at a time.
    pub key: Option<Key>,
    /// What it costs in units other than requests: 0 in those that are not named, the sum in one
    /// that is named twice.
    pub costs: &'a [(UnitId, u64)],
    /// How long it may wait; for ever unless stated (rule W2).
    pub timeout: Option<Duration>,
    /// Whether it may wait at all. If not, it starts at once or is refused as exhausted.
    pub may_wait: bool,
    /// Whether its caller is running right now, so that it can start in this very call. If not, it
    /// is granted at most, and its own [`step`](Coordinator::step) starts it (rule S1).
    pub may_start: bool,
}

impl<'a> Request<'a> {
    /// A call to `provider`: no key, no cost but 1 request, waiting as long as it takes.
    #[must_use]
    pub const fn new(provider: ProviderId) -> Self {
        Self { provider, key: None, costs: &[], timeout: None, may_wait: true, may_start: true }
    }

    /// Names the call.
    #[must_use]
    pub const fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// States its costs.
    #[must_use]
    pub const fn costs(mut self, costs: &'a [(UnitId, u64)]) -> Self {
        self.costs = costs;
        self
    }

    /// Bounds its wait.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Takes a place now, for a caller that will come for it later.
    #[must_use]
    pub const fn deferred(mut self) -> Self {
        self.may_start = false;
        self
    }

    /// Starts at once or not at all.
    #[must_use]
    pub const fn at_once(mut self) -> Self {
        self.may_wait = false;
        self
    }
}

/// A request that was not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// Granted and started in one step: call the operation now (rule S6).
    Started(TicketId),
    /// It waits, or is granted already: an [`Event`] says when its caller should
    /// [`step`](Coordinator::step).
    Queued(TicketId),
}

/// What a waiter should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The call has just started: run its operation.
    Start,
    /// Wait for an [`Event`] about it.
    Wait,
    /// It ended without a start. The ticket is gone.
    GiveUp(Refusal),
    /// It started before.
    Running,
    /// There is no such ticket (any more).
    Gone,
}

/// How many tickets are where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Started and not released.
    pub running: u32,
    /// Granted and not started.
    pub granted: u32,
    /// Waiting.
    pub queued: u32,
}

/// The coordinator.
///
/// > **The driving rule.** After every call, drain [`poll_event`](Self::poll_event), then have
/// > [`handle_timeout`](Self::handle_timeout) called at [`poll_timeout`](Self::poll_timeout).
///
/// A ticket is its caller's until [`handle_release`](Self::handle_release), or until
/// [`step`](Self::step) has answered [`Step::GiveUp`]; calls about one that is gone only let time
/// pass. No call panics, and in the steady state none allocates: only what is larger than ever before
/// needs memory.
///
/// ```
/// use admission_core::{Admitted, Config, Coordinator, Event, Instant, Limits, ProviderId, Request, Step};
/// use core::time::Duration;
///
/// let mut config = Config::new();
/// config.providers.push(Limits::new().interval(Duration::from_millis(100)));
/// let mut coordinator = Coordinator::new(&config)?;
/// let bank = Request::new(ProviderId::new(0));
/// let at = Instant::from_millis;
///
/// // The first call starts at once; the second has to wait out the interval.
/// let Ok(Admitted::Started(first)) = coordinator.request(&bank, at(0)) else { unreachable!() };
/// let Ok(Admitted::Queued(second)) = coordinator.request(&bank, at(10)) else { unreachable!() };
/// assert_eq!(coordinator.poll_event(), None);
/// assert_eq!(coordinator.poll_timeout(), Some(at(100)));
///
/// coordinator.handle_timeout(at(100));
/// assert_eq!(coordinator.poll_event(), Some(Event::Granted(second)));
/// assert_eq!(coordinator.step(second, at(101)), Step::Start);
///
/// coordinator.handle_release(first, at(120));
/// coordinator.handle_release(second, at(130));
/// assert!(coordinator.is_idle());
/// # Ok::<(), admission_core::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Coordinator {
    max_queued: u32,
    /// The longest wait, if there is one (rule R2).
    max_wait_nanos: Option<u64>,
    /// The latest `now` that was seen (rule T1).
    seen: Instant,
    is_closed: bool,
    /// Whether somebody waits for the coordinator to be idle (rule S4).
    is_idle_watched: bool,
    client: Scope,
    providers: Vec<Scope>,
    queue: Queue,
    /// The providers whose oldest ticket passes its provider, by that ticket's place in the order.
    ready: Heap,
    /// The providers whose oldest ticket only time holds back, by the instant.
    timed: Heap,
    hand_off: HandOff,
    events: VecDeque<Event>,
    /// Slot numbers that are being sorted; empty between calls.
    batch: Vec<u32>,
    /// The costs of a newcomer that is being judged.
    newcomer_costs: Vec<u64>,
}

impl Coordinator {
    /// Builds a coordinator, and makes room for what the configuration bounds: the queue (up to a
    /// million tickets), the calls in flight, and the logs (up to 4,096 entries each). Room for
    /// deadlines, and for keys that several tickets share, is made as they come.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] says what is wrong with the configuration, or that there is no memory for it.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        config.check()?;
        let in_flight = most_in_flight(config).unwrap_or(0).min(RESERVED_IN_FLIGHT);
        let tickets = config.max_queued.min(RESERVED_TICKETS) + in_flight;
        let mut providers = Vec::new();
        providers.try_reserve_exact(config.providers.len()).map_err(|_| ConfigError::OutOfMemory)?;
        for limits in &config.providers {
            providers.push(Scope::try_new(limits)?);
        }
        let mut coordinator = Self {
            max_queued: config.max_queued,
            max_wait_nanos: config.max_wait.map(nanos),
            seen: Instant::ZERO,
            is_closed: false,
            is_idle_watched: false,
            client: Scope::try_new(&config.client)?,
            queue: Queue::try_new(
                providers.len(),
                config.units,
                tickets as usize,
                config.max_wait.is_some(),
            )?,
            ready: Heap::default(),
            timed: Heap::default(),
            hand_off: HandOff::try_new(config.hand_off)?,
            events: VecDeque::new(),
            batch: Vec::new(),
            newcomer_costs: Vec::new(),
            providers,
        };
        let events = config.max_queued.min(RESERVED_EVENTS) as usize;
        let providers = coordinator.providers.len();
        let more_units = usize::from(config.units) - 1;
        coordinator
            .ready
            .try_reserve(providers)
            .and_then(|()| coordinator.timed.try_reserve(providers))
            .and_then(|()| coordinator.events.try_reserve_exact(events))
            .and_then(|()| coordinator.batch.try_reserve_exact(events))
            .and_then(|()| coordinator.newcomer_costs.try_reserve_exact(more_units))
            .map_err(|_| ConfigError::OutOfMemory)?;
        coordinator.newcomer_costs.resize(more_units, 0);
        Ok(coordinator)
    }

    /// A newcomer: it starts now, waits, or is refused (rule E4).
    ///
    /// Overdue tickets expire first; then the newcomer is judged against the queue as it stands;
    /// then what is due is granted. It does not jump a queued ticket that may go at this moment.
    ///
    /// # Errors
    ///
    /// The first [`Reason`] that applies (rule D5): closed, unknown provider or unit, impossible
    /// cost; then, if it may not start at once, exhausted or max-wait, then overflow. A refused
    /// newcomer leaves nothing behind.
    ///
    /// # Cost
    ///
    /// O(log providers), and O(log queued) for one that has a deadline, however many wait.
    pub fn request(&mut self, request: &Request<'_>, now: Instant) -> Result<Admitted, Refusal> {
        let now = self.pass_time(now);
        let outcome = self.admit(request, now);
        self.grant_due(NIL, now);
        self.end_call();
        outcome
    }

    /// A waiter's caller is running: what should it do?
    ///
    /// A ticket with a grant that is not taken back yet starts, however late (rule S4). One that was
    /// passed over is so no more. One whose turn comes in this very call starts in it.
    ///
    /// # Cost
    ///
    /// As [`request`](Self::request); O(log queued) for a ticket that was passed over.
    pub fn step(&mut self, ticket: TicketId, now: Instant) -> Step {
        let now = self.see(now);
        let found = self.queue.find(ticket);
        let state = found.map_or(State::Free, |index| self.queue.slot(index).state);
        let mut answer = Step::Gone;
        let mut waiter = NIL;
        if let Some(index) = found {
            match state {
                State::Granted => {
                    self.start(index, now);
                    answer = Step::Start;
                }
                State::Running => answer = Step::Running,
                State::Ended(_) => answer = Step::GiveUp(self.tell(index, now)),
                State::InLine | State::Parked | State::Aside => {
                    let flags = &mut self.queue.slot_mut(index).flags;
                    if flags.has(Flags::TAKEN_BACK) {
                        flags.clear(Flags::TAKEN_BACK);
                        flags.set(Flags::FULL_TIME);
                    }
                    if state == State::Aside {
                        self.queue.bring_back(index);
                    }
                    waiter = index;
                }
                State::Free => {}
            }
        }
        self.pass_time(now);
        self.grant_due(waiter, now);
        if waiter != NIL {
            answer = match self.queue.slot(waiter).state {
                State::Running => Step::Start,
                State::Ended(_) => Step::GiveUp(self.tell(waiter, now)),
                _ => Step::Wait,
            };
        }
        self.end_call();
        answer
    }

    /// A ticket is settled or its future dropped, in whatever state: it leaves whatever holds it,
    /// and is gone.
    ///
    /// One that waits costs nothing, even if it was due (rule W3). One that was granted gives back
    /// its slot and key, and its budget is spent as of the grant (rule S3). One that runs frees its
    /// slots and key (rule W7).
    ///
    /// # Cost
    ///
    /// As [`request`](Self::request), and one step per provider at which its key waits; for a grant,
    /// one per start since in the windows of its scopes too.
    pub fn handle_release(&mut self, ticket: TicketId, now: Instant) {
        let now = self.see(now);
        let found = self.queue.find(ticket);
        let is_running = found.is_some_and(|index| self.queue.slot(index).state == State::Running);
        if let Some(index) = found.filter(|_| !is_running) {
            self.withdraw(index, now);
            self.queue.forget(index);
        }
        self.pass_time(now);
        if let Some(index) = found.filter(|_| is_running) {
            self.settle(index, now);
            self.queue.forget(index);
        }
        self.grant_due(NIL, now);
        self.end_call();
    }

    /// A ticket's signal fired. If it has not started it leaves at once, as by
    /// [`handle_release`](Self::handle_release), and ends as aborted; one that runs goes on
    /// (rule Q6). The cost is that of a release.
    pub fn handle_abort(&mut self, ticket: TicketId, now: Instant) {
        let now = self.see(now);
        let found = self.queue.find(ticket).filter(|&index| {
            let state = self.queue.slot(index).state;
            state.is_queued() || state == State::Granted
        });
        if let Some(index) = found {
            self.withdraw(index, now);
            self.end(index, Reason::Aborted, None, now);
        }
        self.pass_time(now);
        self.grant_due(NIL, now);
        self.end_call();
    }

    /// Time has come to `now`. Harmless when early, and complete when late (rule T3).
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.pass_time(now);
        self.grant_due(NIL, now);
        self.end_call();
    }

    /// No start at `provider` for `delay` from now (rule L5). It never shortens an earlier cooldown
    /// and touches no running call; grants that have not started are taken back (rule S5).
    ///
    /// An unknown provider is ignored.
    ///
    /// # Cost
    ///
    /// O(grants that have not started), in the whole coordinator, if the provider has any.
    pub fn cooldown(&mut self, provider: ProviderId, delay: Duration, now: Instant) {
        let now = self.pass_time(now);
        if let Some(scope) = self.providers.get_mut(provider.index()) {
            scope.not_before = scope.not_before.max(now + delay);
            let (is_on, has_grants) = (scope.not_before > now, scope.granted > 0);
            self.queue.mark_changed(provider.0);
            if is_on && has_grants {
                self.hand_off.of_provider(self.queue.slab_mut(), provider.0, &mut self.batch);
                self.take_back_batch(false, now);
            }
        }
        self.grant_due(NIL, now);
        self.end_call();
    }

    /// Forgets what the logs of one scope know, running calls included, and exempts every ticket
    /// that is queued at this moment from them (rule D2). An unknown provider is ignored.
    ///
    /// # Cost
    ///
    /// O(tickets).
    pub fn reset(&mut self, scope: ScopeId, now: Instant) {
        let now = self.pass_time(now);
        let (side, only) = match scope {
            ScopeId::Client => (Side::Client, None),
            ScopeId::Provider(provider) => (Side::Provider, Some(provider.0)),
        };
        let scope = match only {
            None => Some(&mut self.client),
            Some(provider) => self.providers.get_mut(provider as usize),
        };
        if let Some(scope) = scope {
            scope.reset_logs();
            for index in self.queue.slots() {
                let slot = *self.queue.slot(index);
                if only.is_some_and(|provider| provider != slot.provider) {
                    continue;
                }
                if slot.state.is_queued() {
                    self.queue.exempt(index, side);
                } else if slot.state == State::Running && !slot.flags.is_forgotten(side) {
                    scope.forget_running(self.queue.ask(index, side));
                    self.queue.slot_mut(index).flags.forget(side);
                }
            }
            if let Some(provider) = only {
                self.queue.mark_changed(provider);
            }
        }
        self.grant_due(NIL, now);
        self.end_call();
    }

    /// Ends every queued ticket, and refuses every later one; running calls go on, and a grant that
    /// is out may still start (rule W4).
    ///
    /// # Cost
    ///
    /// O(tickets).
    pub fn close(&mut self, now: Instant) {
        let now = self.pass_time(now);
        self.is_closed = true;
        let queue = &self.queue;
        self.batch.extend(queue.slots().filter(|&index| queue.slot(index).state.is_queued()));
        self.batch.sort_unstable_by_key(|&index| queue.slot(index).seq);
        // From the tail, so that nobody moves up only to be closed too.
        for place in (0..self.batch.len()).rev() {
            self.queue.leave(self.batch[place]);
        }
        for place in 0..self.batch.len() {
            self.end(self.batch[place], Reason::Closed, None, now);
        }
        self.batch.clear();
        self.grant_due(NIL, now);
        self.end_call();
    }

    /// How much is free right now in one log, from 0 to its limit (rule R3); `None` if there is no
    /// such log.
    pub fn available(&mut self, scope: ScopeId, pacer: u16, now: Instant) -> Option<u64> {
        let now = self.pass_time(now);
        self.grant_due(NIL, now);
        self.end_call();
        let scope = match scope {
            ScopeId::Client => &self.client,
            ScopeId::Provider(provider) => self.providers.get(provider.index())?,
        };
        match scope.pacers.get(usize::from(pacer))? {
            Pacer::Log(log) => Some(log.available(now)),
            Pacer::Interval(_) => None,
        }
    }

    /// Says whether somebody waits for [`is_idle`](Self::is_idle): then grants that nobody takes are
    /// worth an alarm even with an empty queue (rule S4).
    pub fn watch_idle(&mut self, is_watched: bool) {
        self.is_idle_watched = is_watched;
    }

    /// What happened, in order; `None` once all has been told. Any other call may add to it.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next instant at which time alone may change something: strictly after every `now` seen
    /// so far, never too late, and none if only a call can (rule T6).
    ///
    /// Any other call may change the answer, [`poll_event`](Self::poll_event) excepted.
    ///
    /// # Cost
    ///
    /// A few steps; a search in the client's logs if it has some.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let now = self.seen;
        let mut next = Instant::NEVER;
        if let Some(deadline) = self.queue.first_deadline() {
            // At the deadline itself a grant wins (rule W2).
            next = next.min(deadline.plus(1));
        }
        if self.queue.queued() > 0 || self.is_idle_watched {
            next = next.min(self.hand_off.first_due(self.queue.slab()).unwrap_or(Instant::NEVER));
        }
        if held_whoever_asks(&self.client, Side::Client).is_none() {
            if let Some((_, provider)) = self.ready.peek() {
                let ask = self.queue.ask(self.queue.front(provider), Side::Client);
                if let Verdict::Until(at, _) = judge(&self.client, Side::Client, ask, now) {
                    next = next.min(at);
                }
            }
            if let Some((at, _)) = self.timed.peek() {
                // Whatever it costs, the client's intervals hold it back as well.
                let ask = Ask { costs: &[], exempt: true };
                let opening = Opening::of(&self.client, Side::Client, ask, now);
                next = next.min(Instant::from_nanos(at).max(opening.at));
            }
        }
        (next < Instant::NEVER).then_some(next)
    }

    /// How many tickets there is room for, without allocating: as long a table under
    /// [`TicketId::index`] will do for a driver.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue.slab().capacity()
    }

    /// How many tickets are where.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { running: self.client.running, granted: self.client.granted, queued: self.queue.queued() }
    }

    /// Whether it refuses everything from now on.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether nothing is queued, granted or running.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.counts() == Counts::default()
    }

    /// The end of a provider's cooldown; the origin if there was none, or no such provider.
    #[must_use]
    pub fn not_before(&self, provider: ProviderId) -> Instant {
        self.providers.get(provider.index()).map_or(Instant::ZERO, |scope| scope.not_before)
    }

    /// The hand-off time that the next grant of a scope gets by it (rule S4a); `None` for an unknown
    /// provider.
    #[must_use]
    pub fn hand_off_time(&self, scope: ScopeId) -> Option<Duration> {
        let scope = match scope {
            ScopeId::Client => &self.client,
            ScopeId::Provider(provider) => self.providers.get(provider.index())?,
        };
        Some(self.hand_off.time(scope.halvings))
    }

    /// How much has been looked at so far: tickets, keys, entries of heaps and logs (rule E7).
    #[cfg(steps)]
    #[doc(hidden)]
    pub fn steps(&self) -> u64 {
        let logs = self.providers.iter().chain([&self.client]).flat_map(|scope| &scope.pacers);
        let in_logs = logs.map(|pacer| match pacer {
            Pacer::Log(log) => log.steps.total(),
            Pacer::Interval(_) => 0,
        });
        self.queue.steps() + self.ready.steps.total() + self.timed.steps.total() + in_logs.sum::<u64>()
    }

    /// Time does not run back, and never reaches the end (rules T1, T2).
    fn see(&mut self, now: Instant) -> Instant {
        self.seen = self.seen.max(now.min(Instant::LAST));
        self.seen
    }

    /// What time does by itself, whatever the timers did (rule W6): take-backs, then expiries. What
    /// it opens is left to [`Self::grant_due`].
    fn pass_time(&mut self, now: Instant) -> Instant {
        let now = self.see(now);
        while let Some((_, provider)) = self.timed.peek().filter(|&(at, _)| Instant::from_nanos(at) <= now) {
            self.timed.remove(provider);
            self.queue.mark_changed(provider);
        }
        if self.client.granted > 0 {
            self.hand_off.due(self.queue.slab(), now, &mut self.batch);
            self.take_back_batch(true, now);
        }
        self.expire(now);
        now
    }

    /// Takes the grants in the batch back. `unpolled`: because their callers did not run (rule S4);
    /// otherwise a cooldown came between (rule S5).
    fn take_back_batch(&mut self, unpolled: bool, now: Instant) {
        let queue = &self.queue;
        self.batch.sort_unstable_by_key(|&index| queue.slot(index).seq);
        for place in 0..self.batch.len() {
            let index = self.batch[place];
            let provider = self.queue.slot(index).provider;
            self.hand_off.remove(self.queue.slab_mut(), index);
            let scope = &mut self.providers[provider as usize];
            self.client.take_back(self.queue.ask(index, Side::Client));
            scope.take_back(self.queue.ask(index, Side::Provider));
            if unpolled {
                self.hand_off.halve(&mut self.client.halvings);
                self.hand_off.halve(&mut scope.halvings);
            }
            self.queue.requeue(index, unpolled);
            self.queue.mark_changed(provider);
            self.events.push_back(Event::TakenBack(self.queue.ticket(index)));
            if self.is_closed {
                // A grant that is taken back after the close ends as closed (rule W4).
                self.queue.leave(index);
                self.end(index, Reason::Closed, None, now);
            } else if !unpolled && self.queue.slot(index).deadline < now {
                self.end_late(index, now);
            }
        }
        self.batch.clear();
    }

    /// Ends the tickets whose deadline has passed, in the order of submission.
    fn expire(&mut self, now: Instant) {
        while let Some(index) = self.queue.take_expired(now) {
            self.batch.push(index);
        }
        let queue = &self.queue;
        self.batch.sort_unstable_by_key(|&index| queue.slot(index).seq);
        for place in 0..self.batch.len() {
            self.end_late(self.batch[place], now);
        }
        self.batch.clear();
    }

    /// Ends a waiting ticket whose deadline has passed (rules W2, R2).
    fn end_late(&mut self, index: u32, now: Instant) {
        let hold = self.hold_of(index, now);
        let is_max_wait = self.queue.slot(index).flags.has(Flags::MAX_WAIT);
        let reason = if is_max_wait { Reason::MaxWait } else { Reason::AdmissionTimeout };
        self.queue.leave(index);
        self.end(index, reason, hold, now);
    }

    /// Judges the providers whose line or limits changed, and sorts them by what holds them back.
    fn judge_changed(&mut self, now: Instant) {
        while let Some(provider) = self.queue.next_changed() {
            let front = self.queue.front(provider);
            let verdict = (front != NIL).then(|| {
                let ask = self.queue.ask(front, Side::Provider);
                judge(&self.providers[provider as usize], Side::Provider, ask, now)
            });
            match verdict {
                Some(Verdict::Go) => {
                    self.timed.remove(provider);
                    self.ready.set(provider, self.queue.slot(front).seq);
                }
                Some(Verdict::Until(at, _)) if at < Instant::NEVER => {
                    self.ready.remove(provider);
                    self.timed.set(provider, at.as_nanos());
                }
                _ => {
                    self.ready.remove(provider);
                    self.timed.remove(provider);
                }
            }
        }
    }

    /// The queued ticket that is to go next, if one may go now.
    fn next_due(&mut self, now: Instant) -> Option<u32> {
        self.judge_changed(now);
        let (_, provider) = self.ready.peek()?;
        let index = self.queue.front(provider);
        let ask = self.queue.ask(index, Side::Client);
        (judge(&self.client, Side::Client, ask, now) == Verdict::Go).then_some(index)
    }

    /// Grants whoever may go, in the order of submission. The waiter whose caller is running starts
    /// when its turn comes (rule S4).
    fn grant_due(&mut self, waiter: u32, now: Instant) {
        while let Some(index) = self.next_due(now) {
            self.queue.take(index, false);
            self.grant(index, now);
            if index == waiter {
                self.start(index, now);
            } else {
                self.events.push_back(Event::Granted(self.queue.ticket(index)));
            }
        }
    }

    fn admit(&mut self, request: &Request<'_>, now: Instant) -> Result<Admitted, Refusal> {
        let refuse = |reason| Err(Refusal { reason, held_by: None, retry_after: None });
        if self.is_closed {
            return refuse(Reason::Closed);
        }
        let provider = request.provider;
        let Some(scope) = self.providers.get(provider.index()) else {
            return refuse(Reason::UnknownProvider);
        };
        if request.costs.iter().any(|(unit, _)| unit.index() > self.newcomer_costs.len()) {
            return refuse(Reason::UnknownUnit);
        }
        self.newcomer_costs.fill(0);
        add_costs(&mut self.newcomer_costs, request.costs);
        let ask = Ask { costs: &self.newcomer_costs, exempt: false };
        let impossible =
            impossible(&self.client, Side::Client, ask).or_else(|| impossible(scope, Side::Provider, ask));
        if impossible.is_some() {
            return Err(Refusal { reason: Reason::ImpossibleCost, held_by: impossible, retry_after: None });
        }
        let hold = self.hold_of_newcomer(request, now);
        if hold.is_none() && self.queue.has_room_for_ticket() {
            let index = self.queue.create(provider.0, request.key, request.costs, Instant::NEVER);
            let deadline = self.deadline(request, now);
            self.set_deadline(index, deadline);
            self.queue.take(index, true);
            self.grant(index, now);
            let ticket = self.queue.ticket(index);
            return Ok(if request.may_start {
                self.start(index, now);
                Admitted::Started(ticket)
            } else {
                self.events.push_back(Event::Granted(ticket));
                Admitted::Queued(ticket)
            });
        }
        let ahead = self.queue.metered_in_line(provider.0);
        let ask = Ask { costs: &self.newcomer_costs, exempt: false };
        let wait = self.wait_behind(provider.0, ask, ask, ahead, now);
        let is_too_long = |most: u64| most == 0 || wait.is_some_and(|wait| nanos(wait) > most);
        let reason = if !request.may_wait {
            Reason::Exhausted
        } else if self.max_wait_nanos.is_some_and(is_too_long) {
            Reason::MaxWait
        } else if self.queue.queued() >= self.max_queued || !self.queue.has_room_for_ticket() {
            Reason::Overflow
        } else {
            let index = self.queue.create(provider.0, request.key, request.costs, Instant::NEVER);
            let deadline = self.deadline(request, now);
            self.set_deadline(index, deadline);
            self.queue.enqueue(index);
            return Ok(Admitted::Queued(self.queue.ticket(index)));
        };
        Err(Refusal { reason, held_by: hold, retry_after: wait })
    }

    /// Until when a newcomer may wait, and whether that is the coordinator's limit or its own.
    fn deadline(&self, request: &Request<'_>, now: Instant) -> (Instant, bool) {
        let own = request.timeout.map_or(Instant::NEVER, |timeout| now + timeout);
        match self.max_wait_nanos.map(|most| now.plus(most)) {
            Some(most) if most <= own => (most, true),
            _ => (own, false),
        }
    }

    fn set_deadline(&mut self, index: u32, (deadline, is_max_wait): (Instant, bool)) {
        let slot = self.queue.slot_mut(index);
        slot.deadline = deadline;
        if is_max_wait {
            slot.flags.set(Flags::MAX_WAIT);
        }
    }

    /// What keeps a newcomer from starting in this call, if anything does (rules E1, E3, E4).
    fn hold_of_newcomer(&mut self, request: &Request<'_>, now: Instant) -> Option<Hold> {
        self.judge_changed(now);
        let ask = Ask { costs: &self.newcomer_costs, exempt: false };
        if request.key.is_some_and(|key| self.queue.is_busy(key)) {
            return Some(Hold::Key);
        }
        let provider = request.provider.0;
        limits_hold(&self.client, &self.providers[provider as usize], ask, ask, now)
            .or_else(|| self.order_holds(provider, u64::MAX))
    }

    /// What holds a waiting ticket back, if anything does.
    fn hold_of(&mut self, index: u32, now: Instant) -> Option<Hold> {
        self.judge_changed(now);
        let slot = *self.queue.slot(index);
        if slot.state == State::Aside {
            return Some(Hold::Unpolled);
        }
        if slot.key().is_some_and(|key| self.queue.is_busy(key)) {
            return Some(Hold::Key);
        }
        let of_client = self.queue.ask(index, Side::Client);
        let of_provider = self.queue.ask(index, Side::Provider);
        let scope = &self.providers[slot.provider as usize];
        limits_hold(&self.client, scope, of_client, of_provider, now)
            .or_else(|| self.order_holds(slot.provider, slot.seq))
    }

    /// Whether somebody older goes before a ticket that its own limits let go: whoever is ready may go
    /// now or waits for nothing but the client's budgets, and whoever stands in its line waits for
    /// nothing but the provider's (rules E2, E3, E4).
    fn order_holds(&self, provider: u32, seq: u64) -> Option<Hold> {
        let front = self.queue.front(provider);
        let is_older_in_line = front != NIL && self.queue.slot(front).seq < seq;
        let is_older_ready = self.ready.peek().is_some_and(|(ready, _)| ready < seq);
        (is_older_in_line || is_older_ready).then_some(Hold::Order)
    }

    /// For how long the pacers and the cooldown of a ticket's own scopes rule a start out, with
    /// `ahead` others before it (rules R1, R2).
    fn wait_behind(
        &self,
        provider: u32,
        of_client: Ask<'_>,
        of_provider: Ask<'_>,
        ahead: u32,
        now: Instant,
    ) -> Option<Duration> {
        let scope = &self.providers[provider as usize];
        let client = Opening::behind(&self.client, Side::Client, of_client, ahead, now);
        let provider = Opening::behind(scope, Side::Provider, of_provider, ahead, now);
        let wait = client.at.max(provider.at).saturating_duration_since(now);
        (!wait.is_zero()).then_some(wait)
    }

    /// A ticket that has taken its key may start, and has a hand-off time to do so.
    fn grant(&mut self, index: u32, now: Instant) {
        let slot = self.queue.slot_mut(index);
        let provider = slot.provider;
        let has_full_time = slot.flags.has(Flags::FULL_TIME);
        slot.flags.clear(Flags::TAKEN_BACK | Flags::FULL_TIME);
        let scope = &mut self.providers[provider as usize];
        self.client.grant(self.queue.ask(index, Side::Client));
        scope.grant(self.queue.ask(index, Side::Provider));
        let halvings = if has_full_time { 0 } else { self.client.halvings.max(scope.halvings) };
        self.hand_off.insert(self.queue.slab_mut(), index, halvings, now);
        self.queue.mark_changed(provider);
    }

    /// A granted ticket starts: pacers count from here (rule S1).
    fn start(&mut self, index: u32, now: Instant) {
        self.hand_off.remove(self.queue.slab_mut(), index);
        let slot = self.queue.slot_mut(index);
        slot.state = State::Running;
        slot.since = now;
        let provider = slot.provider;
        self.client.start(self.queue.ask(index, Side::Client), now);
        self.providers[provider as usize].start(self.queue.ask(index, Side::Provider), now);
        self.queue.mark_changed(provider);
    }

    /// A running ticket is over.
    fn settle(&mut self, index: u32, now: Instant) {
        let slot = *self.queue.slot(index);
        let ask = self.queue.ask(index, Side::Client);
        self.client.settle(ask, slot.flags.is_forgotten(Side::Client), now);
        let ask = self.queue.ask(index, Side::Provider);
        let scope = &mut self.providers[slot.provider as usize];
        scope.settle(ask, slot.flags.is_forgotten(Side::Provider), now);
        self.queue.finish(index);
        self.queue.mark_changed(slot.provider);
    }

    /// A ticket that has not started leaves whatever holds it.
    fn withdraw(&mut self, index: u32, now: Instant) {
        let slot = *self.queue.slot(index);
        if slot.state.is_queued() {
            self.queue.leave(index);
        } else if slot.state == State::Granted {
            self.hand_off.remove(self.queue.slab_mut(), index);
            self.client.abandon(self.queue.ask(index, Side::Client), slot.since, now);
            let scope = &mut self.providers[slot.provider as usize];
            scope.abandon(self.queue.ask(index, Side::Provider), slot.since, now);
            self.queue.finish(index);
            self.queue.mark_changed(slot.provider);
        }
    }

    /// A ticket that has left ends without a start; its slot waits for its caller.
    fn end(&mut self, index: u32, reason: Reason, hold: Option<Hold>, now: Instant) {
        let can_time_mend = matches!(reason, Reason::MaxWait | Reason::AdmissionTimeout);
        let slot = *self.queue.slot(index);
        let (of_client, of_provider) =
            (self.queue.ask(index, Side::Client), self.queue.ask(index, Side::Provider));
        let wait =
            can_time_mend.then(|| self.wait_behind(slot.provider, of_client, of_provider, 0, now)).flatten();
        let slot = self.queue.slot_mut(index);
        slot.state = State::Ended(reason);
        slot.hold = hold;
        slot.deadline = now + wait.unwrap_or(Duration::ZERO);
        self.events.push_back(Event::Refused(self.queue.ticket(index), reason));
    }

    /// Tells an ended ticket's caller why, and forgets the ticket.
    fn tell(&mut self, index: u32, now: Instant) -> Refusal {
        let slot = *self.queue.slot(index);
        let reason = match slot.state {
            State::Ended(reason) => reason,
            _ => Reason::Aborted,
        };
        let wait = slot.deadline.saturating_duration_since(now);
        self.queue.forget(index);
        Refusal { reason, held_by: slot.hold, retry_after: (!wait.is_zero()).then_some(wait) }
    }

    /// Checks every invariant, under `--cfg audit`; nothing otherwise.
    fn end_call(&self) {
        #[cfg(audit)]
        self.audit();
    }
}

/// How many calls may be granted or running at once, if anything bounds that.
fn most_in_flight(config: &Config) -> Option<u32> {
    let mut each = config.providers.iter().map(|limits| limits.max_concurrent);
    let together = each.try_fold(0_u32, |sum, each| Some(sum.saturating_add(each?)));
    match (config.client.max_concurrent, together) {
        (Some(client), Some(together)) => Some(client.min(together)),
        (client, together) => client.or(together),
    }
}

/// The first limit of a ticket's two scopes that holds it back: its provider's, then the client's.
fn limits_hold(
    client: &Scope,
    provider: &Scope,
    of_client: Ask<'_>,
    of_provider: Ask<'_>,
    now: Instant,
) -> Option<Hold> {
    let hold = |verdict| match verdict {
        Verdict::Go => None,
        Verdict::Until(_, hold) | Verdict::Blocked(hold) => Some(hold),
    };
    hold(judge(provider, Side::Provider, of_provider, now))
        .or_else(|| hold(judge(client, Side::Client, of_client, now)))
}

/// The first log that a cost can never fit into (rule L6).
fn impossible(scope: &Scope, side: Side, ask: Ask<'_>) -> Option<Hold> {
    scope.pacers.iter().enumerate().find_map(|(index, pacer)| match pacer {
        Pacer::Log(log) if !log.fits(ask.cost(log.unit)) => Some(Hold::Log(side, index as u16)),
        Pacer::Log(_) | Pacer::Interval(_) => None,
    })
}
