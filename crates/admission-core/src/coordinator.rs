//! The machine: every call into it, and what comes out.
//!
//! Owns: the order of things within a call (rule W6) and the moves of a ticket from one state to the
//! next. Each call runs in the same way: time passes (take-backs, then expiries), the call has its
//! own effect, and whoever may go is granted. Lacks judgement, which is
//! [`judge`](crate::verdict::judge)'s, and order, which is the [`Queue`]'s.

mod admit;
#[cfg(audit)]
mod audit;
mod explain;
mod living;

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::event::Events;
use crate::handoff::HandOff;
use crate::providers::{Providers, Standing};
use crate::queue::{Ending, Flags, Front, NIL, Queue, Rank, State};
use crate::scope::{Ask, Pacer, Scope};
use crate::snapshot::{ScopeSnapshot, Snapshot};
use crate::time::nanos;
use crate::timed::Timed;
use crate::tournament::Tournament;
use crate::verdict::{Opening, Verdict, held_whoever_asks, judge};
use crate::{
    Config, ConfigError, Event, Hold, Instant, Key, Limits, LimitsError, ProviderId, Reason, Refusal,
    ScopeId, Side, TicketId, UnitId,
};

/// Tickets that room is made for beforehand at most: a million, 64 MiB that are not touched until
/// they are needed.
const RESERVED_TICKETS: u32 = 1 << 20;
/// Calls in flight that room is made for beforehand at most.
const RESERVED_IN_FLIGHT: u32 = 1 << 12;
/// Providers that one call forgets at most: more than one makes, so that the gone never pile up.
const FORGOTTEN_PER_CALL: usize = 4;
/// So many places of providers are kept that nobody has. One under the audit, so that the histories that
/// it watches give up places all the time.
const KEPT_PLACES: usize = if cfg!(audit) { 1 } else { 64 };
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

/// A change that was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no such provider.
    UnknownProvider,
    /// There is such a provider already.
    ProviderExists,
    /// Something is wrong with the limits.
    Limits(LimitsError),
    /// There is no such unit.
    UnknownUnit,
    /// The ticket does not run.
    NotRunning,
    /// A call always costs 1 request.
    Requests,
}

impl core::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownProvider => f.write_str("unknown provider"),
            Self::ProviderExists => f.write_str("the provider exists"),
            Self::Limits(error) => error.fmt(f),
            Self::UnknownUnit => f.write_str("unknown unit"),
            Self::NotRunning => f.write_str("the call is not running"),
            Self::Requests => f.write_str("a call always costs 1 request"),
        }
    }
}

impl core::error::Error for ChangeError {}

/// Where a provider is (rule L10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It takes requests.
    Here,
    /// It was removed, and something of it is still remembered.
    Removed,
    /// Never heard of, or forgotten.
    Unknown,
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
/// needs memory, and a provider that is made, and limits that are changed.
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
    /// Before this instant time does nothing by itself, whether at it or not: whatever is noted with an
    /// instant lowers it, and time finds it anew when it gets there.
    quiet_before: Instant,
    is_closed: bool,
    /// Whether somebody waits for the coordinator to be idle (rule S4).
    is_idle_watched: bool,
    client: Scope,
    providers: Providers,
    /// How many starts there have been.
    starts: u64,
    queue: Queue,
    /// The providers whose oldest ticket passes its provider, by that ticket's place in the order.
    ready: Tournament,
    /// The providers whose oldest ticket only time holds back, by the instant.
    timed: Timed,
    hand_off: HandOff,
    events: Events,
    /// Slot numbers that are being sorted; empty between calls.
    batch: Vec<u32>,
}

impl Coordinator {
    /// Builds a coordinator, and makes room for what the configuration bounds: the queue (up to a
    /// million tickets), the calls in flight, and the logs (up to 4,096 entries each). Room for
    /// deadlines, for keys that several tickets share, and for the logs of providers that come later,
    /// is made as they come.
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
            providers.push(room_for(limits)?);
        }
        let mut coordinator = Self {
            max_queued: config.max_queued,
            max_wait_nanos: config.max_wait.map(nanos),
            seen: Instant::ZERO,
            quiet_before: Instant::NEVER,
            is_closed: false,
            is_idle_watched: false,
            client: room_for(&config.client)?,
            queue: Queue::try_new(
                providers.len(),
                config.units,
                tickets as usize,
                config.max_wait.is_some(),
            )?,
            ready: Tournament::new(),
            timed: Timed::new(),
            hand_off: HandOff::try_new(config.hand_off)?,
            events: Events::new(),
            batch: Vec::new(),
            providers: Providers::try_new(providers, config.template.clone()),
            starts: 0,
        };
        let events = config.max_queued.min(RESERVED_EVENTS) as usize;
        let providers = coordinator.providers.len() as usize;
        coordinator
            .ready
            .try_reserve(providers)
            .and_then(|()| coordinator.timed.try_reserve(providers))
            .and_then(|()| coordinator.events.try_reserve(events))
            .and_then(|()| coordinator.batch.try_reserve_exact(events))
            .map_err(|_| ConfigError::OutOfMemory)?;
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
    /// newcomer leaves nothing behind, but for a provider that was made for it, which the next call
    /// forgets.
    ///
    /// # Cost
    ///
    /// O(log providers), and O(log queued) for one that has a deadline, however many wait.
    pub fn request(&mut self, request: &Request<'_>, now: Instant) -> Result<Admitted, Refusal> {
        let now = self.see(now);
        self.pass_time_to(now);
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
        let granted = self.queue.find(ticket).filter(|&index| self.queue.slot(index).state == State::Granted);
        let Some(index) = granted else { return self.step_unless_granted(ticket, now) };
        let provider = self.start(index, now);
        // An interval that lets nobody go before this start holds its line.
        self.judge_if_of_interest(provider, now);
        self.pass_time_to(now);
        self.grant_due(NIL, now);
        self.end_call();
        Step::Start
    }

    #[inline(never)]
    fn step_unless_granted(&mut self, ticket: TicketId, now: Instant) -> Step {
        let Some(index) = self.queue.find(ticket) else {
            return self.time_passes(Step::Gone, now);
        };
        match self.queue.slot(index).state {
            State::InLine | State::Parked => {}
            State::Aside => self.queue.bring_back(index),
            State::Ended(_) => {
                let refusal = self.tell(index, now);
                return self.time_passes(Step::GiveUp(refusal), now);
            }
            // (A granted one starts before anything else is asked, and no slot is free that is found.)
            State::Running | State::Granted | State::Free => return self.time_passes(Step::Running, now),
        }
        let flags = &mut self.queue.slot_mut(index).flags;
        if flags.has(Flags::TAKEN_BACK) {
            flags.clear(Flags::TAKEN_BACK);
            flags.set(Flags::FULL_TIME);
        }
        self.judge_changed(now);
        self.pass_time_to(now);
        self.grant_due(index, now);
        let answer = match self.queue.slot(index).state {
            State::Running => Step::Start,
            State::Ended(_) => Step::GiveUp(self.tell(index, now)),
            _ => Step::Wait,
        };
        self.end_call();
        answer
    }

    /// A call that does nothing but let time pass, and has this answer.
    fn time_passes<T>(&mut self, answer: T, now: Instant) -> T {
        self.pass_time_to(now);
        self.conclude(now);
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
        match found.filter(|&index| self.queue.slot(index).state == State::Running) {
            Some(index) => {
                self.pass_time_to(now);
                self.settle(index, now);
                self.queue.forget(index);
            }
            None => self.release_unstarted(found, now),
        }
        self.grant_due(NIL, now);
        self.end_call();
    }

    #[inline(never)]
    fn release_unstarted(&mut self, found: Option<u32>, now: Instant) {
        if let Some(index) = found {
            self.withdraw(index, now);
            self.queue.forget(index);
            self.judge_changed(now);
        }
        self.pass_time_to(now);
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
            self.judge_changed(now);
            self.end(index, Reason::Aborted, None, now);
        }
        self.pass_time_to(now);
        self.conclude(now);
    }

    /// Time has come to `now`. Harmless when early, and complete when late (rule T3).
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.pass_time(now);
        self.conclude(now);
    }

    /// No start at `provider` for `delay` from now (rule L5). It never shortens an earlier cooldown
    /// and touches no running call; grants that have not started are taken back (rule S5).
    ///
    /// # Errors
    ///
    /// [`ChangeError::UnknownProvider`], and nothing changes. With a template the provider is made,
    /// unless the coordinator is closed.
    ///
    /// # Cost
    ///
    /// O(grants that have not started), in the whole coordinator, if the provider has any.
    pub fn cooldown(
        &mut self,
        provider: ProviderId,
        delay: Duration,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let now = self.pass_time(now);
        let place = self.find_or_make(provider, now);
        if let Ok(place) = place {
            let scope = &mut self.providers[place];
            scope.not_before = scope.not_before.max(now + delay);
            let (is_on, has_grants) = (scope.not_before > now, scope.granted > 0);
            self.queue.mark_changed(place);
            if is_on && has_grants {
                self.take_back_grants(Some(place), TakenBack::ByCooldown, now);
            }
        }
        self.conclude(now);
        place.map(|_| ())
    }

    /// Forgets what the logs of one scope know, running calls included, and exempts every ticket
    /// that is queued at this moment from them (rule D2).
    ///
    /// # Errors
    ///
    /// [`ChangeError::UnknownProvider`], and nothing changes.
    ///
    /// # Cost
    ///
    /// O(tickets).
    pub fn reset(&mut self, scope: ScopeId, now: Instant) -> Result<(), ChangeError> {
        let now = self.pass_time(now);
        let place = self.find_scope(scope);
        if let Ok(place) = place {
            let side = place.map_or(Side::Client, |_| Side::Provider);
            let next_start = self.starts;
            self.scope_mut(place).reset_logs(next_start, now);
            let number = self.number_of(place);
            for index in self.queue.slots() {
                let slot = self.queue.slot(index);
                if slot.state.is_queued() && number.is_none_or(|number| number == slot.provider) {
                    self.queue.exempt(index, side);
                }
            }
            if let Some(place) = place {
                self.queue.mark_changed(place);
            }
        }
        self.conclude(now);
        place.map(|_| ())
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
        self.conclude(now);
    }

    /// How much is free right now in one log, from 0 to its limit (rule R3); `None` if there is no
    /// such log.
    pub fn available(&mut self, scope: ScopeId, pacer: u16, now: Instant) -> Option<u64> {
        let now = self.pass_time(now);
        self.conclude(now);
        let place = self.find_scope(scope).ok()?;
        let scope = self.scope(place);
        match scope.pacers.get(usize::from(pacer))? {
            Pacer::Log(log) => Some(log.available(scope.granted, now)),
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
        self.events.pop()
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
        // At the deadline itself a grant wins (rule W2).
        let mut next = self.queue.first_deadline().plus(1);
        if self.queue.queued() > 0 || self.is_idle_watched {
            next = next.min(self.hand_off.first_due());
        }
        if held_whoever_asks(&self.client, Side::Client).is_none() {
            if let Some(provider) = self.ready.first() {
                let ask = self.queue.ask(self.queue.front(provider));
                if let Verdict::Until(at, _) = judge(&self.client, Side::Client, ask, now) {
                    next = next.min(at);
                }
            }
            let at = self.timed.first_at();
            if at < next && !self.client.has_interval {
                next = at;
            } else if at < next {
                // Whatever it costs, the client's intervals hold it back as well.
                let opening = Opening::of(&self.client, Side::Client, self.queue.ask_no_log(), now);
                next = next.min(at.max(opening.at));
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

    /// Everything that can be seen, at the last `now` (rule O1).
    ///
    /// # Cost
    ///
    /// O(providers), O(grants that have not started), and memory for the answer; however many wait.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let now = self.seen;
        let mut first_due = vec![Instant::NEVER; self.providers.len() as usize];
        self.hand_off.each(self.queue.slab(), |index, at| {
            let first = &mut first_due[self.queue.place(index) as usize];
            *first = at.min(*first);
        });
        let first_due_of_all = first_due.iter().copied().min().unwrap_or(Instant::NEVER);
        let here = (0..self.providers.len()).filter(|&place| self.providers.is_here(place));
        let snapshot =
            |scope: &Scope, queued, due| ScopeSnapshot::of(scope, queued, &self.hand_off, due, now);
        let mut providers: Vec<_> = here
            .map(|place| {
                let id = ProviderId(self.providers.number(place));
                let due = first_due[place as usize];
                (id, snapshot(&self.providers[place], self.queue.queued_at(place), due))
            })
            .collect();
        providers.sort_unstable_by_key(|(id, _)| *id);
        Snapshot {
            at: now,
            is_closed: self.is_closed,
            max_queued: self.max_queued,
            next: self.poll_timeout(),
            client: snapshot(&self.client, self.queue.queued(), first_due_of_all),
            providers,
        }
    }

    /// Whether the number is a provider's that is here, or that was removed and is remembered.
    #[must_use]
    pub fn presence(&self, provider: ProviderId) -> Presence {
        match self.find_remembered(provider).map(|place| self.providers.standing(place)) {
            None => Presence::Unknown,
            Some(standing) if standing.is_here() => Presence::Here,
            Some(_) => Presence::Removed,
        }
    }

    /// The place of a provider that is here.
    #[inline(always)]
    fn find(&self, provider: ProviderId) -> Option<u32> {
        self.queue.place_of(provider.0).filter(|&place| self.providers.is_here(place))
    }

    /// The place of a provider that is here, or removed and remembered.
    fn find_remembered(&self, provider: ProviderId) -> Option<u32> {
        self.queue.place_of(provider.0).filter(|&place| self.providers.is_remembered(place))
    }

    /// The number of the provider at a place; none for the client.
    fn number_of(&self, place: Option<u32>) -> Option<u32> {
        place.map(|place| self.providers.number(place))
    }

    /// The place of a provider that is here, or nothing for the client.
    fn find_scope(&self, scope: ScopeId) -> Result<Option<u32>, ChangeError> {
        match scope {
            ScopeId::Client => Ok(None),
            ScopeId::Provider(provider) => self.find(provider).map(Some).ok_or(ChangeError::UnknownProvider),
        }
    }

    fn scope(&self, place: Option<u32>) -> &Scope {
        place.map_or(&self.client, |place| &self.providers[place])
    }

    fn scope_mut(&mut self, place: Option<u32>) -> &mut Scope {
        match place {
            None => &mut self.client,
            Some(place) => &mut self.providers[place],
        }
    }

    fn units(&self) -> u16 {
        self.queue.units()
    }

    /// Whether a provider is here, or can be made (rule L10).
    fn can_have(&self, provider: ProviderId) -> bool {
        let can_make = self.providers.template.is_some() && !self.is_closed;
        can_make || self.find(provider).is_some()
    }

    /// The place of a provider that is here, made from the template if need be (rule L10).
    #[inline(always)]
    fn find_or_make(&mut self, provider: ProviderId, now: Instant) -> Result<u32, ChangeError> {
        match self.find(provider) {
            Some(place) => Ok(place),
            None => self.make(provider, now),
        }
    }

    /// A provider that is not here is made from the template, if there is one (rule L10).
    #[inline(never)]
    fn make(&mut self, provider: ProviderId, now: Instant) -> Result<u32, ChangeError> {
        if self.is_closed {
            return Err(ChangeError::UnknownProvider);
        }
        let template = self.providers.template.take();
        let Some(limits) = template else { return Err(ChangeError::UnknownProvider) };
        let made = self.put_provider(provider, Standing::Made, &limits, now);
        self.providers.template = Some(limits);
        self.judge_changed(now);
        made
    }

    /// The end of a provider's cooldown; the origin if there was none, or no such provider.
    #[must_use]
    pub fn not_before(&self, provider: ProviderId) -> Instant {
        let place = self.find(provider);
        place.map_or(Instant::ZERO, |place| self.providers[place].not_before)
    }

    /// The hand-off time that the next grant of a scope gets by it (rule S4a); `None` for an unknown
    /// provider.
    #[must_use]
    pub fn hand_off_time(&self, scope: ScopeId) -> Option<Duration> {
        let place = match scope {
            ScopeId::Client => None,
            ScopeId::Provider(provider) => Some(self.find(provider)?),
        };
        Some(self.hand_off.time(self.scope(place).halvings))
    }

    /// How much has been looked at so far: tickets, keys, entries of heaps and logs (rule E7).
    #[cfg(steps)]
    #[doc(hidden)]
    pub fn steps(&self) -> u64 {
        let heaps = self.ready.steps.total() + self.timed.steps();
        self.queue.steps() + heaps + self.providers.steps() + self.client.steps()
    }

    /// Time does not run back, and never reaches the end (rules T1, T2).
    #[inline]
    fn see(&mut self, now: Instant) -> Instant {
        self.seen = self.seen.max(now.min(Instant::LAST));
        self.seen
    }

    /// What time does by itself, whatever the timers did (rule W6): take-backs, then expiries. What
    /// it opens is left to [`Self::grant_due`].
    #[inline(never)]
    fn pass_time(&mut self, now: Instant) -> Instant {
        let now = self.see(now);
        self.pass_time_to(now);
        now
    }

    /// The same for a time that was seen already. Nothing has changed that was not judged.
    #[inline(always)]
    fn pass_time_to(&mut self, now: Instant) {
        if self.quiet_before <= now {
            self.act_on_time(now);
        }
    }

    /// Something may happen at `at` by itself.
    #[inline(always)]
    fn note_instant(&mut self, at: Instant) {
        self.quiet_before = self.quiet_before.min(at);
    }

    /// The first instant at which something may happen by itself.
    #[inline(always)]
    fn first_instant(&self) -> Instant {
        let (timed, hand_off) = (self.timed.first_at(), self.hand_off.first_due());
        let (deadline, resting) = (self.queue.first_deadline(), self.providers.first_rested());
        timed.min(hand_off).min(deadline).min(resting)
    }

    /// Someone's time may have come: of one that only time held back, of a grant, of a deadline, of a
    /// provider of which nothing is left.
    #[inline(never)]
    fn act_on_time(&mut self, now: Instant) {
        while self.timed.first_at() <= now {
            let Some(provider) = self.timed.first() else { break };
            self.judge_provider(provider, now);
        }
        if self.hand_off.first_due() <= now {
            self.hand_off.due(self.queue.slab(), now, &mut self.batch);
            self.take_back_batch(TakenBack::Unpolled, now);
        }
        if self.queue.first_deadline() < now {
            self.expire(now);
        }
        self.judge_changed(now);
        if self.providers.first_rested() <= now {
            self.providers.look(now);
            self.forget_some();
        }
        self.quiet_before = self.first_instant();
    }

    /// Forgets providers that are gone, some at a time.
    #[cold]
    fn forget_some(&mut self) {
        for _ in 0..FORGOTTEN_PER_CALL {
            let Some(place) = self.providers.next_gone() else { break };
            self.forget(place);
        }
    }

    /// Nothing is left of a provider, and the last one takes its place.
    fn forget(&mut self, place: u32) {
        self.events.push(Event::Forgotten(ProviderId(self.providers.number(place))));
        self.providers.forget(place);
        self.timed.remove(place);
        self.ready.remove(place);
        if self.providers.is_configured(place) {
            return;
        }
        self.queue.remove_provider(place);
        let last = self.providers.len();
        self.timed.rename(last, place);
        self.ready.rename(last, place);
        // After a crowd of providers is gone, the room for it goes too: half of it for a quarter, so that
        // who comes and goes does not ask for it again and again.
        let len = last as usize;
        if self.queue.vacant_places() > KEPT_PLACES.max(len * 3) {
            let room = KEPT_PLACES.max(len * 2);
            self.providers.shrink(room);
            self.queue.shrink(room);
            self.timed.shrink(len, room);
            self.ready.shrink(len, room);
            self.events.shrink_to(RESERVED_EVENTS as usize);
        }
    }

    /// Takes the grants of one scope back, which are at their places again at once (rules S5, L7).
    fn take_back_grants(&mut self, place: Option<u32>, why: TakenBack, now: Instant) {
        if self.scope(place).granted > 0 {
            let number = self.number_of(place);
            self.hand_off.of_scope(self.queue.slab(), number, &mut self.batch);
            self.take_back_batch(why, now);
        }
    }

    /// A grant holds nothing any more, and nothing was spent.
    fn give_back(&mut self, index: u32, now: Instant) {
        let provider = self.queue.place(index);
        self.hand_off.remove(self.queue.slab_mut(), index);
        self.client.take_back(self.queue.ask(index), now);
        self.providers[provider].take_back(self.queue.ask(index), now);
    }

    /// Takes the grants in the batch back.
    fn take_back_batch(&mut self, why: TakenBack, now: Instant) {
        let unpolled = why == TakenBack::Unpolled;
        let queue = &self.queue;
        self.batch.sort_unstable_by_key(|&index| queue.slot(index).seq);
        for place in 0..self.batch.len() {
            let index = self.batch[place];
            let provider = self.queue.place(index);
            self.give_back(index, now);
            if unpolled {
                self.hand_off.halve(&mut self.client.halvings);
                self.hand_off.halve(&mut self.providers[provider].halvings);
            }
            self.queue.requeue(index, unpolled);
            self.queue.mark_changed(provider);
            self.events.push(Event::TakenBack(self.queue.ticket(index)));
            if self.is_closed {
                // A grant that is taken back after the close ends as closed (rule W4).
                self.queue.leave(index);
                self.end(index, Reason::Closed, None, now);
            } else if why == TakenBack::ByLimits && self.end_if_impossible(index, now) {
                // Told so (rule D5).
            } else if !unpolled && self.queue.slot(index).deadline < now {
                self.end_late(index, now);
            }
        }
        self.batch.clear();
        self.note_instant(self.queue.first_deadline());
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
    #[inline]
    fn judge_changed(&mut self, now: Instant) {
        if self.queue.has_changed() {
            self.judge_each_changed(now);
        }
    }

    #[inline(never)]
    fn judge_each_changed(&mut self, now: Instant) {
        while let Some(provider) = self.queue.next_changed() {
            self.judge_provider(provider, now);
        }
    }

    /// Judges a provider whose line or limits changed, unless nothing there could have become otherwise.
    #[inline(always)]
    fn judge_if_of_interest(&mut self, provider: u32, now: Instant) {
        if self.queue.is_of_interest(provider) {
            self.judge_provider(provider, now);
        }
    }

    /// Judges the oldest ticket of a provider, and sorts the provider by what holds that one back.
    #[inline(never)]
    fn judge_provider(&mut self, provider: u32, now: Instant) {
        let Front { index, rank: before, is_fleeting } = self.queue.front_of(provider);
        if is_fleeting {
            self.rest(provider);
        }
        let mut rank = Rank::Held;
        if index != NIL {
            let scope = &self.providers[provider];
            match judge(scope, Side::Provider, self.queue.ask(index), now) {
                Verdict::Go => {
                    rank = Rank::Ready;
                    self.ready.set(provider, self.queue.slot(index).seq);
                }
                Verdict::Until(at, _) if at < Instant::NEVER => {
                    rank = Rank::Timed;
                    self.timed.set(provider, at);
                    self.note_instant(at);
                }
                _ => {}
            }
        }
        if rank != before {
            self.queue.note_rank(provider, rank);
            match before {
                Rank::Ready => self.ready.remove(provider),
                Rank::Timed => self.timed.remove(provider),
                Rank::Held => {}
            }
        }
    }

    /// Notes whether a provider is at rest, if it is one that is forgotten some day.
    #[inline(never)]
    fn rest(&mut self, provider: u32) {
        let scope = &self.providers[provider];
        let has_tickets = self.queue.queued_at(provider) + scope.running + scope.granted > 0;
        let fades = self.providers.rest(provider, has_tickets);
        self.queue.note_fleeting(provider, fades);
        self.note_instant(self.providers.first_rested());
    }

    /// The provider whose oldest ticket is to go next, if one may go now.
    #[inline(always)]
    fn next_due(&mut self, now: Instant) -> Option<u32> {
        self.judge_changed(now);
        if held_whoever_asks(&self.client, Side::Client).is_some() {
            return None;
        }
        let place = self.ready.first()?;
        let ask = self.queue.ask(self.queue.front(place));
        (judge(&self.client, Side::Client, ask, now) == Verdict::Go).then_some(place)
    }

    /// Grants whoever may go, in the order of submission. The waiter whose caller is running starts
    /// when its turn comes (rule S4).
    #[inline]
    fn grant_due(&mut self, waiter: u32, now: Instant) {
        let may_any_go =
            self.ready.least() < u64::MAX && held_whoever_asks(&self.client, Side::Client).is_none();
        if may_any_go || self.queue.has_changed() {
            self.grant_each_due(waiter, now);
        }
    }

    #[inline(never)]
    fn grant_each_due(&mut self, waiter: u32, now: Instant) {
        while let Some(place) = self.next_due(now) {
            let (index, flags) = self.queue.take_first(place);
            let ticket = self.grant(index, flags, place, now);
            if index == waiter {
                self.start(index, now);
            } else {
                self.events.push(Event::Granted(ticket));
            }
            self.judge_provider(place, now);
        }
    }

    /// What holds a waiting ticket back, if anything does.
    fn hold_of(&mut self, index: u32, now: Instant) -> Option<Hold> {
        self.judge_changed(now);
        let slot = *self.queue.slot(index);
        if slot.state == State::Aside {
            return Some(Hold::Unpolled);
        }
        if slot.key().is_some_and(|key| self.queue.holder(key).is_some()) {
            return Some(Hold::Key);
        }
        let of_client = self.queue.ask(index);
        let of_provider = self.queue.ask(index);
        let place = self.queue.place(index);
        limits_hold(&self.client, &self.providers[place], of_client, of_provider, now)
            .or_else(|| self.order_holds(place, slot.seq))
    }

    /// Whether somebody older goes before a ticket that its own limits let go: whoever is ready may go
    /// now or waits for nothing but the client's budgets, and whoever stands in its line waits for
    /// nothing but the provider's (rules E2, E3, E4).
    fn order_holds(&self, provider: u32, seq: u64) -> Option<Hold> {
        let front = self.queue.front(provider);
        let is_older_in_line = front != NIL && self.queue.slot(front).seq < seq;
        let is_older_ready = self.ready.least() < seq;
        (is_older_in_line || is_older_ready).then_some(Hold::Order)
    }

    /// A ticket that has taken its key may start, and has a hand-off time to do so. Its provider is to be
    /// judged.
    #[inline(always)]
    fn grant(&mut self, index: u32, flags: Flags, provider: u32, now: Instant) -> TicketId {
        let scope = &mut self.providers[provider];
        self.client.grant(self.queue.ask(index), now);
        scope.grant(self.queue.ask(index), now);
        let halvings = if flags.has(Flags::FULL_TIME) { 0 } else { self.client.halvings.max(scope.halvings) };
        let ticket = self.hand_off.insert(self.queue.slab_mut(), index, halvings, now);
        self.note_instant(self.hand_off.first_due());
        ticket
    }

    /// A granted ticket starts: pacers count from here (rule S1). Its provider, whose place is told, is to be
    /// judged.
    #[inline(always)]
    fn start(&mut self, index: u32, now: Instant) -> u32 {
        let slot = self.queue.slot_mut(index);
        slot.run(now, self.starts);
        let (links, provider) = (slot.links(), slot.provider);
        self.hand_off.unlink(self.queue.slab_mut(), links);
        self.starts += 1;
        let provider = self.queue.place_with_ticket(provider);
        self.client.start(self.queue.ask(index), now);
        self.providers[provider].start(self.queue.ask(index), now);
        provider
    }

    /// A running ticket is over.
    #[inline(always)]
    fn settle(&mut self, index: u32, now: Instant) {
        let slot = self.queue.slot(index);
        let (number, provider, key) = (slot.start_number(), slot.provider, slot.key());
        self.client.settle(self.queue.ask(index), number, now);
        let place = self.queue.place_with_ticket(provider);
        self.providers[place].settle(self.queue.ask(index), number, now);
        self.queue.finish_with(index, key);
        self.judge_if_of_interest(place, now);
    }

    /// A ticket that has not started leaves whatever holds it.
    fn withdraw(&mut self, index: u32, now: Instant) {
        let slot = *self.queue.slot(index);
        if slot.state.is_queued() {
            self.queue.leave(index);
        } else if slot.state == State::Granted {
            self.hand_off.remove(self.queue.slab_mut(), index);
            self.client.abandon(self.queue.ask(index), slot.since(), now);
            let place = self.queue.place(index);
            let scope = &mut self.providers[place];
            scope.abandon(self.queue.ask(index), slot.since(), now);
            self.queue.finish(index);
            self.queue.mark_changed(place);
        }
    }

    /// A ticket that has left ends without a start; its slot waits for its caller.
    fn end(&mut self, index: u32, reason: Reason, hold: Option<Hold>, now: Instant) {
        let can_time_mend = matches!(reason, Reason::MaxWait | Reason::AdmissionTimeout);
        let slot = *self.queue.slot(index);
        let place = self.queue.place(index);
        let (of_client, of_provider) = (self.queue.ask(index), self.queue.ask(index));
        let wait = can_time_mend.then(|| self.wait_behind(place, of_client, of_provider, 0, now)).flatten();
        let retry_at = now + wait.unwrap_or(Duration::ZERO);
        let key_holder = self.key_holder_if(hold, slot.key());
        let limits = match hold.and_then(Hold::limit_of) {
            Some(Side::Client) => self.client.fingerprint,
            Some(Side::Provider) => self.providers[place].fingerprint,
            None => 0,
        };
        self.queue.slot_mut(index).end(&Ending { reason, hold, retry_at, limits, key_holder });
        self.events.push(Event::Refused(self.queue.ticket(index), reason));
    }

    /// Tells an ended ticket's caller why, and forgets the ticket.
    fn tell(&mut self, index: u32, now: Instant) -> Refusal {
        let slot = self.queue.slot(index);
        let (told, provider) = (slot.ending(), ProviderId(slot.provider));
        self.queue.forget(index);
        let wait = told.retry_at.saturating_duration_since(now);
        let limits_changed = match told.hold.and_then(Hold::limit_of) {
            Some(Side::Client) => told.limits != self.client.fingerprint,
            // Those that it has, or would have if it were made now.
            Some(Side::Provider) => {
                let template = || self.providers.template.as_ref().map(Limits::fingerprint);
                let found = self.find(provider).map(|place| self.providers[place].fingerprint);
                Some(told.limits) != found.or_else(template)
            }
            None => false,
        };
        Refusal {
            reason: told.reason,
            held_by: told.hold,
            retry_after: (!wait.is_zero()).then_some(wait),
            key_holder: told.key_holder,
            limits_changed,
        }
    }

    /// The end of a call that starts nobody itself: who may go now is granted.
    #[inline(never)]
    fn conclude(&mut self, now: Instant) {
        self.grant_due(NIL, now);
        self.end_call();
    }

    /// Checks every invariant, under `--cfg audit`; nothing otherwise.
    fn end_call(&self) {
        #[cfg(audit)]
        self.audit();
    }
}

/// A scope of the configuration, with room for what its logs may hold.
fn room_for(limits: &Limits) -> Result<Scope, ConfigError> {
    let mut scope = Scope::try_new(limits, 0).map_err(|_| ConfigError::OutOfMemory)?;
    scope.try_reserve().map_err(|_| ConfigError::OutOfMemory)?;
    Ok(scope)
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

/// Why a grant is taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakenBack {
    /// Its caller did not run: it is passed over (rule S4).
    Unpolled,
    /// A cooldown came between (rule S5).
    ByCooldown,
    /// Other limits came between (rule L7).
    ByLimits,
}

/// The first log that a cost can never fit into (rule L6).
fn impossible(scope: &Scope, side: Side, ask: Ask<'_>) -> Option<Hold> {
    if ask.is_exempt(side) {
        return None;
    }
    scope.pacers.iter().enumerate().find_map(|(index, pacer)| match pacer {
        Pacer::Log(log) if !log.fits(ask.cost(log.unit)) => Some(Hold::Log(side, index as u16)),
        Pacer::Log(_) | Pacer::Interval(_) => None,
    })
}
