//! The async-std adapter. async-std itself is discontinued (advisory RUSTSEC-2025-0052), and a new
//! program should begin with smol or tokio. This crate exists because programs on async-std still run,
//! and need their upstreams' quotas kept as much as any other, also while they move: one coordinator
//! serves callers on async-std and on their next runtime at once. Nothing depends on this crate unless
//! it is asked to, and no feature that is on by default brings it in.
//!
//! Owns: what the alarm sleeps by, and the aliases. Lacks, on purpose: a task, any sleep in a waiting
//! future, and any decision: the coordinator's clock decides, the alarm only wakes it.
//!
//! The alarm sleeps by [`async_std::task::sleep`] in a box, since async-std has no public timer with a
//! name.
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

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use admission_rt::runtime::{Bell, Clock, Runtime, RuntimeId, SleepAlarm, Spawn, SystemClock};
use async_std::task::sleep;

admission_rt::aliases!(AsyncStd);

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncStd;

impl Runtime for AsyncStd {
    type Alarm = SleepAlarm<Sleep>;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// Always the same one, and always there: the reactor is the process's.
    fn current() -> Option<RuntimeId> {
        Some(RuntimeId::new::<AsyncStd>(0))
    }

    fn alarm(bell: Bell) -> Self::Alarm {
        SleepAlarm::new(bell, |time| Box::pin(sleep(time)))
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

/// What [`sleep`] gives has no name. It takes its timer away when it is dropped.
type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
