//! Streams under admission: a map whose items wait for their turn, and a paced read.
//!
//! Owns: rule I4, with the rules of calls as far as a stream's items are calls. Lacks: the retries
//! themselves, which are those of any call.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use admission_rt::{
    AbortHandle, AdmissionStreamExt, Attempt, Counts, IntervalLimiter, ItemError, Rejected, Retry, RetryError,
};
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::iter;

use crate::mount::{Boxed, Mount};
use crate::signal::{Signal, poll_once};
use crate::transcript::{Recorder, Transcript};

/// What the bodies' operations fail with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Failure {
    Transient,
    Final,
}

/// What is handed out.
type Output = Result<usize, ItemError<Failure>>;

/// A stream of outputs, whoever runs its operations.
type Outputs = Pin<Box<dyn Stream<Item = Output> + Send>>;

/// Who runs the operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Runtime,
    Stream,
}

const BOTH: [By; 2] = [By::Runtime, By::Stream];

/// Says which of two streams it is.
macro_rules! by {
    ($by:expr, $map:expr) => {{
        let map = $map;
        let outputs: Outputs = match $by {
            By::Runtime => Box::pin(map.spawned()),
            By::Stream => Box::pin(map.driven()),
        };
        outputs
    }};
}

/// Operations that end when they are told to.
#[derive(Clone)]
struct Gates {
    recorder: Recorder,
    finish: Arc<Vec<Signal>>,
    started: Arc<Vec<Signal>>,
    told: Arc<Vec<Signal>>,
}

impl Gates {
    fn new<M: Mount>(t: &Transcript<M>, items: usize) -> Self {
        let signals = || Arc::new((0..items).map(|_| Signal::default()).collect::<Vec<_>>());
        Self { recorder: t.recorder(), finish: signals(), started: signals(), told: signals() }
    }

    /// The operation of one item: the item is its value. It goes on when it is told to stop.
    fn pass(
        &self,
        item: usize,
        attempt: Attempt,
    ) -> impl Future<Output = Result<usize, Failure>> + Send + use<> {
        self.recorder.note(item.to_string());
        self.started[item].set();
        let (finish, told) = (self.finish[item].clone(), self.told[item].clone());
        async move {
            let mut stop = attempt.signal().aborted();
            let mut finished = Box::pin(async move { finish.wait().await });
            std::future::poll_fn(move |cx| {
                if Pin::new(&mut stop).poll(cx).is_ready() {
                    told.set();
                }
                finished.as_mut().poll(cx)
            })
            .await;
            Ok(item)
        }
    }

    fn operation(&self) -> impl Fn(usize, Attempt) -> Boxed<Result<usize, Failure>> + Send + Sync + 'static {
        let gates = self.clone();
        move |item, attempt| Box::pin(gates.pass(item, attempt))
    }

    fn open(&self, items: impl IntoIterator<Item = usize>) {
        for item in items {
            self.finish[item].set();
        }
    }

    fn started(&self) -> usize {
        self.started.iter().filter(|started| started.is_set()).count()
    }
}

fn limiter<M: Mount>(t: &Transcript<M>, millis: u32, max_waiting: u32) -> IntervalLimiter<M::Runtime> {
    let builder = IntervalLimiter::builder(t.ms(millis)).clock(t.clock()).max_waiting(max_waiting);
    // A machine that stops for a moment is not a caller that does not run.
    let builder = if M::EXACT { builder } else { builder.hand_off(Duration::from_secs(3_600)) };
    builder.build().expect("the interval is not zero")
}

/// Until this holds; whatever makes it so needs no more than time and a turn.
async fn until<M: Mount>(holds: impl Fn() -> bool) {
    while !holds() {
        M::sleep(M::MILLISECOND).await;
    }
}

fn value(output: Option<Output>) -> usize {
    output.expect("one more").expect("a value")
}

/// Outputs in the order of the source, whichever is finished first.
pub async fn outputs_come_in_the_order_of_the_source<M: Mount>() {
    // rule I4
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(3));
        let gates = Gates::new(&t, 3);
        let mut outputs = by!(by, iter(0..3).map_admitted(&a, gates.operation()).concurrency(3));
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        for started in gates.started.iter() {
            started.wait().await;
        }
        gates.open([2, 1]);
        M::sleep(M::MILLISECOND).await;
        assert!(poll_once(&mut outputs.next()).await.is_pending(), "the first is still running");
        gates.open([0]);
        for item in 0..3 {
            assert_eq!(value(outputs.next().await), item);
        }
        assert!(outputs.next().await.is_none());
        assert!(outputs.next().await.is_none(), "fused");
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// Or as they are completed.
pub async fn outputs_may_come_as_they_are_completed<M: Mount>() {
    // rule I4
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(3));
        let gates = Gates::new(&t, 3);
        let map = iter(0..3).map_admitted(&a, gates.operation()).concurrency(3).as_completed();
        let mut outputs = by!(by, map);
        for item in [2, 0, 1] {
            gates.open([item]);
            assert_eq!(value(outputs.next().await), item);
        }
        assert!(outputs.next().await.is_none());
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// The concurrency bounds what is in flight, and the capacity what is begun and not read.
pub async fn a_stream_runs_no_further_ahead_than_its_capacity<M: Mount>() {
    // rule I4
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (_admission, a) = t.provider(|p| p.max_concurrent(100));
        let gates = Gates::new(&t, 10);
        let read = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&read);
        let source = iter(0..10).inspect(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let map = source.map_admitted(&a, gates.operation()).concurrency(2).capacity(3).as_completed();
        let mut outputs = by!(by, map);
        assert_eq!(read.load(Ordering::SeqCst), 0, "nothing is read before the first poll");
        let mut next = outputs.next();
        assert!(poll_once(&mut next).await.is_pending());
        until::<M>(|| gates.started() == 2).await;
        assert_eq!(read.load(Ordering::SeqCst), 2, "as many as the concurrency");
        gates.open(0..10);
        value(next.await);
        // However often it is polled, no more than three are begun and not read.
        for unread in 1..10 {
            let begun = read.load(Ordering::SeqCst);
            assert!(begun < unread + 3, "{begun} begun, and {} read", unread);
            value(outputs.next().await);
        }
        assert!(outputs.next().await.is_none());
        assert_eq!(gates.started(), 10);
    }
}

/// An operation that is spawned gets on though nobody polls the stream, and its slot is free after.
pub async fn a_spawned_stream_that_is_not_polled_frees_its_slots<M: Mount>() {
    // rules I4, S4, W7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let gates = Gates::new(&t, 2);
    let mut outputs = iter(0..2).map_admitted(&a, gates.operation()).concurrency(2).spawned();
    assert!(poll_once(&mut outputs.next()).await.is_pending());
    gates.started[0].wait().await;
    let other = t.call("other", &a).await;
    gates.open([0, 1]);
    // Behind both items, each of which ends without the stream.
    other.settle().await;
    t.expect_names(&["0".to_owned(), "1".to_owned(), "other".to_owned()]);
    assert_eq!(admission.counts(), Counts::default());
    assert_eq!(value(outputs.next().await), 0);
    assert_eq!(value(outputs.next().await), 1);
    assert!(outputs.next().await.is_none());
}

/// Items that wait in a driven stream that nobody polls cost others the hand-off time.
pub async fn a_driven_stream_that_is_not_polled_stalls_others_briefly<M: Mount>() {
    // rules I4, S4, S4a
    let t = Transcript::<M>::new();
    let builder = IntervalLimiter::<M::Runtime>::builder(t.ms(100)).clock(t.clock()).hand_off(t.ms(200));
    let limiter = builder.build().expect("the interval is not zero");
    let gates = Gates::new(&t, 3);
    let map = iter(0..3).map_admitted(&limiter, gates.operation()).concurrency(3);
    let mut outputs = by!(By::Stream, map);
    assert!(poll_once(&mut outputs.next()).await.is_pending());
    t.call("next", &limiter).await.settle().await;
    // The second item was granted at 100, the third at 300, for half the time.
    t.expect(&[("0", 0), ("next", 400)]);
    gates.open(0..3);
    for item in 0..3 {
        assert_eq!(value(outputs.next().await), item);
    }
    t.expect(&[("0", 0), ("next", 400), ("1", 500), ("2", 600)]);
    assert_eq!(limiter.counts(), Counts::default());
}

/// A stream can be dropped in every state, and what it began is told; nothing is left of it.
pub async fn a_stream_can_be_dropped_in_every_state<M: Mount>() {
    // rules I4, W3, W5, W7
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(2));
        let gates = Gates::new(&t, 5);
        let new = || by!(by, iter(0..5).map_admitted(&a, gates.operation()).concurrency(4).as_completed());
        // Not begun.
        drop(new());
        assert_eq!(gates.started(), 0);
        // Two run and two wait. One of those that run is finished, and one of those that wait runs.
        let mut outputs = new();
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        gates.started[0].wait().await;
        gates.started[1].wait().await;
        assert_eq!(admission.counts(), Counts { running: 2, granted: 0, queued: 2 });
        gates.open([0]);
        assert_eq!(value(outputs.next().await), 0);
        // Not polled any more, and a granted one among them where it is the stream that polls.
        drop(outputs);
        assert_eq!(admission.counts().queued, 0, "those that wait leave at once");
        if by == By::Runtime {
            gates.told[1].wait().await;
            assert!(admission.counts().running > 0, "what runs keeps its slot until it is finished");
            gates.open(1..5);
            admission.idle().await;
        }
        assert_eq!(admission.counts(), Counts::default());
        assert!(matches!(M::armed(), None | Some(0)));
    }
}

/// A stream can be dropped after any number of polls.
pub async fn a_stream_can_be_dropped_after_any_poll<M: Mount>() {
    // rules I4, W5
    for by in BOTH {
        for polls in 0..12 {
            let t = Transcript::<M>::new();
            let limiter = limiter(&t, 10, 1_024);
            let tries = Arc::new(AtomicU32::new(0));
            let operation = {
                let tries = Arc::clone(&tries);
                move |item: usize, _: Attempt| {
                    let fails = tries.fetch_add(1, Ordering::SeqCst) % 2 == 0;
                    async move {
                        M::sleep(M::MILLISECOND * 3).await;
                        if fails { Err(Failure::Transient) } else { Ok(item) }
                    }
                }
            };
            let policy = Retry::times(1).delay(t.ms(5));
            let map = iter(0..3).map_admitted(&limiter, operation).concurrency(2).retry(policy);
            let mut outputs = by!(by, map);
            for _ in 0..polls {
                let _ = poll_once(&mut outputs.next()).await;
                M::sleep(M::MILLISECOND * 4).await;
            }
            drop(outputs);
            limiter.idle().await;
            assert_eq!(limiter.counts(), Counts::default());
            // A task that waited to retry is told, and is gone at its next turn.
            until::<M>(|| matches!(M::armed(), None | Some(0))).await;
        }
    }
}

/// The `try_` form ends with the first error, and tells the others.
pub async fn a_try_stream_stops_at_the_first_error<M: Mount>() {
    // rule I4
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(2));
        let gates = Gates::new(&t, 9);
        let operation = {
            let pass = gates.operation();
            move |item, attempt| -> Boxed<Result<usize, Failure>> {
                let passed = pass(item, attempt);
                if item == 1 {
                    Box::pin(async move { passed.await.and(Err(Failure::Final)) })
                } else {
                    passed
                }
            }
        };
        let map = iter(0..9).try_map_admitted(&a, operation).concurrency(3).as_completed();
        let mut outputs = by!(by, map);
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        gates.started[1].wait().await;
        gates.open([1]);
        let error = outputs.next().await.expect("one more").expect_err("it failed");
        assert!(matches!(
            error,
            ItemError::Call(RetryError::Operation { error: Failure::Final, attempts: 1, .. })
        ));
        assert!(outputs.next().await.is_none());
        assert_eq!(outputs.size_hint(), (0, Some(0)));
        assert_eq!(admission.counts().queued, 0, "those that wait leave at once");
        if by == By::Runtime {
            gates.told[0].wait().await;
            gates.open([0, 2]);
            admission.idle().await;
        }
        assert_eq!(admission.counts(), Counts::default());
        assert!(gates.started() <= 3, "nothing more is begun");
    }
}

/// An item that finally fails is an error in its place, and the stream goes on.
pub async fn a_failed_item_is_an_error_in_its_place<M: Mount>() {
    // rules I4, R6
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(3));
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let operation = {
            let attempts = Arc::clone(&attempts);
            move |item: usize, attempt: Attempt| {
                attempts.lock().expect("no panic").push((item, attempt.number()));
                let is_fine = item != 1 && (item != 2 || attempt.number() == 3);
                async move {
                    if is_fine {
                        Ok(item)
                    } else if item == 1 {
                        Err(Failure::Final)
                    } else {
                        Err(Failure::Transient)
                    }
                }
            }
        };
        let policy = Retry::times(2).when(|error: &Failure| *error == Failure::Transient);
        let map = iter(0..4).map_admitted(&a, operation).concurrency(4).retry(policy);
        let outputs: Vec<Output> = by!(by, map).collect().await;
        let [Ok(0), Err(error), Ok(2), Ok(3)] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!((error.error(), error.attempts()), (Some(&Failure::Final), 1));
        let mut attempts = attempts.lock().expect("no panic").clone();
        attempts.sort_unstable();
        assert_eq!(attempts, [(0, 1), (1, 1), (2, 1), (2, 2), (2, 3), (3, 1)]);
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// A refusal is its item's error, not retried, and tells of the last attempt if there was one.
pub async fn a_refused_item_is_not_retried<M: Mount>() {
    // rules I4, E5, Q5
    for by in BOTH {
        let t = Transcript::<M>::new();
        let limiter = limiter(&t, 3_600_000, 1);
        let asked = Arc::new(AtomicBool::new(false));
        let policy = {
            let asked = Arc::clone(&asked);
            Retry::times(5).when(move |_: &Failure| {
                asked.store(true, Ordering::SeqCst);
                true
            })
        };
        let start = |_: usize, _: Attempt| async { Err::<usize, Failure>(Failure::Transient) };
        let map = iter(0..3).map_admitted(&limiter, start).concurrency(3).retry(policy).as_completed();
        let mut outputs = by!(by, map);
        // The first starts and fails; the second waits; the third and the retry find the queue full.
        let mut refused = Vec::new();
        for _ in 0..2 {
            let error = outputs.next().await.expect("one more").expect_err("it is refused");
            assert!(error.rejected().is_some_and(Rejected::is_overflow), "{error:?}");
            refused.push((error.attempts(), error.error().copied()));
        }
        refused.sort_unstable();
        assert_eq!(refused, [(0, None), (1, Some(Failure::Transient))]);
        assert!(asked.load(Ordering::SeqCst), "about the error of the operation");
        limiter.close();
        let error = outputs.next().await.expect("one more").expect_err("it is refused");
        assert!(error.rejected().is_some_and(Rejected::is_closed), "{error:?}");
        assert!(outputs.next().await.is_none());
        assert_eq!(limiter.counts(), Counts::default());
    }
}

/// A panic passes through where the stream drives, and is an error where a task runs.
pub async fn a_panic_in_one_item_loses_no_other<M: Mount>() {
    // rules I4, W5
    let operation = |item: usize, _: Attempt| -> Boxed<Result<usize, Failure>> {
        Box::pin(async move {
            assert!(item != 1, "on purpose");
            Ok(item)
        })
    };
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let spawned = iter(0..3).map_admitted(&a, operation).concurrency(3).spawned();
    let outputs: Vec<Output> = spawned.collect().await;
    let [Ok(0), Err(ItemError::Panicked { message: Some(message), attempts: 1, .. }), Ok(2)] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(&**message, "on purpose");
    admission.idle().await;

    let driven = iter(0..3).map_admitted(&a, operation).concurrency(3).driven();
    let driven: Arc<Mutex<(Outputs, Vec<usize>)>> = Arc::new(Mutex::new((Box::pin(driven), Vec::new())));
    // Each task goes on with the stream until it ends or panics.
    let read = |driven: Arc<Mutex<(Outputs, Vec<usize>)>>| -> Boxed<()> {
        Box::pin(std::future::poll_fn(move |cx| {
            // The lock of a task that panicked is as good as any.
            let mut guard = driven.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (stream, read) = &mut *guard;
            loop {
                match stream.as_mut().poll_next(cx) {
                    std::task::Poll::Pending => return std::task::Poll::Pending,
                    std::task::Poll::Ready(None) => return std::task::Poll::Ready(()),
                    std::task::Poll::Ready(output) => read.push(value(output)),
                }
            }
        }))
    };
    assert!(M::spawn(read(Arc::clone(&driven))).await.is_none(), "it passes through");
    assert!(M::spawn(read(Arc::clone(&driven))).await.is_some(), "and the others are there");
    assert_eq!(driven.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1, [0, 2]);
    assert_eq!(admission.counts(), Counts::default());
}

/// A signal ends the stream: what waits is refused with its reason, what runs is told and read.
pub async fn a_signal_ends_a_stream<M: Mount>() {
    // rules I4, W3
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(1));
        let gates = Gates::new(&t, 5);
        let (handle, signal) = AbortHandle::new();
        let map = iter(0..5).map_admitted(&a, gates.operation()).concurrency(2).abort_signal(&signal);
        let mut outputs = by!(by, map);
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        gates.started[0].wait().await;
        handle.abort_with("enough");
        assert_eq!(admission.counts().queued, 0, "whether or not it is polled");
        assert!(poll_once(&mut outputs.next()).await.is_pending(), "what runs is waited for");
        gates.told[0].wait().await;
        gates.open([0]);
        assert_eq!(value(outputs.next().await), 0);
        match outputs.next().await.expect("one more").expect_err("it is refused").rejected() {
            Some(Rejected::Aborted(reason)) => assert_eq!(reason.to_string(), "enough"),
            other => panic!("{other:?}"),
        }
        assert!(outputs.next().await.is_none());
        assert_eq!((gates.started(), admission.counts()), (1, Counts::default()));
    }
}

/// A signal that fires while nothing is in flight ends the stream, too.
pub async fn a_signal_ends_a_stream_that_waits_for_its_source<M: Mount>() {
    // rules I4, W3
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (_admission, a) = t.provider(|p| p.max_concurrent(1));
        let gates = Gates::new(&t, 1);
        let (handle, signal) = AbortHandle::new();
        let source = futures_util::stream::pending::<usize>();
        // The call's own signal does the same.
        let map = source.map_admitted(a.abort_signal(&signal), gates.operation());
        let mut outputs = by!(by, map);
        let ended = M::spawn(Box::pin(async move { outputs.next().await.is_none() }));
        M::sleep(M::MILLISECOND).await;
        handle.abort();
        assert_eq!(ended.await, Some(true));
    }
}

/// What an item's call asks for may depend on the item.
pub async fn items_have_calls_of_their_own<M: Mount>() {
    // rules I4, L1
    for by in BOTH {
        let t = Transcript::<M>::new();
        let (admission, a) = t.provider(|p| p.max_concurrent(4));
        let gates = Gates::new(&t, 4);
        let (handle, signal) = AbortHandle::new();
        let map = iter(0..4)
            .map_admitted(&a, gates.operation())
            .per_item(move |item, call| {
                let call = call.key((*item % 2) as u64);
                if *item == 2 { call.abort_signal(&signal) } else { call }
            })
            .concurrency(4)
            .as_completed();
        let mut outputs = by!(by, map);
        assert!(poll_once(&mut outputs.next()).await.is_pending());
        gates.started[0].wait().await;
        gates.started[1].wait().await;
        assert_eq!(admission.counts(), Counts { running: 2, granted: 0, queued: 2 }, "one per key");
        handle.abort();
        let error = outputs.next().await.expect("one more").expect_err("it is refused");
        assert!(error.rejected().is_some_and(Rejected::is_aborted));
        gates.open([0, 1, 3]);
        let mut read =
            vec![value(outputs.next().await), value(outputs.next().await), value(outputs.next().await)];
        read.sort_unstable();
        assert_eq!(read, [0, 1, 3]);
        assert!(outputs.next().await.is_none());
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// Items stand in the queue in the order of the source, whoever runs them.
pub async fn items_queue_in_the_order_of_the_source<M: Mount>() {
    // rules I4, W0, L2
    for by in BOTH {
        let t = Transcript::<M>::new();
        let limiter = limiter(&t, 10, 1_024);
        let gates = Gates::new(&t, 4);
        gates.open(0..4);
        let map = iter(0..4).map_admitted(&limiter, gates.operation()).concurrency(4).as_completed();
        let outputs: Vec<Output> = by!(by, map).collect().await;
        assert_eq!(outputs.len(), 4);
        t.expect(&[("0", 0), ("1", 10), ("2", 20), ("3", 30)]);
        assert_eq!(t.names(), ["0", "1", "2", "3"]);
    }
}

/// Two executions at once share one interval, their retries too, each at the tail.
pub async fn two_streams_share_one_interval_with_their_retries<M: Mount>() {
    // rules I4, I1, E5, L2
    for by in BOTH {
        let t = Transcript::<M>::new();
        let limiter = limiter(&t, 100, 8);
        let execute = |name: &'static str, failing: &'static [(usize, u32)]| {
            let (recorder, limiter) = (t.recorder(), limiter.clone());
            let operation = move |job: usize, attempt: Attempt| {
                recorder.note(format!("{name}{job}.{}", attempt.number()));
                let fails = failing.contains(&(job, attempt.number()));
                async move {
                    M::sleep(M::MILLISECOND * 30).await;
                    if fails { Err(Failure::Transient) } else { Ok(job) }
                }
            };
            let policy = Retry::times(2).when(|error: &Failure| *error == Failure::Transient);
            let map = iter(0..4).map_admitted(&limiter, operation).concurrency(2).capacity(2).retry(policy);
            M::spawn(Box::pin(by!(by, map).collect::<Vec<Output>>()))
        };
        // Of the first, job 1 fails once; of the second, job 0 fails once and job 2 always.
        let first = execute("a", &[(1, 1)]);
        let second = execute("b", &[(0, 1), (2, 1), (2, 2), (2, 3)]);
        let first = first.await.expect("no panic");
        let second = second.await.expect("no panic");
        let values: Vec<usize> = first.into_iter().map(|output| output.expect("a value")).collect();
        assert_eq!(values, [0, 1, 2, 3]);
        let [Ok(0), Ok(1), Err(error), Ok(3)] = &second[..] else { panic!("{second:?}") };
        assert_eq!((error.error(), error.attempts()), (Some(&Failure::Transient), 3));
        t.expect(&[
            ("a0.1", 0),
            // They came together, and stand in the order in which they came.
            ("a1.1", 100),
            ("b0.1", 200),
            ("b1.1", 300),
            // The first execution's next job came at 30 ms, when its first was done and read.
            ("a2.1", 400),
            // A retry comes when its attempt has failed, and stands behind those who were there.
            ("a1.2", 500),
            ("b0.2", 600),
            // Two are begun and not read until job 1 is there (530 ms), job 0 of the second (630 ms).
            ("a3.1", 700),
            ("b2.1", 800),
            ("b3.1", 900),
            ("b2.2", 1_000),
            ("b2.3", 1_100),
        ]);
        assert_eq!(limiter.counts(), Counts::default());
        assert!(matches!(M::armed(), None | Some(0)));
    }
}

/// A paced stream is read as the limiter allows, from the first read on.
pub async fn a_paced_stream_is_read_no_faster_than_allowed<M: Mount>() {
    // rules I4, L2, D1
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 20, 8);
    let recorder = t.recorder();
    let mut left = 3;
    let source = futures_util::stream::poll_fn(move |_| {
        recorder.note("read");
        left -= 1;
        std::task::Poll::Ready((left >= 0).then_some(left))
    });
    let mut paced = source.paced(&limiter);
    assert_eq!(t.names().len(), 0, "nothing before the first poll");
    for item in [2, 1, 0] {
        assert_eq!(paced.next().await.expect("one more").expect("admitted"), item);
    }
    assert!(paced.next().await.is_none());
    assert!(paced.next().await.is_none(), "and the source is not asked again");
    t.expect(&[("read", 0), ("read", 20), ("read", 40), ("read", 60)]);
    assert_eq!(limiter.counts(), Counts::default());
}

/// A read that waits for its source has started, and holds what a call holds until it has its answer.
pub async fn a_paced_read_is_a_call<M: Mount>() {
    // rules I4, W7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let arrives = Signal::default();
    let source = {
        let arrives = arrives.clone();
        Box::pin(futures_util::stream::once(async move { arrives.wait().await }))
    };
    let mut paced = source.paced(&a);
    assert!(poll_once(&mut paced.next()).await.is_pending());
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
    let other = t.call("other", &a).await;
    arrives.set();
    paced.next().await.expect("one more").expect("admitted");
    other.settle().await;
    assert!(paced.next().await.is_none());
    assert_eq!(admission.counts(), Counts::default());
}

/// A refusal is a paced stream's last item, and loses none of the source's.
pub async fn a_refusal_ends_a_paced_stream_and_loses_nothing<M: Mount>() {
    // rules I4, W3, W4
    let t = Transcript::<M>::new();
    let limiter = limiter(&t, 3_600_000, 8);
    let (handle, signal) = AbortHandle::new();
    let mut paced = iter(0..3).paced(limiter.call().abort_signal(&signal));
    assert_eq!(paced.next().await.expect("one more").expect("admitted"), 0);
    assert!(poll_once(&mut paced.next()).await.is_pending());
    assert_eq!(limiter.counts().queued, 1);
    handle.abort();
    assert_eq!(limiter.counts(), Counts::default());
    assert!(paced.next().await.expect("one more").expect_err("aborted").is_aborted());
    assert!(paced.next().await.is_none());
    assert_eq!(paced.into_inner().collect::<Vec<_>>().await, [1, 2]);

    let mut dropped = iter(0..3).paced(&limiter);
    assert!(poll_once(&mut dropped.next()).await.is_pending());
    drop(dropped);
    assert_eq!(limiter.counts(), Counts::default());
    limiter.close();
    let mut closed = iter(0..3).paced(&limiter);
    assert!(closed.next().await.expect("one more").expect_err("closed").is_closed());
    assert!(closed.next().await.is_none());
}
