//! One coordinator under every runtime there is, in turn and at once, and one of them dying.
//!
//! Time is real, and no start is early: the n-th start of all, whoever made it, is so many intervals and
//! windows after the beginning, at least.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use admission::async_std::AsyncStd;
use admission::blocking::Blocking;
use admission::runtime::{Clock, Runtime, SystemClock};
use admission::smol::Smol;
use admission::tokio::Tokio;
use admission::{Admission, Counts, Instant};
use tokio::runtime::Builder;

/// A way to run a future to its end, named by the runtime that it polls in.
#[derive(Clone, Copy, Debug)]
enum Host {
    TokioCurrentThread,
    TokioMultiThread,
    Smol,
    AsyncStd,
    Threads,
}

const HOSTS: [Host; 5] =
    [Host::TokioCurrentThread, Host::TokioMultiThread, Host::Smol, Host::AsyncStd, Host::Threads];

fn current_thread() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn multi_thread() -> tokio::runtime::Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

/// What one caller does, in whatever runtime.
trait Caller: Copy + Send + Sync + 'static {
    type Output: Send + 'static;

    fn call<R: Runtime>(self, admission: Admission<R>) -> impl Future<Output = Self::Output> + Send;
}

impl Host {
    /// So many callers at once, and what became of them.
    fn run<C: Caller>(self, shared: &'static Admission<Tokio>, caller: C, callers: u32) -> Vec<C::Output> {
        match self {
            Self::TokioCurrentThread => in_tokio(&current_thread(), shared, caller, callers),
            Self::TokioMultiThread => in_tokio(&multi_thread(), shared, caller, callers),
            Self::Smol => {
                let tasks: Vec<_> =
                    (0..callers).map(|_| smol::spawn(caller.call(shared.on::<Smol>()))).collect();
                tasks.into_iter().map(smol::block_on).collect()
            }
            Self::AsyncStd => {
                let call = || async_std::task::spawn(caller.call(shared.on::<AsyncStd>()));
                let tasks: Vec<_> = (0..callers).map(|_| call()).collect();
                tasks.into_iter().map(async_std::task::block_on).collect()
            }
            Self::Threads => {
                let call = move || admission::blocking::block_on(caller.call(shared.on::<Blocking>()));
                let threads: Vec<_> = (0..callers).map(|_| thread::spawn(call)).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            }
        }
    }
}

fn in_tokio<C: Caller>(
    runtime: &tokio::runtime::Runtime,
    shared: &'static Admission<Tokio>,
    caller: C,
    callers: u32,
) -> Vec<C::Output> {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(caller.call(shared.clone()))).collect();
        let mut outputs = Vec::new();
        for task in tasks {
            outputs.push(task.await.expect("no panic"));
        }
        outputs
    })
}

const GAP: Duration = Duration::from_millis(2);
const WINDOW: Duration = Duration::from_millis(60);
const LIMIT: u32 = 20;

static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

static SHARED: LazyLock<Admission<Tokio>> = LazyLock::new(|| {
    Admission::builder()
        // A machine that stops for a moment is not a caller that does not run.
        .hand_off(Duration::from_secs(3_600))
        .max_concurrent(3)
        .provider("a", |p| p.interval(GAP).window(u64::from(LIMIT), WINDOW))
        .build()
        .expect("a sound configuration")
});

static STARTS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Notes its start, and runs for a moment.
#[derive(Clone, Copy)]
struct Noted;

impl Caller for Noted {
    type Output = ();

    async fn call<R: Runtime>(self, admission: Admission<R>) {
        let a = admission.provider("a").expect("it is there");
        let run = a.run(async || {
            STARTS.lock().expect("no panic").push(CLOCK.now());
            assert!(RUNNING.fetch_add(1, Ordering::SeqCst) < 3, "the client's bound");
            thread::sleep(Duration::from_millis(1));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
        });
        run.await.expect("its turn");
    }
}

/// The n-th start is not before n intervals, nor before as many windows as are full by then.
fn expect_never_early(began: Instant) {
    let mut starts = std::mem::take(&mut *STARTS.lock().expect("no panic"));
    starts.sort();
    for (nth, start) in (0..).zip(&starts) {
        let since = start.saturating_duration_since(began);
        assert!(since >= GAP * nth, "start {nth} at {since:?}");
        assert!(since >= WINDOW * (nth / LIMIT), "start {nth} at {since:?}");
    }
}

#[test]
fn one_coordinator_serves_all_runtimes_in_turn_and_at_once() {
    // rules T5, L2, L3, L1
    let began = CLOCK.now();
    for host in HOSTS.into_iter().chain([Host::TokioCurrentThread, Host::Threads]) {
        host.run(&SHARED, Noted, 8);
    }
    assert_eq!(STARTS.lock().expect("no panic").len(), 7 * 8);
    expect_never_early(began);

    thread::sleep(WINDOW);
    let began = CLOCK.now();
    thread::scope(|scope| {
        for host in HOSTS {
            scope.spawn(move || host.run(&SHARED, Noted, 16));
        }
    });
    assert_eq!(STARTS.lock().expect("no panic").len(), 5 * 16);
    expect_never_early(began);
    assert_eq!(SHARED.counts(), Counts::default());
}

static MORTAL: LazyLock<Admission<Tokio>> = LazyLock::new(|| {
    Admission::builder()
        .provider("slot", |p| p.max_concurrent(1))
        .provider("paced", |p| p.interval(PAUSE))
        .build()
        .expect("a sound configuration")
});

const PAUSE: Duration = Duration::from_millis(100);

/// How many of those who wait have taken their places.
static SUBMITTED: AtomicU32 = AtomicU32::new(0);

/// Waits for one provider, and says when it started.
#[derive(Clone, Copy)]
struct Waits(&'static str);

impl Caller for Waits {
    type Output = Instant;

    async fn call<R: Runtime>(self, admission: Admission<R>) -> Instant {
        let provider = admission.provider(self.0).expect("it is there");
        let mut run = pin!(provider.run(async || CLOCK.now()));
        let first = poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
        SUBMITTED.fetch_add(1, Ordering::SeqCst);
        match first {
            Poll::Ready(start) => start.expect("its turn"),
            Poll::Pending => run.await.expect("its turn"),
        }
    }
}

/// Notes when it is dropped.
struct Leaves(Arc<Mutex<Option<Instant>>>);

impl Drop for Leaves {
    fn drop(&mut self) {
        *self.0.lock().expect("no panic") = Some(CLOCK.now());
    }
}

/// A tokio runtime shuts down with a call that runs, calls that wait and an armed alarm, while calls of
/// another runtime wait at the same places. Nothing panics, its calls leave, and the others start: the
/// one when the slot comes free, the other when the interval is over, and not before.
#[test]
fn a_runtime_that_dies_takes_only_its_own_calls_along() {
    // rules W5, T5, L2
    for host in HOSTS {
        for dying in [current_thread, multi_thread] {
            let dying = dying();
            let slot = MORTAL.provider("slot").expect("it is there");
            let paced = MORTAL.provider("paced").expect("it is there");
            let left = Arc::new(Mutex::new(None));
            let leaves = Leaves(Arc::clone(&left));
            let (sent, started) = tokio::sync::oneshot::channel();
            let running = slot.run(async move || {
                sent.send(()).expect("somebody listens");
                std::future::pending::<()>().await;
                drop(leaves);
            });
            let before_first = dying.block_on(async {
                tokio::spawn(running);
                started.await.expect("it starts");
                let before_first = CLOCK.now();
                drop(paced.acquire().await.expect("its turn"));
                for _ in 0..5 {
                    tokio::spawn(slot.acquire());
                    tokio::spawn(paced.acquire());
                }
                tokio::task::yield_now().await;
                before_first
            });
            SUBMITTED.store(0, Ordering::SeqCst);
            thread::scope(|scope| {
                let for_slot = scope.spawn(|| host.run(&MORTAL, Waits("slot"), 1));
                let for_pace = scope.spawn(|| host.run(&MORTAL, Waits("paced"), 1));
                while SUBMITTED.load(Ordering::SeqCst) < 2 {
                    thread::yield_now();
                }
                drop(dying);
                let [at_slot] = for_slot.join().expect("no panic")[..] else { panic!("one caller") };
                let [at_pace] = for_pace.join().expect("no panic")[..] else { panic!("one caller") };
                let left = left.lock().expect("no panic").expect("it was dropped with its runtime");
                assert!(at_slot >= left, "{host:?}");
                assert!(at_pace.saturating_duration_since(before_first) >= PAUSE, "{host:?}");
            });
            assert_eq!(MORTAL.counts(), Counts::default());
        }
    }
}
