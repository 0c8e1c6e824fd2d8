//! A coordinator that changes while it runs: limits, costs, and who the providers are.
//!
//! Owns the calls of L7, L8 and L10, and the forgetting of what is idle. What a pacer takes over
//! when limits change is in `scope.rs`. A call that is an error lets time pass and changes nothing.

use crate::estimate::flat;
use crate::model::Model;
use crate::scope::{Provider, Scope};
use crate::ticket::Record;
use crate::types::{Change, Limits, Pacer, Reason, Ticket};

// The calls.
impl Model {
    /// Changes the limits of a scope (`None`: the client); an unknown name is made on demand first.
    // rule L7
    pub fn set_limits(&mut self, scope: Option<u32>, limits: &Limits, now: u64) -> Result<(), Change> {
        self.begin(now);
        let answer = self.change_limits(scope, limits);
        self.finish(None);
        answer
    }

    /// Changes how many tickets may wait.
    // rule L7: lowering it rejects nobody who waits
    pub fn set_max_queued(&mut self, max_queued: u32, now: u64) {
        self.begin(now);
        self.max_queued = max_queued;
        self.finish(None);
    }

    /// Adds a provider; one that was removed takes up what is still kept of it.
    // rule L10
    pub fn add_provider(&mut self, name: u32, limits: &Limits, now: u64) -> Result<(), Change> {
        self.begin(now);
        let answer = if self.has_scope(Some(name)) {
            Err(Change::ProviderExists)
        } else if !self.is_in_order(limits) {
            Err(Change::InvalidLimits)
        } else {
            self.put(name, limits, false);
            Ok(())
        };
        self.finish(None);
        answer
    }

    /// Removes a provider.
    // rule L10
    pub fn remove_provider(&mut self, name: u32, now: u64) -> Result<(), Change> {
        self.begin(now);
        let answer = if self.has_scope(Some(name)) {
            self.take_away(name);
            Ok(())
        } else {
            Err(Change::UnknownProvider)
        };
        self.finish(None);
        answer
    }

    /// Corrects what a running ticket costs in a unit; queued tickets are looked at again, and no
    /// grant is taken back.
    // rule L8
    pub fn settle_cost(&mut self, ticket: Ticket, unit: u16, cost: u64, now: u64) -> Result<(), Change> {
        self.begin(now);
        let answer = self.correct(ticket, unit, cost);
        self.finish(None);
        answer
    }

    /// The providers that are there, by name.
    // rule L10
    pub fn providers(&self) -> Vec<u32> {
        let there = self.providers.iter().filter(|one| !one.is_removed);
        sorted(there.map(|one| one.name).collect())
    }

    /// The removed names of which something is still kept.
    // rule L10
    pub fn remembered(&self) -> Vec<u32> {
        let removed = self.providers.iter().filter(|one| one.is_removed && !self.is_idle(one));
        sorted(removed.map(|one| one.name).collect())
    }
}

// What happens in them.
impl Model {
    // rules L7, L10
    fn change_limits(&mut self, scope: Option<u32>, limits: &Limits) -> Result<(), Change> {
        if scope.is_some_and(|name| !self.can_demand(name)) {
            return Err(Change::UnknownProvider);
        }
        if !self.is_in_order(limits) {
            return Err(Change::InvalidLimits);
        }
        if let Some(name) = scope.filter(|&name| !self.revive(name)) {
            self.demand(name);
        }
        let now = self.now;
        self.scope_mut(scope).change(limits, now);
        // rule L7: so that no start breaks the new limit
        self.take_back_grants(scope);
        // rule L7: what can no longer fit
        for ticket in self.which(|record| record.is_queued() && record.is_in(scope)) {
            self.refuse_if_impossible(ticket);
        }
        Ok(())
    }

    /// Whether limits may be put in force.
    // rule L1: live too
    fn is_in_order(&self, limits: &Limits) -> bool {
        let pacer_is = |pacer: &Pacer| match *pacer {
            Pacer::Interval { interval, .. } => interval > 0,
            Pacer::Log { unit, limit, .. } => limit > 0 && unit < self.units,
        };
        limits.max_concurrent != Some(0) && limits.pacers.iter().all(pacer_is)
    }

    // rule L8: while the permit is held, for any unit but requests, from a cost of 0 too
    fn correct(&mut self, ticket: Ticket, unit: u16, cost: u64) -> Result<(), Change> {
        let units = self.units;
        let Some(record) = self.find_mut(ticket).filter(|record| record.is_running()) else {
            return Err(Change::NotRunning);
        };
        if unit == 0 {
            return Err(Change::Requests);
        }
        if unit >= units {
            return Err(Change::UnknownUnit);
        }
        record.costs[usize::from(unit)] = cost;
        self.tell_pacers(ticket, |pacer, record| pacer.correct(record));
        Ok(())
    }

    /// Whether a provider is there, or can be made.
    // rule L10; rule D5: closed comes first, so that a closed coordinator makes nothing
    pub(crate) fn can_demand(&self, name: u32) -> bool {
        self.has_scope(Some(name)) || (self.template.is_some() && !self.closed)
    }

    /// Makes a provider from the template if it is not there; false if it cannot be made.
    // rule L10: a removed name is made again too
    pub(crate) fn demand(&mut self, name: u32) -> bool {
        if !self.can_demand(name) {
            return false;
        }
        if !self.has_scope(Some(name)) {
            let limits = self.template.clone().unwrap_or_default();
            self.put(name, &limits, true);
        }
        true
    }

    /// A removed provider is there again, with all that is kept of it; false if there is none.
    // rules L10, L7: what is kept takes the new limits, and does not pass through the template's
    fn revive(&mut self, name: u32) -> bool {
        let full = self.full_hand_off;
        let Some(kept) = self.providers.iter_mut().find(|one| one.name == name && one.is_removed) else {
            return false;
        };
        kept.is_removed = false;
        kept.is_from_template = true;
        kept.scope.hand_off = full;
        true
    }

    /// A provider is there from now on, with what is still kept of that name; the hand-off time is full.
    // rules L10, L7
    fn put(&mut self, name: u32, limits: &Limits, is_from_template: bool) {
        let (full, now) = (self.full_hand_off, self.now);
        match self.providers.iter_mut().find(|one| one.name == name) {
            Some(kept) => {
                kept.is_removed = false;
                kept.is_from_template = is_from_template;
                kept.scope.change(limits, now);
                kept.scope.hand_off = full;
            }
            None => {
                let scope = Scope::new(limits, full);
                self.providers.push(Provider { name, is_removed: false, is_from_template, scope });
            }
        }
    }

    /// Refuses what of a provider has not started; what runs goes on, and all else is kept.
    // rule L10: grants give everything back, budget included
    fn take_away(&mut self, name: u32) {
        // rule D5: closed is told before removed
        let reason = if self.closed { Reason::Closed } else { Reason::Removed };
        let waits = |record: &Record| record.is_queued() || record.is_granted();
        for ticket in self.which(|record| waits(record) && record.is_in(Some(name))) {
            self.end(ticket, flat(reason));
        }
        for provider in self.providers.iter_mut().filter(|one| one.name == name) {
            provider.is_removed = true;
        }
    }

    /// Forgets the providers made from the template that are idle, and what was kept of the
    /// removed ones once all of it is over.
    // rule L10: in the first call, once time has passed, that finds it so
    pub(crate) fn forget_idle(&mut self) {
        let mut idle = Vec::new();
        for provider in &self.providers {
            let may_go = provider.is_removed || self.is_the_templates(provider);
            if may_go && self.is_idle(provider) {
                idle.push(provider.name);
            }
        }
        self.providers.retain(|one| !idle.contains(&one.name));
    }

    /// Whether a provider was made from the template and its limits are still the template's.
    // rule L10
    fn is_the_templates(&self, provider: &Provider) -> bool {
        provider.is_from_template && self.template == Some(provider.scope.limits())
    }

    /// Whether nothing of a provider waits, is granted or runs, and nothing that it remembers matters.
    // rule L10
    fn is_idle(&self, provider: &Provider) -> bool {
        let is_its = |record: &Record| record.is_in(Some(provider.name));
        let is_live = |record: &Record| record.is_queued() || record.is_active();
        !self.tickets.iter().any(|record| is_its(record) && is_live(record))
            && provider.scope.is_over(self.now)
    }
}

fn sorted(mut names: Vec<u32>) -> Vec<u32> {
    names.sort_unstable();
    names
}
