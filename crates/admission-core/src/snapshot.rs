//! What a coordinator looks like from outside (rule O1): plain numbers, to be printed or exported.
//! It decides nothing, and nothing reads it back.

use alloc::vec::Vec;
use core::time::Duration;

use crate::handoff::HandOff;
use crate::pace::Room;
use crate::scope::{Pacer, Scope};
use crate::{Instant, ProviderId, UnitId};

/// Everything that can be seen of a coordinator at one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The instant.
    pub at: Instant,
    /// Whether it is closed.
    pub is_closed: bool,
    /// How many tickets may wait.
    pub max_queued: u32,
    /// The next alarm, as [`Coordinator::poll_timeout`](crate::Coordinator::poll_timeout) tells it: when
    /// time alone may next do something for those who wait. `None` with an empty queue, unless somebody
    /// waits for idle with a grant out (rule T6); when a scope changes all the same is
    /// [`ScopeSnapshot::next`].
    pub next: Option<Instant>,
    /// Everything together.
    pub client: ScopeSnapshot,
    /// Each provider that is here, by number.
    pub providers: Vec<(ProviderId, ScopeSnapshot)>,
}

/// One scope.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ScopeSnapshot {
    /// Calls that run.
    pub running: u32,
    /// Grants that have not started.
    pub granted: u32,
    /// Tickets that wait.
    pub queued: u32,
    /// How many may be granted or running at once.
    pub max_concurrent: Option<u32>,
    /// The end of its cooldown, if that is ahead.
    pub not_before: Option<Instant>,
    /// The hand-off time that its next grant gets.
    pub hand_off: Duration,
    /// The next instant at which time alone changes something here, whether or not anybody waits: its
    /// cooldown or one of its intervals is over, the oldest start leaves one of its windows, or the
    /// hand-off time of one of its grants is over. For the client: of every grant, and of its own pacers,
    /// but not of its providers' pacers and cooldowns. Deadlines are not in it, for that would take a look
    /// at everybody who waits; [`Snapshot::next`] has the first of them.
    pub next: Option<Instant>,
    /// Its pacers, in the order of its limits.
    pub pacers: Vec<PacerSnapshot>,
}

/// One pacer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PacerSnapshot {
    /// An interval.
    Interval {
        /// The earliest next start, if that is ahead.
        next: Option<Instant>,
    },
    /// A log.
    Log {
        /// What it counts.
        unit: UnitId,
        /// The limit.
        limit: u64,
        /// How much is spent, or held.
        spent: u128,
        /// How much is left.
        left: u64,
        /// When the next of what is spent is free again, if time alone does that.
        next: Option<Instant>,
    },
}

impl ScopeSnapshot {
    /// `first_due`: when the first grant of the scope is to be taken back, or never.
    pub(crate) fn of(
        scope: &Scope,
        queued: u32,
        hand_off: &HandOff,
        first_due: Instant,
        now: Instant,
    ) -> Self {
        let not_before = (scope.not_before > now).then_some(scope.not_before);
        let pacers: Vec<_> = scope.pacers.iter().map(|pacer| PacerSnapshot::of(pacer, scope, now)).collect();
        let next =
            pacers.iter().filter_map(PacerSnapshot::next).chain(not_before).fold(first_due, Instant::min);
        Self {
            next: (next < Instant::NEVER).then_some(next),
            running: scope.running,
            granted: scope.granted,
            queued,
            max_concurrent: (scope.max_concurrent < u32::MAX).then_some(scope.max_concurrent),
            not_before,
            hand_off: hand_off.time(scope.halvings),
            pacers,
        }
    }
}

impl PacerSnapshot {
    fn next(&self) -> Option<Instant> {
        match self {
            Self::Interval { next } | Self::Log { next, .. } => *next,
        }
    }

    fn of(pacer: &Pacer, scope: &Scope, now: Instant) -> Self {
        let grants = scope.granted;
        match pacer {
            Pacer::Interval(interval) => Self::Interval {
                next: match interval.room(scope.last_start, now) {
                    Room::At(at) => Some(at),
                    Room::Now | Room::Held(_) => None,
                },
            },
            Pacer::Log(log) => Self::Log {
                unit: log.unit,
                limit: log.limit(),
                spent: log.spent_now(grants, now),
                left: log.available(grants, now),
                next: log.next_free(now),
            },
        }
    }
}
