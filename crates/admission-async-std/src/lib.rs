//! The async-std adapter. async-std itself is discontinued (advisory RUSTSEC-2025-0052), and a new
//! program should begin with smol or tokio. This crate exists because programs on async-std still run,
//! and need their upstreams' quotas kept as much as any other, also while they move: one coordinator
//! serves callers on async-std and on their next runtime at once. Nothing depends on this crate unless
//! it is asked to, and no feature that is on by default brings it in.
//!
//! Owns: the alarm and the aliases. Lacks, on purpose: a task, any sleep in a waiting future, and any
//! decision: the coordinator's clock decides, the alarm only wakes it.
//!
//! The alarm is [`async_std::task::sleep`] in a box, made anew whenever the alarm is armed, and polled
//! with a waker that belongs to the coordinator. async-std has no public timer that can be set again.
//! Beneath it there is one, that of async-io, and this crate could name that directly; but then it would
//! be `admission-smol` under another name, tied to the version of async-io that async-std happens to
//! use. The price is one allocation per arming, which is one per start in a paced queue. The timers
//! live in a reactor that belongs to the whole process, so there is always a runtime to wait in.
//!
//! ```
//! use admission_async_std::Admission;
//! use std::time::Duration;
//!
//! async_std::task::block_on(async {
//!     let pace = Duration::from_millis(20);
//!     let admission = Admission::builder().provider("github", |p| p.interval(pace)).build()?;
//!     let github = admission.provider("github")?;
//!
//!     // They start 20 ms apart, whichever task polls them.
//!     let calls = (0..3).map(|n| async_std::task::spawn(github.run(async move || n)));
//!     for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
//!         assert_eq!(call.await?, n);
//!     }
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })
//! # .unwrap();
//! ```
#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn, SystemClock};
use async_std::task::sleep;

/// The coordinator's handle.
pub type Admission = admission_rt::Admission<AsyncStd>;
/// What a coordinator is built with.
pub type Builder = admission_rt::Builder<AsyncStd>;
/// The handle of one provider.
pub type Provider = admission_rt::Provider<AsyncStd>;
/// The options of one call.
pub type Call = admission_rt::Call<AsyncStd>;
/// The future of a permit.
pub type Acquire = admission_rt::Acquire<AsyncStd>;
/// The future of an admitted operation.
pub type Run<F, Fut> = admission_rt::Run<AsyncStd, F, Fut>;
/// The future of an admitted operation that may fail.
pub type TryRun<F, Fut> = admission_rt::TryRun<AsyncStd, F, Fut>;
/// What a query is built with. The query itself knows no runtime.
pub type QueryBuilder<E> = admission_rt::QueryBuilder<AsyncStd, E>;
/// The sliding log as an object of its own.
pub type RateLimiter = admission_rt::RateLimiter<AsyncStd>;
/// The interval pacer as an object of its own.
pub type IntervalLimiter = admission_rt::IntervalLimiter<AsyncStd>;

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncStd;

impl Runtime for AsyncStd {
    type Alarm = AsyncStdAlarm;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// Always the same one, and always there: the reactor is the process's.
    fn current() -> Option<RuntimeId> {
        Some(RuntimeId::new::<AsyncStd>(0))
    }

    fn alarm(bell: Bell) -> AsyncStdAlarm {
        AsyncStdAlarm { sleep: None, waker: bell.waker(), bell }
    }
}

impl Spawn for AsyncStd {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(async_std::task::spawn(future));
    }
}

/// A sleep whose waker is the bell. It takes its timer away when it is dropped.
pub struct AsyncStdAlarm {
    sleep: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waker: Waker,
    bell: Bell,
}

impl Alarm for AsyncStdAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        self.sleep = None;
        let Some(delay) = delay else { return Ok(()) };
        let mut sleep = Box::pin(sleep(delay.min(LONGEST)));
        // A sleep begins with its first poll.
        if sleep.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.bell.ring();
        } else {
            self.sleep = Some(sleep);
        }
        Ok(())
    }
}

impl fmt::Debug for AsyncStdAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncStdAlarm").field("armed", &self.sleep.is_some()).finish_non_exhaustive()
    }
}

/// The longest sleep that is asked of the reactor. What is longer is waited for in pieces.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// async-std, with somebody looking at its timer whenever it was armed.
    struct Watched;

    struct WatchedAlarm(AsyncStdAlarm);

    /// Whether there was a timer, each time the alarm was armed.
    static SET: Mutex<Vec<bool>> = Mutex::new(Vec::new());

    impl Runtime for Watched {
        type Alarm = WatchedAlarm;

        fn clock() -> Arc<dyn Clock> {
            AsyncStd::clock()
        }

        fn current() -> Option<RuntimeId> {
            Some(RuntimeId::new::<Self>(0))
        }

        fn alarm(bell: Bell) -> WatchedAlarm {
            WatchedAlarm(AsyncStd::alarm(bell))
        }
    }

    impl Alarm for WatchedAlarm {
        fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
            let answer = self.0.arm(delay);
            SET.lock().unwrap().push(self.0.sleep.is_some());
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
