//! The interval pacer as an object of its own, for threads.
//!
//! Owns: nothing beyond the limiter of [`admission_rt`] that it wraps.

use std::time::Duration;

use admission_rt::runtime::Runtime;
use admission_rt::{AbortSignal, ChangeError, Counts, Rejected, Retry, RunError};

use crate::{Blocking, Call, IntervalLimiterBuilder, RetryCall, block_on};

/// Hands out start times at least an interval apart, first in first out, to whoever shares it
/// (rules I1 to I3).
///
/// A handle: clones are the same limiter. It paces starts and does not wait for what was started: the
/// calls of two threads may overlap.
///
/// ```
/// use admission_blocking::IntervalLimiter;
/// use admission_rt::AbortSignal;
/// use std::time::Duration;
///
/// let pace = IntervalLimiter::builder(Duration::from_millis(10)).max_waiting(8).build()?;
/// for n in 0..3 {
///     // 10 ms apart.
///     assert_eq!(pace.run(&AbortSignal::never(), || n)?, n);
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct IntervalLimiter {
    inner: admission_rt::IntervalLimiter<Blocking>,
}

impl IntervalLimiter {
    /// Begins a limiter of one start per `interval`.
    pub fn builder(interval: Duration) -> IntervalLimiterBuilder {
        IntervalLimiterBuilder::from(admission_rt::IntervalLimiter::builder(interval))
    }

    /// Blocks until it is this call's turn, after one last look at the signal lets go of what it
    /// waited with, and calls the operation on this thread (rule I3). While it runs nothing is held: the
    /// next may start an interval later, however long it takes.
    ///
    /// # Errors
    ///
    /// [`Rejected::Aborted`] carries the signal's reason; [`Rejected::Overflow`] means that
    /// `max_waiting` callers wait already.
    pub fn run<T>(&self, signal: &AbortSignal, operation: impl FnOnce() -> T) -> Result<T, Rejected> {
        self.call().abort_signal(signal).run(operation)
    }

    /// Tries again where a policy says so, each attempt in a place of its own at the tail (rules I1,
    /// E5). The signal ends the wait for a start and the wait between two attempts. See
    /// [`Call::retry`].
    pub fn retry<E>(&self, signal: &AbortSignal, policy: Retry<E>) -> RetryCall<E> {
        self.call().abort_signal(signal).retry(policy)
    }

    /// Like [`run`](Self::run), for operations that may fail.
    ///
    /// # Errors
    ///
    /// The operation's own, or why it was not called.
    pub fn try_run<T, E>(
        &self,
        signal: &AbortSignal,
        operation: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        self.call().abort_signal(signal).try_run(operation)
    }

    /// Blocks until it is this call's turn: when it returns, start.
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why its turn never came.
    pub fn acquire(&self) -> Result<(), Rejected> {
        block_on(self.inner.acquire())
    }

    /// A start now or not at all: never blocks and takes no place in the queue. If it is `Ok`, start; the
    /// interval runs from this call.
    ///
    /// # Errors
    ///
    /// [`Rejected::Exhausted`] says what held it back, and for how long at least it is no use to try again;
    /// [`Rejected::Closed`].
    pub fn try_acquire(&self) -> Result<(), Rejected> {
        self.inner.try_acquire()
    }

    /// A call without options, to add some: a timeout, a signal, a key. With [`run`](Call::run) it lets
    /// go just before the operation is called; a permit from [`acquire`](Call::acquire) is to be dropped
    /// as soon as the call has started.
    pub fn call(&self) -> Call {
        Call::from(self.inner.call())
    }

    /// How many callers wait, are granted, or are between their start and the call of their operation.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner.counts()
    }

    /// Changes the interval while callers wait; it runs from the last start (rule L7). The margin stays
    /// as it was built.
    ///
    /// # Errors
    ///
    /// [`BuildError::ZeroInterval`](admission_rt::BuildError::ZeroInterval) (rule I2), and nothing
    /// changes.
    pub fn set_interval(&self, interval: Duration) -> Result<(), ChangeError> {
        self.inner.set_interval(interval)
    }

    /// Refuses every caller that waits, and every later one (rule W4).
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

    /// Blocks until nobody waits or is granted.
    pub fn idle(&self) {
        block_on(self.inner.idle());
    }

    /// The same limiter, for callers in another runtime.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> admission_rt::IntervalLimiter<S> {
        self.inner.on()
    }
}

impl From<admission_rt::IntervalLimiter<Blocking>> for IntervalLimiter {
    fn from(inner: admission_rt::IntervalLimiter<Blocking>) -> Self {
        Self { inner }
    }
}
