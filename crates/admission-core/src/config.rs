//! What a coordinator is built from, and what is wrong with it.
//!
//! Owns: the settings, their defaults and their checks. Lacks names: units and providers are
//! numbers here, and the layer above gives them words.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::queue::hash;
use crate::time::nanos;
use crate::{ProviderId, UnitId};

/// Everything that a coordinator is built from.
///
/// ```
/// use admission_core::{Config, Coordinator, Limits};
/// use core::time::Duration;
///
/// let mut config = Config::new();
/// config.client = Limits::new().max_concurrent(32);
/// config.providers.push(Limits::new().max_concurrent(8).window(60, Duration::from_secs(60)));
/// let coordinator = Coordinator::new(&config)?;
/// assert_eq!(coordinator.counts().queued, 0);
/// # Ok::<(), admission_core::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// How many tickets may wait (rule W1); 0 means immediate admission or nothing. 1,024 unless
    /// stated: enough for a burst, small enough that a dead upstream is noticed.
    pub max_queued: u32,
    /// How long a grant may go unstarted before it is taken back (rule S4). 200 ms unless stated:
    /// long against a busy executor's delay, short against a person's patience. At least 1 ms.
    pub hand_off: Duration,
    /// The longest wait that is worth its while (rule R2). None unless stated.
    pub max_wait: Option<Duration>,
    /// How many units there are, requests included (at least 1, the default).
    pub units: u16,
    /// The limits of everything together.
    pub client: Limits,
    /// The limits of each provider; the n-th is [`ProviderId::new`]`(n)`.
    pub providers: Vec<Limits>,
    /// The limits of every other provider, which is made when it is first asked for and forgotten
    /// when nothing is left of it (rule L10). None unless stated: an unknown provider is an error.
    pub template: Option<Limits>,
}

impl Config {
    /// The defaults: no limits, no providers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_queued: 1_024,
            hand_off: Duration::from_millis(200),
            max_wait: None,
            units: 1,
            client: Limits::new(),
            providers: Vec::new(),
            template: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.hand_off < MIN_HAND_OFF {
            return Err(ConfigError::HandOffTooShort);
        }
        if self.units == 0 {
            return Err(ConfigError::NoUnits);
        }
        if self.providers.len() >= u32::MAX as usize {
            return Err(ConfigError::TooManyProviders);
        }
        self.client.check(self.units).map_err(ConfigError::Client)?;
        for (index, limits) in self.providers.iter().enumerate() {
            let id = ProviderId(index as u32);
            limits.check(self.units).map_err(|error| ConfigError::Provider(id, error))?;
        }
        self.template.iter().try_for_each(|limits| limits.check(self.units)).map_err(ConfigError::Template)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// The shortest hand-off time, and where its halving ends (rule S4a).
pub(crate) const MIN_HAND_OFF: Duration = Duration::from_millis(1);

/// The limits of one scope. All of them must agree to a start (rule L4).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Limits {
    /// How many calls may be granted or running at once; none unless stated.
    pub max_concurrent: Option<u32>,
    /// The rules about start times.
    pub pacers: Vec<Pacer>,
}

impl Limits {
    /// No limits.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_concurrent: None, pacers: Vec::new() }
    }

    /// At most `calls` granted or running at once.
    #[must_use]
    pub const fn max_concurrent(mut self, calls: u32) -> Self {
        self.max_concurrent = Some(calls);
        self
    }

    /// At least `interval` between two starts (rule L2).
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        self.pacer(Pacer::Interval(Interval::new(interval)))
    }

    /// At most `limit` starts in any `window` (rule L3).
    #[must_use]
    pub fn window(self, limit: u64, window: Duration) -> Self {
        self.pacer(Pacer::Log(Log::new(limit, window)))
    }

    /// One more pacer.
    #[must_use]
    pub fn pacer(mut self, pacer: Pacer) -> Self {
        self.pacers.push(pacer);
        self
    }

    /// A number for these limits, so that a refusal can remember those it was made by. That two have
    /// the same is next to impossible, and would mean a refusal that is described by the wrong one.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut print = u64::from(self.max_concurrent.unwrap_or(0));
        let mut mix = |value: u64| print = hash(print.rotate_left(23) ^ value);
        let time = |of: Duration| [of.as_secs(), u64::from(of.subsec_nanos())];
        for pacer in &self.pacers {
            match pacer {
                Pacer::Interval(p) => {
                    mix(0);
                    time(p.interval).into_iter().chain(time(p.margin)).for_each(&mut mix);
                }
                Pacer::Log(p) => {
                    [1, u64::from(p.unit.0), p.limit, p.counts as u64].into_iter().for_each(&mut mix);
                    time(p.window).into_iter().chain(time(p.margin)).for_each(&mut mix);
                }
            }
        }
        print
    }

    pub(crate) fn check(&self, units: u16) -> Result<(), LimitsError> {
        if self.max_concurrent == Some(0) {
            return Err(LimitsError::ZeroConcurrency);
        }
        if self.pacers.len() > usize::from(u16::MAX) {
            return Err(LimitsError::TooManyPacers);
        }
        for pacer in &self.pacers {
            match pacer {
                Pacer::Interval(p) if p.interval.is_zero() => return Err(LimitsError::ZeroInterval),
                Pacer::Log(p) if p.limit == 0 => return Err(LimitsError::ZeroLimit),
                Pacer::Log(p) if p.unit.0 >= units => return Err(LimitsError::UnknownUnit(p.unit)),
                Pacer::Interval(_) | Pacer::Log(_) => {}
            }
        }
        Ok(())
    }
}

/// A rule about start times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacer {
    /// A smallest gap between two starts.
    Interval(Interval),
    /// A largest cost in any window.
    Log(Log),
}

/// A smallest gap between two starts (rule L2). The first start is immediate, and idle time earns
/// no credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Interval {
    /// The gap; not zero, whatever the margin.
    pub interval: Duration,
    /// Added to the gap, for clocks or networks that do not agree. Zero unless stated.
    pub margin: Duration,
}

impl Interval {
    /// At least `interval` from one start to the next.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self { interval, margin: Duration::ZERO }
    }

    /// Adds a margin to the gap.
    #[must_use]
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    pub(crate) fn gap_nanos(&self) -> u64 {
        nanos(self.interval).saturating_add(nanos(self.margin))
    }
}

/// A largest cost in any window of one length, wherever it begins (rule L3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Log {
    /// What is counted; requests unless stated.
    pub unit: UnitId,
    /// The largest cost in one window; not zero.
    pub limit: u64,
    /// The window's length. One of zero, margin included, forgets at once and refuses nothing (rule L6).
    pub window: Duration,
    /// Added to the window. Zero unless stated.
    pub margin: Duration,
    /// From when a call counts.
    pub counts: CountsFrom,
}

impl Log {
    /// At most `limit` starts in any `window`.
    #[must_use]
    pub const fn new(limit: u64, window: Duration) -> Self {
        Self { unit: UnitId::REQUESTS, limit, window, margin: Duration::ZERO, counts: CountsFrom::Start }
    }

    /// Counts another unit than requests.
    #[must_use]
    pub const fn unit(mut self, unit: UnitId) -> Self {
        self.unit = unit;
        self
    }

    /// Counts a call from its start until one window after it settled (rule L9).
    #[must_use]
    pub const fn until_settled(mut self) -> Self {
        self.counts = CountsFrom::Settled;
        self
    }

    /// Adds a margin to the window.
    #[must_use]
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    pub(crate) fn window_nanos(&self) -> u64 {
        nanos(self.window).saturating_add(nanos(self.margin))
    }
}

/// What a log counts from (rule L9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CountsFrom {
    /// A start counts until it is one window old. The server, which sees calls later and in another
    /// order, may find a few too many in a window of its own.
    #[default]
    Start,
    /// A call counts from its start until one window after it settled. The server's stamp lies
    /// between the two, so its window holds whatever the latency.
    Settled,
}

/// A configuration that no coordinator can be built from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The client's limits are wrong.
    Client(LimitsError),
    /// A provider's limits are wrong.
    Provider(ProviderId, LimitsError),
    /// The limits of providers that are made on demand are wrong.
    Template(LimitsError),
    /// The unit of requests is always there, so there is at least one.
    NoUnits,
    /// The hand-off time is below 1 ms.
    HandOffTooShort,
    /// More providers than can be numbered.
    TooManyProviders,
    /// The memory that the configuration bounds could not be had.
    OutOfMemory,
}

/// What is wrong with the limits of a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitsError {
    /// A concurrency of 0 would admit nothing.
    ZeroConcurrency,
    /// An interval of 0 paces nothing.
    ZeroInterval,
    /// A limit of 0 would admit nothing.
    ZeroLimit,
    /// A log counts a unit that the coordinator does not have.
    UnknownUnit(UnitId),
    /// More pacers than can be numbered.
    TooManyPacers,
    /// There is no memory for their logs.
    OutOfMemory,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "the client: {error}"),
            Self::Provider(id, error) => write!(f, "provider {}: {error}", id.0),
            Self::Template(error) => write!(f, "the template: {error}"),
            Self::NoUnits => f.write_str("there is at least the unit of requests"),
            Self::HandOffTooShort => f.write_str("the hand-off time is at least 1 ms"),
            Self::TooManyProviders => f.write_str("too many providers"),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroConcurrency => f.write_str("a concurrency of 0 would admit nothing"),
            Self::ZeroInterval => f.write_str("an interval of 0 paces nothing"),
            Self::ZeroLimit => f.write_str("a limit of 0 would admit nothing"),
            Self::UnknownUnit(unit) => write!(f, "a log counts unit {}, which is not there", unit.0),
            Self::TooManyPacers => f.write_str("more than 65,535 pacers"),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

impl core::error::Error for ConfigError {}

impl core::error::Error for LimitsError {}
