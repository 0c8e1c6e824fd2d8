//! The machine: every call into it, and what comes out.
//!
//! Owns: the order of things within a call (rule W6). Each call runs in the same way: time passes
//! (take-backs, then expiries), the call has its own effect, and whoever may go is granted; each of the
//! three has a file of its own, and so has each way for a ticket from one state to the next. Lacks
//! judgement, which is [`judge`](crate::verdict::judge)'s, and order, which is the [`Queue`]'s.

mod admit;
#[cfg(audit)]
mod audit;
mod ends;
mod explain;
mod grants;
mod living;
mod look;
mod places;
mod plain;
mod request;
mod take_back;
mod time;

use alloc::vec::Vec;
use core::time::Duration;

use self::plain::{Further, Settled};
use self::take_back::TakenBack;
use crate::event::Events;
use crate::handoff::HandOff;
use crate::providers::Providers;
use crate::queue::{Flags, NIL, Queue, Scattered, State};
use crate::ready::Ready;
use crate::scope::{Pacer, Scope};
use crate::time::nanos;
use crate::timed::Timed;
use crate::{
    Config, ConfigError, Event, Instant, Key, Limits, ProviderId, Reason, Refusal, ScopeId, Side, TicketId,
};

pub use self::living::ChangeError;
pub use self::look::{Counts, Presence};
pub use self::request::{Admitted, Request, Step};

/// Tickets that room is made for beforehand at most: a million, 64 MiB that are not touched until
/// they are needed.
const RESERVED_TICKETS: u32 = 1 << 20;
/// Calls in flight that room is made for beforehand at most.
const RESERVED_IN_FLIGHT: u32 = 1 << 12;
/// Events that room is made for beforehand at most.
const RESERVED_EVENTS: u32 = 1 << 10;

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
    /// Whether newcomers are asked for more than a place: it is closed, or has other units than requests, or a
    /// longest wait.
    asks_more: bool,
    /// Whether somebody waits for the coordinator to be idle (rule S4).
    is_idle_watched: bool,
    client: Scope,
    providers: Providers,
    /// How many starts there have been.
    starts: u64,
    queue: Queue,
    /// The providers whose oldest ticket passes its provider, by that ticket's place in the order.
    ready: Ready,
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
            asks_more: config.max_wait.is_some() || config.units > 1,
            is_idle_watched: false,
            client: room_for(&config.client)?,
            queue: Queue::try_new(
                providers.len(),
                config.units,
                tickets as usize,
                config.max_wait.is_some(),
            )?,
            ready: Ready::new(),
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
    /// forgets, and the time at which it came upon the holder of its key, if nobody knew when that
    /// one started.
    ///
    /// # Cost
    ///
    /// O(log providers), and O(log queued) for one that has a deadline, however many wait.
    pub fn request(&mut self, request: &Request<'_>, now: Instant) -> Result<Admitted, Refusal> {
        let now = self.latest(now);
        if now >= self.quiet_before {
            return self.request_in_time(request, now);
        }
        let Some((admitted, further)) = self.admit_plainly(request, now) else {
            if !request.may_wait {
                return self.refuse_plainly(request, now);
            }
            return self.request_otherwise(request, now);
        };
        let outcome = Ok(admitted);
        let (Admitted::Started(ticket) | Admitted::Queued(ticket)) = admitted;
        self.do_further(further, request.provider.0, now, ticket);
        outcome
    }

    /// A newcomer without a cost, which starts at once, or else nothing has happened: a short way for what most
    /// calls are. `None` does not say that it may not start, only that [`request`](Self::request) is to be asked: so it
    /// is, too, where time has something to do first, where another call waits for the key, where the provider has
    /// yet to be made, and while [`poll_event`](Self::poll_event) has something to tell.
    ///
    /// Without a `now` it is as of the last call, for drivers that need not read a clock where no limit counts time:
    /// no time passes, and when it started nobody knows. (A limit that does count time counts from the last call, which
    /// is too early.) Of one that has a key, others are told that it runs since the first of them came upon it.
    ///
    /// # Cost
    ///
    /// O(1), but for the pacers of its two scopes.
    ///
    /// ```
    /// use admission_core::{Config, Coordinator, Instant, Key, Limits, ProviderId, Reason, Request};
    ///
    /// let mut config = Config::new();
    /// config.providers.push(Limits::new().max_concurrent(2));
    /// let mut coordinator = Coordinator::new(&config)?;
    /// let (bank, payment) = (ProviderId::new(0), Key(7));
    /// let ticket = coordinator.start_at_once(bank, Some(payment), None).expect("nobody is there");
    /// assert_eq!(coordinator.start_at_once(bank, Some(payment), None), None, "never twice at once");
    ///
    /// let again = Request::new(bank).key(payment).at_once();
    /// let refusal = coordinator.request(&again, Instant::from_millis(40)).unwrap_err();
    /// let holder = refusal.key_holder.expect("it is the key");
    /// assert_eq!(refusal.reason, Reason::Exhausted);
    /// assert_eq!((holder.ticket, holder.since), (ticket, Instant::from_millis(40)));
    /// # Ok::<(), admission_core::ConfigError>(())
    /// ```
    #[inline(always)]
    pub fn start_at_once(
        &mut self,
        provider: ProviderId,
        key: Option<Key>,
        now: Option<Instant>,
    ) -> Option<TicketId> {
        let (now, start) = now.map_or((Instant::ZERO, Instant::NEVER), |now| (now, Instant::ZERO));
        let started = match key {
            Some(key) => self.start_with_key(provider, key, now, start),
            None => self.start_without_key(provider, now, start),
        };
        started.map(TicketId::from_bits)
    }

    /// Two functions, and a number comes back: so that all of it passes in registers.
    #[inline(never)]
    fn start_with_key(
        &mut self,
        provider: ProviderId,
        key: Key,
        now: Instant,
        start: Instant,
    ) -> Option<u64> {
        self.start_keyed_or_not(provider, Some(Scattered::of(key)), now, start)
    }

    #[inline(never)]
    fn start_without_key(&mut self, provider: ProviderId, now: Instant, start: Instant) -> Option<u64> {
        self.start_keyed_or_not(provider, None, now, start)
    }

    /// `start`: not before that, as far as is known.
    #[inline(always)]
    fn start_keyed_or_not(
        &mut self,
        provider: ProviderId,
        key: Option<Scattered>,
        now: Instant,
        start: Instant,
    ) -> Option<u64> {
        // (Its driver may have nothing to see to after this.)
        if !self.events.is_empty() {
            return None;
        }
        let now = self.latest(now);
        if now < self.quiet_before && !self.asks_more {
            if let Some((ticket, further)) = self.start_newcomer_plainly(provider.0, key, now, start.max(now))
            {
                return self.do_further(further, provider.0, now, ticket);
            }
        }
        self.start_at_length(provider, key, now, start.max(now))
    }

    /// The same as [`request`](Self::request) when something may happen by itself first.
    #[inline(never)]
    fn request_in_time(&mut self, request: &Request<'_>, now: Instant) -> Result<Admitted, Refusal> {
        let now = now.min(Instant::LAST);
        self.seen = now;
        self.act_on_time(now);
        let Some((admitted, further)) = self.admit_plainly(request, now) else {
            return self.request_otherwise(request, now);
        };
        if further != Further::Nothing {
            let (Admitted::Started(ticket) | Admitted::Queued(ticket)) = admitted;
            self.do_further(further, request.provider.0, now, ticket);
        }
        // Time may have let others go.
        self.grant_due(NIL, now);
        self.end_call();
        Ok(admitted)
    }

    /// The same for who has more to ask.
    #[inline(never)]
    fn request_otherwise(&mut self, request: &Request<'_>, now: Instant) -> Result<Admitted, Refusal> {
        self.seen = now;
        let outcome = self.admit(request, now);
        self.conclude(now);
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
        let now = self.latest(now);
        if self.start_plainly(ticket, now) { Step::Start } else { self.step_otherwise(ticket, now) }
    }

    #[inline(never)]
    fn step_otherwise(&mut self, ticket: TicketId, now: Instant) -> Step {
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
        let now = self.latest(now);
        match self.settle_plainly(ticket, now) {
            Settled::At(place) => self.go_on(place, now),
            Settled::ButForItsKey(place) => self.settle_far(ticket, place, now),
            Settled::No => self.leave_plainly(ticket, now),
        }
    }

    /// The usual [`handle_release`](Self::handle_release) of a ticket that waits, at the last `now`: others of its provider
    /// are before it, nobody is granted, and time alone does nothing, so it is nothing to anybody else. Says no if there
    /// is more to it, and nothing is changed.
    ///
    /// # Cost
    ///
    /// O(1) on average.
    pub fn leave_behind_others(&mut self, ticket: TicketId) -> bool {
        let is_usual = self.client.granted == 0 && self.are_only_grants_timed() && self.events.is_empty();
        let has_left = is_usual && self.queue.leave_plainly::<false>(ticket).is_some();
        self.end_call();
        has_left
    }

    #[inline(never)]
    pub(super) fn release_otherwise(&mut self, ticket: TicketId, now: Instant) {
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
        self.asks_more = true;
        let queue = &self.queue;
        self.batch.extend(queue.slots().filter(|&index| queue.slot(index).state.is_queued()));
        self.queue.sort(&mut self.batch);
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

    /// What happened, if that is one grant and [it is all that is timed](Self::only_grant): the ticket, and when
    /// its grant is to be taken back. Otherwise nothing is told, and [`poll_event`](Self::poll_event) says what happened.
    #[must_use]
    #[inline]
    pub fn poll_only_grant(&mut self) -> Option<(TicketId, Instant)> {
        let told = self.events.only_grant()?;
        let only = self.only_grant().filter(|&(ticket, _)| ticket == told)?;
        self.events.forget_grant();
        Some(only)
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
