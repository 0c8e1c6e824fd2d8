//! Waiting for a cycle.
//!
//! Owns: one refresh's place among those who wait for a cycle, given back when it is dropped. Lacks the
//! cycle's progress, which depends on no refresh being polled.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::cycle::{Cycle, Outcome, Relay};
use super::error::QueryError;
use super::snapshot::Fetched;
use super::state::Inner;
use crate::unwind::quietly;

/// The future of [`Query::refresh`](super::Query::refresh): the data that its cycle gives.
///
/// *Lazy*: it begins a cycle, or joins the one that goes on, with its first poll (rules W0, Q10), and
/// from then on the cycle goes on by itself. *Cancel safe*: dropping it leaves the cycle; if nobody else
/// waits for that or subscribes to the query, the cycle ends, out of the queue or with its signal fired
/// (rule Q4). After it has answered it stays pending for ever.
#[must_use = "futures do nothing unless polled"]
pub struct Refresh<T, E> {
    query: Arc<Inner<T, E>>,
    stage: Stage<T, E>,
}

enum Stage<T, E> {
    Lazy,
    Waiting(Waiting<T, E>),
    Done,
}

struct Waiting<T, E> {
    /// Dropped first: what it registered is a relay, and must not be the last to hold it.
    outcome: Pin<Box<dyn Future<Output = Outcome<T, E>> + Send>>,
    relay: Arc<Relay>,
    waker: Waker,
    cycle: Arc<Cycle<T, E>>,
}

impl<T, E> Refresh<T, E> {
    pub(super) const fn new(query: Arc<Inner<T, E>>) -> Self {
        Self { query, stage: Stage::Lazy }
    }

    fn leave(&mut self) {
        if let Stage::Waiting(waiting) = std::mem::replace(&mut self.stage, Stage::Done) {
            let mut unwind = self.query.leave(&waiting.cycle);
            let relays = waiting.cycle.relays().clone();
            unwind.catch(|| drop(waiting));
            // A listener that goes may pass a wake on.
            relays.wake(&mut unwind);
            unwind.swallow();
        }
    }
}

impl<T, E> Future for Refresh<T, E>
where
    T: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    type Output = Result<Fetched<T>, QueryError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { query, stage } = &mut *self;
        if let Stage::Lazy = stage {
            match query.join() {
                Ok(cycle) => {
                    let relay = Relay::new(cycle.relays());
                    let waker = Waker::from(relay.clone());
                    let cell = cycle.clone();
                    let outcome = Box::pin(async move { cell.wait().await });
                    *stage = Stage::Waiting(Waiting { outcome, relay, waker, cycle });
                }
                Err(error) => {
                    *stage = Stage::Done;
                    return Poll::Ready(Err(error));
                }
            }
        }
        let Stage::Waiting(waiting) = stage else { return Poll::Pending };
        waiting.relay.set(cx.waker());
        match waiting.outcome.as_mut().poll(&mut Context::from_waker(&waiting.waker)) {
            Poll::Ready(outcome) => {
                self.leave();
                Poll::Ready(outcome)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T, E> Drop for Refresh<T, E> {
    fn drop(&mut self) {
        quietly(|| self.leave());
    }
}

impl<T, E> fmt::Debug for Refresh<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Lazy => "not begun",
            Stage::Waiting(_) => "waiting",
            Stage::Done => "done",
        };
        f.debug_tuple("Refresh").field(&stage).finish()
    }
}
