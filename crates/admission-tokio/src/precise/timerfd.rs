//! The precise alarm where the kernel has timers that are files: one of them, in tokio's own reactor.
//!
//! Owns: the timer, the ring, and how the end of the runtime is noticed. Lacks a thread, and a task too: to arm it
//! is one call of the system, from whatever thread; the reactor, which watches the file with all others, rings the
//! bell; and the reactor's end is the runtime's. Where the system has no file left to give, the default alarm serves.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use admission_rt::runtime::{Alarm, Bell, Dead, Runtime, RuntimeId, TimerFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use super::Precise;
use crate::{Tokio, TokioAlarm};

/// The runtime that polls the caller: the alarm is that runtime's.
pub(super) fn current() -> Option<RuntimeId> {
    crate::number_of_current().map(RuntimeId::new::<Precise>)
}

/// The alarm of a coordinator in one runtime. What it is made of is nobody's business.
#[derive(Debug)]
pub struct PreciseAlarm(Kind);

#[derive(Debug)]
enum Kind {
    Watched(Watched),
    /// Late by a millisecond or so, which is no reason to refuse anybody.
    Default(TokioAlarm),
}

impl PreciseAlarm {
    pub(super) fn new(bell: Bell) -> Self {
        Self(match timer() {
            Ok(timer) => Kind::Watched(Watched::new(bell, Some(timer))),
            Err(NoTimer::RuntimeGone) => Kind::Watched(Watched::new(bell, None)),
            Err(NoTimer::NoFile) => Kind::Default(Tokio::alarm(bell)),
        })
    }
}

impl Alarm for PreciseAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        match &mut self.0 {
            Kind::Watched(alarm) => alarm.arm(delay),
            Kind::Default(alarm) => alarm.arm(delay),
        }
    }
}

/// The coordinator's end of the timer.
#[derive(Debug)]
struct Watched {
    watch: Arc<Watch>,
}

impl Watched {
    /// Dead at once without a timer, or where the runtime is gone by now.
    fn new(bell: Bell, timer: Option<AsyncFd<TimerFd>>) -> Self {
        let watch = Arc::new(Watch { bell, timer: Mutex::new(timer) });
        if !watch.watch_on() {
            watch.bell.lost();
        }
        Self { watch }
    }

    fn arm(&self, delay: Option<Duration>) -> Result<(), Dead> {
        match &*self.watch.lock() {
            Some(timer) => timer.get_ref().set(delay).map_err(|_| Dead),
            None => Err(Dead),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The reactor has the watch for its waker, and the watch has what keeps the reactor's: this is what parts
        // them.
        let timer = self.watch.lock().take();
        drop(timer);
    }
}

/// What the reactor wakes when the time has come.
#[derive(Debug)]
struct Watch {
    bell: Bell,
    /// None when the runtime is gone, or the alarm is.
    timer: Mutex<Option<AsyncFd<TimerFd>>>,
}

impl Watch {
    /// Has the reactor wake this once more. False if that is gone.
    ///
    /// Nobody reads the file: what it would say is how often the timer rang, setting the timer anew forgets that,
    /// and the reactor is told of each ring by itself.
    fn watch_on(self: &Arc<Self>) -> bool {
        let mut held = self.lock();
        let Some(timer) = &*held else { return false };
        let waker = Waker::from(Arc::clone(self));
        // The budget of the task that happens to be polled is none of its business.
        let gone = pin!(unconstrained(poll_fn(|cx| {
            loop {
                match ready!(timer.poll_read_ready(cx)) {
                    Ok(mut rang) => rang.clear_ready(),
                    Err(_) => return Poll::Ready(()),
                }
            }
        })));
        let lives = gone.poll(&mut Context::from_waker(&waker)).is_pending();
        let timer = if lives { None } else { held.take() };
        drop(held);
        drop(timer);
        lives
    }

    fn lock(&self) -> MutexGuard<'_, Option<AsyncFd<TimerFd>>> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Called by the reactor with none of its locks held: when the timer has rung, and when the runtime ends.
impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        if self.watch_on() {
            self.bell.ring();
        } else {
            self.bell.lost();
        }
    }
}

/// Why there is no timer.
enum NoTimer {
    RuntimeGone,
    /// The system has none left to give, or none of this kind.
    NoFile,
}

/// A timer that is set for nothing. Where tokio's I/O is not enabled this panics, and it should do so in the
/// caller's poll, as tokio's own sockets do.
#[allow(
    deprecated,
    reason = "what came after is `unsafe`, for types whose file may change; a `TimerFd` keeps its own"
)]
fn timer() -> Result<AsyncFd<TimerFd>, NoTimer> {
    if Handle::try_current().is_err() {
        return Err(NoTimer::RuntimeGone);
    }
    let timer = TimerFd::new().map_err(|_| NoTimer::NoFile)?;
    // A reactor that has ended says so itself; all else is the system's word.
    AsyncFd::with_interest(timer, Interest::READABLE)
        .map_err(|error| error.raw_os_error().map_or(NoTimer::RuntimeGone, |_| NoTimer::NoFile))
}
