//! Items that the stream drives itself.
//!
//! Owns: the set of futures that are polled when the stream is. Lacks tasks, and with them every bound
//! on what an operation may borrow or on which thread it may live.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::{FusedStream, Stream};
use futures_util::stream::FuturesUnordered;
use pin_project_lite::pin_project;

use super::engine::{Crew, Engine, Output};
use super::work::{Ended, Shop, Work};
use super::{Calls, ItemError};
use crate::Attempt;

/// Polls what was woken, and nothing else.
pub(super) struct Driven<R, C, T, F, Fut, E> {
    pub(super) shop: Shop<C, T, F, E>,
    pub(super) set: FuturesUnordered<Work<R, T, F, Fut, E>>,
}

impl<C, T, F, Fut, U, E> Crew<T> for Driven<C::Runtime, C, T, F, Fut, E>
where
    C: Calls<T>,
    F: Fn(T, Attempt) -> Fut,
    Fut: Future<Output = Result<U, E>>,
{
    type Value = U;
    type Error = E;

    fn begin(&mut self, number: u64, item: T) {
        // Its first poll follows in this very poll of the stream, in the order of the source.
        self.set.push(self.shop.work(number, item));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended<U, E>> {
        match Pin::new(&mut self.set).poll_next(cx) {
            Poll::Ready(Some(outcome)) => Poll::Ready(outcome),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn dismiss(&mut self) {
        self.set = FuturesUnordered::new();
    }
}

pin_project! {
    /// The stream of [`MapAdmitted::driven`](super::MapAdmitted::driven): gives
    /// `Result<U, ItemError<E>>`, and drives the operations itself.
    ///
    /// *Lazy*: nothing is read before the first poll. *Not polled, nothing moves*: an operation that
    /// runs keeps its slot for as long as the stream is left alone; one that waits for admission costs
    /// others the hand-off time at most (rule S4). *Dropped*, it drops the operations' futures, each
    /// before its permit is released, and whoever has an operation's signal is told. A panic of an
    /// operation passes through whoever polls; the other items are untouched, and the stream can be
    /// polled on. It is fused.
    #[must_use = "streams do nothing unless polled"]
    pub struct DrivenMap<S, C, F, Fut, U, E>
    where
        S: Stream,
        C: Calls<S::Item>,
    {
        #[pin]
        pub(super) engine: Engine<S, Driven<C::Runtime, C, S::Item, F, Fut, E>, U, E>,
    }
}

impl<S, C, F, Fut, U, E> DrivenMap<S, C, F, Fut, U, E>
where
    S: Stream,
    C: Calls<S::Item>,
    F: Fn(S::Item, Attempt) -> Fut,
    Fut: Future<Output = Result<U, E>>,
{
    /// How many items wait for admission, run, or wait to be retried.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    /// How many outputs are finished and wait to be read.
    #[must_use]
    pub const fn finished(&self) -> usize {
        self.engine.finished()
    }
}

impl<S, C, F, Fut, U, E> Stream for DrivenMap<S, C, F, Fut, U, E>
where
    S: Stream,
    C: Calls<S::Item>,
    F: Fn(S::Item, Attempt) -> Fut,
    Fut: Future<Output = Result<U, E>>,
{
    type Item = Result<U, ItemError<E>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<U, E>>> {
        self.project().engine.poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.engine.size_hint()
    }
}

impl<S, C, F, Fut, U, E> FusedStream for DrivenMap<S, C, F, Fut, U, E>
where
    S: Stream,
    C: Calls<S::Item>,
    F: Fn(S::Item, Attempt) -> Fut,
    Fut: Future<Output = Result<U, E>>,
{
    fn is_terminated(&self) -> bool {
        self.engine.has_ended()
    }
}

impl<S, C, F, Fut, U, E> fmt::Debug for DrivenMap<S, C, F, Fut, U, E>
where
    S: Stream,
    C: Calls<S::Item>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.describe(f.debug_struct("DrivenMap"))
    }
}
