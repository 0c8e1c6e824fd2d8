//! The limits as they are now, to describe refusals by.
//!
//! Owns: a copy of what the machine was given, swapped in the very turn that changes it, so that what
//! a refusal names by number is found by that number. Lacks any say: nothing is decided by it but whether a turn
//! can do without the time, and whether the machine need hear of an end at once.
//!
//! Nothing is kept for a provider that has the template's limits, so a provider that is forgotten
//! leaves nothing here either: it has those, or was removed.

use std::collections::HashMap;
use std::sync::Arc;

use admission_core::{Config, CountsFrom, Hold, Instant, Limits, Pacer, ProviderId, Refusal, ScopeId, Side};

pub(crate) struct InForce {
    client: Arc<Limits>,
    template: Option<Arc<Limits>>,
    /// Of the providers that the configuration has, by their numbers, as long as they are here.
    configured: Vec<Option<Arc<Limits>>>,
    /// Of others. Never walked.
    others: HashMap<ProviderId, Arc<Limits>>,
    /// Whether there has ever been an interval, a window, or a template.
    count_time: bool,
    /// Whether there has ever been a window that counts from the end of calls.
    await_ends: bool,
    /// Whether calls may cost anything but one request.
    have_costs: bool,
}

/// A refusal, when it was told, and the limits of the scope then that held the call back.
pub(crate) struct Told {
    pub(crate) refusal: Refusal,
    pub(crate) at: Instant,
    pub(crate) limits: Option<Arc<Limits>>,
}

/// The limits of a call's two scopes at one moment.
pub(crate) struct OfScopes {
    client: Arc<Limits>,
    provider: Option<Arc<Limits>>,
}

impl InForce {
    pub(crate) fn new(config: &Config) -> Self {
        let configured = config.providers.iter().map(|limits| Some(Arc::new(limits.clone())));
        let all = || std::iter::once(&config.client).chain(&config.template).chain(&config.providers);
        Self {
            client: Arc::new(config.client.clone()),
            template: config.template.clone().map(Arc::new),
            configured: configured.collect(),
            others: HashMap::new(),
            count_time: config.template.is_some() || all().any(|limits| !limits.pacers.is_empty()),
            await_ends: all().any(awaits_ends),
            have_costs: config.units > 1,
        }
    }

    /// Whether the instant at which a call ends may matter. Once it may this stays so.
    #[inline]
    pub(crate) const fn await_ends(&self) -> bool {
        self.await_ends
    }

    /// Whether calls may cost anything but one request.
    #[inline]
    pub(crate) const fn have_costs(&self) -> bool {
        self.have_costs
    }

    /// Whether time may change what any limit lets go, or which providers there are. Once it may this stays
    /// so: what a removed provider, or an interval that is gone, has left behind is the machine's to know.
    #[inline]
    pub(crate) const fn count_time(&self) -> bool {
        self.count_time
    }

    pub(crate) const fn client(&self) -> &Arc<Limits> {
        &self.client
    }

    /// The limits that a provider has, or would have if it were made now.
    pub(crate) fn of(&self, provider: ProviderId) -> Option<&Arc<Limits>> {
        let own = match self.configured.get(provider.number() as usize) {
            Some(own) => own.as_ref(),
            None => self.others.get(&provider),
        };
        own.or(self.template.as_ref())
    }

    /// Those of a call's two scopes.
    pub(crate) fn of_scopes(&self, provider: ProviderId) -> OfScopes {
        OfScopes { client: self.client.clone(), provider: self.of(provider).cloned() }
    }

    /// Those of which one held back a call to `provider`, unless they are not any more what they were.
    #[inline(always)]
    pub(crate) fn of_refusal(&self, refusal: &Refusal, provider: ProviderId) -> Option<&Arc<Limits>> {
        match refusal.held_by?.limit_of()? {
            _ if refusal.limits_changed => None,
            Side::Client => Some(&self.client),
            Side::Provider => self.of(provider),
        }
    }

    pub(crate) fn told(&self, refusal: Refusal, provider: ProviderId, at: Instant) -> Told {
        let limits = self.of_refusal(&refusal, provider).cloned();
        Told { refusal, at, limits }
    }

    /// The machine has got other limits for a scope; what is no longer used is given back.
    pub(crate) fn set(&mut self, scope: ScopeId, limits: Arc<Limits>) -> Option<Arc<Limits>> {
        self.count_time |= !limits.pacers.is_empty();
        self.await_ends |= awaits_ends(&limits);
        match scope {
            ScopeId::Client => Some(std::mem::replace(&mut self.client, limits)),
            ScopeId::Provider(id) if self.template.as_ref() == Some(&limits) => {
                self.remove(id);
                Some(limits)
            }
            ScopeId::Provider(id) => match self.configured.get_mut(id.number() as usize) {
                Some(own) => own.replace(limits),
                None => self.others.insert(id, limits),
            },
        }
    }

    /// A provider was removed, or has the template's limits again.
    pub(crate) fn remove(&mut self, provider: ProviderId) -> Option<Arc<Limits>> {
        if let Some(own) = self.configured.get_mut(provider.number() as usize) {
            return own.take();
        }
        let old = self.others.remove(&provider);
        if self.others.capacity() > crate::guests::KEPT && self.others.len() < self.others.capacity() / 8 {
            self.others.shrink_to(self.others.len() * 2);
        }
        old
    }
}

/// Whether one of the windows counts from the end of calls.
fn awaits_ends(limits: &Limits) -> bool {
    let settles = |pacer: &Pacer| matches!(pacer, Pacer::Log(log) if log.counts == CountsFrom::Settled);
    limits.pacers.iter().any(settles)
}

impl Told {
    /// A refusal that no limit has to do with.
    pub(crate) const fn alone(refusal: Refusal) -> Self {
        Self { refusal, at: Instant::ZERO, limits: None }
    }
}

impl OfScopes {
    /// Those of which one holds a call back.
    pub(crate) fn of(&self, hold: Hold) -> Option<&Limits> {
        match hold.limit_of()? {
            Side::Client => Some(&self.client),
            Side::Provider => self.provider.as_deref(),
        }
    }
}
