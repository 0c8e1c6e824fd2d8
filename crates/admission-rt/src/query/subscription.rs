//! Looking on: a query's snapshots as a stream.
//!
//! Owns: one subscriber's seat, and what it has seen. Lacks a buffer: there is one snapshot, the newest,
//! shared by all, so that whoever reads slowly skips some and holds up nobody.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::stream::{FusedStream, Stream};

use super::snapshot::QuerySnapshot;
use super::state::Inner;
use crate::unwind::quietly;

/// A stream of a query's snapshots: the newest at once, then each newer one (rule Q10).
///
/// A slow reader gets the newest and not what came before it. The stream ends once the query is disposed
/// of, after the snapshot that says so. It starts nothing; it keeps a cycle that goes on from being
/// ended when a refresh is dropped. Dropping it is an unsubscribe: if nobody else subscribes or waits
/// for the cycle, that is ended, out of the queue or with its signal fired (rule Q4).
///
/// Each item is the same snapshot for everybody: a pointer is copied, and nothing else.
#[must_use = "streams do nothing unless polled"]
pub struct Subscription<T, E> {
    query: Arc<Inner<T, E>>,
    seat: Option<u32>,
    /// The version of the last snapshot that was given out.
    seen: u64,
    is_over: bool,
}

impl<T, E> Subscription<T, E> {
    pub(super) fn new(query: Arc<Inner<T, E>>) -> Self {
        let seat = query.subscribe();
        Self { query, seat, seen: 0, is_over: false }
    }

    /// The next snapshot: the newest one that this subscriber has not seen, once there is one; `None` when
    /// the query is disposed of. Cancel safe. Needs no library of streams.
    pub async fn next(&mut self) -> Option<Arc<QuerySnapshot<T, E>>> {
        std::future::poll_fn(|cx| self.poll_snapshot(cx)).await
    }

    /// Like `poll_next`, without a pin.
    pub fn poll_snapshot(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<QuerySnapshot<T, E>>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let answer = self.query.poll_newer(self.seat, self.seen, cx);
        match &answer {
            Poll::Ready(Some(snapshot)) => self.seen = snapshot.version,
            Poll::Ready(None) => self.is_over = true,
            Poll::Pending => {}
        }
        answer
    }

    /// The newest snapshot, whether or not the stream has given it out.
    #[must_use]
    pub fn snapshot(&self) -> Arc<QuerySnapshot<T, E>> {
        self.query.snapshot()
    }

    fn leave(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.query.unsubscribe(seat).swallow();
        }
    }
}

impl<T, E> Stream for Subscription<T, E> {
    type Item = Arc<QuerySnapshot<T, E>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_snapshot(cx)
    }
}

impl<T, E> FusedStream for Subscription<T, E> {
    fn is_terminated(&self) -> bool {
        self.is_over
    }
}

impl<T, E> Drop for Subscription<T, E> {
    fn drop(&mut self) {
        quietly(|| self.leave());
    }
}

impl<T, E> fmt::Debug for Subscription<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("seen", &self.seen).finish_non_exhaustive()
    }
}
