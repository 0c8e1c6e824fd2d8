//! The smol adapter: one timer per coordinator, in the reactor that all of smol shares.
//!
//! Owns: what the alarm sleeps by, and the aliases. Lacks, on purpose: a task (the timer wakes the coordinator itself,
//! so it does not matter which executor runs, or whether one does), any sleep in a waiting future, and
//! any decision: the coordinator's clock decides, the alarm only wakes it.
//!
//! On Linux and Android the timer is a `timerfd` that the reactor watches: to set one of the reactor's own wakes the
//! reactor, and costs a start another wait. The first 64 coordinators of a process that have callers waiting take a file
//! each, and keep it. For the others it is one of the reactor's own, as it is elsewhere, and where the system has no
//! file left to give.
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

#[cfg(any(target_os = "linux", target_os = "android"))]
mod timerfd;

use std::sync::Arc;
use std::time::Duration;

use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, SleepAlarm, Spawn, SystemClock};
use smol::Timer;

admission_rt::aliases!(Smol);

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
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(alarm) = timerfd::Watched::new(&bell) {
            return SmolAlarm(Kind::Watched(alarm));
        }
        // The reactor wakes its timers outside its own locks, as this wants.
        SmolAlarm(Kind::Timer(SleepAlarm::new(bell, Timer::after)))
    }
}

/// The alarm of a coordinator. What it is made of is nobody's business.
#[derive(Debug)]
pub struct SmolAlarm(Kind);

#[derive(Debug)]
enum Kind {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Watched(timerfd::Watched),
    /// One of the reactor's own.
    Timer(SleepAlarm<Timer>),
}

impl Alarm for SmolAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        match &mut self.0 {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Kind::Watched(alarm) => alarm.arm(delay),
            Kind::Timer(alarm) => alarm.arm(delay),
        }
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
