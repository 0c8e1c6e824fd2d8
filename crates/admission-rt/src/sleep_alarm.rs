//! An alarm made of a runtime's own sleep, where that wakes without an executor.
//!
//! Owns: how a future becomes an alarm: polled once when it is armed, with the bell for its waker, and
//! dropped when it is not wanted any more. Lacks the death of a runtime (promise 5): it is for reactors
//! that live as long as the process. Where a sleep belongs to a runtime that can end, or is polled only
//! inside a task, an alarm needs more than this.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::runtime::{Alarm, Bell, Dead};

/// An [`Alarm`] for runtimes whose sleep is a future that can be polled anywhere, and whose reactor lives
/// as long as the process: the whole of such an adapter.
///
/// Each arming makes a sleep and polls it once. Arming anew, disarming and dropping the alarm drop the
/// sleep, which must take its timer away by that. The reactor must wake it with no lock held that making
/// or dropping a sleep takes, since the wake rings the bell, and that may arm the alarm anew.
///
/// ```
/// use admission_rt::runtime::{Bell, SleepAlarm};
/// # type Timer = std::future::Pending<()>;
/// # fn after(_: std::time::Duration) -> Timer { std::future::pending() }
///
/// fn alarm(bell: Bell) -> SleepAlarm<Timer> {
///     SleepAlarm::new(bell, after)
/// }
/// ```
pub struct SleepAlarm<S> {
    sleep: Option<S>,
    begin: fn(Duration) -> S,
    waker: Waker,
    bell: Bell,
}

impl<S> SleepAlarm<S> {
    /// An alarm that is not armed. `begin` makes a sleep, and is never asked for one longer than a year:
    /// what is longer is waited for in pieces. It must not panic.
    #[must_use]
    pub fn new(bell: Bell, begin: fn(Duration) -> S) -> Self {
        Self { sleep: None, begin, waker: bell.waker(), bell }
    }
}

impl<S: Future + Send + Unpin + 'static> Alarm for SleepAlarm<S> {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        self.sleep = None;
        let Some(delay) = delay else { return Ok(()) };
        let mut sleep = (self.begin)(delay.min(LONGEST));
        // A sleep begins with its first poll. Should its time have come by now, nobody will wake it.
        if Pin::new(&mut sleep).poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.bell.ring();
        } else {
            self.sleep = Some(sleep);
        }
        Ok(())
    }
}

impl<S> fmt::Debug for SleepAlarm<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepAlarm").field("armed", &self.sleep.is_some()).finish_non_exhaustive()
    }
}

/// The longest sleep that is asked for.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
