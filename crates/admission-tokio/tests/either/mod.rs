//! What holds of both alarms of the adapter, on both kinds of runtime: that they are not early, that the end of a
//! runtime is noticed, and that they meddle with nobody's budget. The file that brings it in says which alarm it is.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use admission_rt::{Counts, Rejected};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

use super::{Acquire, Admission, Provider};

pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub(crate) fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

pub(crate) const KINDS: [fn() -> Runtime; 2] = [current_thread, multi_thread];

pub(crate) fn paced(gap: Duration) -> (Admission, Provider) {
    let admission = Admission::builder().provider("a", |p| p.interval(gap)).build();
    let admission = admission.expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

pub(crate) fn is_pending(acquire: &mut Acquire) -> bool {
    acquire.poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending()
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

/// What was left of a coordinator goes inside its alarm's ring, and the alarm with it, in the runtime's own thread.
#[test]
fn the_last_of_a_coordinator_may_go_inside_a_ring() {
    // rule W5
    for kind in KINDS {
        kind().block_on(async {
            let (admission, a) = paced(Duration::from_millis(1));
            drop(a.try_acquire().expect("the first is immediate"));
            let last = Arc::new(DropsLast::default());
            let waker = Waker::from(Arc::clone(&last));
            a.cooldown(Duration::from_millis(20)).expect("it is there");
            let mut waiting = a.acquire();
            drop(a);
            let first = waiting.poll_acquire(&mut Context::from_waker(&waker));
            // On a slow machine the cooldown may be over already.
            if first.is_pending() {
                *last.last.lock().expect("no panic") = Some((admission, waiting));
                while !last.is_woken.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }
}

#[derive(Default)]
struct DropsLast {
    last: Mutex<Option<(Admission, Acquire)>>,
    is_woken: AtomicBool,
}

impl Wake for DropsLast {
    fn wake(self: Arc<Self>) {
        let last = self.last.lock().expect("no panic").take();
        drop(last);
        self.is_woken.store(true, Ordering::SeqCst);
    }
}

/// A waker that panics inside a ring does so in a thread of the runtime, which goes on as ever; and so does the alarm.
#[test]
fn a_waker_that_panics_inside_a_ring_harms_neither_runtime_nor_alarm() {
    // rule W5
    for kind in KINDS {
        kind().block_on(async {
            let (admission, a) = paced(Duration::from_millis(5));
            drop(a.try_acquire().expect("the first is immediate"));
            let panics = Arc::new(Panics::default());
            let waker = Waker::from(Arc::clone(&panics));
            let mut waiting = a.acquire();
            let first = waiting.poll_acquire(&mut Context::from_waker(&waker));
            // On a slow machine the interval may be over already.
            while first.is_pending() && !panics.is_woken.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop((first, waiting));
            for _ in 0..3 {
                drop(a.acquire().await.expect("its turn"));
            }
            assert_eq!(admission.counts(), Counts::default());
        });
    }
}

#[derive(Default)]
struct Panics {
    is_woken: AtomicBool,
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        panic!("a waker's own");
    }
}
