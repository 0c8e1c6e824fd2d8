//! One item at work: its call, its operation, its retries.
//!
//! Owns: the item between its reading and its outcome, and the catching of its panic. Lacks any say in
//! when it begins and where it is polled.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Calls, ItemError};
use crate::retry::{RetryRun, Stranger};
use crate::runtime::Runtime;
use crate::unwind::quietly;
use crate::{AbortHandle, AbortSignal, Attempt, Retry};

/// How an item ended.
pub(super) enum Outcome<U, E> {
    Done(Result<U, ItemError<E>>),
    /// After so many attempts.
    Panicked(Box<dyn Any + Send>, u32),
}

/// An item's number, and how it ended.
pub(super) type Ended<U, E> = (u64, Outcome<U, E>);

/// How an item is had again.
pub(super) type Again<T> = fn(&T) -> T;

/// Makes work of items: what all items of a stream have in common.
pub(super) struct Shop<C, T, F, E> {
    pub(super) calls: C,
    pub(super) operation: Arc<F>,
    pub(super) policy: Retry<E>,
    /// How an item is had again for each attempt; it is not, where there are no retries.
    pub(super) again: Option<Again<T>>,
    /// The signal that all calls bring along.
    pub(super) shared: AbortSignal,
    /// The stream's own.
    pub(super) signal: AbortSignal,
}

impl<C, T, F, E> Shop<C, T, F, E>
where
    C: Calls<T>,
{
    /// An item's work, not begun.
    pub(super) fn work<Fut>(&mut self, number: u64, item: T) -> Work<C::Runtime, T, F, Fut, E> {
        let call = self.calls.call(&item);
        let own = call.signal();
        let call = if own.is_never() || own.is(&self.shared) {
            call.abort_signal(&self.signal)
        } else {
            call.abort_signal(&AbortHandle::linked([self.signal.clone(), own]).signal())
        };
        let kept = match self.again {
            Some(again) => Kept::Again(item, again),
            None => Kept::Once(Some(item)),
        };
        let job = Job { kept, operation: self.operation.clone() };
        let run = call.retry(self.policy.clone()).run_with(job);
        Work { number, run: Some(run), future: PhantomData }
    }
}

/// An item and what is done with it.
pub(super) struct Job<T, F> {
    kept: Kept<T>,
    operation: Arc<F>,
}

enum Kept<T> {
    Once(Option<T>),
    Again(T, Again<T>),
}

pin_project! {
    /// The future of an item.
    pub(super) struct Work<R, T, F, Fut, E> {
        number: u64,
        #[pin]
        run: Option<RetryRun<R, E, Job<T, F>, Fut>>,
        future: PhantomData<fn() -> Fut>,
    }

    // A destructor of the operation's that panics goes no further: it would keep whoever drops the items
    // of a stream from dropping those behind it, permits and all.
    impl<R, T, F, Fut, E> PinnedDrop for Work<R, T, F, Fut, E> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            quietly(|| this.run.set(None));
        }
    }
}

impl<R: Runtime, T, F, Fut, E> Work<R, T, F, Fut, E> {
    /// Takes the item's place in the queue now.
    pub(super) fn enqueue(&mut self) {
        if let Some(run) = &mut self.run {
            // Should it wake somebody who panics, the item has its place all the same.
            quietly(|| run.enqueue());
        }
    }
}

impl<R, T, F, Fut, U, E> Future for Work<R, T, F, Fut, E>
where
    R: Runtime,
    F: Fn(T, Attempt) -> Fut,
    Fut: Future<Output = Result<U, E>>,
{
    type Output = Ended<U, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let number = *this.number;
        // What a panic leaves half done is dropped at once, and seen by nobody.
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let Some(run) = this.run.as_mut().as_pin_mut() else { return Poll::Pending };
            let answer = ready!(run.poll_with(cx, Stranger::IsNotHeard, Job::call));
            // The answer stands, whatever the item does on its way.
            quietly(|| this.run.set(None));
            Poll::Ready(Outcome::Done(answer.map_err(ItemError::Call)))
        }));
        let outcome = match caught {
            Ok(polled) => ready!(polled),
            Err(panic) => {
                let attempts = this.run.as_ref().as_pin_ref().map_or(0, |run| run.attempts());
                quietly(|| this.run.set(None));
                Outcome::Panicked(panic, attempts)
            }
        };
        Poll::Ready((number, outcome))
    }
}

impl<T, F> Job<T, F> {
    fn call<Fut>(&mut self, attempt: Attempt) -> Option<Fut>
    where
        F: Fn(T, Attempt) -> Fut,
    {
        let item = match &mut self.kept {
            Kept::Again(item, again) => again(item),
            Kept::Once(item) => item.take()?,
        };
        Some((self.operation)(item, attempt))
    }
}
