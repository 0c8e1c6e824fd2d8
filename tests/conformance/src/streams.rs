//! Streams under admission: a map whose items wait for their turn.
//!
//! Owns: rule I4 while a stream goes on, with the rules of calls as far as a stream's items are calls; and
//! the operations of these bodies, which end when they are told to. Lacks: the ways in which items and
//! streams end, and the retries themselves, which are those of any call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use admission_rt::{
    AbortHandle, AdmissionStreamExt, Attempt, Counts, IntervalLimiter, ItemError, Rejected, Retry,
};
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::iter;

use crate::mount::{Boxed, Mount};
use crate::signal::{Signal, poll_once};
use crate::transcript::{Recorder, Transcript};

/// What the bodies' operations fail with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Failure {
    Transient,
    Final,
}

/// What is handed out.
pub(crate) type Output = Result<usize, ItemError<Failure>>;

/// A stream of outputs, whoever runs its operations.
pub(crate) type Outputs = Pin<Box<dyn Stream<Item = Output> + Send>>;

/// Who runs the operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Runtime,
    Stream,
}

pub(crate) const BOTH: [By; 2] = [By::Runtime, By::Stream];

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

pub(crate) use by;

/// Operations that end when they are told to.
#[derive(Clone)]
pub(crate) struct Gates {
    pub(crate) recorder: Recorder,
    pub(crate) finish: Arc<Vec<Signal>>,
    pub(crate) started: Arc<Vec<Signal>>,
    pub(crate) told: Arc<Vec<Signal>>,
}

impl Gates {
    pub(crate) fn new<M: Mount>(t: &Transcript<M>, items: usize) -> Self {
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

    pub(crate) fn operation(
        &self,
    ) -> impl Fn(usize, Attempt) -> Boxed<Result<usize, Failure>> + Send + Sync + 'static {
        let gates = self.clone();
        move |item, attempt| Box::pin(gates.pass(item, attempt))
    }

    pub(crate) fn open(&self, items: impl IntoIterator<Item = usize>) {
        for item in items {
            self.finish[item].set();
        }
    }

    pub(crate) fn started(&self) -> usize {
        self.started.iter().filter(|started| started.is_set()).count()
    }
}

pub(crate) fn limiter<M: Mount>(
    t: &Transcript<M>,
    millis: u32,
    max_waiting: u32,
) -> IntervalLimiter<M::Runtime> {
    let builder = IntervalLimiter::builder(t.ms(millis)).clock(t.clock()).max_waiting(max_waiting);
    // A machine that stops for a moment is not a caller that does not run.
    let builder = if M::EXACT { builder } else { builder.hand_off(Duration::from_secs(3_600)) };
    builder.build().expect("the interval is not zero")
}

/// Until this holds; whatever makes it so needs no more than time and a turn.
pub(crate) async fn until<M: Mount>(holds: impl Fn() -> bool) {
    while !holds() {
        M::sleep(M::MILLISECOND).await;
    }
}

pub(crate) fn value(output: Option<Output>) -> usize {
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
        // An operation on a thread of its own may be stopped between its start and its note of it.
        t.expect_names(&["0", "1", "2", "3"].map(str::to_owned));
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
