//! One physical call of a query's source.
//!
//! Owns: the source's future with the permit it runs under, and the order of their end: the future is
//! dropped, then the permit is released (rule W7), then whoever waits hears of it. Lacks any idea of
//! its cycle, which may be over long before it (rule Q6).

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use admission_core::{Instant, ProviderId};

use crate::shared::Shared;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::unwind::{Unwind, quietly};
use crate::{Permit, Retry};

/// The future of a source.
pub(super) type Operation<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// A source's future and what it runs under.
pub(super) struct Work<T, E> {
    // Fields are dropped in the order in which they stand: the operation before its permit.
    pub(super) operation: Operation<T, E>,
    pub(super) permit: Permit,
    pub(super) shared: Arc<Shared>,
    pub(super) provider: ProviderId,
    pub(super) policy: Retry<E>,
    pub(super) began: Instant,
}

/// How a call ended.
pub(super) struct End<T, E> {
    pub(super) ran: Duration,
    pub(super) what: What<T, E>,
}

pub(super) enum What<T, E> {
    Data(T, SystemTime),
    /// The source's error, and the cooldown that it asked for.
    Error(E, Option<Duration>),
    Panicked,
    /// The runtime that ran it is gone.
    Lost,
}

impl<T, E> Work<T, E> {
    /// The future has answered.
    fn end(self, answer: Option<Result<T, E>>) -> End<T, E> {
        let Self { operation, permit, shared, provider, policy, began } = self;
        let ran = shared.now().saturating_duration_since(began);
        let received_at = shared.wall();
        let mut unwind = Unwind::new();
        unwind.catch(|| drop(operation));
        // While the permit is held, so that nobody who waits slips in between.
        let cooldown = match &answer {
            Some(Err(error)) => unwind.catch(|| policy.cooldown_after(error)).flatten(),
            _ => None,
        };
        if let Some(delay) = cooldown {
            shared.cool(provider, delay);
        }
        drop(permit);
        let has_panicked = unwind.has_caught();
        unwind.swallow();
        let what = match answer {
            Some(Ok(data)) if !has_panicked => What::Data(data, received_at),
            Some(Err(error)) if !has_panicked => What::Error(error, cooldown),
            answer => {
                quietly(|| drop(answer));
                What::Panicked
            }
        };
        End { ran, what }
    }
}

/// A call, shared by whoever polls it, whoever waits for it, and whoever may have it dropped.
pub(super) struct Invocation<T, E> {
    stage: Mutex<Stage<T, E>>,
    handover: Mutex<Handover<T, E>>,
}

enum Stage<T, E> {
    Here(Box<Work<T, E>>),
    /// Out of here while it is polled, so that nothing of the source's runs under a lock.
    Polled,
    Gone,
}

/// What a call that runs on its own leaves for its cycle.
struct Handover<T, E> {
    end: Option<End<T, E>>,
    waker: Option<Waker>,
}

impl<T, E> Invocation<T, E> {
    pub(super) fn new(work: Work<T, E>) -> Arc<Self> {
        Arc::new(Self {
            stage: Mutex::new(Stage::Here(Box::new(work))),
            handover: Mutex::new(Handover { end: None, waker: None }),
        })
    }

    /// Polls the source's future. For one task at a time.
    pub(super) fn poll_work(&self, cx: &mut Context<'_>) -> Poll<End<T, E>> {
        let mut stage = self.stage();
        let mut work = match std::mem::replace(&mut *stage, Stage::Polled) {
            Stage::Here(work) => work,
            other => {
                *stage = other;
                return Poll::Ready(lost());
            }
        };
        drop(stage);
        let mut unwind = Unwind::new();
        let answer = match unwind.catch(|| work.operation.as_mut().poll(cx)) {
            Some(Poll::Pending) => {
                let mut stage = self.stage();
                if let Stage::Polled = *stage {
                    *stage = Stage::Here(work);
                    return Poll::Pending;
                }
                drop(stage);
                quietly(|| drop(work));
                return Poll::Ready(lost());
            }
            Some(Poll::Ready(answer)) => Some(answer),
            None => None,
        };
        unwind.swallow();
        let end = work.end(answer);
        *self.stage() = Stage::Gone;
        Poll::Ready(end)
    }

    /// Drops the source's future and then its permit: now, or as soon as the poll that is going on
    /// returns.
    pub(super) fn kill(&self) {
        let stage = std::mem::replace(&mut *self.stage(), Stage::Gone);
        quietly(|| drop(stage));
    }

    /// The end of a call that runs on its own.
    pub(super) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<End<T, E>> {
        let mut handover = self.handover();
        if let Some(end) = handover.end.take() {
            return Poll::Ready(end);
        }
        if handover.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        drop(handover);
        let waker = cx.waker().clone();
        let mut handover = self.handover();
        let (end, old) = match handover.end.take() {
            Some(end) => (Some(end), Some(waker)),
            None => (None, handover.waker.replace(waker)),
        };
        drop(handover);
        drop(old);
        end.map_or(Poll::Pending, Poll::Ready)
    }

    fn deliver(&self, end: End<T, E>) {
        let mut handover = self.handover();
        handover.end = Some(end);
        let waker = handover.waker.take();
        drop(handover);
        if let Some(waker) = waker {
            quietly(|| waker.wake());
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage<T, E>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handover(&self) -> MutexGuard<'_, Handover<T, E>> {
        self.handover.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn lost<T, E>() -> End<T, E> {
    End { ran: Duration::ZERO, what: What::Lost }
}

/// A call that runs on its own, so that nothing but its own end, or that of its runtime, ends it.
pub(super) struct Apart<T, E>(Option<Arc<Invocation<T, E>>>);

impl<T, E> Apart<T, E> {
    pub(super) const fn new(invocation: Arc<Invocation<T, E>>) -> Self {
        Self(Some(invocation))
    }

    fn end(&mut self, end: End<T, E>) {
        if let Some(invocation) = self.0.take() {
            invocation.deliver(end);
            // If the cycle does not care any more, what the source gave is dropped here.
            quietly(|| drop(invocation));
        }
    }
}

impl<T, E> Future for Apart<T, E> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(invocation) = &self.0 else { return Poll::Ready(()) };
        let Poll::Ready(end) = invocation.poll_work(cx) else { return Poll::Pending };
        self.end(end);
        Poll::Ready(())
    }
}

impl<T, E> Drop for Apart<T, E> {
    fn drop(&mut self) {
        if let Some(invocation) = &self.0 {
            invocation.kill();
            self.end(lost());
        }
    }
}
