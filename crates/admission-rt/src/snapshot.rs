//! What a coordinator looks like from outside (rule O1), with names, and as a table.
//!
//! Owns: the words. The numbers are the machine's, all of one moment. Nothing reads them back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use admission_core as core;
use admission_core::{Instant, Limits, Pacer};

use crate::Scope;
use crate::names::Names;
use crate::rejected::{Brief, Plain, REQUESTS};

/// Everything that can be seen of a coordinator at one instant: from
/// [`Admission::snapshot`](crate::Admission::snapshot).
///
/// Displayed it is a table with one line per scope, for a log or a status page:
///
/// ```text
/// open, 2 of 1024 queued, next alarm in 22.9 s
/// scope   running  granted  queued  hand-off  cooldown  changes in  pacers
/// client     3/32        0       2    200 ms         -           -  -
/// github      3/8        0       2    200 ms         -      22.9 s  60/60 per 60 s (req), more in 22.9 s; 50 ms apart
/// stripe        0        0       0    200 ms    12.3 s      12.3 s  -
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The instant, by the coordinator's clock; the others count from the same origin.
    pub at: Instant,
    /// Whether it is closed.
    pub is_closed: bool,
    /// How many calls may wait.
    pub max_queued: u32,
    /// The next alarm: when time alone may next do something for those who wait. `None` with an empty
    /// queue; what time changes there all the same is in [`ScopeSnapshot::next`].
    pub next: Option<Instant>,
    /// Everything together.
    pub client: ScopeSnapshot,
    /// Each provider that is there: those of the builder in its order, then the others by name.
    pub providers: Vec<ScopeSnapshot>,
}

/// One scope.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ScopeSnapshot {
    /// Which one.
    pub scope: Scope,
    /// Calls that run.
    pub running: u32,
    /// Calls that were granted and have not started.
    pub granted: u32,
    /// Calls that wait.
    pub queued: u32,
    /// How many may be granted or running at once.
    pub max_concurrent: Option<u32>,
    /// The end of its cooldown, if that is ahead.
    pub not_before: Option<Instant>,
    /// The hand-off time that its next grant gets (rule S4a).
    pub hand_off: Duration,
    /// The next instant at which time alone changes something here, whether or not anybody waits: the end
    /// of its cooldown or of an interval, the next start that a window forgets, a grant that is taken
    /// back. Not the deadlines of those who wait; [`Snapshot::next`] has the first of them.
    pub next: Option<Instant>,
    /// Its intervals and windows, in the order of its limits.
    pub pacers: Vec<PacerSnapshot>,
}

/// An interval or a window.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PacerSnapshot {
    /// An interval.
    Interval {
        /// The interval, without the margin.
        interval: Duration,
        /// The earliest next start, if that is ahead.
        next: Option<Instant>,
    },
    /// A window.
    Window {
        /// What it counts: `requests`, or a unit that was named.
        unit: Arc<str>,
        /// The most that may be spent in one window.
        limit: u64,
        /// The window's length, without the margin.
        window: Duration,
        /// How much is spent, or held by a grant; above the limit after the limit was lowered.
        spent: u128,
        /// How much is left.
        left: u64,
        /// When the next of what is spent is free again, if time alone does that.
        next: Option<Instant>,
    },
}

impl Snapshot {
    /// `limits`: the client's, then each provider's; `guests`: the names of those providers that the
    /// configuration does not name.
    pub(crate) fn new(
        core: core::Snapshot,
        names: &Names,
        limits: &[Option<Arc<Limits>>],
        guests: Vec<Option<Arc<str>>>,
    ) -> Self {
        let mut limits = limits.iter().map(Option::as_deref);
        let client = ScopeSnapshot::new(core.client, Scope::Client, names, limits.next().flatten());
        let mut is_guest = Vec::with_capacity(guests.len());
        let providers = core.providers.into_iter().zip(guests).map(|((id, snapshot), guest)| {
            is_guest.push(!names.is_configured(id));
            let name = guest.unwrap_or_else(|| names.configured_name(id).clone());
            ScopeSnapshot::new(snapshot, Scope::Provider(name), names, limits.next().flatten())
        });
        let mut providers: Vec<_> = providers.collect();
        let configured = is_guest.iter().take_while(|is_guest| !**is_guest).count();
        providers[configured..].sort_by(|a, b| a.name().cmp(b.name()));
        Self {
            at: core.at,
            is_closed: core.is_closed,
            max_queued: core.max_queued,
            next: core.next,
            client,
            providers,
        }
    }

    /// One provider, if it is there.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<&ScopeSnapshot> {
        self.providers.iter().find(|provider| provider.name() == name)
    }
}

impl ScopeSnapshot {
    fn new(core: core::ScopeSnapshot, scope: Scope, names: &Names, limits: Option<&Limits>) -> Self {
        // The numbers and the limits are of one moment, so there are as many.
        let pacers = core.pacers.iter().zip(limits.iter().flat_map(|limits| &limits.pacers));
        Self {
            scope,
            running: core.running,
            granted: core.granted,
            queued: core.queued,
            max_concurrent: core.max_concurrent,
            not_before: core.not_before,
            hand_off: core.hand_off,
            next: core.next,
            pacers: pacers.filter_map(|(core, limit)| PacerSnapshot::new(*core, limit, names)).collect(),
        }
    }

    /// The provider's name, or `client`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.scope.name()
    }
}

impl PacerSnapshot {
    fn new(core: core::PacerSnapshot, limit: &Pacer, names: &Names) -> Option<Self> {
        match (core, limit) {
            (core::PacerSnapshot::Interval { next, .. }, Pacer::Interval(pacer)) => {
                Some(Self::Interval { interval: pacer.interval, next })
            }
            (core::PacerSnapshot::Log { unit, limit, spent, left, next, .. }, Pacer::Log(log)) => {
                let unit = names.unit_name(unit);
                Some(Self::Window { unit, limit, window: log.window, spent, left, next })
            }
            _ => None,
        }
    }

    fn words(&self, at: Instant) -> String {
        let (mut words, what, next) = match self {
            Self::Interval { interval, next } => (format!("{} apart", Brief(*interval)), "next", next),
            Self::Window { unit, limit, window, spent, next, .. } => {
                let unit = if **unit == *REQUESTS { "req" } else { unit };
                (format!("{spent}/{limit} per {} ({})", Brief(*window), Plain(unit)), "more", next)
            }
        };
        if let Some(next) = next {
            words += &format!(", {what} in {}", until(*next, at));
        }
        words
    }
}

fn until(instant: Instant, at: Instant) -> Brief {
    Brief(instant.saturating_duration_since(at))
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_closed { "closed" } else { "open" };
        write!(f, "{state}, {} of {} queued", self.client.queued, self.max_queued)?;
        if let Some(next) = self.next {
            write!(f, ", next alarm in {}", until(next, self.at))?;
        }
        writeln!(f)?;
        let titles =
            ["scope", "running", "granted", "queued", "hand-off", "cooldown", "changes in", "pacers"];
        let mut rows = vec![titles.map(String::from)];
        rows.extend(std::iter::once(&self.client).chain(&self.providers).map(|scope| self.row(scope)));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 7] = std::array::from_fn(width);
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{:<width$}", row[0], width = widths[0])?;
            for (cell, width) in row[1..7].iter().zip(&widths[1..]) {
                write!(f, "  {cell:>width$}")?;
            }
            write!(f, "  {}", row[7])?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// A line of the table.
    fn row(&self, scope: &ScopeSnapshot) -> [String; 8] {
        let or_none = |words: String| if words.is_empty() { String::from("-") } else { words };
        let pacers: Vec<String> = scope.pacers.iter().map(|pacer| pacer.words(self.at)).collect();
        let next = scope.next.map(|next| until(next, self.at).to_string());
        let cooldown = scope.not_before.map(|end| until(end, self.at).to_string());
        [
            Plain(scope.name()).to_string(),
            match scope.max_concurrent {
                Some(most) => format!("{}/{most}", scope.running),
                None => scope.running.to_string(),
            },
            scope.granted.to_string(),
            scope.queued.to_string(),
            Brief(scope.hand_off).to_string(),
            or_none(cooldown.unwrap_or_default()),
            or_none(next.unwrap_or_default()),
            or_none(pacers.join("; ")),
        ]
    }
}
