//! The smol adapter: one timer per coordinator, in the reactor that all of smol shares.
//!
//! Owns: the alarm and the aliases. Lacks, on purpose: a task (the timer wakes the coordinator itself,
//! so it does not matter which executor runs, or whether one does), any sleep in a waiting future, and
//! any decision: the coordinator's clock decides, the alarm only wakes it.
//!
//! smol's reactor belongs to the whole process and lives as long as that. So there is always a runtime
//! to wait in, on any thread and under any executor, and one alarm serves all executors of a program.
//! Wake-ups come from whichever thread drives the reactor: one in `smol::block_on`, or the one that
//! smol keeps for the purpose.
//!
//! ```
//! use admission_smol::Admission;
//! use std::time::Duration;
//!
//! smol::block_on(async {
//!     let pace = Duration::from_millis(20);
//!     let admission = Admission::builder().provider("github", |p| p.interval(pace)).build()?;
//!     let github = admission.provider("github")?;
//!
//!     // They start 20 ms apart, whichever executor polls them.
//!     let calls = (0..3).map(|n| smol::spawn(github.run(async move || n)));
//!     for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
//!         assert_eq!(call.await?, n);
//!     }
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })
//! # .unwrap();
//! ```
#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn, SystemClock};
use smol::Timer;

/// The coordinator's handle.
pub type Admission = admission_rt::Admission<Smol>;
/// What a coordinator is built with.
pub type Builder = admission_rt::Builder<Smol>;
/// The handle of one provider.
pub type Provider = admission_rt::Provider<Smol>;
/// The options of one call.
pub type Call = admission_rt::Call<Smol>;
/// The future of a permit.
pub type Acquire = admission_rt::Acquire<Smol>;
/// The future of an admitted operation.
pub type Run<F, Fut> = admission_rt::Run<Smol, F, Fut>;
/// The future of an admitted operation that may fail.
pub type TryRun<F, Fut> = admission_rt::TryRun<Smol, F, Fut>;
/// What a query is built with. The query itself knows no runtime.
pub type QueryBuilder<E> = admission_rt::QueryBuilder<Smol, E>;
/// The sliding log as an object of its own.
pub type RateLimiter = admission_rt::RateLimiter<Smol>;
/// The interval pacer as an object of its own.
pub type IntervalLimiter = admission_rt::IntervalLimiter<Smol>;

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Smol;

impl Runtime for Smol {
    type Alarm = SmolAlarm;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// Always the same one, and always there: the reactor is the process's.
    fn current() -> Option<RuntimeId> {
        Some(RuntimeId::new::<Smol>(0))
    }

    fn alarm(bell: Bell) -> SmolAlarm {
        SmolAlarm { timer: Timer::never(), waker: bell.waker(), bell }
    }
}

/// On smol's global executor, whose threads the first spawn starts.
impl Spawn for Smol {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // A task that is not detached is cancelled with its handle.
        smol::spawn(future).detach();
    }
}

/// A timer whose waker is the bell. The reactor wakes it outside its own locks for timers, so that the
/// bell may arm it anew from inside the wake.
#[derive(Debug)]
pub struct SmolAlarm {
    timer: Timer,
    waker: Waker,
    bell: Bell,
}

impl Alarm for SmolAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        let Some(delay) = delay else {
            self.timer = Timer::never();
            return Ok(());
        };
        self.timer.set_after(delay.min(LONGEST));
        // A timer is in the reactor from its first poll on. Should its time have come by now, the
        // reactor may know nothing of it.
        if Pin::new(&mut self.timer).poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.bell.ring();
        }
        Ok(())
    }
}

/// The longest sleep that is asked of the reactor. What is longer is waited for in pieces.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// smol, with somebody looking at its timer whenever it was armed.
    struct Watched;

    struct WatchedAlarm(SmolAlarm);

    /// Whether the timer was set, each time the alarm was armed.
    static SET: Mutex<Vec<bool>> = Mutex::new(Vec::new());

    impl Runtime for Watched {
        type Alarm = WatchedAlarm;

        fn clock() -> Arc<dyn Clock> {
            Smol::clock()
        }

        fn current() -> Option<RuntimeId> {
            Some(RuntimeId::new::<Self>(0))
        }

        fn alarm(bell: Bell) -> WatchedAlarm {
            WatchedAlarm(Smol::alarm(bell))
        }
    }

    impl Alarm for WatchedAlarm {
        fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
            let answer = self.0.arm(delay);
            SET.lock().unwrap().push(self.0.timer.will_fire());
            answer
        }
    }

    // rules T6, W5
    #[test]
    fn a_wait_that_is_dropped_leaves_no_timer() {
        let hour = Duration::from_secs(3_600);
        let admission = admission_rt::Admission::<Watched>::builder().provider("a", |p| p.interval(hour));
        let a = admission.build().unwrap().provider("a").unwrap();
        drop(a.try_acquire().unwrap());
        let mut waiting = a.acquire();
        assert!(waiting.poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(*SET.lock().unwrap(), [true]);
        drop(waiting);
        assert_eq!(*SET.lock().unwrap(), [true, false]);
    }
}
