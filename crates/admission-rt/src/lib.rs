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
//! Lacks, on purpose: timers, executors, and any thread of its own.

#![forbid(unsafe_code)]

mod abort;
mod acquire;
mod admission;
mod alarms;
mod bell;
mod builder;
mod call;
mod clock;
mod idle;
mod interval_limiter;
mod key;
mod names;
mod permit;
mod provider;
mod rate_limiter;
mod rejected;
mod run;
pub mod runtime;
mod shared;
mod slab;
mod unwind;
mod waiters;

pub use admission_core::{Counts, Instant};

pub use abort::{AbortHandle, AbortReason, AbortSignal, Aborted};
pub use acquire::Acquire;
pub use admission::{Admission, UnknownProvider};
pub use builder::{BuildError, Builder, Interval, Limits, Window};
pub use call::Call;
pub use idle::{Closed, Idle};
pub use interval_limiter::{IntervalLimiter, IntervalLimiterBuilder, Start};
pub use key::Key;
pub use permit::Permit;
pub use provider::Provider;
pub use rate_limiter::{RateLimiter, RateLimiterBuilder, Strategy};
pub use rejected::{Limit, LimitKind, Rejected, RunError, Scope};
pub use run::{Run, TryRun};
