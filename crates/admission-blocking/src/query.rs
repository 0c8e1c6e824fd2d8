//! Queries, for threads.
//!
//! Owns: nothing beyond the query of [`admission_rt`] that it wraps. Lacks a way to drop an aborted call: a
//! closure that runs on a thread cannot be cut short, and holds its slots until it returns (rule Q6).

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use admission_rt::{Attempt, Fetched, QueryError, QuerySnapshot, Retry};

use crate::{Blocking, block_on};

/// Data that one source fetches, under admission: refreshed on demand, shared by all who look at it. The
/// same as [`admission_rt::Query`], with a source that may block, and a refresh that does.
///
/// A cycle runs on a thread of its own, and so does each call of the source.
///
/// ```
/// use admission_blocking::{Admission, Query};
/// use admission_rt::Retry;
/// use std::time::Duration;
///
/// # #[derive(Debug)] struct Failed;
/// # fn fetch() -> Result<Vec<&'static str>, Failed> { Ok(vec!["first", "second"]) }
/// let admission = Admission::builder().provider("github", |p| p.max_concurrent(2)).build()?;
/// let issues: Query<_, Failed> = admission
///     .query("github", "issues")?
///     .admission_timeout(Duration::from_secs(5))
///     .retry(Retry::times(2))
///     .build(|_attempt| fetch());
/// assert_eq!(issues.refresh().unwrap().len(), 2);
/// assert!(issues.snapshot().data.is_some());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Query<T, E> {
    inner: admission_rt::Query<T, E>,
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Query<T, E> {
    /// Fetches anew, or joins the cycle that goes on, and blocks until that has an outcome.
    ///
    /// # Errors
    ///
    /// [`QueryError`]; while the query is paused or disposed of, at once.
    pub fn refresh(&self) -> Result<Fetched<T>, QueryError<E>> {
        block_on(self.inner.refresh())
    }
}

impl<T, E> Query<T, E> {
    /// The query's snapshots, the newest first; see [`Subscription`].
    pub fn subscribe(&self) -> Subscription<T, E> {
        Subscription { inner: self.inner.subscribe() }
    }

    /// The newest snapshot. Never blocks.
    #[must_use]
    pub fn snapshot(&self) -> Arc<QuerySnapshot<T, E>> {
        self.inner.snapshot()
    }

    /// Ends a cycle that goes on, and lets none begin until [`resume`](Self::resume); see
    /// [`pause`](admission_rt::Query::pause).
    pub fn pause(&self) {
        self.inner.pause();
    }

    /// Lets cycles begin again. It begins none.
    pub fn resume(&self) {
        self.inner.resume();
    }

    /// Ends it all, for good; see [`dispose`](admission_rt::Query::dispose).
    pub fn dispose(&self) {
        self.inner.dispose();
    }
}

impl<T, E> Clone for Query<T, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T, E> fmt::Debug for Query<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T, E> From<admission_rt::Query<T, E>> for Query<T, E> {
    fn from(inner: admission_rt::Query<T, E>) -> Self {
        Self { inner }
    }
}

/// The options of a [`Query`]: those of [`admission_rt::QueryBuilder`].
#[must_use = "a query is made by `build`"]
pub struct QueryBuilder<E> {
    inner: admission_rt::QueryBuilder<Blocking, E>,
}

impl<E> QueryBuilder<E> {
    /// How long each attempt may wait for admission. For ever unless stated (rule D4).
    pub fn admission_timeout(self, timeout: Duration) -> Self {
        self.inner.admission_timeout(timeout).into()
    }

    /// How long each attempt may take, from the call of the source on (rule Q2). For ever unless stated.
    /// The source is told by its signal, and goes on until it returns.
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        self.inner.attempt_timeout(timeout).into()
    }

    /// What each attempt costs in a unit.
    pub fn cost(self, unit: &str, amount: u64) -> Self {
        self.inner.cost(unit, amount).into()
    }

    /// Tries again where the policy says so; see [`retry`](admission_rt::QueryBuilder::retry).
    pub fn retry(self, policy: Retry<E>) -> Self {
        self.inner.retry(policy).into()
    }

    /// Whether an attempt that timed out is retried where the policy allows another. Yes unless stated.
    pub fn retry_timeouts(self, retry: bool) -> Self {
        self.inner.retry_timeouts(retry).into()
    }

    /// The query of a source: a closure that makes one call and may block, on a thread of its own.
    pub fn build<T, F>(self, source: F) -> Query<T, E>
    where
        T: Send + Sync + 'static,
        E: Send + Sync + 'static,
        F: Fn(Attempt) -> Result<T, E> + Send + Sync + 'static,
    {
        let source = Arc::new(source);
        let query = self.inner.build(move |attempt| {
            let source = source.clone();
            // Not called here, where it would keep the cycle from its timers.
            async move { source(attempt) }
        });
        Query { inner: query }
    }
}

impl<E> Clone for QueryBuilder<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E> fmt::Debug for QueryBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<E> From<admission_rt::QueryBuilder<Blocking, E>> for QueryBuilder<E> {
    fn from(inner: admission_rt::QueryBuilder<Blocking, E>) -> Self {
        // Whoever polls a closure that blocks cannot drop it, nor keep a time meanwhile.
        Self { inner: inner.on_abort(admission_rt::OnAbort::Finish) }
    }
}

/// A query's snapshots, one after the other: the newest at once, then each newer one (rule Q10). `next`
/// blocks until there is one, and gives `None` once the query is disposed of.
///
/// Dropping it is an unsubscribe; see [`admission_rt::Subscription`].
pub struct Subscription<T, E> {
    inner: admission_rt::Subscription<T, E>,
}

impl<T, E> Subscription<T, E> {
    /// The newest snapshot, if `next` has not given it yet. Never blocks.
    pub fn latest(&mut self) -> Option<Arc<QuerySnapshot<T, E>>> {
        match self.inner.poll_snapshot(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(snapshot) => snapshot,
            Poll::Pending => None,
        }
    }
}

impl<T, E> fmt::Debug for Subscription<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T, E> Iterator for Subscription<T, E> {
    type Item = Arc<QuerySnapshot<T, E>>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(poll_fn(|cx| self.inner.poll_snapshot(cx)))
    }
}
