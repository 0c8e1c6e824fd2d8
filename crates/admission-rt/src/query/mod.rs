//! Queries: data that is fetched again and again by calls of one key, and looked at by many.
//!
//! Owns: the handle. One cycle (admission, attempt, perhaps retries, then data or an error) is one task,
//! see [`cycle`]; each call of a source is another, see [`invocation`], because it may outlive the cycle.
//! Lacks a cache: when data is too old, and what to do then, is the user's to say.

mod builder;
mod cycle;
mod error;
mod invocation;
mod refresh;
mod snapshot;
mod state;
mod subscription;

use std::fmt;
use std::sync::Arc;

pub use builder::{OnAbort, QueryBuilder};
pub use error::{AttemptError, QueryError};
pub use refresh::Refresh;
pub use snapshot::{AttemptTimes, CycleTimes, Fetched, QuerySnapshot, QueryStatus};
pub use subscription::Subscription;

use state::Inner;

/// Data that one source fetches, under admission: refreshed on demand, shared by all who look at it.
///
/// A handle: clones are the same query. It names its provider and its key once (rule Q1), and knows no
/// runtime: whatever polls a refresh that begins a cycle runs that cycle, as a task of its own.
///
/// A *cycle* asks for admission, calls the source, and tries again where the
/// [policy](QueryBuilder::retry) says so; it ends with data or an error. There is one cycle at a time:
/// a refresh that comes while one goes on joins it (rule Q10). What came out is in the
/// [`snapshot`](Self::snapshot), and comes to every [`subscriber`](Self::subscribe).
///
/// A cycle ends before its time when the query is paused or disposed of, and when the last one who was
/// there for it has gone (rule Q4). The source's call is then told so by its signal, and holds its slots
/// and its key until it has really finished, whatever becomes of the query ([`OnAbort`], rule Q6).
///
/// ```
/// use admission_rt::{Admission, QueryError, Retry, runtime::{Runtime, Spawn}};
/// use std::time::Duration;
///
/// # #[derive(Debug)] struct Failed;
/// # async fn fetch(name: &str) -> Result<Vec<String>, Failed> { Ok(vec![name.into()]) }
/// async fn issues<R: Runtime + Spawn>(admission: &Admission<R>) -> Result<(), QueryError<Failed>> {
///     let query = admission
///         .query("github", "issues of tokio")
///         .expect("the provider is configured")
///         .admission_timeout(Duration::from_secs(5))
///         .attempt_timeout(Duration::from_secs(10))
///         .retry(Retry::times(2).delay(Duration::from_secs(1)))
///         .build(|_attempt| fetch("tokio"));
///     let issues = query.refresh().await?;
///     assert_eq!(issues.len(), query.snapshot().data.as_ref().map_or(0, |data| data.len()));
///     Ok(())
/// }
/// ```
pub struct Query<T, E> {
    inner: Arc<Inner<T, E>>,
}

impl<T, E> Query<T, E> {
    const fn new(inner: Arc<Inner<T, E>>) -> Self {
        Self { inner }
    }

    /// Fetches anew, or joins the cycle that goes on, and gives its outcome. Lazy: see [`Refresh`].
    ///
    /// # Errors
    ///
    /// [`QueryError`]; while the query is paused or disposed of, at once.
    pub fn refresh(&self) -> Refresh<T, E> {
        Refresh::new(self.inner.clone())
    }

    /// The query's snapshots as a stream, the newest first. It starts nothing, and counts as a subscriber
    /// from this call on; see [`Subscription`].
    pub fn subscribe(&self) -> Subscription<T, E> {
        Subscription::new(self.inner.clone())
    }

    /// The newest snapshot. Costs the copy of a pointer.
    #[must_use]
    pub fn snapshot(&self) -> Arc<QuerySnapshot<T, E>> {
        self.inner.snapshot()
    }

    /// Ends a cycle that goes on, and lets none begin until [`resume`](Self::resume) (rule Q8). If it
    /// was queued, it is out of the queue when this returns; if its source runs, that one's signal has
    /// fired. Who waits for it gets [`QueryError::Paused`], and so does every refresh until then. Data
    /// stays where it is.
    pub fn pause(&self) {
        self.inner.pause().resume();
    }

    /// Lets cycles begin again. It begins none.
    pub fn resume(&self) {
        self.inner.resume().resume();
    }

    /// Ends it all, for good (rule Q8): as [`pause`](Self::pause) does, with [`QueryError::Disposed`], and
    /// the subscribers' streams end after one more snapshot. A call of the source that is not finished
    /// goes on all the same (rule Q7; see [`OnAbort`]). Dropping the handles disposes of nothing.
    pub fn dispose(&self) {
        self.inner.dispose().resume();
    }
}

impl<T, E> Clone for Query<T, E> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T, E> fmt::Debug for Query<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("Query")
            .field("status", &snapshot.status)
            .field("version", &snapshot.version)
            .finish_non_exhaustive()
    }
}
