//! What a coordinator is built from.
//!
//! Owns: the builder, the words for limits, and what is said about a configuration that is wrong.
//! Lacks checks of its own beyond names: what numbers mean is the machine's affair.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use admission_core as core;
use admission_core::{Config, Coordinator, UnitId};

use crate::guests::Guests;
use crate::in_force::InForce;
use crate::names::Names;
use crate::rejected::{Plain, REQUESTS};
use crate::runtime::{Clock, Runtime};
use crate::shared::{Manner, Shared};
use crate::waiting::Hook;
use crate::{Admission, Scope, Waiting};

/// Builds an [`Admission`]. Nothing is limited unless stated, but for the length of the queue.
///
/// Methods may be called in any order; where one is called twice the last call counts, except for
/// intervals and windows, which add up: all of them must agree to a start (rule L4).
#[must_use = "a builder builds nothing until `build`"]
pub struct Builder<R> {
    plan: Plan,
    clock: Option<Arc<dyn Clock>>,
    long_wait: Option<(Duration, Hook)>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Builder<R> {
    pub(crate) fn new() -> Self {
        Self { plan: Plan::default(), clock: None, long_wait: None, runtime: PhantomData }
    }

    /// At most so many calls granted or running at once, over all providers. There is no default,
    /// because no number is right for every client (rule D4); 0 is an error.
    pub fn max_concurrent(mut self, calls: u32) -> Self {
        self.plan.client = self.plan.client.max_concurrent(calls);
        self
    }

    /// At most so many calls waiting; one more is refused with
    /// [`Rejected::Overflow`](crate::Rejected::Overflow) (rule W1). 1,024 unless stated: enough for
    /// a burst, small enough that a dead upstream is noticed. 0 means at once or not at all.
    pub fn max_queued(mut self, calls: u32) -> Self {
        self.plan.max_queued = Some(calls);
        self
    }

    /// How long a granted call may be left unpolled before its grant is taken back and passed on
    /// (rule S4). 200 ms unless stated: long against a busy executor's delay, short against a
    /// person's patience. At least 1 ms.
    pub fn hand_off(mut self, time: Duration) -> Self {
        self.plan.hand_off = Some(time);
        self
    }

    /// The longest wait that is worth its while: a call whose estimated wait is longer is refused
    /// at once with [`Rejected::MaxWait`](crate::Rejected::MaxWait) (rule R2). With zero every call
    /// is refused that would wait. None unless stated.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.plan.max_wait = Some(wait);
        self
    }

    /// Declares a unit beside `requests`, such as `tokens`, in which windows count and calls state
    /// what they cost. A call that states none costs 0 of it, and its windows let it pass: state the cost at
    /// every call that has one.
    pub fn unit(mut self, name: impl Into<Arc<str>>) -> Self {
        self.plan.units.push(name.into());
        self
    }

    /// At least so long between any two starts, whichever provider they go to (rule L2). 0 is an error.
    pub fn interval(self, interval: Duration) -> Self {
        self.paced(Interval::new(interval))
    }

    /// At most `limit` starts in any `window`, over all providers (rule L3). A limit of 0 is an error; a
    /// window of 0 refuses nothing.
    pub fn window(self, limit: u64, window: Duration) -> Self {
        self.log(Window::new(limit, window))
    }

    /// A window over all providers, with options.
    pub fn log(mut self, window: Window) -> Self {
        self.plan.client = self.plan.client.log(window);
        self
    }

    /// An interval over all providers, with options.
    pub fn paced(mut self, interval: Interval) -> Self {
        self.plan.client = self.plan.client.paced(interval);
        self
    }

    /// Registers an upstream under a name, with limits of its own.
    pub fn provider(mut self, name: impl Into<Arc<str>>, limits: impl FnOnce(Limits) -> Limits) -> Self {
        self.plan.providers.push((name.into(), limits(Limits::default())));
        self
    }

    /// The limits of every provider that is not registered: then any name is a provider (a host, an
    /// account, a model), which is made by its first call and forgotten when nothing is left of it
    /// (rule L10): no call waits or runs, its windows are empty, its intervals and cooldown are over.
    ///
    /// The limits are of each such provider by itself. Without a template an unknown name is an
    /// error.
    pub fn template(mut self, limits: impl FnOnce(Limits) -> Limits) -> Self {
        self.plan.template = Some(limits(Limits::default()));
        self
    }

    /// Calls `report` about each call that has waited for so long and still waits, once per call: for a
    /// log line that says which limit is too small, or who does not let go. Nobody is told unless
    /// stated; while somebody is, an alarm is set for it as long as calls wait.
    ///
    /// It is called with no lock held, after the wakes, by whoever made time pass: a caller, or the
    /// alarm. So it should be quick, and a panic in it is treated like one in a waker. It may call the
    /// coordinator; should it keep a handle of it, the two keep each other alive.
    ///
    /// Costs 24 bytes per waiting call. Calls that are granted in time cost no more than that.
    pub fn on_long_wait(
        mut self,
        after: Duration,
        report: impl Fn(&Waiting) + Send + Sync + 'static,
    ) -> Self {
        self.long_wait = Some((after, Arc::new(report)));
        self
    }

    /// Takes time from another clock than the runtime's own (rule T5).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The coordinator.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says what is wrong with the configuration.
    pub fn build(self) -> Result<Admission<R>, BuildError> {
        let clock = self.clock.unwrap_or_else(R::clock);
        let shared = self.plan.build(clock, Manner::default(), self.long_wait)?;
        Ok(Admission::new(shared))
    }
}

impl<R> fmt::Debug for Builder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

/// The limits of one provider, or of the client: none unless stated.
#[derive(Clone, Debug, Default)]
#[must_use = "limits are returned to the builder"]
pub struct Limits {
    max_concurrent: Option<u32>,
    pacers: Vec<Pacer>,
}

impl Limits {
    /// At most so many of its calls granted or running at once. 0 is an error.
    pub fn max_concurrent(mut self, calls: u32) -> Self {
        self.max_concurrent = Some(calls);
        self
    }

    /// At least so long between two starts (rule L2). The first is immediate; idle time earns no
    /// credit. 0 is an error.
    pub fn interval(self, interval: Duration) -> Self {
        self.paced(Interval::new(interval))
    }

    /// At most `limit` starts in any `window`, wherever it begins (rule L3). A limit of 0 is an
    /// error; a window of 0 refuses nothing.
    pub fn window(self, limit: u64, window: Duration) -> Self {
        self.log(Window::new(limit, window))
    }

    /// A window with options.
    pub fn log(mut self, window: Window) -> Self {
        self.pacers.push(Pacer::Window(window));
        self
    }

    /// An interval with options.
    pub fn paced(mut self, interval: Interval) -> Self {
        self.pacers.push(Pacer::Interval(interval));
        self
    }
}

#[derive(Clone, Debug)]
enum Pacer {
    Window(Window),
    Interval(Interval),
}

/// At most so much in any window of one length, wherever it begins (rule L3): a sliding log, not a
/// bucket, so never twice the limit across a boundary. Its memory follows the starts that are in
/// the window.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Window {
    limit: u64,
    window: Duration,
    margin: Duration,
    unit: Option<Arc<str>>,
    until_settled: bool,
}

impl Window {
    /// At most `limit` starts in any `window`, each counting from its start. A limit of 0 is an error. A window
    /// of 0 forgets at once: it is no limit, whatever a call costs (rule L6), unless it has a
    /// [`margin`](Self::margin).
    pub const fn new(limit: u64, window: Duration) -> Self {
        Self { limit, window, margin: Duration::ZERO, unit: None, until_settled: false }
    }

    /// Counts this unit instead of requests. Calls say what they cost with
    /// [`cost`](crate::Call::cost); those that do not cost 0 and are not asked about it.
    pub fn unit(mut self, name: impl Into<Arc<str>>) -> Self {
        self.unit = Some(name.into());
        self
    }

    /// Counts a call from its start until one window after it *ended* (rule L9). This keeps the
    /// quota as the server sees it, whose own stamp lies somewhere between the two; a log that
    /// counts from the start, the default, admits more, and the server may find a few too many in a
    /// window of its own. A call that never ends holds its budget for ever.
    pub const fn until_settled(mut self) -> Self {
        self.until_settled = true;
        self
    }

    /// Adds to the window, for clocks and networks that do not agree. Zero unless stated.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }
}

/// At least so long between two starts (rule L2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Interval {
    interval: Duration,
    margin: Duration,
}

impl Interval {
    /// At least `interval` from one start to the next. 0 is an error, with a margin too (rule L1).
    pub const fn new(interval: Duration) -> Self {
        Self { interval, margin: Duration::ZERO }
    }

    /// Adds to the gap. Zero unless stated.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }
}

/// A configuration that no coordinator can be built from, or limits that no scope can have.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A concurrency of 0 would admit nothing.
    ZeroConcurrency {
        /// Whose.
        scope: Scope,
    },
    /// An interval of 0 paces nothing.
    ZeroInterval {
        /// Whose.
        scope: Scope,
    },
    /// A limit of 0 would admit nothing.
    ZeroLimit {
        /// Whose.
        scope: Scope,
    },
    /// A window counts a unit that was not declared.
    UnknownUnit {
        /// Whose window.
        scope: Scope,
        /// The unit.
        unit: Arc<str>,
    },
    /// Two providers have this name.
    DuplicateProvider(Arc<str>),
    /// Two units have this name, or it is `requests`, which is always there.
    DuplicateUnit(Arc<str>),
    /// The hand-off time is below 1 ms.
    HandOffTooShort,
    /// More intervals and windows in one scope than can be numbered (65,535).
    TooManyPacers {
        /// Whose.
        scope: Scope,
    },
    /// More providers than can be numbered.
    TooManyProviders,
    /// More units than can be numbered.
    TooManyUnits,
    /// The memory that the configuration bounds could not be had.
    OutOfMemory,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroConcurrency { scope } => write!(f, "{scope}: a concurrency of 0 would admit nothing"),
            Self::ZeroInterval { scope } => write!(f, "{scope}: an interval of 0 paces nothing"),
            Self::ZeroLimit { scope } => write!(f, "{scope}: a limit of 0 would admit nothing"),
            Self::UnknownUnit { scope, unit } => {
                write!(f, "{scope}: a window counts {}, which is not declared", Plain(unit))
            }
            Self::DuplicateProvider(name) => write!(f, "two providers are named {}", Plain(name)),
            Self::DuplicateUnit(name) => write!(f, "two units are named {}", Plain(name)),
            Self::HandOffTooShort => f.write_str("the hand-off time is at least 1 ms"),
            Self::TooManyPacers { scope } => write!(f, "{scope}: more than 65,535 intervals and windows"),
            Self::TooManyProviders => f.write_str("too many providers"),
            Self::TooManyUnits => f.write_str("too many units"),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

impl Error for BuildError {}

/// A configuration with names: what all three builders fill in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) client: Limits,
    pub(crate) max_queued: Option<u32>,
    pub(crate) hand_off: Option<Duration>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) units: Vec<Arc<str>>,
    pub(crate) providers: Vec<(Arc<str>, Limits)>,
    pub(crate) template: Option<Limits>,
}

impl Plan {
    pub(crate) fn build(
        self,
        clock: Arc<dyn Clock>,
        manner: Manner,
        long_wait: Option<(Duration, Hook)>,
    ) -> Result<Arc<Shared>, BuildError> {
        let mut units = vec![Arc::from(REQUESTS)];
        units.extend(self.units);
        if let Some(name) = duplicate(units.iter()) {
            return Err(BuildError::DuplicateUnit(name));
        }
        if let Some(name) = duplicate(self.providers.iter().map(|(name, _)| name)) {
            return Err(BuildError::DuplicateProvider(name));
        }
        if self.providers.len() >= u32::MAX as usize {
            return Err(BuildError::TooManyProviders);
        }
        let mut config = Config::new();
        // The last number stays free: it stands for a unit that is not there.
        config.units = match u16::try_from(units.len()) {
            Ok(count) if count < UNKNOWN_UNIT.index() as u16 => count,
            _ => return Err(BuildError::TooManyUnits),
        };
        config.max_queued = self.max_queued.unwrap_or(config.max_queued);
        config.hand_off = self.hand_off.unwrap_or(config.hand_off);
        config.max_wait = self.max_wait;
        config.client = self.client.numbered(&Scope::Client, &units)?;
        let mut names = Vec::with_capacity(self.providers.len());
        for (name, limits) in self.providers {
            config.providers.push(limits.numbered(&Scope::Provider(name.clone()), &units)?);
            names.push(name);
        }
        if let Some(limits) = self.template {
            config.template = Some(limits.numbered(&Scope::Template, &units)?);
        }
        let guests = Guests::new(names.len() as u32);
        let names = Names::new(names, units, config.template.is_some());
        match Coordinator::new(&config) {
            Ok(core) => Ok(Shared::new(core, InForce::new(&config), clock, names, guests, manner, long_wait)),
            Err(error) => Err(names.wrong(error)),
        }
    }
}

/// Stands for a unit that the coordinator does not have, so that the machine says so in its place
/// among the reasons (rule D5).
pub(crate) const UNKNOWN_UNIT: UnitId = UnitId::new(u16::MAX);

impl Limits {
    pub(crate) fn numbered(self, scope: &Scope, units: &[Arc<str>]) -> Result<core::Limits, BuildError> {
        let mut limits = core::Limits::new();
        limits.max_concurrent = self.max_concurrent;
        for pacer in self.pacers {
            limits.pacers.push(match pacer {
                Pacer::Interval(Interval { interval, margin }) => {
                    core::Pacer::Interval(core::Interval::new(interval).margin(margin))
                }
                Pacer::Window(window) => core::Pacer::Log(window.numbered(scope, units)?),
            });
        }
        Ok(limits)
    }
}

impl Window {
    fn numbered(self, scope: &Scope, units: &[Arc<str>]) -> Result<core::Log, BuildError> {
        let mut log = core::Log::new(self.limit, self.window).margin(self.margin);
        if let Some(name) = self.unit {
            let Some(unit) = units.iter().position(|unit| *unit == name) else {
                return Err(BuildError::UnknownUnit { scope: scope.clone(), unit: name });
            };
            log = log.unit(UnitId::new(unit as u16));
        }
        Ok(if self.until_settled { log.until_settled() } else { log })
    }
}

fn duplicate<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Option<Arc<str>> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(&***name)).cloned()
}
