//! The core's own notion of time: a count of nanoseconds since an origin that the driver picks.
//!
//! Owns: [`Instant`], and the saturating conversion from [`Duration`]. Lacks, on purpose: any way
//! to read a clock (rule T1), and any arithmetic that can wrap or panic (rule T2).

use core::time::Duration;

/// A point on the coordinator's monotonic time line, in nanoseconds since the driver's origin.
///
/// It has no meaning outside its process and is not serialisable (rule T4). The largest value,
/// [`Instant::NEVER`], is never reached: what happens then never happens.
///
/// ```
/// use admission_core::Instant;
/// use core::time::Duration;
///
/// let start = Instant::from_millis(1_000);
/// assert_eq!(start + Duration::from_millis(50), Instant::from_millis(1_050));
/// assert_eq!(start + Duration::MAX, Instant::NEVER);
/// assert_eq!(Instant::ZERO.saturating_duration_since(start), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// After everything; no clock gets there.
    pub const NEVER: Self = Self(u64::MAX);
    /// The last instant that a clock can show.
    pub(crate) const LAST: Self = Self(u64::MAX - 1);

    /// `nanos` nanoseconds after the origin; `u64::MAX` is [`Instant::NEVER`].
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `millis` milliseconds after the origin, saturating.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// How long ago `earlier` was, or zero if it was not.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) const fn plus(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::NEVER`].
    fn add(self, later: Duration) -> Self {
        self.plus(nanos(later))
    }
}

/// A duration in nanoseconds; what does not fit is `u64::MAX`, which is longer than any clock runs.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
