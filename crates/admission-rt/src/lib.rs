//! The admission coordinator for async code, on any runtime.
//!
//! Rules are decided by [`admission_core`], a state machine that knows neither clocks nor wakers.
//! This crate puts one lock around it, keeps the wakers beside it, and turns tickets into futures:
//!
//! ```text
//!  Acquire, Run ──poll──▶ ┌────────────── turn ───────────────┐
//!  Permit ───────drop───▶ │ lock → clock → act on the machine │ ──▶ alarms (one per runtime)
//!  Bell ─────────ring───▶ │      → take wakers → unlock       │ ──▶ wakes
//!                         └───────────────────────────────────┘
//! ```
//!
//! Futures own no timer and depend on no other future being polled. What a runtime must bring, an
//! alarm, is in [`runtime`]; an adapter crate (for tokio, say) is about a hundred lines and has the
//! aliases that let users write no type parameter.
//!
//! Start with [`Admission`], the coordinator of several providers; [`RateLimiter`] and
//! [`IntervalLimiter`] are the same machine with a single rule. A [`Permit`] is what a granted call
//! holds; [`Rejected`] says why one was not granted, and for how long it is no use to try again.
//!
//! # While it is in use
//!
//! Limits, providers and the length of the queue may change while calls wait and run, and a call may
//! correct what it costs (rules L7, L8, L10). Whatever now may start is woken by the change itself,
//! nothing that runs is touched, and nothing that a window has counted is forgotten.
//!
//! ```
//! use admission_rt::{Admission, ChangeError, Permit, SettleError, runtime::Runtime};
//! use std::time::Duration;
//!
//! fn change<R: Runtime>(admission: &Admission<R>) -> Result<(), ChangeError> {
//!     // Limits are stated anew: what is not stated is not limited any more.
//!     admission.provider("github")?.set_limits(|p| p.max_concurrent(4).window(30, Duration::from_secs(60)))?;
//!     admission.add_provider("mirror", |p| p.max_concurrent(2))?;
//!     admission.remove_provider("stripe")
//! }
//!
//! fn correct(permit: &Permit, used: u64) -> Result<(), SettleError> {
//!     permit.settle("tokens", used)
//! }
//! ```
//!
//! With [`Builder::template`] any name is a provider: one per host, account or model, made by its first
//! call and forgotten when nothing is left of it, however many there have been. A handle means its
//! name, and nobody else's, for as long as it is kept.
//!
//! [`Admission::snapshot`] says what holds for every scope at one moment, and prints it as a table.
//!
//! # Trying again
//!
//! [`Call::retry`] takes a [`Retry`] policy. Each attempt is a call of its own at the tail of the queue
//! (rule E5); between two attempts nothing is held. What a server says with `Retry-After` can become a
//! cooldown for everybody who calls it.
//!
//! ```
//! use admission_rt::{Provider, Retry, RetryError, backon::FibonacciBuilder, runtime::Runtime};
//! use std::time::Duration;
//!
//! enum Failed { Busy { retry_after: Duration }, NotFound }
//!
//! async fn fetch(_repo: &str) -> Result<String, Failed> {
//! #   Err(Failed::NotFound)
//! }
//!
//! async fn issues<R: Runtime>(github: &Provider<R>, repo: &str) -> Result<String, RetryError<Failed>> {
//!     let policy = Retry::backoff(FibonacciBuilder::default().with_jitter())
//!         .at_most(5)
//!         .when(|failed| matches!(failed, Failed::Busy { .. }))
//!         .cooldown(|failed| match failed {
//!             Failed::Busy { retry_after } => Some(*retry_after),
//!             Failed::NotFound => None,
//!         });
//!     github.key(repo).retry(policy).try_run(|_attempt| fetch(repo)).await
//! }
//! ```
//!
//! # Queries
//!
//! A [`Query`] is data that calls of one key fetch again and again, and that many look at: see there. It is
//! the one thing here that needs a runtime to run tasks of its own ([`runtime::Spawn`]).
//!
//! # Streams
//!
//! [`AdmissionStreamExt`] maps the items of any stream under admission, several at once and with
//! retries, or reads a stream no faster than a limiter allows (rule I4). Each item is a call like any
//! other, and each of its retries, too.
//!
//! Lacks, on purpose: timers, executors, and any thread of its own.

#![forbid(unsafe_code)]

#[cfg(not(target_has_atomic = "64"))]
compile_error!("admission-rt needs atomics of 64 bits; admission-core needs none");

mod abort;
mod abort_reason;
mod acquire;
mod admission;
mod alarms;
mod aliases;
mod attempt;
mod attention;
mod baton;
mod bell;
mod builder;
mod call;
mod change;
mod clock;
mod guess;
mod guests;
mod idle;
mod in_force;
mod interval_limiter;
mod key;
mod millis;
mod names;
mod offer;
mod permit;
mod provider;
mod query;
mod rate_limiter;
mod reading;
mod rejected;
mod retry;
mod run;
pub mod runtime;
mod shared;
mod slab;
mod sleep;
mod sleep_alarm;
mod snapshot;
mod stage;
mod stream;
mod sync;
#[cfg(all(feature = "timerfd", any(target_os = "linux", target_os = "android")))]
mod timer_fd;
mod unwind;
mod waiters;
mod waiting;

pub use admission_core::{Counts, Instant};

pub use abort::{AbortHandle, AbortSignal, Aborted};
pub use abort_reason::AbortReason;
pub use acquire::Acquire;
pub use admission::{Admission, UnknownProvider};
pub use attempt::Attempt;
pub use backon;
pub use builder::{BuildError, Builder, Interval, Limits, Window};
pub use call::Call;
pub use change::{ChangeError, SettleError};
pub use idle::{Closed, Idle};
pub use interval_limiter::{IntervalLimiter, IntervalLimiterBuilder, Start};
pub use key::Key;
pub use permit::Permit;
pub use provider::Provider;
pub use query::{
    AttemptError, AttemptTimes, CycleTimes, Fetched, OnAbort, Query, QueryBuilder, QueryError, QuerySnapshot,
    QueryStatus, Refresh, Subscription,
};
pub use rate_limiter::{RateLimiter, RateLimiterBuilder, Strategy};
pub use rejected::{Limit, LimitKind, OtherCall, Rejected, RunError, Scope};
pub use retry::{Retry, RetryCall, RetryError, RetryRun};
pub use run::{Run, TryRun};
pub use snapshot::{PacerSnapshot, ScopeSnapshot, Snapshot};
pub use stream::{AdmissionStreamExt, Calls, DrivenMap, ItemError, MapAdmitted, Paced, PerItem, SpawnedMap};
pub use waiting::{HeldBy, Waiting};
