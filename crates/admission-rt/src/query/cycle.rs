//! One cycle: admission, an attempt, perhaps retries, then data or an error.
//!
//! Owns: the task that goes through these, and the outcome that its refreshes await. Lacks any lock of
//! its own while something of a user's runs, and any say about an earlier call that still runs: the
//! next attempt waits for the key in admission, like everybody else (rules Q5, Q6).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_lock::OnceCell;
use pin_project_lite::pin_project;

use super::builder::OnAbort;
use super::error::{AttemptError, QueryError};
use super::invocation::{Apart, End, Invocation, What, Work};
use super::snapshot::{CycleTimes, Fetched, QueryStatus};
use super::state::{Inner, Step};
use crate::abort::Aborted;
use crate::retry::{Pause, Retries};
use crate::sleep::Sleep;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::unwind::{Quiet, Unwind, caught, quietly, undisturbed};
use crate::{AbortHandle, AbortReason, AbortSignal, Permit};

/// What a cycle comes to.
pub(super) type Outcome<T, E> = Result<Fetched<T>, QueryError<E>>;

/// A cycle, as seen by those who wait for it.
pub(super) struct Cycle<T, E> {
    outcome: OnceCell<Outcome<T, E>>,
    relays: Arc<Relays>,
}

impl<T, E> Cycle<T, E> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { outcome: OnceCell::new(), relays: Arc::default() })
    }

    /// Sets the outcome, and wakes those who wait. Whoever took the cycle out of its query calls this,
    /// so it is called once.
    pub(super) fn settle(&self, outcome: Outcome<T, E>, unwind: &mut Unwind) {
        let spare = self.outcome.try_set(outcome).err();
        self.relays.wake(unwind);
        unwind.catch(|| drop(spare));
    }

    pub(super) async fn wait(&self) -> Outcome<T, E> {
        self.outcome.wait().await.clone()
    }

    pub(super) const fn relays(&self) -> &Arc<Relays> {
        &self.relays
    }
}

/// Wakers that are due. The cell wakes under a lock of its own, where nothing of a user's may run: what
/// it wakes is a [`Relay`], which leaves the waker here.
#[derive(Default)]
pub(super) struct Relays(Mutex<Vec<Waker>>);

impl Relays {
    pub(super) fn wake(&self, unwind: &mut Unwind) {
        let due = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for waker in due {
            unwind.catch(|| waker.wake());
        }
    }
}

/// Stands before the cell for the waker of one refresh.
pub(super) struct Relay {
    waker: Mutex<Option<Waker>>,
    relays: Arc<Relays>,
}

impl Relay {
    pub(super) fn new(relays: &Arc<Relays>) -> Arc<Self> {
        Arc::new(Self { waker: Mutex::new(None), relays: relays.clone() })
    }

    /// From here on this waker is the one that is woken.
    pub(super) fn set(&self, waker: &Waker) {
        let is_kept = self.lock().as_ref().is_some_and(|kept| kept.will_wake(waker));
        if !is_kept {
            let waker = waker.clone();
            let old = self.lock().replace(waker);
            drop(old);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waker = self.lock().take();
        self.relays.0.lock().unwrap_or_else(PoisonError::into_inner).extend(waker);
    }
}

/// What the task of a cycle has of it. Dropped before the cycle's end, with the task, it ends the
/// cycle: nobody waits for a task that is not there.
pub(super) struct Running<T, E> {
    query: Arc<Inner<T, E>>,
    cycle: Arc<Cycle<T, E>>,
}

impl<T, E> Running<T, E> {
    pub(super) const fn new(query: Arc<Inner<T, E>>, cycle: Arc<Cycle<T, E>>) -> Self {
        Self { query, cycle }
    }

    fn tell(&self, status: QueryStatus, times: &CycleTimes, step: Step<T, E>) -> bool {
        self.query.progress(&self.cycle, status, times, step)
    }
}

impl<T, E> Drop for Running<T, E> {
    fn drop(&mut self) {
        quietly(|| {
            let error = if std::thread::panicking() { QueryError::Panicked } else { QueryError::Lost };
            self.query.lose(&self.cycle, error).swallow();
        });
    }
}

pin_project! {
    /// The task. No panic gets out of it, for whoever polls it has nothing to do with it: neither where it
    /// is polled nor where it is dropped.
    pub(super) struct CycleTask<F> {
        #[pin]
        run: Option<F>,
    }

    impl<F> PinnedDrop for CycleTask<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            quietly(|| this.run.set(None));
        }
    }
}

impl<F: Future<Output = ()>> CycleTask<F> {
    const fn new(run: F) -> Self {
        Self { run: Some(run) }
    }
}

impl<F: Future<Output = ()>> Future for CycleTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(run) = this.run.as_mut().as_pin_mut() else { return Poll::Ready(()) };
        // One that panicked has dropped what it had, and so has ended its cycle.
        caught(|| run.poll(cx)).unwrap_or(Poll::Ready(()))
    }
}

/// What a cycle runs as.
pub(super) fn task<T, E>(running: Running<T, E>, signal: AbortSignal) -> impl Future<Output = ()> + Send
where
    T: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    CycleTask::new(run(running, signal))
}

async fn run<T, E>(running: Running<T, E>, signal: AbortSignal)
where
    T: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let mut times = CycleTimes::default();
    if let Some(outcome) = attempts(&running, signal, &mut times).await {
        let times = Arc::new(times);
        let outcome = outcome.map(|(data, received_at)| Fetched { data, received_at, times: times.clone() });
        running.query.finish(&running.cycle, outcome, times);
    }
    // What the source has captured may go with the query.
    quietly(|| drop(running));
}

/// Attempt after attempt. `None` if the cycle was ended from outside.
async fn attempts<T, E>(
    running: &Running<T, E>,
    mut signal: AbortSignal,
    times: &mut CycleTimes,
) -> Option<Result<(Arc<T>, std::time::SystemTime), QueryError<E>>>
where
    T: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let plan = &running.query.plan;
    let shared = &plan.shared;
    let mut retries = Retries::new(plan.policy.clone());
    let mut last = Quiet(None);
    loop {
        let asked = shared.now();
        let mut admit = plan.admit(&signal);
        let answer = poll_fn(|cx| undisturbed(|| admit.poll(plan.host, cx))).await;
        drop(admit);
        let queued = shared.now().saturating_duration_since(asked);
        let permit = match answer {
            Ok(permit) => permit,
            Err(rejected) => {
                times.refuse(queued);
                return Some(Err(QueryError::refused(rejected, last.0.take())));
            }
        };
        let attempt = retries.begin();
        times.begin(attempt, queued);
        let (failed, delay) = match call(running, attempt, permit, times, &signal).await {
            Called::Over => return None,
            Called::NoTimer => return Some(Err(QueryError::Lost)),
            Called::TimedOut(limit) => {
                let delay = if plan.retries_timeouts {
                    match caught(|| retries.after_timeout()) {
                        Some(delay) => delay,
                        None => return Some(Err(QueryError::Panicked)),
                    }
                } else {
                    None
                };
                (AttemptError::Timeout { limit }, delay)
            }
            Called::Ended(What::Data(data, received_at)) => {
                return Some(Ok((Arc::new(data), received_at)));
            }
            Called::Ended(What::Error(error, cooldown)) => {
                let error = Arc::new(error);
                match caught(|| retries.after_cooled(&error, cooldown)) {
                    Some(delay) => (AttemptError::Source(error), delay),
                    None => return Some(Err(QueryError::Panicked)),
                }
            }
            Called::Ended(What::Panicked) => return Some(Err(QueryError::Panicked)),
            Called::Ended(What::Lost) => return Some(Err(QueryError::Lost)),
        };
        let Some(delay) = delay else { return Some(Err(failed.into())) };
        // What is dropped here is the error of the attempt before.
        let before = last.0.replace(failed);
        quietly(|| drop(before));
        let (handle, next) = AbortHandle::new();
        signal = next;
        let status = QueryStatus::WaitingToRetry { attempt, delay };
        if !running.tell(status, times, Step::Fail(handle)) {
            return None;
        }
        let mut pause = Pause::new(shared.clone(), plan.host, delay, &signal);
        if poll_fn(|cx| undisturbed(|| Pin::new(&mut pause).poll(cx))).await.is_err() {
            // Aborted, and then this is not told any more; or no runtime to sleep in.
            return Some(Err(QueryError::Lost));
        }
        let status = QueryStatus::Queued { attempt: attempt.saturating_add(1) };
        if !running.tell(status, times, Step::Tell) {
            return None;
        }
    }
}

/// How an attempt went, as far as its cycle is concerned.
enum Called<T, E> {
    Ended(What<T, E>),
    TimedOut(Duration),
    /// The cycle was ended from outside.
    Over,
    /// The attempt's time cannot be measured: the runtime is going away.
    NoTimer,
}

/// One attempt, from the permit on.
async fn call<T, E>(
    running: &Running<T, E>,
    attempt: u32,
    permit: Permit,
    times: &mut CycleTimes,
    signal: &AbortSignal,
) -> Called<T, E>
where
    T: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let plan = &running.query.plan;
    let shared = &plan.shared;
    let began = shared.now();
    let mut timer = Timer::start(plan.attempt_timeout.map(|limit| {
        let sleep = Sleep::new(shared.clone(), plan.host, limit);
        (sleep, limit)
    }))
    .await;
    let view = permit.attempt(attempt, signal.clone());
    let Some(operation) = caught(|| (plan.source)(view)) else {
        drop(permit);
        times.end(shared.now().saturating_duration_since(began), false);
        return Called::Ended(What::Panicked);
    };
    let work = Work {
        operation,
        permit,
        shared: shared.clone(),
        provider: plan.provider,
        policy: plan.policy.clone(),
        began,
    };
    let call = Invocation::new(work);
    let is_on = running.tell(QueryStatus::Running { attempt }, times, Step::Call(call.clone()));
    match plan.on_abort {
        // Even if the cycle is over by now: the source was called, and nobody cuts it short.
        OnAbort::Finish => (plan.spawn)(Box::pin(Apart::new(call.clone()))),
        OnAbort::Drop if !is_on => call.kill(),
        OnAbort::Drop => {}
    }
    if !is_on {
        return Called::Over;
    }
    let mut aborted = signal.aborted();
    let called = poll_fn(|cx| {
        let end = match plan.on_abort {
            OnAbort::Finish => call.poll_end(cx),
            OnAbort::Drop => call.poll_work(cx),
        };
        match end {
            Poll::Ready(End { ran, what }) => {
                times.end(ran, false);
                Poll::Ready(Called::Ended(what))
            }
            Poll::Pending => timer.poll_over(&mut aborted, cx),
        }
    })
    .await;
    let told = match called {
        Called::TimedOut(_) => AbortReason::Timeout,
        // Nobody waits for it any more, and it should know.
        Called::NoTimer => AbortReason::Requested,
        Called::Ended(_) | Called::Over => return called,
    };
    times.end(shared.now().saturating_duration_since(began), matches!(called, Called::TimedOut(_)));
    quietly(|| signal.abort(told));
    if let OnAbort::Drop = plan.on_abort {
        call.kill();
    }
    called
}

/// The time of an attempt, if that is limited. It runs from the source's call (rule Q2).
struct Timer(Option<(Sleep, Duration)>);

impl Timer {
    async fn start(limit: Option<(Sleep, Duration)>) -> Self {
        let mut timer = Self(limit);
        poll_fn(|cx| {
            // Should it be over already: whoever asks next is told.
            let _ = timer.poll(cx);
            Poll::Ready(())
        })
        .await;
        timer
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Duration>> {
        match &mut self.0 {
            Some((sleep, limit)) => {
                let slept = undisturbed(|| Pin::new(&mut *sleep).poll(cx));
                slept.map(|slept| slept.is_ok().then_some(*limit))
            }
            None => Poll::Pending,
        }
    }

    /// Whether there is no use in waiting for the call any more.
    fn poll_over<T, E>(&mut self, aborted: &mut Aborted, cx: &mut Context<'_>) -> Poll<Called<T, E>> {
        if Pin::new(aborted).poll(cx).is_ready() {
            return Poll::Ready(Called::Over);
        }
        self.poll(cx).map(|limit| limit.map_or(Called::NoTimer, Called::TimedOut))
    }
}
