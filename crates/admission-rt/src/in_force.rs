//! The limits as they are now, to describe refusals by.
//!
//! Owns: a copy of what the machine was given, swapped in the very turn that changes it, so that what
//! a refusal names by number is found by that number. Lacks any say: nothing is decided by it but whether a turn
//! can do without the time.
//!
//! Nothing is kept for a provider that has the template's limits, so a provider that is forgotten
//! leaves nothing here either: it has those, or was removed.

use std::collections::HashMap;
use std::sync::Arc;

use admission_core::{Config, Instant, Limits, Pacer, ProviderId, Refusal, ScopeId, Side};

pub(crate) struct InForce {
    client: Arc<Limits>,
    template: Option<Arc<Limits>>,
    /// Never walked.
    own: HashMap<ProviderId, Arc<Limits>>,
    /// Whether there has ever been an interval, a window, or a template.
    count_time: bool,
}

/// A refusal, when it was told, and the limits of its two scopes then.
pub(crate) struct Told {
    pub(crate) refusal: Refusal,
    pub(crate) at: Instant,
    pub(crate) limits: OfScopes,
}

/// The limits of a call's two scopes at one moment.
#[derive(Clone, Default)]
pub(crate) struct OfScopes {
    client: Option<Arc<Limits>>,
    provider: Option<Arc<Limits>>,
}

impl InForce {
    pub(crate) fn new(config: &Config) -> Self {
        let own = (0..).zip(&config.providers);
        let has_pacer = |limits: &Limits| !limits.pacers.is_empty();
        Self {
            client: Arc::new(config.client.clone()),
            template: config.template.clone().map(Arc::new),
            own: own.map(|(id, limits)| (ProviderId::new(id), Arc::new(limits.clone()))).collect(),
            count_time: config.template.is_some()
                || has_pacer(&config.client)
                || config.providers.iter().any(has_pacer),
        }
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
        self.own.get(&provider).or(self.template.as_ref())
    }

    /// Those of a call's two scopes.
    pub(crate) fn of_scopes(&self, provider: ProviderId) -> OfScopes {
        OfScopes { client: Some(self.client.clone()), provider: self.of(provider).cloned() }
    }

    pub(crate) fn told(&self, refusal: Refusal, provider: ProviderId, at: Instant) -> Told {
        match refusal.held_by {
            None => Told::alone(refusal),
            Some(_) => Told { refusal, at, limits: self.of_scopes(provider) },
        }
    }

    /// The machine has got other limits for a scope; what is no longer used is given back.
    pub(crate) fn set(&mut self, scope: ScopeId, limits: Arc<Limits>) -> Option<Arc<Limits>> {
        self.count_time |= !limits.pacers.is_empty();
        match scope {
            ScopeId::Client => Some(std::mem::replace(&mut self.client, limits)),
            ScopeId::Provider(id) if self.template.as_ref() == Some(&limits) => {
                self.remove(id);
                Some(limits)
            }
            ScopeId::Provider(id) => self.own.insert(id, limits),
        }
    }

    /// A provider was removed.
    pub(crate) fn remove(&mut self, provider: ProviderId) -> Option<Arc<Limits>> {
        let old = self.own.remove(&provider);
        if self.own.capacity() > crate::guests::KEPT && self.own.len() < self.own.capacity() / 8 {
            self.own.shrink_to(self.own.len() * 2);
        }
        old
    }
}

impl Told {
    /// A refusal that no limit has to do with.
    pub(crate) const fn alone(refusal: Refusal) -> Self {
        Self { refusal, at: Instant::ZERO, limits: OfScopes { client: None, provider: None } }
    }
}

impl OfScopes {
    pub(crate) fn of(&self, side: Side) -> Option<&Limits> {
        match side {
            Side::Client => self.client.as_deref(),
            Side::Provider => self.provider.as_deref(),
        }
    }

    pub(crate) fn pacer(&self, side: Side, n: u16) -> Option<Pacer> {
        self.of(side)?.pacers.get(usize::from(n)).copied()
    }
}
