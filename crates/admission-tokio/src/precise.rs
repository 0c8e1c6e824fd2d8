//! An alarm that is not bound to tokio's wheel: for paces of a few milliseconds. With the feature
//! `precise`.
//!
//! Owns: a second runtime, by type, and its aliases. Tasks run on tokio as ever; only the alarm is
//! another's. Lacks tokio's paused clock: its timers know the real time alone.
//!
//! Tokio's timers tick in milliseconds, and round up to the next tick. That is a millisecond late at
//! most, which matters to nobody who waits for a window of a minute; but a pace of 1 ms, counted from a
//! start just after a tick, takes two ticks, and half the throughput is gone. The alarm here is a timer
//! of `async-io`, which asks the kernel for nanoseconds.
//!
//! | | the default | this |
//! |---|---|---|
//! | throughput lost at a pace of 1 ms, 5 ms, 100 ms | 51 %, 18 %, 1.1 % | 6.6 %, 2.8 %, 0.13 % |
//! | CPU per start at a pace of 1 ms | 43 us | 109 us |
//! | threads | none | one for the process, `async-io`'s reactor |
//! | tokio's paused clock | followed | not followed |
//!
//! (Measured on one machine of two cores; `cargo xtask bench` in the repository measures yours.) So take
//! it where a pace or a window is below some 20 ms, and the default elsewhere. One coordinator serves
//! callers of both: `admission.on::<Precise>()`.
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

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use admission_rt::runtime::{Bell, Clock, Runtime, RuntimeId, SleepAlarm, Spawn, SystemClock};
use async_io::Timer;

use crate::Tokio;

admission_rt::aliases!(Precise);

/// Tokio with a precise alarm, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Precise;

impl Runtime for Precise {
    type Alarm = SleepAlarm<PreciseSleep>;

    /// The real time: a timer of the kernel's cannot follow tokio's paused clock.
    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// Always the same one, and always there: the reactor is the process's.
    fn current() -> Option<RuntimeId> {
        Some(RuntimeId::new::<Self>(0))
    }

    fn alarm(bell: Bell) -> Self::Alarm {
        SleepAlarm::new(bell, |delay| PreciseSleep(Timer::after(delay)))
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

/// The sleep of this alarm. What it is made of is nobody's business.
#[derive(Debug)]
pub struct PreciseSleep(Timer);

impl Future for PreciseSleep {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        Pin::new(&mut self.0).poll(cx)
    }
}
