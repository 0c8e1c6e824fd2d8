//! Decides which calls to your upstreams may start, and when.
//!
//! A client that calls other people's services has limits to keep: so many calls at once, so many a
//! minute, so long between two, one at a time for the same thing. An [`Admission`] knows them all,
//! and lets each call go when its turn has come: in the order of submission, and not before.
//!
//! | you have | use |
//! |---|---|
//! | several upstreams with limits of their own, and one for all | [`Admission`] |
//! | one quota: 60 calls a minute | [`RateLimiter`] |
//! | one pace: at least 100 ms between two starts | [`IntervalLimiter`] |
//! | calls that may fail and are worth trying again | [`Retry`], on any of these |
//! | data that one call fetches and many look at | [`Query`] |
//! | a stream of items, each of which is a call | [`AdmissionStreamExt`] |
//!
//! # A client with two upstreams
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use admission::tokio::Admission;
//! use std::time::Duration;
//!
//! # async fn fetch(_repo: &str) -> Result<String, std::io::Error> { Ok("issues".into()) }
//! let admission = Admission::builder()
//!     .max_concurrent(32)
//!     .provider("github", |p| {
//!         p.max_concurrent(8).window(60, Duration::from_secs(60)).interval(Duration::from_millis(50))
//!     })
//!     .provider("stripe", |p| p.max_concurrent(4))
//!     .build()?;
//! let github = admission.provider("github")?; // An unknown name is an error here.
//!
//! // Waits for its turn, then calls the closure. `Rejected` says why it was not called.
//! let issues = github.run(|| fetch("tokio")).await??;
//!
//! // One call at a time for the same repository, and no more than two seconds of waiting.
//! let issues_again = github
//!     .key("tokio")
//!     .admission_timeout(Duration::from_secs(2))
//!     .try_run(|| fetch("tokio"))
//!     .await?;
//! assert_eq!(issues, issues_again);
//!
//! // Or hold the permit yourself, for as long as the call runs.
//! let permit = github.acquire().await?;
//! assert_eq!(admission.counts().running, 1);
//! drop(permit);
//!
//! // The server said so: nothing starts there for half a minute.
//! github.cooldown(Duration::from_secs(30))?;
//! let refused = github.try_acquire().unwrap_err();
//! assert_eq!(refused.retry_after(), Some(Duration::from_secs(30)));
//! assert_eq!(
//!     refused.to_string(),
//!     "github: may not start at once, held back by a cooldown; try again in at least 30 s"
//! );
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! # Quotas in other units
//!
//! A window may count what a call costs instead of calls: declare the unit, and state the cost.
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use admission::{Rejected, Window, tokio::Admission};
//! use std::time::Duration;
//!
//! let minute = Duration::from_secs(60);
//! let admission = Admission::builder()
//!     .unit("tokens")
//!     .provider("llm", |p| p.window(500, minute).log(Window::new(90_000, minute).unit("tokens")))
//!     .build()?;
//! let llm = admission.provider("llm")?;
//!
//! let _permit = llm.cost("tokens", 60_000).acquire().await?;
//! let refused = llm.cost("tokens", 60_000).try_acquire().unwrap_err();
//! assert_eq!(refused.retry_after(), Some(minute));
//!
//! // What can never fit is refused at once, and not queued for ever.
//! let refused = llm.cost("tokens", 100_000).acquire().await.unwrap_err();
//! assert!(matches!(refused, Rejected::ImpossibleCost { allowed: 90_000, .. }));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! # One quota, one pace
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use admission::tokio::{IntervalLimiter, RateLimiter};
//! use admission::{AbortHandle, Rejected};
//! use std::time::Duration;
//!
//! // Sixty a minute, and nobody waits longer than fifteen seconds. Its refusals begin with its name.
//! let quota = RateLimiter::builder(60, Duration::from_secs(60))
//!     .name("search")
//!     .max_wait(Duration::from_secs(15))
//!     .build()?;
//! let answer = quota.run(async || "answer").await?;
//! assert_eq!((answer, quota.available()), ("answer", 59));
//!
//! // One start per 100 ms, shared by all who have a clone.
//! let pace = IntervalLimiter::builder(Duration::from_millis(100)).max_waiting(8).build()?;
//! let (handle, signal) = AbortHandle::new();
//! pace.run(&signal, async || ()).await?;
//! pace.run(&signal, async || ()).await?; // 100 ms later.
//! handle.abort_with("shutting down");
//! let refused = pace.run(&signal, async || ()).await.unwrap_err();
//! assert_eq!(refused.to_string(), "aborted: shutting down");
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! # Retries, queries, streams
//!
//! Each attempt is a call of its own, at the tail of the queue; what waits to retry holds nothing. The
//! guide in the repository, `docs/guide.md`, says which to take when, and has an example of each.
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use admission::{Retry, tokio::Admission};
//! use std::io;
//! use std::time::Duration;
//!
//! # async fn fetch(attempt: u32) -> io::Result<u32> {
//! #     if attempt == 1 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(attempt) }
//! # }
//! let admission = Admission::builder().provider("github", |p| p.max_concurrent(8)).build()?;
//! let policy = Retry::times(3)
//!     .delay(Duration::from_secs(1))
//!     .when(|error: &io::Error| error.kind() == io::ErrorKind::TimedOut);
//!
//! // A call that is tried again.
//! let github = admission.provider("github")?;
//! let stars = github.retry(policy.clone()).try_run(|attempt| fetch(attempt.number())).await?;
//! assert_eq!(stars, 2);
//!
//! // Data that many look at: two refreshes, one cycle.
//! let query = admission
//!     .query("github", "stars")?
//!     .attempt_timeout(Duration::from_secs(10))
//!     .retry(policy)
//!     .build(|attempt| fetch(attempt.number()));
//! let (one, two) = tokio::join!(query.refresh(), query.refresh());
//! assert_eq!((*one?, *two?), (2, 2));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! # What it promises
//!
//! Letters and numbers such as "rule L2" on these pages name the promises that `docs/conformance.md` in the
//! repository lists, each with its tests. In short:
//!
//! - Limits hold between *real starts*, in every window wherever it begins; a wake-up that is late
//!   brings no burst.
//! - The order is that of submission, and a call that is held back holds back only those that share
//!   what it waits for.
//! - Dropping a future in any state gives back everything it held, and wakes whoever is next.
//! - A future that is held and never polled delays the others by no more than the hand-off time.
//! - Waiting futures own no timer; nothing is armed while nobody waits.
//!
//! # Runtimes and features
//!
//! This crate is a front: each feature adds a module with the aliases of one runtime, and changes
//! nothing else. Everything at the top is [`admission_rt`], which runs on any runtime that brings an
//! alarm (see [`runtime`]); the rules are a state machine without clock or I/O, `admission-core`.
//!
//! | feature | module |
//! |---|---|
//! | `tokio` | `admission::tokio` |
//! | `tokio-precise` | `admission::tokio::precise`: an alarm for paces of a few milliseconds |
//! | `smol` | `admission::smol` |
//! | `async-std` | `admission::async_std`, for programs that still run on it |
//! | `blocking` | `admission::blocking`, for threads without an executor: waits block, closures run |
//!
//! All of them may be on in one program, and one coordinator serves callers in all of them: `on` gives
//! its handle for another runtime.
//!
//! ```
//! # #[cfg(all(feature = "smol", feature = "blocking"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use admission::blocking::Blocking;
//! use admission::smol::Admission;
//! use std::time::Duration;
//!
//! let admission =
//!     Admission::builder().provider("github", |p| p.interval(Duration::from_millis(10))).build()?;
//! let for_threads = admission::blocking::Admission::from(admission.on::<Blocking>());
//!
//! // One pace for both.
//! let on_a_thread = std::thread::spawn(move || {
//!     for_threads.provider("github").map(|github| github.run(|| "from a thread"))
//! });
//! let github = admission.provider("github")?;
//! assert_eq!(smol::block_on(github.run(async || "from a task"))?, "from a task");
//! assert_eq!(on_a_thread.join().unwrap()??, "from a thread");
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "smol", feature = "blocking")))]
//! # fn main() {}
//! ```
//!
//! Lacks, on purpose: a default feature, any choice of runtime by feature, and code of its own.

#![forbid(unsafe_code)]

pub use admission_rt::*;

/// The aliases for tokio: `admission::tokio::Admission` and the like. With the feature `tokio`.
#[cfg(feature = "tokio")]
pub mod tokio {
    pub use admission_tokio::*;
}

/// The aliases for smol: `admission::smol::Admission` and the like. With the feature `smol`.
#[cfg(feature = "smol")]
pub mod smol {
    pub use admission_smol::*;
}

/// The aliases for async-std, which is discontinued: for programs that still run on it. With the
/// feature `async-std`.
#[cfg(feature = "async-std")]
pub mod async_std {
    pub use admission_async_std::*;
}

/// The handles for threads without an executor: `admission::blocking::Admission` and the like, whose
/// waits block. With the feature `blocking`.
#[cfg(feature = "blocking")]
pub mod blocking {
    pub use admission_blocking::*;
}
