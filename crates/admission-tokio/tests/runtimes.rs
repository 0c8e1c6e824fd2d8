//! What is tokio's own about the adapter: its paused clock, its two kinds of runtime, their ends, and
//! what happens where there is none. The rules themselves are tested by the conformance suite.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

use admission_rt::runtime::Clock;
use admission_rt::{Counts, Rejected};
use admission_tokio::{Acquire, Admission, Provider, TokioClock};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::Instant;

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

const KINDS: [fn() -> Runtime; 2] = [current_thread, multi_thread];

fn paced(gap: Duration) -> (Admission, Provider) {
    let admission = Admission::builder().provider("a", |p| p.interval(gap)).build();
    let admission = admission.expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

fn is_pending(acquire: &mut Acquire) -> bool {
    acquire.poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test(start_paused = true)]
async fn an_hours_wait_takes_no_real_time() {
    // rules T5, L2
    let hour = Duration::from_secs(3_600);
    let (_admission, a) = paced(hour);
    let began = Instant::now();
    for n in 0..100 {
        a.run(async || assert_eq!(began.elapsed(), hour * n)).await.expect("its turn");
    }
}

/// Longer than tokio's timer holds, and than the adapter asks of it at once.
#[tokio::test(start_paused = true)]
async fn a_wait_of_many_years_is_waited_for_in_pieces() {
    // rule T2
    let years = Duration::from_secs(5 * 365 * 24 * 60 * 60);
    let (_admission, a) = paced(years);
    let began = Instant::now();
    for n in 0..3 {
        a.run(async || assert_eq!(began.elapsed(), years * n)).await.expect("its turn");
    }
}

/// tokio itself would wait for centuries at once; the adapter does not rely on that, and looks once a year.
#[tokio::test(start_paused = true)]
async fn nothing_longer_than_a_year_is_asked_of_tokio() {
    // rules T2, T3
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let looks = Arc::new(Looks { clock: TokioClock::new(), at: Mutex::new(Vec::new()) });
    let builder = Admission::builder().provider("a", |p| p.interval(YEAR * 5)).clock(looks.clone());
    let a = builder.build().expect("a sound configuration").provider("a").expect("it is there");
    drop(a.acquire().await.expect("the first is immediate"));
    drop(a.acquire().await.expect("its turn"));
    let looks = looks.at.lock().expect("no panic");
    for year in 1..5 {
        // tokio counts in milliseconds.
        let year = YEAR * year..YEAR * year + Duration::from_secs(1);
        assert!(looks.iter().any(|at| year.contains(at)), "{looks:?}");
    }
}

/// Notes when it is looked at, since the beginning.
struct Looks {
    clock: TokioClock,
    at: Mutex<Vec<Duration>>,
}

impl Clock for Looks {
    fn now(&self) -> admission_rt::Instant {
        let now = self.clock.now();
        let since = now.saturating_duration_since(admission_rt::Instant::ZERO);
        self.at.lock().expect("no panic").push(since);
        now
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }
}

/// An alarm that is no longer wanted does not move a paused clock.
#[tokio::test(start_paused = true)]
async fn an_idle_alarm_costs_no_timer() {
    // rule T6
    let (_admission, a) = paced(Duration::from_secs(1));
    let permit = a.acquire().await.expect("the first is immediate");
    let mut waiting = a.acquire();
    assert!(is_pending(&mut waiting));
    tokio::task::yield_now().await;
    drop((waiting, permit));
    let (send, receive) = oneshot::channel();
    let began = Instant::now();
    let other = thread::spawn(move || {
        // The clock of a paused runtime jumps whenever it has a timer and nothing to do.
        thread::sleep(Duration::from_millis(50));
        send.send(()).expect("somebody listens");
    });
    receive.await.expect("it is sent");
    assert_eq!(began.elapsed(), Duration::ZERO);
    other.join().expect("no panic");
}

#[test]
fn starts_are_never_early_on_either_kind() {
    // rules L2, T3
    for kind in KINDS {
        let runtime = kind();
        runtime.block_on(async {
            let gap = Duration::from_millis(2);
            let began = Instant::now();
            let (_admission, a) = paced(gap);
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    let a = a.clone();
                    tokio::spawn(async move { a.run(async || Instant::now()).await.expect("its turn") })
                })
                .collect();
            let mut starts = Vec::new();
            for task in tasks {
                starts.push(task.await.expect("no panic"));
            }
            starts.sort();
            for (n, start) in starts.iter().enumerate() {
                assert!(*start - began >= gap * u32::try_from(n).expect("small"));
            }
        });
    }
}

/// A runtime ends with calls that run, calls that wait, a call that waits outside its tasks, and an
/// armed alarm. Nothing panics, and whoever waits in another runtime starts.
#[test]
fn a_runtime_that_ends_takes_only_its_own_calls_along() {
    // rules W5, T5
    static SHARED: LazyLock<Admission> = LazyLock::new(|| {
        Admission::builder()
            .provider("slots", |p| p.max_concurrent(1))
            .provider("paced", |p| p.interval(Duration::from_millis(1)))
            .build()
            .expect("a sound configuration")
    });
    let provider = |name| SHARED.provider(name).expect("it is there");
    for first in KINDS {
        for second in KINDS {
            for _ in 0..20 {
                let (dying, living) = (first(), second());
                let running = Handle::clone(dying.handle())
                    .spawn(async move { provider("slots").run(std::future::pending::<()>).await.map(drop) });
                // It runs, so everything below waits for it or for the alarm.
                while SHARED.counts().running == 0 {
                    thread::yield_now();
                    dying.block_on(tokio::task::yield_now());
                }
                let mut outside = provider("slots").acquire();
                let mut paced_outside = provider("paced").acquire();
                let paced_waits = dying.block_on(async {
                    for _ in 0..10 {
                        tokio::spawn(provider("slots").acquire());
                        tokio::spawn(provider("paced").acquire());
                    }
                    tokio::task::yield_now().await;
                    assert!(is_pending(&mut outside));
                    // Its interval may be over already: then it has started, and is done.
                    is_pending(&mut paced_outside)
                });
                let waiting = living.spawn(async move {
                    drop(provider("slots").acquire().await.expect("its turn"));
                    drop(provider("paced").acquire().await.expect("its turn"));
                });
                living.block_on(tokio::task::yield_now());
                drop(dying);
                living.block_on(async {
                    // Both go on where they are polled next.
                    drop(outside.await.expect("its turn"));
                    if paced_waits {
                        drop(paced_outside.await.expect("its turn"));
                    }
                    waiting.await.expect("no panic");
                });
                drop(running);
                assert_eq!(SHARED.counts(), Counts::default());
            }
        }
    }
}

/// A call that waits outside the tasks of its runtime is woken when that ends: nobody else would.
#[test]
fn whoever_waits_outside_the_tasks_of_a_runtime_is_woken_at_its_end() {
    // rules W5, T5
    for kind in KINDS {
        let (admission, a) = paced(Duration::from_millis(1));
        drop(a.try_acquire().expect("the first is immediate"));
        a.cooldown(Duration::from_secs(3_600)).unwrap();
        let mut waiting = a.acquire();
        let woken = Arc::new(Woken(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let runtime = kind();
        {
            let _inside = runtime.enter();
            assert!(waiting.poll_acquire(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        drop(runtime);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        // It books itself anew where it is polled next.
        current_thread().block_on(async { assert!(is_pending(&mut waiting)) });
        drop(waiting);
        assert_eq!(admission.counts(), Counts::default());
    }
}

struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Ending in the background, while the other runtime is busy with the same coordinator.
#[test]
fn a_runtime_may_end_in_the_background() {
    // rules W5, T5
    let (admission, a) = paced(Duration::from_micros(100));
    for kind in KINDS {
        let living = kind();
        for _ in 0..20 {
            let dying = multi_thread();
            for _ in 0..20 {
                dying.spawn(a.acquire());
            }
            let waiting = living.spawn(a.acquire());
            dying.shutdown_background();
            drop(living.block_on(waiting).expect("no panic").expect("its turn"));
        }
    }
    // Those in the background end in their own time; whoever waits for idle hears of it.
    current_thread().block_on(admission.idle());
    assert_eq!(admission.counts(), Counts::default());
}

/// Futures that outlive their runtime can be dropped where there is none.
#[test]
fn a_future_may_be_dropped_after_its_runtime() {
    // rules W3, W5
    for kind in KINDS {
        let (admission, a) = paced(Duration::from_secs(3_600));
        let runtime = kind();
        let (mut waiting, permit) = runtime.block_on(async {
            let permit = a.acquire().await.expect("the first is immediate");
            (a.acquire(), permit)
        });
        runtime.block_on(async { assert!(is_pending(&mut waiting)) });
        drop(runtime);
        assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 1 });
        drop(permit);
        drop(waiting);
        assert_eq!(admission.counts(), Counts::default());
    }
}

/// When the coordinator is gone, its task is gone.
#[test]
fn the_task_ends_with_its_coordinator() {
    // rule W5
    for kind in KINDS {
        let runtime = kind();
        let alive = || runtime.metrics().num_alive_tasks();
        let before = alive();
        let (admission, a) = paced(Duration::from_secs(3_600));
        runtime.block_on(async {
            drop(a.acquire().await.expect("the first is immediate"));
            let mut waiting = a.acquire();
            assert!(is_pending(&mut waiting));
        });
        assert_eq!(alive(), before + 1, "one task for the coordinator");
        drop((admission, a));
        while alive() > before {
            runtime.block_on(tokio::task::yield_now());
        }
    }
}

/// One task serves everybody.
#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_share_one_task() {
    // rule T6
    let (_admission, a) = paced(Duration::from_secs(1));
    let before = Handle::current().metrics().num_alive_tasks();
    let mut waiting: Vec<_> = (0..1_000).map(|_| a.acquire()).collect();
    assert!(!is_pending(&mut waiting[0]));
    assert!(waiting[1..].iter_mut().all(is_pending));
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before + 1);
}

/// Outside a runtime the clock runs and what need not wait starts; what must wait is told so.
#[test]
fn outside_a_runtime_only_waiting_is_impossible() {
    // rules T5, W5
    let (admission, a) = paced(Duration::from_secs(3_600));
    drop(a.try_acquire().expect("the first is immediate"));
    let mut waiting = pin!(a.acquire());
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(Rejected::NoRuntime)) => {}
        other => panic!("{:?}", other.map(|answer| answer.map(drop))),
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// A runtime without time panics where somebody waits, in that caller's own poll, and nowhere else.
#[test]
fn without_time_a_wait_panics_in_its_own_poll() {
    // rule W5
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let (admission, a) = paced(Duration::from_secs(3_600));
    runtime.block_on(async {
        drop(a.acquire().await.expect("what need not wait needs no time"));
        let waiting = tokio::spawn(a.acquire());
        assert!(waiting.await.expect_err("it panics").is_panic());
    });
    assert_eq!(admission.counts(), Counts::default());
    // The coordinator is as good as before.
    admission.close();
    assert!(matches!(a.try_acquire(), Err(Rejected::Closed)));
}

/// A task that has spent its budget is not starved by its alarm, nor does the alarm re-enter.
#[test]
fn a_spent_budget_delays_nobody() {
    // rules T3, L2
    for kind in KINDS {
        kind().block_on(async {
            let (_admission, a) = paced(Duration::from_millis(1));
            let done = AtomicU32::new(0);
            for _ in 0..5 {
                // The budget of this task is spent when it begins to wait.
                while tokio::task::coop::has_budget_remaining() {
                    tokio::task::coop::consume_budget().await;
                    if !tokio::task::coop::has_budget_remaining() {
                        break;
                    }
                }
                drop(a.acquire().await.expect("its turn"));
                done.fetch_add(1, Ordering::Relaxed);
            }
            assert_eq!(done.into_inner(), 5);
        });
    }
}

/// An executor that polls from inside a wake polls from inside the alarm's ring, too, and the budget of the
/// alarm's task is none of its business.
#[test]
fn whoever_is_polled_inside_a_wake_spends_nobodys_budget() {
    // rule T3
    for kind in KINDS {
        let spends = Arc::new(Spends::default());
        let waker = Waker::from(Arc::clone(&spends));
        kind().block_on(async {
            let (_admission, a) = paced(Duration::from_millis(5));
            drop(a.try_acquire().expect("the first is immediate"));
            let mut waiting = a.acquire();
            let first = waiting.poll_acquire(&mut Context::from_waker(&waker));
            // On a slow machine the interval may be over already.
            while first.is_pending() && !spends.is_woken.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(spends.refused.load(Ordering::SeqCst), 0);
        });
    }
}

/// Spends more than a task has.
#[derive(Default)]
struct Spends {
    refused: AtomicU32,
    is_woken: AtomicBool,
}

impl Wake for Spends {
    fn wake(self: Arc<Self>) {
        for _ in 0..1_000 {
            let spending = pin!(tokio::task::coop::consume_budget());
            if spending.poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                self.refused.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.is_woken.store(true, Ordering::SeqCst);
    }
}
