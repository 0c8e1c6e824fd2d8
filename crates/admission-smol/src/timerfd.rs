//! An alarm that is a timer of the kernel's, in smol's reactor: where the kernel has timers that are files.
//!
//! Owns: the timer, and how the reactor is asked to watch it. Lacks any use of the reactor's own timers: to set one
//! of those is to wake the reactor, which then sets a timer of the kernel's; and where the thread that sets it is the
//! one that goes to wait there, that is a wait and a wake for nothing, with every start.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use admission_rt::runtime::{Bell, Dead, TimerFd};
use smol::Async;

#[derive(Debug)]
pub(crate) struct Watched {
    timer: Async<TimerFd>,
    /// Rings the bell. Always the same one: the reactor would wake another for being replaced.
    ring: Waker,
    _share: Share,
}

impl Watched {
    /// None where the process has as many as it should, or the system has no file left to give.
    pub(crate) fn new(bell: &Bell) -> Option<Self> {
        let share = Share::take()?;
        let timer = Async::new_nonblocking(TimerFd::new().ok()?).ok()?;
        Some(Self { timer, ring: bell.waker(), _share: share })
    }

    /// Nobody reads the file: what it would say is how often the timer rang, and setting the timer forgets that. So it
    /// is watched anew only once it is set anew, or the reactor would find what it has told already.
    pub(crate) fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        self.timer.get_ref().set(delay).map_err(|_| Dead)?;
        if delay.is_some() {
            let mut context = Context::from_waker(&self.ring);
            loop {
                match self.timer.poll_readable(&mut context) {
                    // That was for what it was set to before.
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Err(Dead),
                    Poll::Pending => break,
                }
            }
        }
        Ok(())
    }
}

/// One of the files that the process may have for this. A coordinator keeps its own once a call has waited, and nobody
/// asked for them: a program with a limiter for each of its users needs its files for its sockets.
#[derive(Debug)]
struct Share;

impl Share {
    fn take() -> Option<Self> {
        let more = |taken| (taken < MOST).then_some(taken + 1);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
    }
}

static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Few beside the 1,024 files that a process often may have, and more than there are coordinators in most.
const MOST: usize = 64;
