//! Waiting tasks on one tokio thread: the CPU time of a grant, and how often a waiter is polled and woken.

use std::cell::Cell;
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use admission_hot_paths::queue::one_at_a_time;
use admission_hot_paths::tokio_runtime;
use governor::{Quota, RateLimiter};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::{ADMISSION, TOKIO, sizes};
use crate::clocks::process_cpu;
use crate::results::Results;
use crate::runner::{Effort, median, ratios};

/// How often each of those tasks that loop is granted.
const CALLS: usize = 10;

/// Lets so many tasks wait behind a gate, opens it, and says what it costs to let one through. `waiting` is called when
/// all wait.
async fn drain<G, F: Future<Output = ()> + 'static>(
    count: usize,
    gate: G,
    make: impl Fn(usize) -> F,
    waiting: impl FnOnce(),
) -> f64 {
    let left = Rc::new(Cell::new(count));
    let begun = Rc::new(Cell::new(0));
    let done = Rc::new(Notify::new());
    for number in 0..count {
        let (left, begun, done) = (left.clone(), begun.clone(), done.clone());
        let turn = make(number);
        spawn_local(async move {
            begun.set(begun.get() + 1);
            turn.await;
            left.set(left.get() - 1);
            if left.get() == 0 {
                done.notify_one();
            }
        });
    }
    while begun.get() < count {
        yield_now().await;
    }
    yield_now().await;
    waiting();
    let began = process_cpu();
    drop(gate);
    done.notified().await;
    (process_cpu() - began) / count as f64
}

fn on_local<F: Future>(future: F) -> F::Output {
    LocalSet::new().block_on(&tokio_runtime(), future)
}

/// Tasks that wait for tokio's semaphore.
///
/// # Panics
///
/// Never: the semaphore is not closed.
pub fn of_tokio(count: usize, waiting: impl FnOnce()) -> f64 {
    on_local(async {
        let semaphore = Arc::new(Semaphore::new(1));
        let first = semaphore.clone().try_acquire_owned().expect("it is free");
        let make = |_| {
            let semaphore = semaphore.clone();
            async move { drop(semaphore.acquire().await) }
        };
        drain(count, first, make, waiting).await
    })
}

/// The same, each [so often](CALLS).
fn of_tokio_again(count: usize) -> f64 {
    on_local(async {
        let semaphore = Arc::new(Semaphore::new(1));
        let first = semaphore.clone().try_acquire_owned().expect("it is free");
        let make = |_| {
            let semaphore = semaphore.clone();
            async move {
                for _ in 0..CALLS {
                    drop(semaphore.acquire().await);
                }
            }
        };
        drain(count, first, make, || ()).await / CALLS as f64
    })
}

/// Tasks that wait for async-lock's semaphore.
///
/// # Panics
///
/// Never: the semaphore is free.
pub fn of_async_lock(count: usize, waiting: impl FnOnce()) -> f64 {
    on_local(async {
        let semaphore = Arc::new(async_lock::Semaphore::new(1));
        let first = semaphore.try_acquire_arc().expect("it is free");
        let make = |_| {
            let semaphore = semaphore.clone();
            async move { drop(semaphore.acquire().await) }
        };
        drain(count, first, make, waiting).await
    })
}

/// Tasks that wait for admission.
///
/// # Panics
///
/// If a call is refused.
pub fn of_admission(count: usize, waiting: impl FnOnce()) -> f64 {
    on_local(async {
        let (_admission, providers) = one_at_a_time(count);
        let first = providers[0].key(1 << 40).try_acquire().expect("it is free");
        // Like the semaphores: each task has a handle, and takes its turn by it.
        let providers = Rc::new(providers);
        let make = |number: usize| {
            let providers = providers.clone();
            async move {
                drop(providers[number % 16].key(number as u64).acquire().await.expect("it is not refused"));
            }
        };
        drain(count, first, make, waiting).await
    })
}

/// The same, each [so often](CALLS).
fn of_admission_again(count: usize) -> f64 {
    on_local(async {
        let (_admission, providers) = one_at_a_time(count);
        let first = providers[0].key(1 << 40).try_acquire().expect("it is free");
        let providers = Rc::new(providers);
        let make = |number: usize| {
            let providers = providers.clone();
            async move {
                for _ in 0..CALLS {
                    let call = providers[number % 16].key(number as u64);
                    drop(call.acquire().await.expect("it is not refused"));
                }
            }
        };
        drain(count, first, make, || ()).await / CALLS as f64
    })
}

/// All tokens in one tick, which is how a leaky bucket drains fastest.
fn of_leaky_bucket(count: usize) -> f64 {
    on_local(async {
        let interval = Duration::from_millis(300);
        let mut builder = leaky_bucket::RateLimiter::builder();
        let bucket = Arc::new(builder.initial(0).refill(count).max(count).interval(interval).build());
        let make = |_| {
            let bucket = bucket.clone();
            async move { bucket.acquire_one().await }
        };
        drain(count, (), make, || ()).await
    })
}

/// Counts the wakes that it passes on.
struct Counting {
    inner: Waker,
    wakes: Arc<AtomicU64>,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.inner.wake_by_ref();
    }
}

/// A future whose polls and wakes are counted.
async fn counted<F: Future>(future: F, polls: Rc<Cell<u64>>, wakes: Arc<AtomicU64>) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls.set(polls.get() + 1);
        let counting = Counting { inner: cx.waker().clone(), wakes: wakes.clone() };
        let waker = Waker::from(Arc::new(counting));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// How often a waiter is polled and woken until it has its turn.
fn count_wakes(results: &mut Results) {
    for count in [10, 100, 500, 1_000] {
        let (polls, wakes) = (Rc::new(Cell::new(0)), Arc::new(AtomicU64::new(0)));
        let cpu = on_local(async {
            let (_admission, providers) = one_at_a_time(count);
            let first = providers[0].key(1 << 40).try_acquire().expect("it is free");
            let make = |number: usize| {
                let acquire = providers[number % 16].key(number as u64).acquire();
                let (polls, wakes) = (polls.clone(), wakes.clone());
                async move { drop(counted(acquire, polls, wakes).await) }
            };
            drain(count, first, make, || ()).await
        });
        let mut set = |case: &str, polls: u64, wakes: u64, cpu: f64| {
            let size = count.to_string();
            results.set("wakes", case, &format!("polls {size}"), polls as f64 / count as f64);
            results.set("wakes", case, &format!("wakes {size}"), wakes as f64 / count as f64);
            results.set("wakes", case, &format!("us {size}"), cpu / 1e3);
        };
        set("admission", polls.get(), wakes.load(Ordering::Relaxed), cpu);
        let (polls, wakes) = (Rc::new(Cell::new(0)), Arc::new(AtomicU64::new(0)));
        let cpu = on_local(async {
            let period = Duration::from_micros(500);
            let quota = Quota::with_period(period).expect("it is not zero").allow_burst(NonZeroU32::MIN);
            let limiter = Arc::new(RateLimiter::direct(quota));
            let make = |_| {
                let (limiter, polls, wakes) = (limiter.clone(), polls.clone(), wakes.clone());
                async move { counted(limiter.until_ready(), polls, wakes).await }
            };
            drain(count, (), make, || ()).await
        });
        set("governor: until_ready, a start each 500 µs", polls.get(), wakes.load(Ordering::Relaxed), cpu);
    }
}

/// Measures them.
pub fn measure(effort: &Effort, results: &mut Results) {
    count_wakes(results);
    type Contestant = (&'static str, fn(usize) -> f64);
    let contestants: [Contestant; 6] = [
        (TOKIO, |count| of_tokio(count, || ())),
        ("async-lock Semaphore(1)", |count| of_async_lock(count, || ())),
        (ADMISSION, |count| of_admission(count, || ())),
        ("leaky-bucket, all tokens in one tick", of_leaky_bucket),
        ("tasks that loop: tokio Semaphore(1)", of_tokio_again),
        ("tasks that loop: admission", of_admission_again),
    ];
    for (size, repeats) in sizes(effort) {
        let mut ns: [Vec<f64>; 6] = Default::default();
        for round in 0..repeats {
            for (at, (_, contestant)) in contestants.into_iter().enumerate() {
                // The bucket waits for its tick in real time.
                let is_left_out = at == 3 && round >= 3;
                ns[at].push(if is_left_out { f64::NAN } else { contestant(size) });
            }
        }
        let size = size.to_string();
        for (ns, (name, _)) in ns.iter().zip(contestants) {
            results.set("tasks", name, &size, median(ns));
        }
        results.set("tasks", "ratio to tokio", &size, median(&ratios(&ns[2], &ns[0])));
        results.set("tasks", "tasks that loop: ratio to tokio", &size, median(&ratios(&ns[5], &ns[4])));
    }
}
