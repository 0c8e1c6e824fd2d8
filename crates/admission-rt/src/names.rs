//! Words for the machine's numbers.
//!
//! Owns: the names of providers and units, and a copy of the limits to describe them by. Never
//! changes after the build, so it needs no lock.

use std::collections::HashMap;
use std::sync::Arc;

use admission_core::{
    Config, ConfigError, Hold, Limits, Pacer, ProviderId, Reason, Refusal, ScopeId, Side, UnitId,
};

use crate::rejected::REQUESTS;
use crate::{BuildError, Limit, LimitKind, Rejected, Scope};

pub(crate) struct Names {
    providers: Vec<(Arc<str>, Limits)>,
    by_name: HashMap<Arc<str>, ProviderId>,
    client: Limits,
    units: Vec<Arc<str>>,
}

impl Names {
    /// The names of what is in `config`, in its order; of the units the first is requests.
    pub(crate) fn new(config: &Config, providers: Vec<Arc<str>>, units: Vec<Arc<str>>) -> Self {
        let by_name = providers.iter().zip(0..).map(|(name, id)| (name.clone(), ProviderId::new(id)));
        Self {
            by_name: by_name.collect(),
            providers: providers.into_iter().zip(config.providers.iter().cloned()).collect(),
            client: config.client.clone(),
            units,
        }
    }

    pub(crate) fn provider(&self, name: &str) -> Option<ProviderId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn provider_name(&self, id: ProviderId) -> &str {
        self.providers.get(id.index()).map_or("?", |(name, _)| name)
    }

    /// A unit in which a cost can be stated.
    pub(crate) fn unit(&self, name: &str) -> Option<UnitId> {
        // Units are few, and a comparison of short texts beats hashing them.
        let index = self.units.iter().skip(1).position(|unit| **unit == *name)?;
        u16::try_from(index + 1).ok().map(UnitId::new)
    }

    /// The refusal of a call to `provider`, in words. A reason to abort is not known here.
    pub(crate) fn rejected(
        &self,
        refusal: Refusal,
        provider: ProviderId,
        costs: &[(UnitId, u64)],
        unknown_unit: Option<&Arc<str>>,
    ) -> Rejected {
        let Refusal { reason, held_by, retry_after } = refusal;
        let limit = held_by.map(|hold| self.limit(hold, provider));
        match reason {
            Reason::Aborted => Rejected::Aborted(crate::AbortReason::Requested),
            Reason::UnknownUnit => {
                Rejected::UnknownUnit(unknown_unit.cloned().unwrap_or_else(|| REQUESTS.into()))
            }
            Reason::ImpossibleCost => match (held_by.and_then(|hold| self.log(hold, provider)), limit) {
                (Some((unit, allowed)), Some(limit)) => {
                    let stated = costs.iter().find(|(of, _)| *of == unit).map(|(_, cost)| *cost);
                    let cost = stated.unwrap_or(u64::from(unit == UnitId::REQUESTS));
                    Rejected::ImpossibleCost { limit, cost, allowed }
                }
                _ => Rejected::Closed,
            },
            Reason::Exhausted => Rejected::Exhausted { held_by: limit, retry_after },
            Reason::MaxWait => Rejected::MaxWait { held_by: limit, retry_after },
            Reason::Overflow => Rejected::Overflow { held_by: limit, retry_after },
            Reason::AdmissionTimeout => Rejected::AdmissionTimeout { held_by: limit, retry_after },
            // Handles exist of known providers only, so `UnknownProvider` does not come here.
            _ => Rejected::Closed,
        }
    }

    /// What is wrong with a configuration, in words.
    pub(crate) fn wrong(&self, error: ConfigError) -> BuildError {
        match error {
            ConfigError::ZeroConcurrency(scope) => BuildError::ZeroConcurrency { scope: self.scope(scope) },
            ConfigError::ZeroInterval(scope) => BuildError::ZeroInterval { scope: self.scope(scope) },
            ConfigError::ZeroLimit(scope) => BuildError::ZeroLimit { scope: self.scope(scope) },
            ConfigError::UnknownUnit(scope, unit) => {
                let unit = self.units.get(unit.index()).cloned().unwrap_or_else(|| "?".into());
                BuildError::UnknownUnit { scope: self.scope(scope), unit }
            }
            ConfigError::HandOffTooShort => BuildError::HandOffTooShort,
            ConfigError::TooManyPacers(scope) => BuildError::TooManyPacers { scope: self.scope(scope) },
            ConfigError::TooManyProviders => BuildError::TooManyProviders,
            _ => BuildError::OutOfMemory,
        }
    }

    fn scope(&self, scope: ScopeId) -> Scope {
        match scope {
            ScopeId::Client => Scope::Client,
            ScopeId::Provider(id) => self.provider_scope(id),
        }
    }

    fn provider_scope(&self, id: ProviderId) -> Scope {
        Scope::Provider(self.providers.get(id.index()).map_or_else(|| "?".into(), |(name, _)| name.clone()))
    }

    fn limit(&self, hold: Hold, provider: ProviderId) -> Limit {
        let (side, kind) = match hold {
            Hold::Key => (Side::Provider, LimitKind::Key),
            Hold::Cooldown => (Side::Provider, LimitKind::Cooldown),
            Hold::Unpolled => (Side::Provider, LimitKind::Unpolled),
            Hold::HandOff(side) => (side, LimitKind::HandOff),
            Hold::Concurrency(side) => {
                let calls = self.limits(side, provider).and_then(|limits| limits.max_concurrent);
                (side, LimitKind::Concurrency(calls.unwrap_or(0)))
            }
            Hold::Interval(side, n) | Hold::Log(side, n) => match self.pacer(side, provider, n) {
                Some(Pacer::Interval(pacer)) => (side, LimitKind::Interval(pacer.interval)),
                Some(Pacer::Log(log)) => {
                    let unit = self.units.get(log.unit.index()).cloned();
                    let unit = unit.unwrap_or_else(|| REQUESTS.into());
                    (side, LimitKind::Window { limit: log.limit, window: log.window, unit })
                }
                None => (side, LimitKind::Order),
            },
            _ => (Side::Provider, LimitKind::Order),
        };
        let scope = match side {
            Side::Client => Scope::Client,
            Side::Provider => self.provider_scope(provider),
        };
        Limit { scope, kind }
    }

    fn log(&self, hold: Hold, provider: ProviderId) -> Option<(UnitId, u64)> {
        let Hold::Log(side, n) = hold else { return None };
        match self.pacer(side, provider, n)? {
            Pacer::Log(log) => Some((log.unit, log.limit)),
            Pacer::Interval(_) => None,
        }
    }

    fn pacer(&self, side: Side, provider: ProviderId, n: u16) -> Option<Pacer> {
        self.limits(side, provider)?.pacers.get(usize::from(n)).copied()
    }

    fn limits(&self, side: Side, provider: ProviderId) -> Option<&Limits> {
        match side {
            Side::Client => Some(&self.client),
            Side::Provider => self.providers.get(provider.index()).map(|(_, limits)| limits),
        }
    }
}
