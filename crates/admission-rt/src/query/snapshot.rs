//! What a query looks like from outside at one moment.
//!
//! Owns: the snapshot that all subscribers share, and the times of a cycle. Lacks any state of its own:
//! a snapshot is never changed, only followed by the next.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::QueryError;
use crate::unwind::quietly;

/// A query at one moment, shared by everybody who looks at it.
///
/// [`status`](Self::status) says what goes on; `data` and `error` say what is known, and stay while the
/// next cycle runs: data until there is newer data, an error until a cycle gives data or another error.
#[derive(Debug)]
#[non_exhaustive]
pub struct QuerySnapshot<T, E> {
    /// Counts the changes; 1 for a query that has never run.
    pub version: u64,
    /// What goes on.
    pub status: QueryStatus,
    /// The newest data, if there ever was any.
    pub data: Option<Arc<T>>,
    /// When that data came, by the wall clock of the coordinator's clock (rule Q9): for people to read,
    /// and for nothing to be decided by.
    pub received_at: Option<SystemTime>,
    /// Why the last cycle that came to an end of its own gave no data; nothing if it gave some. A cycle
    /// that was ended from outside (pause, dispose, nobody there any more) has no say.
    pub error: Option<QueryError<E>>,
    /// Where the time of the current cycle, or of the last one, went.
    pub times: Arc<CycleTimes>,
}

impl<T, E> QuerySnapshot<T, E> {
    pub(super) fn new() -> Self {
        Self {
            version: 1,
            status: QueryStatus::Idle,
            data: None,
            received_at: None,
            error: None,
            times: Arc::default(),
        }
    }

    /// Where a query stands when no cycle goes on.
    pub(super) const fn at_rest(&self) -> QueryStatus {
        match (&self.error, &self.data) {
            (Some(_), _) => QueryStatus::Error,
            (None, Some(_)) => QueryStatus::Data,
            (None, None) => QueryStatus::Idle,
        }
    }
}

/// One by one: a user's data and a user's error that both panic when they are dropped would end the process.
impl<T, E> Drop for QuerySnapshot<T, E> {
    fn drop(&mut self) {
        let (data, error) = (self.data.take(), self.error.take());
        quietly(|| drop(data));
        quietly(|| drop(error));
    }
}

impl<T, E> Clone for QuerySnapshot<T, E> {
    fn clone(&self) -> Self {
        Self {
            version: self.version,
            status: self.status,
            data: self.data.clone(),
            received_at: self.received_at,
            error: self.error.clone(),
            times: self.times.clone(),
        }
    }
}

/// What goes on with a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QueryStatus {
    /// Nothing, and there has never been an outcome.
    Idle,
    /// A cycle asks for admission.
    #[non_exhaustive]
    Queued {
        /// For which attempt: 1 for the first.
        attempt: u32,
    },
    /// The source has been called.
    #[non_exhaustive]
    Running {
        /// Which attempt it is: 1 for the first.
        attempt: u32,
    },
    /// An attempt failed, and the next one has to wait. It holds nothing meanwhile.
    #[non_exhaustive]
    WaitingToRetry {
        /// Which attempt failed.
        attempt: u32,
        /// How long the wait is, from its beginning.
        delay: Duration,
    },
    /// Nothing; the last outcome is data.
    Data,
    /// Nothing; the last outcome is an error.
    Error,
    /// Nothing, and nothing will until it is resumed (rule Q8).
    Paused,
    /// Nothing ever again (rule Q8).
    Disposed,
}

impl QueryStatus {
    /// Whether a cycle goes on.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Queued { .. } | Self::Running { .. } | Self::WaitingToRetry { .. })
    }
}

impl fmt::Display for QueryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Queued { .. } => "queued",
            Self::Running { .. } => "running",
            Self::WaitingToRetry { .. } => "waiting to retry",
            Self::Data => "data",
            Self::Error => "error",
            Self::Paused => "paused",
            Self::Disposed => "disposed",
        })
    }
}

/// Where the time of a cycle went, by the coordinator's monotonic clock: waiting for admission and
/// running are counted apart. (What is left of a cycle's length was waiting to retry.)
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CycleTimes {
    /// How often the source was called.
    pub attempts: u32,
    /// How long the cycle waited for admission, in all; up to the grant or the refusal.
    pub queued: Duration,
    /// How long its attempts ran, in all; one that timed out, up to that.
    pub ran: Duration,
    /// The latest attempts, the newest last; at most 16, however many there were.
    pub latest: Vec<AttemptTimes>,
}

/// Where the time of one attempt went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AttemptTimes {
    /// Which attempt: 1 for the first.
    pub number: u32,
    /// How long it waited for admission.
    pub queued: Duration,
    /// How long it ran; nothing while it runs.
    pub ran: Option<Duration>,
    /// Whether its time was over before it had an outcome. Its call may have gone on.
    pub is_timed_out: bool,
}

impl CycleTimes {
    /// How many attempts are remembered one by one.
    const LATEST: usize = 16;

    /// Admission was granted after so long.
    pub(super) fn begin(&mut self, number: u32, queued: Duration) {
        self.attempts = number;
        self.queued = self.queued.saturating_add(queued);
        if self.latest.len() == Self::LATEST {
            self.latest.remove(0);
        }
        self.latest.push(AttemptTimes { number, queued, ran: None, is_timed_out: false });
    }

    /// Admission was refused after so long.
    pub(super) fn refuse(&mut self, queued: Duration) {
        self.queued = self.queued.saturating_add(queued);
    }

    /// The attempt is over.
    pub(super) fn end(&mut self, ran: Duration, is_timed_out: bool) {
        self.ran = self.ran.saturating_add(ran);
        if let Some(latest) = self.latest.last_mut() {
            latest.ran = Some(ran);
            latest.is_timed_out = is_timed_out;
        }
    }
}

/// Data that a cycle gave, shared by all who waited for it. Dereferences to the data.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fetched<T> {
    /// The data.
    pub data: Arc<T>,
    /// When it came, by the wall clock (rule Q9).
    pub received_at: SystemTime,
    /// Where the cycle's time went.
    pub times: Arc<CycleTimes>,
}

impl<T> Clone for Fetched<T> {
    fn clone(&self) -> Self {
        Self { data: self.data.clone(), received_at: self.received_at, times: self.times.clone() }
    }
}

impl<T> Deref for Fetched<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_many_attempts_stay_short() {
        let ms = Duration::from_millis;
        let mut times = CycleTimes::default();
        for number in 1..=100 {
            times.begin(number, ms(2));
            times.end(ms(3), number == 100);
        }
        times.refuse(ms(5));
        assert_eq!((times.attempts, times.queued, times.ran), (100, ms(205), ms(300)));
        let numbers: Vec<_> = times.latest.iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, (85..=100).collect::<Vec<_>>());
        assert!(times.latest[15].is_timed_out && !times.latest[14].is_timed_out);
    }
}
