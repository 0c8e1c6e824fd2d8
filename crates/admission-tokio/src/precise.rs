//! An alarm that is not bound to tokio's wheel: for paces of a few milliseconds. With the feature
//! `precise`.
//!
//! Owns: a second runtime, by type, and its aliases. Tasks run on tokio as ever; only the alarm is
//! another. Lacks tokio's paused clock: its timers know the real time alone.
//!
//! Tokio's timers tick in milliseconds, and round up to the next tick. That is a millisecond late at
//! most, which matters to nobody who waits for a window of a minute; but a pace of 1 ms, counted from a
//! start just after a tick, takes two ticks, and half the throughput is gone. The alarm here is a timer
//! of the kernel's, which counts in nanoseconds.
//!
//! | | the default | this, on Linux and Android | this, elsewhere |
//! |---|---|---|---|
//! | what rings | a `Sleep`, in a small task | a `timerfd`, in tokio's reactor | a timer of `async-io` |
//! | throughput lost at a pace of 1 ms, 5 ms, 100 ms | 52 %, 18 %, 1.2 % | 4.5 %, 1.8 %, 0.08 % | 5.7 %, 1.6 %, 0.12 % |
//! | CPU of a start at 1 ms, 5 ms | 34 µs, 67 µs | 26 µs, 60 µs | 55 µs, 96 µs |
//! | threads | none | none | one for the process, `async-io`'s reactor |
//! | files | none | one for each coordinator and runtime | none but the reactor's |
//! | what the runtime must have enabled | its time | its I/O | nothing |
//! | the runtime's end | noticed | noticed, once all its threads have stopped | the reactor has none |
//! | tokio's paused clock | followed | not followed | not followed |
//!
//! (Measured in turn on one machine of two cores under Linux, on one thread of tokio; `cargo xtask bench` in the
//! repository measures yours.) So take it where a pace or a window is below some 20 ms, and the default
//! elsewhere. One coordinator serves callers of both: `admission.on::<Precise>()`.
//!
//! On Linux and Android a runtime without I/O is no place to wait: a call that has to panics in its own poll, as one
//! of tokio's sockets would, and calls that need not wait never notice. `#[tokio::main]`, `#[tokio::test]` and
//! `enable_all` enable it, for the feature brings tokio's feature `net`; `enable_time` does not. Outside of tokio a
//! call that has to wait is refused with [`Rejected::NoRuntime`](admission_rt::Rejected::NoRuntime).
//!
//! A coordinator that has had a call waiting keeps its file for as long as it and the runtime last. So one with many
//! providers is better than many limiters. Where the system has no file left to give, the default alarm serves in that
//! place, and the runtime's time must be enabled.
//!
//! ```
//! use admission_tokio::precise::IntervalLimiter;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pace = IntervalLimiter::builder(Duration::from_millis(1)).build()?;
//! for _ in 0..3 {
//!     pace.call().run(async || ()).await?;
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod reactor;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod timerfd;

use std::future::Future;
use std::sync::Arc;

use admission_rt::runtime::{Bell, Clock, Runtime, RuntimeId, Spawn, SystemClock};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use reactor as timers;
#[cfg(any(target_os = "linux", target_os = "android"))]
use timerfd as timers;

use crate::Tokio;

pub use timers::PreciseAlarm;

admission_rt::aliases!(Precise);

/// Tokio with a precise alarm, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Precise;

impl Runtime for Precise {
    type Alarm = PreciseAlarm;

    /// The real time: a timer of the kernel's cannot follow tokio's paused clock.
    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    fn current() -> Option<RuntimeId> {
        timers::current()
    }

    fn alarm(bell: Bell) -> PreciseAlarm {
        PreciseAlarm::new(bell)
    }
}

impl Spawn for Precise {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Tokio::spawn(future);
    }
}
