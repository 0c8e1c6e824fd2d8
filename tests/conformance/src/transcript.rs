//! How a body tells its story: who asks when, who starts when.
//!
//! Owns: the time line of one body (in its own milliseconds, whatever they last), the calls it makes,
//! and the comparison of what started with what should have. Lacks: any rule.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use admission_rt::runtime::{Clock, Runtime};
use admission_rt::{
    AbortSignal, Admission, Builder, Call, Instant, IntervalLimiter, Provider, RateLimiter,
    RateLimiterBuilder, Rejected,
};

use crate::mount::{Boxed, Mount};
use crate::signal::Signal;

/// The story of one body.
pub struct Transcript<M> {
    clock: Arc<dyn Clock>,
    origin: Instant,
    starts: Starts,
    mount: PhantomData<M>,
}

/// How a call ends.
pub type Answer = Result<(), Rejected>;

type Starts = Arc<Mutex<Vec<(String, Instant)>>>;

impl<M: Mount> Transcript<M> {
    /// It begins now, by the mount's own clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(M::Runtime::clock())
    }

    /// It begins now, by this clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let origin = clock.now();
        Self { clock, origin, starts: Starts::default(), mount: PhantomData }
    }

    /// So many of its milliseconds.
    #[must_use]
    pub fn ms(&self, millis: u32) -> Duration {
        M::MILLISECOND * millis
    }

    /// A coordinator on its time line. Where real time passes its hand-off time is an hour unless the
    /// body says otherwise: a machine that stops for a moment is not a caller that does not run.
    #[must_use]
    pub fn build(
        &self,
        with: impl FnOnce(Builder<M::Runtime>) -> Builder<M::Runtime>,
    ) -> Admission<M::Runtime> {
        let builder = Admission::builder().clock(Arc::clone(&self.clock));
        let builder = if M::EXACT { builder } else { builder.hand_off(HOUR) };
        with(builder).build().expect("a sound configuration")
    }

    /// A coordinator with one provider, `a`, on its time line.
    #[must_use]
    pub fn provider(
        &self,
        with: impl FnOnce(admission_rt::Limits) -> admission_rt::Limits,
    ) -> (Admission<M::Runtime>, Provider<M::Runtime>) {
        let admission = self.build(|b| b.provider("a", with));
        let a = admission.provider("a").expect("it was just named");
        (admission, a)
    }

    /// A rate limiter on its time line.
    #[must_use]
    pub fn limiter(
        &self,
        limit: u64,
        window: Duration,
        with: impl FnOnce(RateLimiterBuilder<M::Runtime>) -> RateLimiterBuilder<M::Runtime>,
    ) -> RateLimiter<M::Runtime> {
        let builder = RateLimiter::builder(limit, window).clock(Arc::clone(&self.clock));
        let builder = if M::EXACT { builder } else { builder.hand_off(HOUR) };
        with(builder).build().expect("everything is clamped")
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// How much time has passed since it began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.since(self.clock.now())
    }

    /// How long after its beginning this was.
    #[must_use]
    pub fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.origin)
    }

    /// Waits until this time of it, at least.
    pub async fn until(&self, millis: u32) {
        let at = self.ms(millis);
        while self.elapsed() < at {
            M::sleep(at - self.elapsed()).await;
        }
    }

    /// A call that is submitted now, and then runs beside the body. Its operation starts when it is
    /// admitted, and ends when it is [settled](Running::settle).
    pub async fn call(&self, name: &str, ask: impl Ask) -> Running {
        self.hold(name, ask).await.release::<M>()
    }

    /// A call that is submitted now, and then is in the body's own hands: nobody polls it.
    pub async fn hold(&self, name: &str, ask: impl Ask) -> Held {
        let mut held = self.unpolled(name, ask);
        held.poll().await;
        held
    }

    /// A call that nobody has polled yet.
    pub fn unpolled(&self, name: &str, ask: impl Ask) -> Held {
        let (started, finish) = (Signal::default(), Signal::default());
        let operation = {
            let (name, recorder) = (name.to_owned(), self.recorder());
            let (started, finish) = (started.clone(), finish.clone());
            move || -> Boxed<()> {
                recorder.note(name);
                started.set();
                Box::pin(async move { finish.wait().await })
            }
        };
        let future = ask.ask(operation);
        Held { future: Some(future), answer: None, polls: Arc::default(), started, finish }
    }

    /// Notes starts of operations that the body makes itself.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder { clock: self.clock(), starts: Arc::clone(&self.starts) }
    }

    /// Who has started, in the order of the starts.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.with_starts(|starts| starts.iter().map(|(name, _)| name.clone()).collect())
    }

    /// Asserts who has started, in this order wherever one task runs at a time.
    ///
    /// # Panics
    ///
    /// When it was somebody else.
    #[track_caller]
    pub fn expect_names(&self, expected: &[String]) {
        let (mut seen, mut expected) = (self.names(), expected.to_vec());
        if !M::ONE_THREAD {
            seen.sort();
            expected.sort();
        }
        assert_eq!(seen, expected, "who started");
    }

    /// Compares who started when with who should have. Where times are exact, they are equal, and so
    /// is the order; elsewhere no start is early.
    ///
    /// # Panics
    ///
    /// When they differ.
    #[track_caller]
    pub fn expect(&self, expected: &[(&str, u32)]) {
        let mut seen: Vec<(String, Duration)> = self.with_starts(|starts| {
            let since = |at: Instant| at.saturating_duration_since(self.origin);
            starts.iter().map(|(name, at)| (name.clone(), since(*at))).collect()
        });
        let mut expected: Vec<(String, Duration)> =
            expected.iter().map(|&(name, at)| (name.to_owned(), self.ms(at))).collect();
        if !M::EXACT {
            seen.sort();
            expected.sort();
        }
        if M::EXACT {
            assert_eq!(seen, expected, "who started when");
        } else {
            let names = |list: &[(String, Duration)]| list.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
            assert_eq!(names(&seen), names(&expected), "who started");
            for (seen, expected) in seen.iter().zip(&expected) {
                assert!(seen.1 >= expected.1, "{} started at {:?}, before {:?}", seen.0, seen.1, expected.1);
            }
        }
    }

    /// Asserts the time of an event of the body itself: exact, or not early.
    ///
    /// # Panics
    ///
    /// When it is another time.
    #[track_caller]
    pub fn expect_now(&self, millis: u32) {
        let (now, at) = (self.elapsed(), self.ms(millis));
        if M::EXACT {
            assert_eq!(now, at);
        } else {
            assert!(now >= at, "it is {now:?}, before {at:?}");
        }
    }

    fn with_starts<T>(&self, look: impl FnOnce(&[(String, Instant)]) -> T) -> T {
        look(&self.starts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<M: Mount> Default for Transcript<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// Notes who starts when.
#[derive(Clone)]
pub struct Recorder {
    clock: Arc<dyn Clock>,
    starts: Starts,
}

impl Recorder {
    /// An operation of this name starts now.
    pub fn note(&self, name: impl Into<String>) {
        let now = self.clock.now();
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).push((name.into(), now));
    }
}

/// Whatever an operation can be given to.
pub trait Ask {
    /// The future of the operation.
    fn ask(self, operation: impl FnOnce() -> Boxed<()> + Send + 'static) -> Boxed<Answer>;
}

impl<R: Runtime> Ask for &Provider<R> {
    fn ask(self, operation: impl FnOnce() -> Boxed<()> + Send + 'static) -> Boxed<Answer> {
        Box::pin(self.run(operation))
    }
}

impl<R: Runtime> Ask for Call<R> {
    fn ask(self, operation: impl FnOnce() -> Boxed<()> + Send + 'static) -> Boxed<Answer> {
        Box::pin(self.run(operation))
    }
}

impl<R: Runtime> Ask for &RateLimiter<R> {
    fn ask(self, operation: impl FnOnce() -> Boxed<()> + Send + 'static) -> Boxed<Answer> {
        Box::pin(self.run(operation))
    }
}

impl<R: Runtime> Ask for &IntervalLimiter<R> {
    fn ask(self, operation: impl FnOnce() -> Boxed<()> + Send + 'static) -> Boxed<Answer> {
        Box::pin(self.run(&AbortSignal::never(), operation))
    }
}

impl<R: Runtime> Ask for (&IntervalLimiter<R>, &AbortSignal) {
    fn ask(self, operation: impl FnOnce() -> Boxed<()> + Send + 'static) -> Boxed<Answer> {
        Box::pin(self.0.run(self.1, operation))
    }
}

/// A call in the hands of its body.
pub struct Held {
    future: Option<Boxed<Answer>>,
    answer: Option<Answer>,
    polls: Arc<AtomicU32>,
    started: Signal,
    finish: Signal,
}

impl Held {
    /// Polls it once, with the body's waker.
    pub async fn poll(&mut self) {
        poll_fn(|cx| {
            if let Some(future) = &mut self.future {
                self.polls.fetch_add(1, Ordering::SeqCst);
                if let Poll::Ready(answer) = future.as_mut().poll(cx) {
                    self.answer = Some(answer);
                    self.future = None;
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Whether its operation was called.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started.is_set()
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// The refusal it ended with.
    ///
    /// # Panics
    ///
    /// When it has not ended, or not so.
    #[track_caller]
    #[must_use]
    pub fn refusal(&self) -> Rejected {
        let answer = self.answer().expect("it has ended");
        answer.clone().expect_err("it was refused")
    }

    /// Lets it run beside the body.
    #[must_use]
    pub fn release<M: Mount>(self) -> Running {
        let cancel = Signal::default();
        let task = Cancellable {
            future: self.future,
            answer: self.answer,
            polls: Arc::clone(&self.polls),
            cancelled: {
                let cancel = cancel.clone();
                Box::pin(async move { cancel.wait().await })
            },
        };
        Running {
            task: Mutex::new(M::spawn(Box::pin(task))),
            polls: self.polls,
            started: self.started,
            finish: self.finish,
            cancel,
        }
    }
}

/// A call that runs beside its body.
pub struct Running {
    // A mutex that is never locked: it makes the whole `Sync`, so that bodies may look at one across
    // an await.
    task: Mutex<Boxed<Option<Option<Answer>>>>,
    polls: Arc<AtomicU32>,
    started: Signal,
    finish: Signal,
    cancel: Signal,
}

impl Running {
    /// Whether its operation was called.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started.is_set()
    }

    /// Until its operation was called.
    pub async fn started(&self) {
        self.started.wait().await;
    }

    /// How often its future was polled, the submission included.
    #[must_use]
    pub fn polls(&self) -> u32 {
        self.polls.load(Ordering::SeqCst)
    }

    /// Lets its operation end, now or as soon as it has started.
    pub fn finish(&self) {
        self.finish.set();
    }

    /// Until it has ended, and everything that it held is free.
    ///
    /// # Panics
    ///
    /// When its operation did, or it was dropped.
    pub async fn end(self) -> Answer {
        self.task().await.expect("no panic").expect("not dropped")
    }

    /// Lets its operation end, and waits until everything that it held is free.
    ///
    /// # Panics
    ///
    /// When it is not admitted.
    pub async fn settle(self) {
        self.finish();
        self.end().await.expect("it is admitted");
    }

    /// Waits for its refusal.
    ///
    /// # Panics
    ///
    /// When it is admitted.
    pub async fn refused(self) -> Rejected {
        self.end().await.expect_err("it is refused")
    }

    /// Drops its future, whatever it is doing, and waits until it is gone.
    pub async fn drop_it(self) {
        self.cancel.set();
        self.task().await;
    }

    fn task(self) -> Boxed<Option<Option<Answer>>> {
        self.task.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settles them all, in any order.
pub async fn settle_all(calls: impl IntoIterator<Item = Running>) {
    let calls: Vec<Running> = calls.into_iter().collect();
    for call in &calls {
        call.finish();
    }
    for call in calls {
        call.settle().await;
    }
}

/// A call that its body can drop from afar.
struct Cancellable {
    future: Option<Boxed<Answer>>,
    answer: Option<Answer>,
    polls: Arc<AtomicU32>,
    cancelled: Boxed<()>,
}

impl Future for Cancellable {
    type Output = Option<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        if self.answer.is_some() {
            return Poll::Ready(self.answer.take());
        }
        if self.cancelled.as_mut().poll(cx).is_ready() {
            self.future = None;
            return Poll::Ready(None);
        }
        self.polls.fetch_add(1, Ordering::SeqCst);
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        match future.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(answer) => {
                self.future = None;
                Poll::Ready(Some(answer))
            }
        }
    }
}

const HOUR: Duration = Duration::from_secs(3_600);
