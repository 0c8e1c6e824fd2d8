//! The core and the reference model, driven by the same calls and compared after each.
//!
//! Owns the translation between the two and the comparison of everything that they say: answers,
//! events, counts, the next alarm, hand-off and not-before times. Lacks any idea of which calls to
//! make; `histories` draws some, and the tests that mount it bring others.

#![allow(dead_code)] // each test that mounts this uses a part of it

pub(crate) mod histories;

use std::time::Duration;

use admission_core as core;
use admission_reference as model;

use core::{Coordinator, Instant, Key, ProviderId, ScopeId, TicketId, UnitId};
use model::Model;

pub(crate) const MS: u64 = 1_000_000;
/// Names of providers are below this.
pub(crate) const NAMES: u32 = 8;

/// One call into both.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Request(model::Request),
    Step(u64),
    Release(u64),
    Abort(u64),
    Timeout,
    Cooldown(u32, u64),
    Reset(Option<u32>),
    Close,
    Available(Option<u32>, u16),
    WatchIdle(bool),
    SetLimits(Option<u32>, model::Limits),
    SetMaxQueued(u32),
    AddProvider(u32, model::Limits),
    RemoveProvider(u32),
    SettleCost(u64, u16, u64),
}

/// Both of them, and which ticket of the one is which of the other.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) core: Coordinator,
    pub(crate) model: Model,
    tickets: Vec<TicketId>,
    /// When each ticket was refused, by the model's number.
    refused_at: Vec<u64>,
    alarm_is_exact: bool,
    compared: u64,
    pub(crate) grants: u64,
    pub(crate) refusals: u64,
    pub(crate) take_backs: u64,
    /// Calls that started or ended the short way.
    pub(crate) short: u64,
}

impl Pair {
    pub(crate) fn new(config: &model::Config) -> Self {
        let is_log = |pacer: &model::Pacer| matches!(pacer, model::Pacer::Log { .. });
        Self {
            core: Coordinator::new(&core_config(config)).expect("a configuration that is in order"),
            model: Model::new(config.clone()),
            tickets: Vec::new(),
            refused_at: Vec::new(),
            // Of the client's budgets the alarm knows only what they say of the first that is ready.
            alarm_is_exact: !config.client.pacers.iter().any(is_log),
            compared: 0,
            grants: 0,
            refusals: 0,
            take_backs: 0,
            short: 0,
        }
    }

    /// How many tickets there have been.
    pub(crate) fn tickets(&self) -> u64 {
        self.tickets.len() as u64
    }

    /// Makes one call at `now` and compares everything that can be seen after it.
    pub(crate) fn call(&mut self, call: &Call, now: u64) -> Result<(), String> {
        let at = Instant::from_nanos(now);
        match call {
            Call::Request(request) => self.request(request, now)?,
            Call::Step(ticket) => {
                let ours = self.core.step(self.ticket(*ticket), at);
                let theirs = self.model.step(*ticket, now);
                let refused_at = self.refused_at.get(*ticket as usize).copied().unwrap_or(now);
                let elapsed = now.min(u64::MAX - 1).max(self.seen()).saturating_sub(refused_at);
                let elapsed = if refused_at == u64::MAX { 0 } else { elapsed };
                match (ours, theirs) {
                    (core::Step::GiveUp(ours), model::Step::GiveUp(theirs)) => {
                        self.same_refusal("step", &ours, theirs, elapsed)?;
                    }
                    (core::Step::Start, model::Step::Start)
                    | (core::Step::Wait, model::Step::Wait)
                    | (core::Step::Running, model::Step::Running)
                    | (core::Step::Gone, model::Step::Gone) => {}
                    (ours, theirs) => return Err(format!("step: core {ours:?}, model {theirs:?}")),
                }
            }
            Call::Release(ticket) => self.release(*ticket, now),
            Call::Abort(ticket) => {
                self.core.handle_abort(self.ticket(*ticket), at);
                self.model.handle_abort(*ticket, now);
            }
            Call::Timeout => {
                self.core.handle_timeout(at);
                self.model.handle_timeout(now);
            }
            Call::Cooldown(provider, delay) => {
                // What is wrong with it shows in what follows.
                let _ = self.core.cooldown(ProviderId::new(*provider), Duration::from_nanos(*delay), at);
                self.model.cooldown(*provider, *delay, now);
            }
            Call::Reset(scope) => {
                let ours = self.core.reset(scope_id(*scope), at);
                same("reset", &change(ours), &self.model.reset(*scope, now))?;
            }
            Call::Close => {
                self.core.close(at);
                self.model.close(now);
            }
            Call::Available(scope, pacer) => {
                let ours = self.core.available(scope_id(*scope), *pacer, at).unwrap_or(0);
                same("available", &ours, &self.model.available(*scope, *pacer, now))?;
            }
            Call::WatchIdle(is_watched) => {
                self.core.watch_idle(*is_watched);
                self.model.watch_idle(*is_watched);
            }
            Call::SetLimits(scope, limits) => {
                let ours = self.core.set_limits(scope_id(*scope), &core_limits(limits), at);
                let is_log = |pacer: &model::Pacer| matches!(pacer, model::Pacer::Log { .. });
                self.alarm_is_exact &= scope.is_some() || !limits.pacers.iter().any(is_log);
                same("set limits", &change(ours), &self.model.set_limits(*scope, limits, now))?;
            }
            Call::SetMaxQueued(max_queued) => {
                self.core.set_max_queued(*max_queued, at);
                self.model.set_max_queued(*max_queued, now);
            }
            Call::AddProvider(name, limits) => {
                let ours = self.core.add_provider(ProviderId::new(*name), &core_limits(limits), at);
                same("add", &change(ours), &self.model.add_provider(*name, limits, now))?;
            }
            Call::RemoveProvider(name) => {
                let ours = self.core.remove_provider(ProviderId::new(*name), at);
                same("remove", &change(ours), &self.model.remove_provider(*name, now))?;
            }
            Call::SettleCost(ticket, unit, cost) => {
                let ours = self.core.settle_cost(self.ticket(*ticket), UnitId::new(*unit), *cost, at);
                same("settle cost", &change(ours), &self.model.settle_cost(*ticket, *unit, *cost, now))?;
            }
        }
        self.compare()
    }

    fn request(&mut self, request: &model::Request, now: u64) -> Result<(), String> {
        let costs: Vec<(UnitId, u64)> =
            request.costs.iter().map(|&(unit, cost)| (UnitId::new(unit), cost)).collect();
        let mut ours = core::Request::new(ProviderId::new(request.provider)).costs(&costs);
        ours.key = request.key.map(Key);
        ours.timeout = request.timeout.map(Duration::from_nanos);
        ours.may_wait = request.wait;
        ours.may_start = !request.deferred;
        // Some take the short way first, where there is one; and some of those know no time.
        let short =
            if request.costs.is_empty() && !request.deferred { (self.tickets() ^ (now / MS)) % 3 } else { 0 };
        let at = (short == 1).then(|| Instant::from_nanos(now));
        let started = if short > 0 { self.core.start_at_once(ours.provider, ours.key, at) } else { None };
        let (ours, theirs) = match started {
            Some(ticket) => {
                self.short += 1;
                let theirs = if short == 1 {
                    self.model.request(request, now)
                } else {
                    self.model.request_undated(request)
                };
                (Ok(core::Admitted::Started(ticket)), theirs)
            }
            // Nothing has happened.
            None => (self.core.request(&ours, Instant::from_nanos(now)), self.model.request(request, now)),
        };
        match (ours, theirs) {
            (Ok(core::Admitted::Started(ticket)), Ok(model::Admitted::Started(number)))
            | (Ok(core::Admitted::Queued(ticket)), Ok(model::Admitted::Queued(number))) => {
                if number != self.tickets() {
                    return Err(format!("the model counted ticket {number}"));
                }
                self.tickets.push(ticket);
                self.refused_at.push(u64::MAX);
                Ok(())
            }
            (Err(ours), Err(theirs)) => {
                self.refusals += 1;
                self.same_refusal("refusal", &ours, theirs, 0)
            }
            (ours, theirs) => Err(format!("request: core {ours:?}, model {theirs:?}")),
        }
    }

    /// Some take a short way, where there is one: one that waits leaves as of the last call.
    fn release(&mut self, ticket: u64, now: u64) {
        let (ours, seen) = (self.ticket(ticket), self.seen());
        let is_short = (ticket ^ (now / MS)) % 2 == 0;
        if is_short && self.core.leave_behind_others(ours) {
            self.model.handle_release(ticket, seen);
            self.short += 1;
        } else {
            self.core.handle_release(ours, Instant::from_nanos(now));
            self.model.handle_release(ticket, now);
        }
    }

    fn compare(&mut self) -> Result<(), String> {
        let seen = self.seen();
        if let Some((ticket, due)) = self.core.only_grant() {
            same(
                "who is granted alone",
                &(self.core.state(ticket), self.core.counts().granted, due.as_nanos() > seen),
                &(Some(core::TicketState::Granted), 1, true),
            )?;
        }
        let alone = self.core.poll_only_grant();
        if let Some((ticket, due)) = alone {
            let timeout = self.core.poll_timeout().unwrap_or(due);
            same(
                "when the only grant is due",
                &(self.core.state(ticket), due, self.core.only_grant()),
                &(Some(core::TicketState::Granted), timeout, alone),
            )?;
        }
        let alone = alone.map(|(ticket, _)| core::Event::Granted(ticket));
        let mut ours: Vec<core::Event> =
            alone.into_iter().chain(std::iter::from_fn(|| self.core.poll_event())).collect();
        // The model tells by its lists who is forgotten.
        ours.retain(|event| !matches!(event, core::Event::Forgotten(_)));
        let mut theirs = Vec::new();
        for event in self.model.take_events() {
            theirs.push(match event {
                model::Event::Granted(ticket) => {
                    self.grants += 1;
                    core::Event::Granted(self.ticket(ticket))
                }
                model::Event::TakenBack(ticket) => {
                    self.take_backs += 1;
                    core::Event::TakenBack(self.ticket(ticket))
                }
                model::Event::Refused(ticket, why) => {
                    self.refusals += 1;
                    self.refused_at[ticket as usize] = seen;
                    core::Event::Refused(self.ticket(ticket), reason(why))
                }
            });
        }
        same("events", &ours, &theirs)?;
        let counts = self.model.counts();
        let counts = core::Counts { running: counts.running, granted: counts.granted, queued: counts.queued };
        same("counts", &self.core.counts(), &counts)?;
        let ours = self.core.poll_timeout().map(Instant::as_nanos);
        let theirs = self.model.poll_timeout();
        if self.alarm_is_exact {
            same("alarm", &ours, &theirs)?;
        } else if ours.unwrap_or(u64::MAX) > theirs.unwrap_or(u64::MAX) {
            return Err(format!("alarm: core {ours:?} is later than {theirs:?}"));
        }
        for scope in std::iter::once(None).chain((0..NAMES).map(Some)) {
            let ours = self.core.hand_off_time(scope_id(scope)).map_or(0, |time| time.as_nanos() as u64);
            same(&format!("hand-off time of {scope:?}"), &ours, &self.model.hand_off(scope))?;
        }
        for provider in 0..NAMES {
            let ours = self.core.not_before(ProviderId::new(provider)).as_nanos();
            same("not before", &ours, &self.model.not_before(provider))?;
        }
        // They cost as much as all the rest, so with many waiting only some calls are looked at.
        self.compared += 1;
        if self.core.counts().queued <= 3 || self.compared % 4 == 0 {
            self.compare_explanations()?;
        }
        self.compare_snapshots()
    }

    // rule O2
    fn compare_explanations(&self) -> Result<(), String> {
        let theirs = self.model.explain_queued();
        let waiting: Vec<TicketId> = theirs.iter().map(|told| self.ticket(told.ticket)).collect();
        same("those who wait", &self.core.queued_tickets(), &waiting)?;
        let in_flight = (0..self.tickets()).rev().take(16).filter(|&ticket| {
            let state = self.model.state(ticket);
            matches!(state, Some(model::State::Granted | model::State::Running))
        });
        for theirs in in_flight.filter_map(|ticket| self.model.explain(ticket)).chain(theirs) {
            let name = format!("explanation of {}", theirs.ticket);
            let ours = self.core.explain(self.ticket(theirs.ticket));
            let ours = ours.ok_or_else(|| format!("no {name}: {theirs:?}"))?;
            let waits = matches!(theirs.state, model::State::Queued { .. });
            if waits && ours.holds.is_empty() {
                return Err(format!("nothing holds {} back", theirs.ticket));
            }
            same(&name, &ours, &self.explanation(theirs, &ours))?;
        }
        Ok(())
    }

    /// The model's explanation as the core would tell it. (Its type can only be had from the core.)
    fn explanation(&self, theirs: model::Explanation, ours: &core::Explanation) -> core::Explanation {
        let instant = |at: Option<u64>| at.map(Instant::from_nanos);
        let mut told = ours.clone();
        told.at = Instant::from_nanos(self.seen());
        told.state = match theirs.state {
            model::State::Queued { passed_over: false } => core::TicketState::Queued,
            model::State::Queued { passed_over: true } => core::TicketState::PassedOver,
            model::State::Granted => core::TicketState::Granted,
            model::State::Running => core::TicketState::Running,
            model::State::Ended(_) => unreachable!("only those who are there are explained"),
        };
        told.provider = ProviderId::new(theirs.provider);
        told.key = theirs.key.map(Key);
        told.submitted = Instant::from_nanos(theirs.submitted);
        told.since = instant(theirs.since);
        told.deadline = instant(theirs.deadline);
        told.earliest = instant(theirs.earliest);
        // One too many or too few is told by the number of them.
        let mut blank = ours.holds.first().copied();
        told.holds.clear();
        for held in theirs.holds {
            let Some(one) = &mut blank else { break };
            one.hold = hold(held.hold);
            one.until = instant(held.until);
            one.by = held.by.map(|ticket| self.ticket(ticket));
            told.holds.push(*one);
        }
        told.key_holder = theirs.key_holder.and_then(|holder| self.key_holder(holder, ours.key_holder));
        told
    }

    fn key_holder(&self, theirs: model::KeyHolder, ours: Option<core::KeyHolder>) -> Option<core::KeyHolder> {
        let mut told = ours?;
        told.ticket = self.ticket(theirs.ticket);
        told.provider = ProviderId::new(theirs.provider);
        told.is_running = theirs.is_running;
        told.since = Instant::from_nanos(theirs.since);
        Some(told)
    }

    /// The model tells the wait from the call that refused, the core from the call that tells.
    fn same_refusal(
        &self,
        what: &str,
        ours: &core::Refusal,
        theirs: model::Refusal,
        elapsed: u64,
    ) -> Result<(), String> {
        let wait = theirs.retry_after.map(|wait| wait.saturating_sub(elapsed)).filter(|&wait| wait > 0);
        let mut told = core::Refusal::new(reason(theirs.reason));
        told.held_by = theirs.held_by.map(hold);
        told.retry_after = wait.map(Duration::from_nanos);
        told.limits_changed = theirs.limits_changed;
        told.key_holder = theirs.key_holder.and_then(|holder| self.key_holder(holder, ours.key_holder));
        same("whether a key's holder is known", &ours.key_holder.is_some(), &theirs.key_holder.is_some())?;
        same(what, ours, &told)
    }

    fn compare_snapshots(&self) -> Result<(), String> {
        let (ours, theirs) = (self.core.snapshot(), self.model.snapshot());
        let names: Vec<u32> = ours.providers.iter().map(|(id, _)| id.number()).collect();
        same("providers", &names, &self.model.providers())?;
        // What was removed may be over without having been forgotten: that takes a call.
        let is_removed = |name: &u32| self.core.presence(ProviderId::new(*name)) == core::Presence::Removed;
        let remembered: Vec<u32> = (0..NAMES).filter(is_removed).collect();
        let forgotten = |name: &u32| !remembered.contains(name);
        if let Some(name) = self.model.remembered().into_iter().find(forgotten) {
            return Err(format!("provider {name} was forgotten too early"));
        }
        let scopes = ours
            .providers
            .iter()
            .map(|(_, scope)| scope)
            .zip(theirs.providers.iter().map(|(_, scope)| scope));
        for (ours, theirs) in scopes.chain([(&ours.client, &theirs.client)]) {
            let counts = [ours.running, ours.granted, ours.queued];
            let counted = [theirs.counts.running, theirs.counts.granted, theirs.counts.queued];
            same("counts of a scope", &counts, &counted)?;
            let not_before = ours.not_before.map(Instant::as_nanos);
            same("not before", &not_before, &Some(theirs.not_before).filter(|&at| at > self.seen()))?;
            let pacers: Vec<[u64; 2]> = ours.pacers.iter().map(our_pacer).collect();
            let paced: Vec<[u64; 2]> =
                theirs.pacers.iter().map(|pacer| their_pacer(pacer, self.seen())).collect();
            same("pacers", &pacers, &paced)?;
            same("the next change in a scope", &ours.next.map(Instant::as_nanos), &theirs.next)?;
        }
        Ok(())
    }

    /// Lets everything go, and checks that nothing is left (rule W5).
    pub(crate) fn drain(&mut self, mut now: u64) -> Result<(), String> {
        for round in 0.. {
            if self.core.is_idle() {
                break;
            }
            if round > 10_000 {
                return Err(format!("stuck at {:?}", self.core.counts()));
            }
            for ticket in 0..self.tickets() {
                match self.model.state(ticket) {
                    Some(model::State::Queued { .. } | model::State::Granted) => {
                        self.call(&Call::Step(ticket), now)?;
                    }
                    Some(model::State::Running | model::State::Ended(_)) => {
                        self.call(&Call::Release(ticket), now)?;
                    }
                    None => {}
                }
            }
            match self.model.poll_timeout() {
                Some(at) => now = now.max(at),
                None => now = now.saturating_add(MS),
            }
            self.call(&Call::Timeout, now)?;
            if self.model.poll_timeout().is_none() && self.model.counts().running == 0 {
                // What is left can never go: an instant that never comes.
                for ticket in 0..self.tickets() {
                    self.call(&Call::Release(ticket), now)?;
                }
            }
        }
        same("at the end", &self.core.counts(), &core::Counts::default())?;
        same("the last alarm", &self.core.poll_timeout(), &None)
    }

    fn seen(&self) -> u64 {
        self.model.now()
    }

    fn ticket(&self, number: u64) -> TicketId {
        self.tickets[number as usize]
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, core: &T, model: &T) -> Result<(), String> {
    if core == model { Ok(()) } else { Err(format!("{what}: core {core:?}, model {model:?}")) }
}

/// What is spent and left in a log; when the next start can be by an interval, and nothing.
fn our_pacer(pacer: &core::PacerSnapshot) -> [u64; 2] {
    match *pacer {
        core::PacerSnapshot::Interval { next, .. } => [next.map_or(0, Instant::as_nanos), 0],
        core::PacerSnapshot::Log { spent, left, .. } => [u64::try_from(spent).unwrap_or(u64::MAX), left],
        _ => unreachable!("there are two kinds"),
    }
}

fn their_pacer(pacer: &model::PacerView, now: u64) -> [u64; 2] {
    match *pacer {
        model::PacerView::Interval { next } => [if next > now { next } else { 0 }, 0],
        model::PacerView::Log { spent, left } => [spent, left],
    }
}

fn change(outcome: Result<(), core::ChangeError>) -> Result<(), model::Change> {
    outcome.map_err(|error| match error {
        core::ChangeError::UnknownProvider => model::Change::UnknownProvider,
        core::ChangeError::ProviderExists => model::Change::ProviderExists,
        core::ChangeError::Limits(_) => model::Change::InvalidLimits,
        core::ChangeError::UnknownUnit => model::Change::UnknownUnit,
        core::ChangeError::NotRunning => model::Change::NotRunning,
        core::ChangeError::Requests => model::Change::Requests,
        _ => unreachable!("there are six kinds"),
    })
}

fn scope_id(scope: Option<u32>) -> ScopeId {
    scope.map_or(ScopeId::Client, |provider| ScopeId::Provider(ProviderId::new(provider)))
}

fn side(side: model::Side) -> core::Side {
    match side {
        model::Side::Client => core::Side::Client,
        model::Side::Provider => core::Side::Provider,
    }
}

fn hold(hold: model::Hold) -> core::Hold {
    match hold {
        model::Hold::Concurrency(of) => core::Hold::Concurrency(side(of)),
        model::Hold::HandOff(of) => core::Hold::HandOff(side(of)),
        model::Hold::Cooldown => core::Hold::Cooldown,
        model::Hold::Interval(of, pacer) => core::Hold::Interval(side(of), pacer),
        model::Hold::Log(of, pacer) => core::Hold::Log(side(of), pacer),
        model::Hold::Key => core::Hold::Key,
        model::Hold::Order => core::Hold::Order,
        model::Hold::Unpolled => core::Hold::Unpolled,
    }
}

fn reason(reason: model::Reason) -> core::Reason {
    match reason {
        model::Reason::Aborted => core::Reason::Aborted,
        model::Reason::Closed => core::Reason::Closed,
        model::Reason::UnknownProvider => core::Reason::UnknownProvider,
        model::Reason::Removed => core::Reason::Removed,
        model::Reason::UnknownUnit => core::Reason::UnknownUnit,
        model::Reason::ImpossibleCost => core::Reason::ImpossibleCost,
        model::Reason::Exhausted => core::Reason::Exhausted,
        model::Reason::MaxWait => core::Reason::MaxWait,
        model::Reason::Overflow => core::Reason::Overflow,
        model::Reason::AdmissionTimeout => core::Reason::AdmissionTimeout,
    }
}

fn core_config(config: &model::Config) -> core::Config {
    let mut ours = core::Config::new();
    ours.max_queued = config.max_queued;
    ours.hand_off = Duration::from_nanos(config.hand_off);
    ours.max_wait = config.max_wait.map(Duration::from_nanos);
    ours.units = config.units;
    ours.client = core_limits(&config.client);
    ours.providers = config.providers.iter().map(core_limits).collect();
    ours.template = config.template.as_ref().map(core_limits);
    ours
}

fn core_limits(limits: &model::Limits) -> core::Limits {
    let mut ours = core::Limits::new();
    ours.max_concurrent = limits.max_concurrent;
    for pacer in &limits.pacers {
        ours = ours.pacer(match *pacer {
            model::Pacer::Interval { interval, margin } => core::Pacer::Interval(
                core::Interval::new(Duration::from_nanos(interval)).margin(Duration::from_nanos(margin)),
            ),
            model::Pacer::Log { unit, limit, window, margin, until_settled } => {
                let log = core::Log::new(limit, Duration::from_nanos(window))
                    .unit(UnitId::new(unit))
                    .margin(Duration::from_nanos(margin));
                core::Pacer::Log(if until_settled { log.until_settled() } else { log })
            }
        });
    }
    ours
}
