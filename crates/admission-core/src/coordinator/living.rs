//! A coordinator that changes while it runs (rules L7, L8, L10): other limits, other providers, other costs.
//!
//! Owns: what a change does to those who wait and to what was granted. Lacks the forgetting of providers,
//! which time does, and any judgement: whoever may go after a change is found like after any other call.

use super::Coordinator;
use super::ends::impossible;
use super::take_back::TakenBack;
use crate::providers::Standing;
use crate::queue::State;
use crate::{Instant, Limits, LimitsError, ProviderId, Reason, ScopeId, Side, TicketId, UnitId};

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

impl Coordinator {
    /// Changes the limits of one scope while tickets wait and calls run (rule L7).
    ///
    /// Nothing that runs is touched and nothing that a window has logged is forgotten; grants that
    /// have not started are taken back, queued tickets that can no longer fit are refused, and who
    /// may go now is granted.
    ///
    /// A pacer keeps what it knows if its kind and unit stay; of several alike the n-th takes over from the
    /// n-th. An interval goes on from its last start, and a log from what was inside its window at this
    /// call: one that grows does not get back what had left it. One that was not there before (a first
    /// interval or log of a unit, or one more of them) knows nothing of earlier starts, nor of calls that run;
    /// nor does one that comes back later. Concurrency counts all that run, whenever they started.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says what is wrong with the limits, or that there is no such provider; then
    /// nothing changes.
    ///
    /// # Cost
    ///
    /// O(tickets), and memory for the new pacers.
    pub fn set_limits(&mut self, scope: ScopeId, limits: &Limits, now: Instant) -> Result<(), ChangeError> {
        let now = self.pass_time(now);
        let outcome = self.change_limits(scope, limits, now);
        self.conclude(now);
        outcome
    }

    /// Changes how many tickets may wait (rule L7). Lowering it refuses nobody who waits.
    pub fn set_max_queued(&mut self, max_queued: u32, now: Instant) {
        let now = self.pass_time(now);
        self.max_queued = max_queued;
        self.conclude(now);
    }

    /// Adds a provider (rule L10). One that was removed and is still remembered goes on with what is
    /// left of it.
    ///
    /// # Errors
    ///
    /// [`ChangeError::ProviderExists`], or what is wrong with the limits; then nothing changes.
    pub fn add_provider(
        &mut self,
        provider: ProviderId,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let now = self.pass_time(now);
        let outcome = if self.find(provider).is_some() {
            Err(ChangeError::ProviderExists)
        } else {
            limits
                .check(self.units())
                .map_err(ChangeError::Limits)
                .and_then(|()| self.put_provider(provider, Standing::Kept, limits, now))
                .map(|_| ())
        };
        self.conclude(now);
        outcome
    }

    /// Removes a provider (rule L10). Its queued tickets and its grants that have not started end as
    /// removed, and cost nothing; its running calls go on. What it remembers stays until it is over.
    ///
    /// # Errors
    ///
    /// [`ChangeError::UnknownProvider`], and nothing changes.
    ///
    /// # Cost
    ///
    /// O(tickets).
    pub fn remove_provider(&mut self, provider: ProviderId, now: Instant) -> Result<(), ChangeError> {
        let now = self.pass_time(now);
        let found = self.find(provider);
        if let Some(place) = found {
            self.providers.set_standing(place, Standing::Removed);
            self.queue.mark_fleeting(place);
            let oldest = self.oldest_start(Some(place));
            self.providers[place].forget_turns(oldest);
            let queue = &self.queue;
            self.batch.extend(queue.slots().filter(|&index| {
                let slot = queue.slot(index);
                slot.provider == provider.0 && (slot.state.is_queued() || slot.state == State::Granted)
            }));
            self.queue.sort(&mut self.batch);
            // From the tail, so that nobody moves up only to be refused too.
            for entry in (0..self.batch.len()).rev() {
                let index = self.batch[entry];
                if self.queue.slot(index).state == State::Granted {
                    self.give_back(index, now);
                    self.queue.finish(index);
                } else {
                    self.queue.leave(index);
                }
            }
            for entry in 0..self.batch.len() {
                let reason = if self.is_closed { Reason::Closed } else { Reason::Removed };
                self.end(self.batch[entry], reason, None, now);
            }
            self.batch.clear();
        }
        self.conclude(now);
        found.map(|_| ()).ok_or(ChangeError::UnknownProvider)
    }

    /// Corrects what a running call costs in one unit (rule L8): an estimate of 1,000 tokens turned
    /// out to be 350, or 4,000. As often as one likes while the call runs. What a log has of it is
    /// changed while it is still in the window, and who waits is looked at again; no grant is taken
    /// back.
    ///
    /// # Errors
    ///
    /// [`ChangeError::NotRunning`], [`ChangeError::UnknownUnit`], or [`ChangeError::Requests`], of
    /// which a call always costs 1; then nothing changes.
    ///
    /// # Cost
    ///
    /// O(starts since, in the window).
    pub fn settle_cost(
        &mut self,
        ticket: TicketId,
        unit: UnitId,
        cost: u64,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let now = self.pass_time(now);
        let outcome = self.correct(ticket, unit, cost, now);
        self.conclude(now);
        outcome
    }

    /// Like `find_or_make`, for one whose limits are about to change: what is remembered of a removed one goes on
    /// with those, and does not pass through the template's, which may lack a pacer.
    fn find_or_revive(&mut self, provider: ProviderId, now: Instant) -> Result<u32, ChangeError> {
        match self.find_remembered(provider) {
            Some(place) if self.providers.standing(place) == Standing::Removed => {
                self.providers.set_standing(place, Standing::Made);
                self.providers[place].halvings = 0;
                Ok(place)
            }
            _ => self.find_or_make(provider, now),
        }
    }

    /// A provider that is not here comes, with what is remembered of it.
    pub(super) fn put_provider(
        &mut self,
        provider: ProviderId,
        standing: Standing,
        limits: &Limits,
        now: Instant,
    ) -> Result<u32, ChangeError> {
        let place = if let Some(place) = self.find_remembered(provider) {
            // It has no grants, and no look at all tickets to find its oldest call is worth its while: the
            // next removal is one anyway.
            self.providers[place].adapt(limits, 0, self.starts, now).map_err(ChangeError::Limits)?;
            self.providers.set_standing(place, standing);
            self.providers[place].halvings = 0;
            place
        } else {
            let gone = self.queue.place_of(provider.0).filter(|&place| self.providers.is_gone(place));
            if let Some(place) = gone {
                self.forget(place);
            }
            let next_start = self.starts;
            let inserted = self.providers.insert(provider.0, standing, limits, next_start);
            let place = inserted.map_err(ChangeError::Limits)?;
            if !self.providers.is_configured(place) {
                self.queue.add_provider(provider.0);
            }
            place
        };
        self.queue.mark_fleeting(place);
        Ok(place)
    }

    fn change_limits(&mut self, scope: ScopeId, limits: &Limits, now: Instant) -> Result<(), ChangeError> {
        if let ScopeId::Provider(provider) = scope {
            if !self.can_have(provider) {
                return Err(ChangeError::UnknownProvider);
            }
        }
        limits.check(self.units()).map_err(ChangeError::Limits)?;
        let place = match scope {
            ScopeId::Client => None,
            ScopeId::Provider(provider) => Some(self.find_or_revive(provider, now)?),
        };
        self.adapt(place, limits, now)?;
        if let Some(place) = place {
            if matches!(self.providers.standing(place), Standing::Made | Standing::Changed) {
                let is_as_made = self.providers.template.as_ref() == Some(limits);
                let standing = if is_as_made { Standing::Made } else { Standing::Changed };
                self.providers.set_standing(place, standing);
            }
            self.queue.mark_fleeting(place);
        }
        // So that no start breaks the new limits.
        self.take_back_grants(place, TakenBack::ByLimits, now);
        // Who can no longer fit is told so (rule L6).
        let number = self.number_of(place);
        let queue = &self.queue;
        self.batch.extend(queue.slots().filter(|&index| {
            let slot = queue.slot(index);
            slot.state.is_queued() && number.is_none_or(|number| number == slot.provider)
        }));
        self.queue.sort(&mut self.batch);
        for entry in 0..self.batch.len() {
            self.end_if_impossible(self.batch[entry], now);
        }
        self.batch.clear();
        Ok(())
    }

    /// Ends a waiting ticket that costs more than a log ever allows; says whether it does.
    pub(super) fn end_if_impossible(&mut self, index: u32, now: Instant) -> bool {
        let scope = &self.providers[self.queue.place(index)];
        let hold = impossible(&self.client, Side::Client, self.queue.ask(index))
            .or_else(|| impossible(scope, Side::Provider, self.queue.ask(index)));
        if hold.is_some() {
            self.queue.leave(index);
            self.end(index, Reason::ImpossibleCost, hold, now);
        }
        hold.is_some()
    }

    /// The number of the oldest start of a scope that still runs.
    fn oldest_start(&self, place: Option<u32>) -> u64 {
        let number = self.number_of(place);
        let its_running = self.queue.slots().map(|index| self.queue.slot(index)).filter(|slot| {
            slot.state == State::Running && number.is_none_or(|number| number == slot.provider)
        });
        its_running.map(|slot| slot.start_number()).min().unwrap_or(self.starts)
    }

    /// Gives a scope other limits.
    pub(super) fn adapt(
        &mut self,
        place: Option<u32>,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let oldest = self.oldest_start(place);
        let number = self.number_of(place);
        let queue = &self.queue;
        let is_granted = |&index: &u32| {
            let slot = queue.slot(index);
            slot.state == State::Granted && number.is_none_or(|number| number == slot.provider)
        };
        let scope = match place {
            None => &mut self.client,
            Some(place) => &mut self.providers[place],
        };
        scope.adapt(limits, oldest, self.starts, now).map_err(ChangeError::Limits)?;
        for index in queue.slots().filter(is_granted) {
            scope.hold(queue.ask(index), now);
        }
        Ok(())
    }

    pub(super) fn correct(
        &mut self,
        ticket: TicketId,
        unit: UnitId,
        cost: u64,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let found = self.queue.find(ticket).filter(|&index| self.queue.slot(index).state == State::Running);
        let Some(index) = found else { return Err(ChangeError::NotRunning) };
        if unit == UnitId::REQUESTS {
            return Err(ChangeError::Requests);
        }
        if unit.0 >= self.units() {
            return Err(ChangeError::UnknownUnit);
        }
        let slot = *self.queue.slot(index);
        let (number, logged) = (slot.start_number(), slot.logged());
        self.client.correct(self.queue.ask(index), unit, cost, number, logged, now);
        let place = self.queue.place(index);
        let scope = &mut self.providers[place];
        scope.correct(self.queue.ask(index), unit, cost, number, logged, now);
        self.queue.correct_cost(index, unit, cost);
        self.queue.mark_changed(place);
        Ok(())
    }
}
