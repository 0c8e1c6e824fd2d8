//! An operation that is tried again.
//!
//! Owns: the order of things between two attempts: the operation's future is gone, the cooldown is
//! set, the permit is released, and only then is there a wait. Lacks any decision, which is the
//! policy's, and any place for the retry: each attempt is a call of its own.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Pause, Retries, Retry, RetryError};
use crate::alarms::Host;
use crate::runtime::Runtime;
use crate::unwind::{Unwind, quietly, undisturbed};
use crate::{Acquire, Attempt, Call, Permit};

/// A [`Call`] that is tried again where a policy says so; made by [`Call::retry`] and its like.
#[must_use = "a call does nothing until it is begun"]
pub struct RetryCall<R, E> {
    call: Call<R>,
    policy: Retry<E>,
}

impl<R: Runtime, E> RetryCall<R, E> {
    pub(crate) const fn new(call: Call<R>, policy: Retry<E>) -> Self {
        Self { call, policy }
    }

    /// Waits for the call's turn and calls the operation; where it fails and the policy says so, lets
    /// go of everything, waits, and asks for admission anew. Lazy: see [`RetryRun`].
    ///
    /// Each attempt waits for admission as long as the call's
    /// [`admission_timeout`](Call::admission_timeout) allows, costs what the call costs, and has the
    /// call's key. The [`Attempt`] says which it is; its signal is the call's own
    /// [`abort_signal`](Call::abort_signal), or one that never fires.
    ///
    /// ```
    /// # use admission_rt::{Provider, Retry, RetryError, runtime::Runtime};
    /// # use std::time::Duration;
    /// # async fn fetch(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// async fn issues<R: Runtime>(github: &Provider<R>) -> Result<String, RetryError<std::io::Error>> {
    ///     let policy = Retry::times(2).delay(Duration::from_secs(1));
    ///     github.key("tokio").retry(policy).try_run(|_| fetch("tokio")).await
    /// }
    /// ```
    pub fn try_run<F, Fut, T>(self, operation: F) -> RetryRun<R, E, F, Fut>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.run_with(operation)
    }

    /// The same for an operation that is not a closure; see [`RetryRun::poll_with`].
    pub(crate) fn run_with<F, Fut>(self, operation: F) -> RetryRun<R, E, F, Fut> {
        let Self { call, policy } = self;
        let state = State::Waiting { acquire: call.clone().acquire() };
        RetryRun { state, call, retries: Retries::new(policy), last: None, operation }
    }
}

impl<R, E> Clone for RetryCall<R, E> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), policy: self.policy.clone() }
    }
}

impl<R, E> fmt::Debug for RetryCall<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryCall").field("call", &self.call).field("policy", &self.policy).finish()
    }
}

pin_project! {
    /// The future of a retried `try_run`: gives the value of the first attempt that succeeds, or
    /// [`RetryError`].
    ///
    /// *Lazy*, and *cancel safe* in its waiting parts, like [`Acquire`]. Between two attempts it holds
    /// no permit, no key and no place in the queue: it waits by the coordinator's clock, and its next
    /// attempt stands at the tail (rule E5). The call's signal ends that wait too. Dropped while the
    /// operation runs, it drops the operation's future and then releases its permit (rule W7). If the
    /// operation or one of the policy's closures panics, the panic passes through and there is no
    /// other attempt. After it has answered it stays pending for ever.
    #[must_use = "futures do nothing unless polled"]
    pub struct RetryRun<R, E, F, Fut> {
        // First, and so dropped first: what runs, before what it was made from.
        #[pin]
        state: State<R, Fut>,
        call: Call<R>,
        retries: Retries<E>,
        last: Option<E>,
        operation: F,
    }

    // One by one: two destructors of the user's that panic at once would end the process.
    impl<R, E, F, Fut> PinnedDrop for RetryRun<R, E, F, Fut> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            quietly(|| this.state.set(State::Done));
            quietly(|| *this.last = None);
        }
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<R, Fut> {
        Waiting { acquire: Acquire<R> },
        // Fields are dropped in the order in which they stand: the operation before its permit.
        Running { #[pin] operation: Fut, permit: Option<Permit> },
        Pausing { pause: Pause },
        Done,
    }
}

impl<R, E, F, Fut, T> Future for RetryRun<R, E, F, Fut>
where
    R: Runtime,
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Output = Result<T, RetryError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(cx, Stranger::IsHeard, |operation, attempt| Some(operation(attempt)))
    }
}

/// What becomes of the panic of a waker that is woken by a turn of the call's, and not its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// It passes through whoever polls, as with every call.
    IsHeard,
    /// It is swallowed, for calls whose panics are somebody's to answer for.
    IsNotHeard,
}

impl Stranger {
    fn poll<A>(self, mut poll: impl FnMut() -> A) -> A {
        match self {
            Self::IsHeard => poll(),
            Self::IsNotHeard => undisturbed(poll),
        }
    }
}

impl<R: Runtime, E, F, Fut> RetryRun<R, E, F, Fut> {
    /// Takes the first attempt's place in the queue now (rule W0). Later ones take theirs when they
    /// are polled.
    pub(crate) fn enqueue(&mut self) {
        if let State::Waiting { acquire } = &mut self.state {
            acquire.enqueue();
        }
    }

    /// How often the operation was called.
    pub(crate) const fn attempts(&self) -> u32 {
        self.retries.attempts()
    }

    /// Like `poll`, for operations that are called in a way of their own. One that has nothing to be
    /// called any more leaves the call pending for ever.
    pub(crate) fn poll_with<T>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        stranger: Stranger,
        mut operate: impl FnMut(&mut F, Attempt) -> Option<Fut>,
    ) -> Poll<Result<T, RetryError<E>>>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        let mut this = self.project();
        let (call, retries) = (&*this.call, this.retries);
        let pause = |delay| {
            let pause = Pause::new(call.shared.clone(), Host::of::<R>(), delay, &call.signal());
            State::Pausing { pause }
        };
        let rejected = loop {
            match this.state.as_mut().project() {
                StateProjection::Waiting { acquire } => {
                    let answer = ready!(stranger.poll(|| acquire.poll_acquire(cx)));
                    // Foreign code comes next: should it panic, nothing is left to be polled.
                    this.state.set(State::Done);
                    match answer {
                        Ok(permit) => {
                            let attempt = permit.attempt(retries.begin(), call.signal());
                            // Declared after the permit, so that it is dropped before it if a
                            // destructor panics.
                            let Some(operation) = operate(this.operation, attempt) else {
                                return Poll::Pending;
                            };
                            let permit = Some(permit).filter(|permit| !permit.is_until_called());
                            this.state.set(State::Running { operation, permit });
                        }
                        Err(rejected) => match retries.after_refusal(&rejected) {
                            Some(delay) => this.state.set(pause(delay)),
                            None => break rejected,
                        },
                    }
                }
                StateProjection::Running { operation, permit } => {
                    let answer = ready!(operation.poll(cx));
                    let permit = permit.take();
                    let mut unwind = Unwind::new();
                    unwind.catch(|| this.state.set(State::Done));
                    let decided = match &answer {
                        Err(error) if !unwind.has_caught() => {
                            unwind.catch(|| retries.after_error(error, |delay| call.cool(delay)))
                        }
                        _ => Some(None),
                    };
                    // After the cooldown, so that nobody slips in between; before the wait, which holds
                    // nothing.
                    drop(permit);
                    if unwind.has_caught() {
                        // Not while the panic goes on: another one would end the process.
                        quietly(|| drop(answer));
                        unwind.resume();
                        return Poll::Pending;
                    }
                    let error = match answer {
                        Ok(value) => return Poll::Ready(Ok(value)),
                        Err(error) => error,
                    };
                    let Some(delay) = decided.flatten() else {
                        let attempts = retries.attempts();
                        return Poll::Ready(Err(RetryError::Operation { error, attempts }));
                    };
                    let before = this.last.replace(error);
                    quietly(|| drop(before));
                    this.state.set(pause(delay));
                }
                StateProjection::Pausing { pause } => {
                    match ready!(stranger.poll(|| Pin::new(&mut *pause).poll(cx))) {
                        Ok(()) => this.state.set(State::Waiting { acquire: call.clone().acquire() }),
                        Err(rejected) => {
                            this.state.set(State::Done);
                            break rejected;
                        }
                    }
                }
                StateProjection::Done => return Poll::Pending,
            }
        };
        let (last, attempts) = (this.last.take(), retries.attempts());
        Poll::Ready(Err(RetryError::Rejected { rejected, last, attempts }))
    }
}

impl<R, E, F, Fut> fmt::Debug for RetryRun<R, E, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting { .. } => "waiting",
            State::Running { .. } => "running",
            State::Pausing { .. } => "waiting to retry",
            State::Done => "done",
        };
        let attempts = self.retries.attempts();
        f.debug_struct("RetryRun").field("state", &state).field("attempts", &attempts).finish()
    }
}
