//! One call of a thread, from its options to the end of its operation.
//!
//! Owns: the order of things around an operation. It is called on the thread that waited, outside any
//! poll, so it may block as long as it likes; its permit is released when it has returned or panicked
//! (rule W7), or just before it is called if the call is an interval limiter's (rule I3). Lacks futures:
//! but for [`Call::enqueue`], nothing is left for later.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use admission_rt::{AbortSignal, Key, Permit, Rejected, Retry, RunError};

use crate::{Blocking, RetryCall, block_on};

/// One call to a provider, with options: made by [`Provider::call`](crate::Provider::call) or by any
/// option on a provider, and begun by [`run`](Self::run), [`acquire`](Self::acquire) and the like.
#[derive(Clone, Debug)]
#[must_use = "a call does nothing until it is begun"]
pub struct Call {
    inner: admission_rt::Call<Blocking>,
}

impl Call {
    /// Names the call: while another with the same key is granted or running, this one waits
    /// (rule L1).
    pub fn key(self, key: impl Into<Key>) -> Self {
        self.with(|call| call.key(key))
    }

    /// What the call costs in a unit that was declared; see [`cost`](admission_rt::Call::cost).
    pub fn cost(self, unit: &str, amount: u64) -> Self {
        self.with(|call| call.cost(unit, amount))
    }

    /// How long the call may wait to be granted: after that it is refused with
    /// [`Rejected::AdmissionTimeout`] (rule W2). For ever unless stated (rule D4).
    pub fn admission_timeout(self, timeout: Duration) -> Self {
        self.with(|call| call.admission_timeout(timeout))
    }

    /// Ends the wait when this signal fires, from whatever thread, with [`Rejected::Aborted`] and the
    /// signal's reason (rule W3). A call that has started is not touched.
    pub fn abort_signal(self, signal: &AbortSignal) -> Self {
        self.with(|call| call.abort_signal(signal))
    }

    /// Tries again where a policy says so: for operations that may fail. Each attempt is a call of its
    /// own with these options, at the tail of the queue (rule E5); see [`RetryCall`].
    pub fn retry<E>(self, policy: Retry<E>) -> RetryCall<E> {
        RetryCall::from(self.inner.retry(policy))
    }

    /// Blocks until it is this call's turn, and gives a [`Permit`] to hold while it runs. One from an
    /// [`IntervalLimiter`](crate::IntervalLimiter) is to be dropped as soon as the call has started.
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why its turn never came.
    pub fn acquire(self) -> Result<Permit, Rejected> {
        block_on(self.inner.acquire())
    }

    /// A permit at once or not at all: takes no place in the queue, and never blocks.
    ///
    /// # Errors
    ///
    /// [`Rejected::Exhausted`] when the call would have to wait, and the other refusals as they apply.
    pub fn try_acquire(self) -> Result<Permit, Rejected> {
        self.inner.try_acquire()
    }

    /// Takes the call's place in the queue now (rule W0), to be waited for later. If it is refused,
    /// [`Acquire::wait`] says so.
    ///
    /// The grant, when it comes, waits for that no longer than the hand-off time (rule S4).
    pub fn enqueue(self) -> Acquire {
        Acquire { inner: self.inner.enqueue() }
    }

    /// Blocks until it is this call's turn, calls the operation on this thread, and releases the permit
    /// when it has returned or panicked.
    ///
    /// A call of an [`IntervalLimiter`](crate::IntervalLimiter) keeps no permit while its operation
    /// runs: it lets go just before, key and all, so that the operations of several threads may overlap
    /// (rule I3).
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why the operation was not called.
    pub fn run<T>(self, operation: impl FnOnce() -> T) -> Result<T, Rejected> {
        // The async face calls an operation that only says so and never ends, and then holds for it
        // whatever this kind of call holds while it runs.
        let is_called = Cell::new(false);
        let mut running = pin!(self.inner.run(|| {
            is_called.set(true);
            pending::<Infallible>()
        }));
        block_on(poll_fn(|cx| match running.as_mut().poll(cx) {
            Poll::Ready(Err(rejected)) => Poll::Ready(Err(rejected)),
            Poll::Ready(Ok(never)) => match never {},
            Poll::Pending if is_called.get() => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }))?;
        Ok(operation())
    }

    /// Like [`run`](Self::run), for operations that may fail: one error type for both.
    ///
    /// # Errors
    ///
    /// The operation's own, or why it was not called.
    pub fn try_run<T, E>(self, operation: impl FnOnce() -> Result<T, E>) -> Result<T, RunError<E>> {
        self.run(operation).map_err(RunError::Rejected)?.map_err(RunError::Operation)
    }

    fn with(self, option: impl FnOnce(admission_rt::Call<Blocking>) -> admission_rt::Call<Blocking>) -> Self {
        Self { inner: option(self.inner) }
    }
}

impl From<admission_rt::Call<Blocking>> for Call {
    fn from(inner: admission_rt::Call<Blocking>) -> Self {
        Self { inner }
    }
}

/// A place in the queue: made by [`Call::enqueue`]. Dropped, it leaves the queue.
#[derive(Debug)]
#[must_use = "a place that is dropped is given up"]
pub struct Acquire {
    inner: admission_rt::Acquire<Blocking>,
}

impl Acquire {
    /// Blocks until it is this call's turn.
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why its turn never came.
    pub fn wait(self) -> Result<Permit, Rejected> {
        block_on(self.inner)
    }
}
