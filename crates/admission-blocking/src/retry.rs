//! A call that is tried again, for threads.
//!
//! Owns: the place where each attempt's operation runs, which is the thread that waits, and after the
//! limiter of a paced call has let go. Lacks a policy: that is [`Retry`](admission_rt::Retry), the same
//! for all.

use std::cell::RefCell;
use std::fmt;

use admission_rt::{Attempt, RetryError};

use crate::{Blocking, block_on};

/// A call with a policy for trying it again: made by [`Call::retry`](crate::Call::retry) and the like.
///
/// ```
/// use admission_blocking::Admission;
/// use admission_rt::Retry;
/// use std::time::Duration;
///
/// let admission = Admission::builder().provider("api", |p| p.max_concurrent(2)).build()?;
/// let policy = Retry::times(3).delay(Duration::from_millis(5));
/// let answer = admission.provider("api")?.retry(policy).try_run(|attempt| match attempt.number() {
///     1 => Err(std::io::Error::other("not yet")),
///     number => Ok(number),
/// });
/// assert_eq!(answer?, 2);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a call does nothing until it is begun"]
pub struct RetryCall<E> {
    inner: admission_rt::RetryCall<Blocking, E>,
}

impl<E> RetryCall<E> {
    /// Blocks until it is this call's turn, calls the operation on this thread, and tries again as the
    /// policy says. Each attempt is a call of its own, at the tail of the queue (rule E5); while the
    /// thread waits between two of them it holds no slot, no key and no place.
    ///
    /// # Errors
    ///
    /// [`RetryError`]: the last attempt's error, or why it was refused, and how many there were.
    pub fn try_run<T>(self, operation: impl FnMut(Attempt) -> Result<T, E>) -> Result<T, RetryError<E>> {
        let operation = RefCell::new(operation);
        // Called when it is polled, and not before: by then a paced call has let go (rule I3).
        block_on(self.inner.try_run(|attempt| async { (operation.borrow_mut())(attempt) }))
    }
}

impl<E> From<admission_rt::RetryCall<Blocking, E>> for RetryCall<E> {
    fn from(inner: admission_rt::RetryCall<Blocking, E>) -> Self {
        Self { inner }
    }
}

impl<E> Clone for RetryCall<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E> fmt::Debug for RetryCall<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
