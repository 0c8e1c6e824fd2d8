//! Small futures that any runtime can poll.
//!
//! Owns: a signal that is set once, the first poll of a future, a count of polls, and a wait for a
//! condition. Lacks: timers and threads.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Something that happens once. A clone is the same signal.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    state: Arc<Mutex<(bool, Vec<Waker>)>>,
}

impl Signal {
    /// It happens.
    pub fn set(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Whether it has happened.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Until it has happened.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Polls a future once, with the caller's waker.
pub async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

/// Polls a future once, with a waker that does nothing.
pub fn poll_idly<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets others run, once.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A waker that counts.
#[derive(Debug, Default)]
pub struct Counter {
    wakes: AtomicUsize,
}

impl Counter {
    /// How often it was woken.
    pub fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }
}
