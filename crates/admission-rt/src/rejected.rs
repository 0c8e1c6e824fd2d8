//! Why a call was not admitted, in words that can be logged.
//!
//! Owns: the errors of waiting calls and the description of a limit. Lacks the reasons themselves,
//! which the machine gives as numbers, and the names, which are looked up in [`crate::names`].

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::AbortReason;

/// A call that was not admitted: its operation was never called.
///
/// Of several reasons the first in this order is told (rule D5): aborted, closed, unknown or removed
/// provider, unknown unit, impossible cost, then exhausted or max-wait, then overflow. No refusal is retried
/// unless a policy asks for it (see [`Retry::when_refused`](crate::Retry::when_refused)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Rejected {
    /// Its abort signal fired before it started, with this reason (rules W3, S3).
    Aborted(AbortReason),
    /// The coordinator is closed (rule W4). A limiter that stands alone is its own.
    Closed,
    /// There is no provider of its handle's name: it was removed, and has not been added again (rule
    /// L10).
    UnknownProvider {
        /// The name.
        provider: Arc<str>,
    },
    /// Its provider was removed while it waited (rule L10).
    Removed {
        /// The provider's name.
        provider: Arc<str>,
    },
    /// It states a cost in a unit that the coordinator was not built with. `requests` cannot be
    /// stated either: every call costs 1 of them.
    UnknownUnit(Arc<str>),
    /// It has to wait, and was polled where no runtime is running that could wake it in time.
    NoRuntime,
    /// It costs more than a limit ever allows, and would wait for ever (rule L6).
    ImpossibleCost {
        /// The limit.
        limit: Limit,
        /// What the call costs, in the limit's unit.
        cost: u64,
        /// The most that any call may cost; 0 if the limit has changed before the call was told.
        allowed: u64,
    },
    /// It may not start at once, and was not to wait (rule R1): `try_acquire`, or a rate limiter
    /// with [`Strategy::Reject`](crate::Strategy::Reject).
    Exhausted {
        /// What held it back, where one thing did.
        held_by: Option<Limit>,
        /// From the refusal on, no start is possible for at least so long.
        retry_after: Option<Duration>,
    },
    /// Its wait would be, or was, longer than `max_wait` (rule R2).
    MaxWait {
        /// What held it back, where one thing did.
        held_by: Option<Limit>,
        /// The estimated wait, from the refusal on.
        retry_after: Option<Duration>,
    },
    /// The queue is full (rule W1).
    Overflow {
        /// What held it back, where one thing did.
        held_by: Option<Limit>,
        /// From the refusal on, no start is possible for at least so long.
        retry_after: Option<Duration>,
    },
    /// It was not granted within its admission timeout (rule W2).
    AdmissionTimeout {
        /// What held it back when its time was over, where one thing did.
        held_by: Option<Limit>,
        /// From the refusal on, no start is possible for at least so long.
        retry_after: Option<Duration>,
    },
}

impl Rejected {
    /// How long it is certainly no use to try again; `None` where time alone mends nothing, or
    /// nothing is known (rule R1). A lower bound: others may be served first.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Exhausted { retry_after, .. }
            | Self::MaxWait { retry_after, .. }
            | Self::Overflow { retry_after, .. }
            | Self::AdmissionTimeout { retry_after, .. } => *retry_after,
            Self::Aborted(_)
            | Self::Closed
            | Self::UnknownProvider { .. }
            | Self::Removed { .. }
            | Self::UnknownUnit(_)
            | Self::NoRuntime
            | Self::ImpossibleCost { .. } => None,
        }
    }

    /// The limit that held the call back, where it was one.
    #[must_use]
    pub const fn held_by(&self) -> Option<&Limit> {
        match self {
            Self::ImpossibleCost { limit, .. } => Some(limit),
            Self::Exhausted { held_by, .. }
            | Self::MaxWait { held_by, .. }
            | Self::Overflow { held_by, .. }
            | Self::AdmissionTimeout { held_by, .. } => held_by.as_ref(),
            Self::Aborted(_)
            | Self::Closed
            | Self::UnknownProvider { .. }
            | Self::Removed { .. }
            | Self::UnknownUnit(_)
            | Self::NoRuntime => None,
        }
    }

    /// Whether the call's abort signal fired.
    #[must_use]
    pub const fn is_aborted(&self) -> bool {
        matches!(self, Self::Aborted(_))
    }

    /// Whether the coordinator was closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Whether its provider was removed, before it was submitted or while it waited.
    #[must_use]
    pub const fn is_removed(&self) -> bool {
        matches!(self, Self::UnknownProvider { .. } | Self::Removed { .. })
    }

    /// Whether the queue was full.
    #[must_use]
    pub const fn is_overflow(&self) -> bool {
        matches!(self, Self::Overflow { .. })
    }

    /// Whether the admission timeout was over.
    #[must_use]
    pub const fn is_admission_timeout(&self) -> bool {
        matches!(self, Self::AdmissionTimeout { .. })
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Limit { scope, .. }) = self.held_by() {
            write!(f, "{}: ", Plain(scope.name()))?;
        }
        match self {
            Self::Aborted(reason) => return write!(f, "aborted: {reason}"),
            Self::Closed => return f.write_str("the coordinator is closed"),
            Self::UnknownProvider { provider } => {
                return write!(f, "unknown provider: {}", Plain(provider));
            }
            Self::Removed { provider } => {
                return write!(f, "{}: the provider was removed", Plain(provider));
            }
            Self::UnknownUnit(unit) if **unit == *REQUESTS => {
                return f.write_str("a call always costs 1 of requests");
            }
            Self::UnknownUnit(unit) => return write!(f, "unknown unit: {}", Plain(unit)),
            Self::NoRuntime => {
                return f.write_str("has to wait, but the runtime of its handle is not running here");
            }
            Self::ImpossibleCost { limit: Limit { kind: kind @ LimitKind::Changed, .. }, .. } => {
                return write!(f, "its cost was above {kind}");
            }
            Self::ImpossibleCost { limit, cost, .. } => {
                return write!(f, "a cost of {cost} is above {}", limit.kind);
            }
            Self::Exhausted { .. } => f.write_str("may not start at once")?,
            Self::MaxWait { .. } => f.write_str("the wait is too long")?,
            Self::Overflow { .. } => f.write_str("queue is full")?,
            Self::AdmissionTimeout { .. } => f.write_str("not admitted in time")?,
        }
        if let Some(Limit { kind, .. }) = self.held_by() {
            write!(f, ", held back by {kind}")?;
        }
        if let Some(after) = self.retry_after() {
            write!(f, "; try again in at least {}", Brief(after))?;
        }
        Ok(())
    }
}

impl Error for Rejected {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Aborted(reason) => reason.source(),
            _ => None,
        }
    }
}

/// Why a `try_run` gave no value. There are no other ways than these two.
#[derive(Clone, Debug)]
pub enum RunError<E> {
    /// The operation was never called.
    Rejected(Rejected),
    /// The operation's own error, as it is (rule R6).
    Operation(E),
}

impl<E> RunError<E> {
    /// The refusal, if the operation was never called.
    #[must_use]
    pub const fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Rejected(rejected) => Some(rejected),
            Self::Operation(_) => None,
        }
    }

    /// The operation's own error, if it was called.
    #[must_use]
    pub const fn error(&self) -> Option<&E> {
        match self {
            Self::Rejected(_) => None,
            Self::Operation(error) => Some(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejected) => rejected.fmt(f),
            Self::Operation(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for RunError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // Displayed as what it holds, so the chain goes on behind that.
        match self {
            Self::Rejected(rejected) => rejected.source(),
            Self::Operation(error) => error.source(),
        }
    }
}

impl<E> From<Rejected> for RunError<E> {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

/// What holds a call back, or is too small for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Whose limit it is.
    pub scope: Scope,
    /// Which limit it is.
    pub kind: LimitKind,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.scope, self.kind)
    }
}

/// What limits hang on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// The client: everything together.
    Client,
    /// The provider with this name. A limiter that stands alone is its own provider.
    Provider(Arc<str>),
    /// Every provider that is made on demand: only in errors about a configuration.
    Template,
}

impl Scope {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Client => "client",
            Self::Provider(name) => name,
            Self::Template => "template",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => f.write_str("client"),
            Self::Provider(name) => write!(f, "provider {}", Plain(name)),
            Self::Template => f.write_str("template"),
        }
    }
}

/// The kinds of limit.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitKind {
    /// So many calls at once.
    Concurrency(u32),
    /// So long between two starts, without the margin.
    Interval(Duration),
    /// So much in any window.
    Window {
        /// The most that may be spent in one window.
        limit: u64,
        /// The window's length, without the margin.
        window: Duration,
        /// What is counted; `None` for requests.
        unit: Option<Arc<str>>,
    },
    /// The provider is cooling down.
    Cooldown,
    /// Another call with the same key runs, or is about to: this one, where that is known.
    Key(Option<OtherCall>),
    /// A call of the scope has been granted and has not started yet; the scope has an interval.
    HandOff,
    /// An older call goes first (rules E3, E4): this one, where that is known. A refusal says so only where
    /// nothing else holds its call back; [`Waiting::held_by`](crate::Waiting::held_by) has it beside others.
    Order(Option<OtherCall>),
    /// It was granted once, and its own future was not polled in time.
    Unpolled,
    /// A limit that has been changed between the refusal and its telling.
    Changed,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concurrency(calls) => write!(f, "{calls} at once"),
            Self::Interval(interval) => write!(f, "{} apart", Brief(*interval)),
            Self::Window { limit, window, unit: None } => write!(f, "{limit} per {}", Brief(*window)),
            Self::Window { limit, window, unit: Some(unit) } => {
                write!(f, "{limit} {} per {}", Plain(unit), Brief(*window))
            }
            Self::Cooldown => f.write_str("a cooldown"),
            Self::Key(None) => f.write_str("its key, which is busy"),
            Self::Key(Some(OtherCall { provider, runs: true, time })) => {
                write!(f, "its key, which a call to {} has", Plain(provider))?;
                // Nobody came upon it before.
                if time.is_zero() { Ok(()) } else { write!(f, " had for at least {}", Brief(*time)) }
            }
            Self::Key(Some(OtherCall { provider, time, .. })) => {
                let (provider, time) = (Plain(provider), Brief(*time));
                write!(f, "its key, with which a call to {provider} was granted {time} ago")
            }
            Self::HandOff => f.write_str("a grant that has not started"),
            Self::Order(None) => f.write_str("an older call"),
            Self::Order(Some(OtherCall { provider, time, .. })) => {
                write!(f, "an older call, to {}, which has waited for {}", Plain(provider), Brief(*time))
            }
            Self::Unpolled => f.write_str("its own future, which was not polled"),
            Self::Changed => f.write_str("a limit that has changed since"),
        }
    }
}

/// A call that is in another's way.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OtherCall {
    /// Whom it goes to.
    pub provider: Arc<str>,
    /// Whether it runs.
    pub runs: bool,
    /// For how long it has run, or been granted, or waited. Of one that has the key: for how long it has had that. Where
    /// no limit counts time nobody notes when a call starts; then it is so long at least, from when the first other call
    /// came upon it.
    pub time: Duration,
}

/// The unit that every coordinator has.
pub(crate) const REQUESTS: &str = "requests";

/// A name that may come from anywhere, on one line whatever is in it: what could break or turn a
/// line of a log is escaped.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let is_odd =
            |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        for c in self.0.chars() {
            if is_odd(c) { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

/// A duration with one decimal at most, as one reads it in a log. Rounded up: who is told to wait for so
/// long, and does, is not too early.
pub(crate) struct Brief(pub(crate) Duration);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (unit, name) = match nanos {
            0 => return f.write_str("0 s"),
            1..1_000 => return write!(f, "{nanos} ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let tenths = nanos.div_ceil(unit / 10);
        let (whole, tenth) = (tenths / 10, tenths % 10);
        match tenth {
            0 => write!(f, "{whole} {name}"),
            _ => write!(f, "{whole}.{tenth} {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn github(kind: LimitKind) -> Limit {
        Limit { scope: Scope::Provider("github".into()), kind }
    }

    // rule R1
    #[test]
    fn a_refusal_reads_well_in_a_log() {
        let window = LimitKind::Window { limit: 60, window: Duration::from_secs(60), unit: None };
        let full = Rejected::Overflow {
            held_by: Some(github(window.clone())),
            retry_after: Some(Duration::from_millis(12_345)),
        };
        let words = "github: queue is full, held back by 60 per 60 s; try again in at least 12.4 s";
        assert_eq!(full.to_string(), words);
        assert_eq!(github(window).to_string(), "provider github: 60 per 60 s");

        let tokens = LimitKind::Window {
            limit: 90_000,
            window: Duration::from_millis(1_500),
            unit: Some("tokens".into()),
        };
        let limit = Limit { scope: Scope::Client, kind: tokens };
        let above = Rejected::ImpossibleCost { limit, cost: 100_000, allowed: 90_000 };
        let words = "client: a cost of 100000 is above 90000 tokens per 1.5 s";
        assert_eq!(above.to_string(), words);

        let bare = Rejected::Overflow { held_by: None, retry_after: None };
        assert_eq!(bare.to_string(), "queue is full");
        assert_eq!(Rejected::Aborted(AbortReason::Requested).to_string(), "aborted: on request");
    }

    #[test]
    fn a_name_stays_on_its_line() {
        let name = "a\nerror: b\r\t\u{1b}[31m\u{202e}é";
        let words = Scope::Provider(name.into()).to_string();
        assert_eq!(words, "provider a\\nerror: b\\r\\t\\u{1b}[31m\\u{202e}é");
    }

    #[test]
    fn durations_have_one_decimal_at_most() {
        let brief = |nanos| Brief(Duration::from_nanos(nanos)).to_string();
        assert_eq!(brief(0), "0 s");
        assert_eq!(brief(999), "999 ns");
        assert_eq!(brief(1_500), "1.5 us");
        assert_eq!(brief(1_498_000_001), "1.5 s");
        assert_eq!(brief(50_000_000), "50 ms");
        assert_eq!(brief(60_000_000_000), "60 s");
        assert_eq!(Brief(Duration::MAX).to_string(), "18446744073709551616 s");
    }
}
