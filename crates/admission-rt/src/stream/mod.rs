//! Streams under admission: a map whose items each wait for their turn, and a paced read (rule I4).
//!
//! Owns: the bounds of such a stream, and what becomes of its items when it ends. Lacks any rule about
//! who may start, which is the coordinator's: an item is a call like any other, its retries too.

mod calls;
mod driven;
mod engine;
mod error;
mod map;
mod outbox;
mod paced;
mod spawned;
mod work;

use futures_core::Stream;

use crate::runtime::Runtime;
use crate::{Attempt, Call};

pub use calls::{Calls, PerItem};
pub use driven::DrivenMap;
pub use error::ItemError;
pub use map::MapAdmitted;
pub use paced::Paced;
pub use spawned::SpawnedMap;

/// Admission for the items of any [`Stream`].
pub trait AdmissionStreamExt: Stream {
    /// Runs an operation for each item when its turn comes, several at once and with retries if that
    /// is asked for; hands out their outputs, an [`ItemError`] for each item that finally fails, and
    /// goes on.
    ///
    /// `calls` says whom the items call: `&provider`, `&limiter`, or a [`Call`] with options, which
    /// is made anew for each attempt. [`MapAdmitted::per_item`] adds what depends on the item.
    ///
    /// The operation gets the item, and an [`Attempt`] whose signal fires when the stream is dropped
    /// or ends early, or when the stream or the call has a signal that fires. It is called in the very
    /// poll that starts it, and should begin its I/O at once. One closure serves all items, so it is
    /// `Fn`.
    ///
    /// The result is no stream yet: say [`spawned`](MapAdmitted::spawned) or
    /// [`driven`](MapAdmitted::driven).
    ///
    /// ```
    /// use admission_rt::{AdmissionStreamExt, IntervalLimiter, Retry, runtime::Spawn};
    /// # use futures_core::Stream;
    /// # use std::io;
    ///
    /// # async fn process(_: u32) -> Result<String, io::Error> { Ok(String::new()) }
    /// fn process_all<R: Spawn>(jobs: impl Stream<Item = u32>, limiter: &IntervalLimiter<R>) -> impl Stream {
    ///     let transient = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    ///     jobs.map_admitted(limiter, |job, _attempt| process(job))
    ///         .concurrency(2)
    ///         .capacity(2)
    ///         .retry(Retry::times(2).when(transient))
    ///         .spawned()
    /// }
    /// ```
    fn map_admitted<R, F, Fut, U, E>(
        self,
        calls: impl Into<Call<R>>,
        operation: F,
    ) -> MapAdmitted<Self, Call<R>, F, E>
    where
        Self: Sized,
        R: Runtime,
        F: Fn(Self::Item, Attempt) -> Fut,
        Fut: Future<Output = Result<U, E>>,
    {
        MapAdmitted::new(self, calls.into(), operation, false)
    }

    /// Like [`map_admitted`](Self::map_admitted), but stops at the first item that finally fails: that
    /// is the last one handed out. The others that are in flight are told to stop, as if the stream
    /// had been dropped, and outputs that were not read are dropped. In the order of the source, the
    /// first that fails is the first in that order. Once one has failed nothing more is begun.
    fn try_map_admitted<R, F, Fut, U, E>(
        self,
        calls: impl Into<Call<R>>,
        operation: F,
    ) -> MapAdmitted<Self, Call<R>, F, E>
    where
        Self: Sized,
        R: Runtime,
        F: Fn(Self::Item, Attempt) -> Fut,
        Fut: Future<Output = Result<U, E>>,
    {
        MapAdmitted::new(self, calls.into(), operation, true)
    }

    /// Reads this stream no faster than a limiter allows: each read is a call, which starts when it is
    /// admitted and lasts until the stream has answered. There are no retries.
    ///
    /// Admission comes *before* the read, because it is the upstream that is to be spared: the reads
    /// are as far apart as the limiter says, from the first one on, and nothing is read ahead, so that
    /// a refusal loses no item. It follows that
    ///
    /// - an upstream that has nothing yet costs one start, however long it takes, and the read that
    ///   finds its end costs one too;
    /// - after a long wait for an item, that one and the next may be handed out closely together:
    ///   their reads were far enough apart. To pace what is *done* with items, use
    ///   [`map_admitted`](Self::map_admitted).
    ///
    /// An admission that is refused is the last item, an [`Rejected`](crate::Rejected); a signal or an
    /// admission timeout is the call's. See [`Paced`].
    fn paced<R: Runtime>(self, calls: impl Into<Call<R>>) -> Paced<Self, R>
    where
        Self: Sized,
    {
        Paced::new(self, calls.into())
    }
}

impl<S: Stream + ?Sized> AdmissionStreamExt for S {}
