//! Admission for threads: the same coordinator, for callers without an executor.
//!
//! The handles here are those of [`admission_rt`] with waits that block the calling thread instead of
//! futures: [`acquire`](Provider::acquire) returns the permit, and [`run`](Provider::run) takes a
//! closure that does the work and returns. Queue, order, limits, options and errors are the same, since
//! it is the same coordinator: [`on`](Admission::on) gives its handle for another runtime, and
//! [`From`] makes a handle of this crate of any that was made for [`Blocking`].
//!
//! ```
//! use admission_blocking::Admission;
//! use std::thread;
//! use std::time::Duration;
//!
//! let pace = Duration::from_millis(20);
//! let admission = Admission::builder()
//!     .max_concurrent(4)
//!     .provider("github", |p| p.max_concurrent(2).interval(pace))
//!     .build()?;
//! let github = admission.provider("github")?;
//!
//! // Each thread waits for its turn: they start 20 ms apart, and two run at a time.
//! thread::scope(|scope| {
//!     for repo in ["rust-lang/rust", "rust-lang/cargo", "rust-lang/book"] {
//!         let github = &github;
//!         scope.spawn(move || github.key(repo).run(|| format!("the issues of {repo}")));
//!     }
//! });
//!
//! // A bound on the wait, and a permit to hold.
//! let permit = github.admission_timeout(Duration::from_secs(2)).acquire()?;
//! assert_eq!(admission.counts().running, 1);
//! drop(permit);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A thread that waits is parked. It looks at its call twice, once to queue it and once to start it;
//! one of those that are parked, the leader, keeps the time for all of them.
//!
//! With callers in several runtimes:
//!
//! ```
//! use admission_blocking::{Admission, Blocking};
//!
//! # fn shared_with_tokio_say() -> admission_rt::Admission<Blocking> {
//! #     Admission::builder().provider("github", |p| p).build().unwrap().on()
//! # }
//! let shared = shared_with_tokio_say();
//! let admission = Admission::from(shared.on::<Blocking>());
//! let permit = admission.provider("github")?.acquire()?;
//! # drop(permit);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Lacks, on purpose: a thread of its own, a timer, and any decision. A waker of another runtime may run
//! on a parked thread, as it may on any that calls the coordinator: it must not block.
#![forbid(unsafe_code)]

mod admission;
mod builder;
mod call;
mod interval_limiter;
mod parking;
mod query;
mod rate_limiter;
mod retry;

pub use admission::{Admission, Provider};
pub use builder::{Builder, IntervalLimiterBuilder, RateLimiterBuilder};
pub use call::{Acquire, Call};
pub use interval_limiter::IntervalLimiter;
pub use parking::{Blocking, BlockingAlarm, block_on};
pub use query::{Query, QueryBuilder, Subscription};
pub use rate_limiter::RateLimiter;
pub use retry::RetryCall;
