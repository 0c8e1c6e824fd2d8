//! Words for the machine's numbers.
//!
//! Owns: the names of the providers in the configuration and of the units. Never changes after the
//! build, so it needs no lock; the names of other providers are [`guests`](crate::guests)'. Lacks
//! limits: what a refusal is described by comes with it, from
//! [`in_force`](crate::in_force).

use std::collections::HashMap;
use std::sync::Arc;

use admission_core::{
    ChangeError as Change, ConfigError, Hold, Limits, LimitsError, Pacer, ProviderId, Reason, Refusal, Side,
    UnitId,
};

use crate::guests::Target;
use crate::rejected::REQUESTS;
use crate::{BuildError, ChangeError, Limit, LimitKind, OtherCall, Rejected, Scope, UnknownProvider};

pub(crate) struct Names {
    providers: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, ProviderId>,
    units: Vec<Arc<str>>,
    /// Whether a name that is new is a provider all the same.
    pub(crate) has_template: bool,
}

impl Names {
    /// The names of the configuration's providers, in its order; of the units the first is requests.
    pub(crate) fn new(providers: Vec<Arc<str>>, units: Vec<Arc<str>>, has_template: bool) -> Self {
        let by_name = providers.iter().zip(0..).map(|(name, id)| (name.clone(), ProviderId::new(id)));
        Self { by_name: by_name.collect(), providers, units, has_template }
    }

    /// A provider of the configuration's.
    pub(crate) fn configured(&self, name: &str) -> Option<ProviderId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name<'a>(&'a self, target: &'a Target) -> &'a Arc<str> {
        match &target.guest {
            Some(guest) => &guest.name,
            None => self.configured_name(target.id),
        }
    }

    /// The name of a provider that no guest keeps, and so is the configuration's.
    pub(crate) fn configured_name(&self, id: ProviderId) -> &Arc<str> {
        // The unit of requests stands in for a name that cannot be asked for.
        self.providers.get(id.number() as usize).unwrap_or(&self.units[0])
    }

    pub(crate) fn is_configured(&self, id: ProviderId) -> bool {
        (id.number() as usize) < self.providers.len()
    }

    /// All units; the first is requests.
    pub(crate) fn units(&self) -> &[Arc<str>] {
        &self.units
    }

    /// A unit in which a cost can be stated.
    pub(crate) fn unit(&self, name: &str) -> Option<UnitId> {
        // Units are few, and a comparison of short texts beats hashing them.
        let index = self.units.iter().skip(1).position(|unit| **unit == *name)?;
        u16::try_from(index + 1).ok().map(UnitId::new)
    }

    pub(crate) fn unit_name(&self, unit: UnitId) -> Arc<str> {
        self.units.get(unit.index()).cloned().unwrap_or_else(|| "?".into())
    }

    /// The refusal of a call to `provider`, in words; `limits` are those of which one held it back. A reason to
    /// abort is not known here.
    #[inline(always)]
    pub(crate) fn rejected(
        &self,
        refusal: &Refusal,
        limits: Option<&Limits>,
        provider: &Arc<str>,
        costs: &[(UnitId, u64)],
        unknown_unit: Option<&Arc<str>>,
        holder: impl FnOnce() -> Option<OtherCall>,
    ) -> Rejected {
        let retry_after = refusal.retry_after;
        let held_by = || refusal.held_by.map(|hold| self.limit(hold, limits, provider, holder));
        match refusal.reason {
            Reason::Aborted => Rejected::Aborted(crate::AbortReason::Requested),
            Reason::UnknownProvider => Rejected::UnknownProvider { provider: provider.clone() },
            Reason::Removed => Rejected::Removed { provider: provider.clone() },
            Reason::UnknownUnit => {
                Rejected::UnknownUnit(unknown_unit.cloned().unwrap_or_else(|| REQUESTS.into()))
            }
            Reason::ImpossibleCost => self.impossible(refusal, limits, provider, costs),
            Reason::Exhausted => Rejected::Exhausted { held_by: held_by(), retry_after },
            Reason::MaxWait => Rejected::MaxWait { held_by: held_by(), retry_after },
            Reason::Overflow => Rejected::Overflow { held_by: held_by(), retry_after },
            Reason::AdmissionTimeout => Rejected::AdmissionTimeout { held_by: held_by(), retry_after },
            _ => Rejected::Closed,
        }
    }

    /// A refusal by rule L6. A call that waited hears of it when it is polled, and the limit may have
    /// changed again by then, even to one that the cost fits in.
    #[cold]
    fn impossible(
        &self,
        refusal: &Refusal,
        limits: Option<&Limits>,
        provider: &Arc<str>,
        costs: &[(UnitId, u64)],
    ) -> Rejected {
        let Some(hold @ Hold::Log(side, n)) = refusal.held_by else { return Rejected::Closed };
        let cost_in = |unit| {
            let stated = costs.iter().find(|(of, _)| *of == unit).map(|(_, cost)| *cost);
            stated.unwrap_or(u64::from(unit == UnitId::REQUESTS))
        };
        match pacer(limits, n) {
            Some(Pacer::Log(log)) => Rejected::ImpossibleCost {
                limit: self.limit(hold, limits, provider, || None),
                cost: cost_in(log.unit),
                allowed: log.limit,
            },
            _ => {
                let scope = scope(side, provider);
                let cost = costs.iter().map(|(_, cost)| *cost).max().unwrap_or(1);
                Rejected::ImpossibleCost {
                    limit: Limit { scope, kind: LimitKind::Changed },
                    cost,
                    allowed: 0,
                }
            }
        }
    }

    /// What is wrong with a configuration, in words.
    pub(crate) fn wrong(&self, error: ConfigError) -> BuildError {
        match error {
            ConfigError::Client(error) => self.wrong_limits(error, Scope::Client),
            ConfigError::Provider(id, error) => {
                self.wrong_limits(error, Scope::Provider(self.configured_name(id).clone()))
            }
            ConfigError::Template(error) => self.wrong_limits(error, Scope::Template),
            ConfigError::HandOffTooShort => BuildError::HandOffTooShort,
            ConfigError::TooManyProviders => BuildError::TooManyProviders,
            _ => BuildError::OutOfMemory,
        }
    }

    fn wrong_limits(&self, error: LimitsError, scope: Scope) -> BuildError {
        match error {
            LimitsError::ZeroConcurrency => BuildError::ZeroConcurrency { scope },
            LimitsError::ZeroInterval => BuildError::ZeroInterval { scope },
            LimitsError::ZeroLimit => BuildError::ZeroLimit { scope },
            LimitsError::UnknownUnit(unit) => BuildError::UnknownUnit { scope, unit: self.unit_name(unit) },
            LimitsError::TooManyPacers => BuildError::TooManyPacers { scope },
            _ => BuildError::OutOfMemory,
        }
    }

    /// Why a scope was not changed, in words.
    pub(crate) fn not_changed(&self, error: Change, scope: Scope) -> ChangeError {
        match (error, scope) {
            (Change::Limits(error), scope) => ChangeError::Limits(self.wrong_limits(error, scope)),
            (Change::ProviderExists, Scope::Provider(name)) => ChangeError::ProviderExists { name },
            (_, Scope::Provider(name)) => UnknownProvider { name }.into(),
            // The client is always there.
            (_, Scope::Client | Scope::Template) => ChangeError::Limits(BuildError::OutOfMemory),
        }
    }

    /// A hold in words. `limits` are those that were in force in its scope; without them it is one that has
    /// changed since. `other` is the call that is in the way, if it is one.
    #[inline(always)]
    pub(crate) fn limit(
        &self,
        hold: Hold,
        limits: Option<&Limits>,
        provider: &Arc<str>,
        other: impl FnOnce() -> Option<OtherCall>,
    ) -> Limit {
        let (side, kind) = match hold {
            Hold::Key => (Side::Provider, LimitKind::Key(other())),
            Hold::Cooldown => (Side::Provider, LimitKind::Cooldown),
            Hold::Unpolled => (Side::Provider, LimitKind::Unpolled),
            Hold::HandOff(side) => (side, LimitKind::HandOff),
            Hold::Concurrency(side) => {
                let calls = limits.and_then(|limits| limits.max_concurrent);
                (side, calls.map_or(LimitKind::Changed, LimitKind::Concurrency))
            }
            Hold::Interval(side, n) => match pacer(limits, n) {
                Some(Pacer::Interval(pacer)) => (side, LimitKind::Interval(pacer.interval)),
                Some(Pacer::Log(_)) | None => (side, LimitKind::Changed),
            },
            Hold::Log(side, n) => match pacer(limits, n) {
                Some(Pacer::Log(log)) => {
                    let unit = (log.unit != UnitId::REQUESTS).then(|| self.unit_name(log.unit));
                    (side, LimitKind::Window { limit: log.limit, window: log.window, unit })
                }
                Some(Pacer::Interval(_)) | None => (side, LimitKind::Changed),
            },
            _ => (Side::Provider, LimitKind::Order(other())),
        };
        Limit { scope: scope(side, provider), kind }
    }
}

fn pacer(limits: Option<&Limits>, n: u16) -> Option<&Pacer> {
    limits?.pacers.get(usize::from(n))
}

fn scope(side: Side, provider: &Arc<str>) -> Scope {
    match side {
        Side::Client => Scope::Client,
        Side::Provider => Scope::Provider(provider.clone()),
    }
}
