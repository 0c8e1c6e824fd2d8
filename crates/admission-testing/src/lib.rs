//! A runtime in which time is a number: a virtual clock, and a deterministic executor that moves it.
//!
//! Owns: [`VirtualClock`], [`Simulation`] (one thread, tasks in the order in which they were woken,
//! time that jumps to the next timer when nothing else can run), [`Virtual`] (the same as a runtime
//! for `admission`, like any other), and ways to make its timers fire early, late or never. Lacks,
//! on purpose: threads, I/O, randomness, and any look at the host's clock.
//!
//! The guide, `docs/testing.md` in the repository, tests a client that retries through an hour of ups and
//! downs, says what is virtual here and what is not, and shows how to make timers lie.
//!
//! An hour of waiting takes no time, and the same program does the same thing every time:
//!
//! ```
//! use admission_testing::{Admission, Simulation};
//! use std::time::Duration;
//!
//! let simulation = Simulation::new();
//! let starts = simulation.block_on(async {
//!     let hour = Duration::from_secs(3_600);
//!     let admission = Admission::builder().provider("slow", |p| p.interval(hour)).build().unwrap();
//!     let slow = admission.provider("slow").unwrap();
//!     let mut starts = Vec::new();
//!     for _ in 0..3 {
//!         slow.run(async || starts.push(admission_testing::now().as_nanos())).await.unwrap();
//!     }
//!     starts
//! });
//! assert_eq!(starts, [0, 3_600_000_000_000, 7_200_000_000_000]);
//! assert_eq!(simulation.alarms().armed, 0);
//! ```
#![forbid(unsafe_code)]

mod clock;
mod executor;
mod timers;

pub use clock::VirtualClock;
pub use executor::{
    Handle, JoinError, JoinHandle, Simulation, Sleep, YieldNow, now, sleep, spawn, yield_now,
};
pub use timers::{Alarms, Arming, Firing, Virtual, VirtualAlarm};

/// The coordinator's handle.
pub type Admission = admission_rt::Admission<Virtual>;
/// What a coordinator is built with.
pub type Builder = admission_rt::Builder<Virtual>;
/// The handle of one provider.
pub type Provider = admission_rt::Provider<Virtual>;
/// The options of one call.
pub type Call = admission_rt::Call<Virtual>;
/// The future of a permit.
pub type Acquire = admission_rt::Acquire<Virtual>;
/// The future of an admitted operation.
pub type Run<F, Fut> = admission_rt::Run<Virtual, F, Fut>;
/// The future of an admitted operation that may fail.
pub type TryRun<F, Fut> = admission_rt::TryRun<Virtual, F, Fut>;
/// What a query is built with. The query itself knows no runtime.
pub type QueryBuilder<E> = admission_rt::QueryBuilder<Virtual, E>;
/// The sliding log as an object of its own.
pub type RateLimiter = admission_rt::RateLimiter<Virtual>;
/// The interval pacer as an object of its own.
pub type IntervalLimiter = admission_rt::IntervalLimiter<Virtual>;
/// What a rate limiter is built with.
pub type RateLimiterBuilder = admission_rt::RateLimiterBuilder<Virtual>;
/// What an interval limiter is built with.
pub type IntervalLimiterBuilder = admission_rt::IntervalLimiterBuilder<Virtual>;
/// The future of an interval limiter's start.
pub type Start = admission_rt::Start<Virtual>;
/// A call that is tried again.
pub type RetryCall<E> = admission_rt::RetryCall<Virtual, E>;
/// The future of such a call.
pub type RetryRun<E, F, Fut> = admission_rt::RetryRun<Virtual, E, F, Fut>;
/// A stream that is read no faster than a limiter allows.
pub type Paced<S> = admission_rt::Paced<S, Virtual>;
