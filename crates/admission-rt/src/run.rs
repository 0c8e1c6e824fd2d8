//! An operation that runs when its turn comes.
//!
//! Owns: the order of things around an operation. It is called in the very poll that starts it, and
//! its future is dropped *before* its permit is released (rule W7), also when something panics.
//! Lacks retries (each would be a new call, rule E5), and a timeout of the operation itself.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::runtime::Runtime;
use crate::unwind::{Unwind, quietly};
use crate::{Acquire, Permit, Rejected, RunError, Waiting};

pin_project! {
    /// The future of a `run`: waits for its turn, calls the operation, and gives its output, or
    /// [`Rejected`] if it was never called.
    ///
    /// *Lazy*, and *cancel safe* in its waiting part, like [`Acquire`]. Dropped while the operation
    /// runs, it drops the operation's future and then releases its permit. If the operation panics,
    /// the panic passes through, and the permit is released when this future is dropped. After it
    /// has answered it stays pending for ever.
    #[must_use = "futures do nothing unless polled"]
    pub struct Run<R, F, Fut> {
        #[pin]
        state: State<R, F, Fut>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<R, F, Fut> {
        Waiting { acquire: Acquire<R>, operation: Option<F> },
        // Fields are dropped in the order in which they stand: the operation before its permit.
        Running { #[pin] operation: Fut, permit: Option<Permit> },
        Done,
    }
}

impl<R: Runtime, F, Fut> Run<R, F, Fut> {
    pub(crate) const fn new(acquire: Acquire<R>, operation: F) -> Self {
        Self { state: State::Waiting { acquire, operation: Some(operation) } }
    }
}

impl<R: Runtime, F, Fut> Run<R, F, Fut> {
    /// Why it waits (rule O2), while it does; see [`Acquire::explain`].
    #[must_use]
    pub fn explain(&self) -> Option<Waiting> {
        match &self.state {
            State::Waiting { acquire, .. } => acquire.explain(),
            State::Running { .. } | State::Done => None,
        }
    }
}

impl<R, F, Fut> Future for Run<R, F, Fut>
where
    R: Runtime,
    F: FnOnce() -> Fut,
    Fut: Future,
{
    type Output = Result<Fut::Output, Rejected>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        if let StateProjection::Waiting { acquire, operation } = state.as_mut().project() {
            let permit = match ready!(acquire.poll_acquire(cx)) {
                Ok(permit) => permit,
                Err(rejected) => {
                    state.set(State::Done);
                    return Poll::Ready(Err(rejected));
                }
            };
            let Some(operation) = operation.take() else { return Poll::Pending };
            // Declared after the permit, so that it is dropped before it if a destructor panics.
            let operation = operation();
            let permit = Some(permit).filter(|permit| !permit.is_until_called());
            state.set(State::Running { operation, permit });
        }
        let StateProjection::Running { operation, .. } = state.as_mut().project() else {
            return Poll::Pending;
        };
        let output = ready!(operation.poll(cx));
        let mut unwind = Unwind::new();
        unwind.catch(|| state.set(State::Done));
        if unwind.has_caught() {
            // Not while the panic goes on: another one would end the process.
            quietly(|| drop(output));
            unwind.resume();
            return Poll::Pending;
        }
        Poll::Ready(Ok(output))
    }
}

impl<R, F, Fut> fmt::Debug for Run<R, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting { .. } => "waiting",
            State::Running { .. } => "running",
            State::Done => "done",
        };
        f.debug_tuple("Run").field(&state).finish()
    }
}

pin_project! {
    /// The future of a `try_run`: a [`Run`] whose operation may fail, with one error type for both.
    #[must_use = "futures do nothing unless polled"]
    pub struct TryRun<R, F, Fut> {
        #[pin]
        run: Run<R, F, Fut>,
    }
}

impl<R: Runtime, F, Fut> TryRun<R, F, Fut> {
    pub(crate) const fn new(run: Run<R, F, Fut>) -> Self {
        Self { run }
    }
}

impl<R, F, Fut, T, E> Future for TryRun<R, F, Fut>
where
    R: Runtime,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Output = Result<T, RunError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().run.poll(cx)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(RunError::Operation(error)),
            Err(rejected) => Err(RunError::Rejected(rejected)),
        })
    }
}

impl<R, F, Fut> fmt::Debug for TryRun<R, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TryRun").field(&self.run).finish()
    }
}
