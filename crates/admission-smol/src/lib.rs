//! The smol adapter: one timer per coordinator, in the reactor that all of smol shares.
//!
//! Owns: what the alarm sleeps by, and the aliases. Lacks, on purpose: a task (the timer wakes the coordinator itself,
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

use std::sync::Arc;

use admission_rt::runtime::{Bell, Clock, Runtime, RuntimeId, SleepAlarm, Spawn, SystemClock};
use smol::Timer;

admission_rt::aliases!(Smol);

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Smol;

impl Runtime for Smol {
    /// The reactor wakes its timers outside its own locks, as this wants.
    type Alarm = SleepAlarm<Timer>;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// Always the same one, and always there: the reactor is the process's.
    fn current() -> Option<RuntimeId> {
        Some(RuntimeId::new::<Smol>(0))
    }

    fn alarm(bell: Bell) -> Self::Alarm {
        SleepAlarm::new(bell, Timer::after)
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
