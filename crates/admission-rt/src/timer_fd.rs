//! A timer of the kernel's that is a file, for adapters whose reactor watches files.
//!
//! Owns: the file, and what it is set to. Lacks the watch, which is the reactor's, and so the ring.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A `timerfd` of the monotonic clock: an alarm that sets it asks the kernel for nanoseconds, with one call of
/// the system and from whatever thread. On Linux and Android, with the feature `timerfd`.
///
/// It becomes readable when its time has come, once for each time that it was set. Nobody need read it: setting it
/// anew forgets that, and a reactor that is told of edges is told of each. It blocks nobody, and is closed in a process
/// that this one becomes.
///
/// ```
/// use admission_rt::runtime::TimerFd;
/// use std::time::Duration;
///
/// let timer = TimerFd::new()?;
/// timer.set(Some(Duration::from_millis(5)))?;
/// timer.set(None)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl TimerFd {
    /// A timer that is set for nothing.
    ///
    /// # Errors
    ///
    /// The system's, if it has no file left to give, or none of this kind.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Sets it for so long from now, in place of what it was set for; or for nothing. A delay of zero is over at once,
    /// and one of more than a year after a year: early is harmless, where an alarm is armed again.
    ///
    /// # Errors
    ///
    /// None that a timer of this kind is known to have; the system's, if there is one all the same.
    pub fn set(&self, delay: Option<Duration>) -> io::Result<()> {
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &value(delay))?;
        Ok(())
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// What a timer is set to: nothing but zero is never.
fn value(delay: Option<Duration>) -> Itimerspec {
    let delay = delay.map_or(Duration::ZERO, |delay| delay.clamp(SHORTEST, LONGEST));
    // Both have room even where a long has 32 bits.
    let it_value = Timespec { tv_sec: delay.as_secs() as _, tv_nsec: delay.subsec_nanos() as _ };
    Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value }
}

const SHORTEST: Duration = Duration::from_nanos(1);
/// The longest wait that is asked of the kernel. What is longer is waited for in pieces.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    // rules T2, T6
    #[test]
    fn a_timer_is_set_for_every_delay_and_for_nothing_without_one() {
        let value = |delay| {
            let Timespec { tv_sec, tv_nsec } = value(delay).it_value;
            (tv_sec as u64, tv_nsec as u32)
        };
        assert_eq!(value(None), (0, 0));
        assert_eq!(value(Some(Duration::ZERO)), (0, 1), "zero would set it for nothing");
        assert_eq!(value(Some(Duration::new(3, 7))), (3, 7));
        assert_eq!(value(Some(Duration::MAX)), (LONGEST.as_secs(), 0));
    }
}
