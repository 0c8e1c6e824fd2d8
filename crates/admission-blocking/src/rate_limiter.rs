//! The sliding log as an object of its own, for threads.
//!
//! Owns: nothing beyond the limiter of [`admission_rt`] that it wraps.

use std::time::Duration;

use admission_rt::runtime::Runtime;
use admission_rt::{ChangeError, Counts, Permit, Rejected, Retry, RunError};

use crate::{Acquire, Blocking, Call, RateLimiterBuilder, RetryCall, block_on};

/// At most `limit` calls in any window of one length, wherever it begins (rules R1 to R6).
///
/// A handle: clones are the same limiter.
///
/// ```
/// use admission_blocking::RateLimiter;
/// use std::time::Duration;
///
/// let quota = RateLimiter::builder(60, Duration::from_secs(60)).build()?;
/// assert_eq!(quota.run(|| "answer")?, "answer");
/// assert_eq!(quota.available(), 59);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter {
    inner: admission_rt::RateLimiter<Blocking>,
}

impl RateLimiter {
    /// Begins a limiter of `limit` calls in any `window`; what is out of range is clamped (rule R5).
    pub fn builder(limit: u64, window: Duration) -> RateLimiterBuilder {
        RateLimiterBuilder::from(admission_rt::RateLimiter::builder(limit, window))
    }

    /// Begins a limiter from numbers that come from elsewhere; see
    /// [`builder_from_floats`](admission_rt::RateLimiter::builder_from_floats).
    pub fn builder_from_floats(limit: f64, window_secs: f64) -> RateLimiterBuilder {
        RateLimiterBuilder::from(admission_rt::RateLimiter::builder_from_floats(limit, window_secs))
    }

    /// A call without options, to add some: a timeout, a signal, a key.
    pub fn call(&self) -> Call {
        Call::from(self.inner.call())
    }

    /// Blocks until it is this call's turn.
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why it never was.
    pub fn acquire(&self) -> Result<Permit, Rejected> {
        self.call().acquire()
    }

    /// A permit at once or not at all, whatever the strategy.
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why not, and for how long at least it is no use to try again.
    pub fn try_acquire(&self) -> Result<Permit, Rejected> {
        self.call().try_acquire()
    }

    /// Takes a place in the queue now, and waits later; see [`Call::enqueue`].
    pub fn enqueue(&self) -> Acquire {
        self.call().enqueue()
    }

    /// Runs an operation when its turn comes; see [`Call::run`].
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why it was not called.
    pub fn run<T>(&self, operation: impl FnOnce() -> T) -> Result<T, Rejected> {
        self.call().run(operation)
    }

    /// Tries again where a policy says so, each attempt in a place of its own (rule E5); see
    /// [`Call::retry`].
    pub fn retry<E>(&self, policy: Retry<E>) -> RetryCall<E> {
        self.call().retry(policy)
    }

    /// Runs an operation that may fail, whose own error passes through unchanged (rule R6).
    ///
    /// # Errors
    ///
    /// The operation's own, or why it was not called.
    pub fn try_run<T, E>(&self, operation: impl FnOnce() -> Result<T, E>) -> Result<T, RunError<E>> {
        self.call().try_run(operation)
    }

    /// How many calls are free right now, from 0 to the limit (rule R3).
    #[must_use]
    pub fn available(&self) -> u64 {
        self.inner.available()
    }

    /// Forgets the window and admits every call that is queued now (rule R3).
    pub fn reset(&self) {
        self.inner.reset();
    }

    /// Changes the limit and the window while calls wait and run (rule L7); see
    /// [`set_limit`](admission_rt::RateLimiter::set_limit).
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfMemory`](admission_rt::BuildError::OutOfMemory), and nothing changes.
    pub fn set_limit(&self, limit: u64, window: Duration) -> Result<(), ChangeError> {
        self.inner.set_limit(limit, window)
    }

    /// The same from numbers that come from elsewhere (rule R5).
    ///
    /// # Errors
    ///
    /// As [`set_limit`](Self::set_limit).
    pub fn set_limit_from_floats(&self, limit: f64, window_secs: f64) -> Result<(), ChangeError> {
        self.inner.set_limit_from_floats(limit, window_secs)
    }

    /// Refuses every call that waits, and every later one (rule W4).
    pub fn close(&self) {
        self.inner.close();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Blocks until it is closed.
    pub fn closed(&self) {
        block_on(self.inner.closed());
    }

    /// Blocks until nothing is queued, granted or running.
    pub fn idle(&self) {
        block_on(self.inner.idle());
    }

    /// How many calls are queued, granted and running.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner.counts()
    }

    /// The same limiter, for callers in another runtime.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> admission_rt::RateLimiter<S> {
        self.inner.on()
    }
}

impl From<admission_rt::RateLimiter<Blocking>> for RateLimiter {
    fn from(inner: admission_rt::RateLimiter<Blocking>) -> Self {
        Self { inner }
    }
}
