//! Two threads at one limiter, each as fast as it can.
//!
//! Here it is wall time that counts, so each thread has a core of its own, at real-time priority where that is
//! allowed, for slices of a few milliseconds; and a slice counts only if no thread was cut into and both ran side
//! by side.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use admission_hot_paths::combined::{PROVIDERS, admission, handles};
use admission_hot_paths::permit::one_limit;
use admission_hot_paths::{Counter, REFERENCE};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::cases::rate::unlimited;
use crate::clocks::{now, preemptions};
use crate::results::Results;
use crate::runner::{Effort, median, quantile, ratios};

/// So many operations, by the thread with this number.
type Work = Box<dyn Fn(u64, u64) + Send + Sync>;

/// The composition of semaphores, a map of mutexes, and a rate.
pub const COMPOSED: &str = "composed as A′, without futures";
/// tokio's permit.
pub const TOKIO: &str = "tokio Semaphore: try_acquire";

fn each(operation: impl Fn() + Send + Sync + 'static) -> Work {
    Box::new(move |n, _| (0..n).for_each(|_| operation()))
}

/// Operations that are told a key, which no other thread has.
fn keyed(operation: impl Fn(u64) + Send + Sync + 'static) -> Work {
    Box::new(move |n, thread| (0..n).for_each(|number| operation(2 * number + thread)))
}

fn contestants() -> Vec<(&'static str, Work)> {
    let counter = Counter::new(64);
    let small = parking_lot::Mutex::new(64_usize);
    let semaphore = tokio::sync::Semaphore::new(64);
    let other = async_lock::Semaphore::new(64);
    let governor = unlimited();
    let one = one_limit();
    let all = handles(&admission(true));
    let caps = handles(&admission(false));
    vec![
        (REFERENCE, each(move || counter.pair())),
        (
            "parking_lot Mutex and a counter",
            each(move || {
                *small.lock() -= 1;
                *small.lock() += 1;
            }),
        ),
        (TOKIO, each(move || drop(black_box(semaphore.try_acquire())))),
        ("async-lock Semaphore: try_acquire", each(move || drop(black_box(other.try_acquire())))),
        ("governor: check", each(move || assert!(governor.check().is_ok()))),
        (COMPOSED, composed()),
        ("admission: try_acquire, client limit only", each(move || drop(black_box(one.try_acquire())))),
        (
            "admission: try_acquire, caps and keys",
            keyed(move |key| drop(black_box(caps[key as usize % PROVIDERS].key(key).try_acquire()))),
        ),
        (
            "admission: try_acquire, all limits",
            keyed(move |key| drop(black_box(all[key as usize % PROVIDERS].key(key).try_acquire()))),
        ),
    ]
}

fn composed() -> Work {
    let client = tokio::sync::Semaphore::new(64);
    let providers: Vec<_> = (0..PROVIDERS).map(|_| (tokio::sync::Semaphore::new(8), unlimited())).collect();
    let locks = dashmap::DashMap::<u64, Arc<tokio::sync::Mutex<()>>>::new();
    keyed(move |key| {
        let lock = locks.entry(key).or_default().clone();
        let held = lock.try_lock();
        let (semaphore, rate) = &providers[key as usize % PROVIDERS];
        {
            let _provider = black_box(semaphore.try_acquire());
            let _client = black_box(client.try_acquire());
            assert!(rate.check().is_ok());
        }
        drop(held);
        drop(lock);
        locks.remove_if(&key, |_, lock| Arc::strong_count(lock) == 1);
    })
}

/// A core of its own, ahead of everything else on it where that is allowed.
fn take_core(number: usize) {
    let mut core = CpuSet::new();
    // What is not allowed is done without: then fewer slices are clean.
    let _ = core.set(number).and_then(|()| sched_setaffinity(Pid::from_raw(0), &core));
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
}

/// Wall nanoseconds of one operation on each of so many threads; nothing if they did not run undisturbed.
fn once(work: &Work, operations: u64, threads: usize) -> Option<f64> {
    let ready = AtomicUsize::new(0);
    let times = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..threads {
            let (ready, times) = (&ready, &times);
            scope.spawn(move || {
                take_core(number);
                ready.fetch_add(1, Ordering::AcqRel);
                while ready.load(Ordering::Acquire) < threads {
                    std::hint::spin_loop();
                }
                let (cuts, began) = (preemptions(), now());
                work(operations, number as u64);
                let ended = now();
                let is_clean = preemptions() == cuts;
                times.lock().unwrap_or_else(PoisonError::into_inner).push((began, ended, is_clean));
            });
        }
    });
    let times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
    let took = times.iter().map(|(began, ended, _)| (*ended - *began).as_nanos() as f64).sum::<f64>()
        / threads as f64;
    let first = times.iter().map(|(began, ..)| *began).min()?;
    let last = times.iter().map(|(began, ..)| *began).max()?;
    let is_side_by_side = (last - first).as_nanos() as f64 <= took * 0.05;
    let is_clean = times.iter().all(|(.., is_clean)| *is_clean);
    (is_side_by_side && is_clean).then_some(took / operations as f64)
}

/// Measures them.
pub fn measure(effort: &Effort, results: &mut Results) {
    const OPERATIONS: u64 = 8_000;
    let contestants = contestants();
    let rounds = effort.rounds(81);
    let mut one = vec![vec![f64::NAN; rounds]; contestants.len()];
    let mut two = one.clone();
    for round in 0..rounds {
        for step in 0..contestants.len() {
            let at = (step + round) % contestants.len();
            let work = &contestants[at].1;
            one[at][round] = once(work, OPERATIONS, 1).unwrap_or(f64::NAN);
            let tries = std::iter::repeat_with(|| once(work, OPERATIONS, 2)).take(6);
            two[at][round] = tries.flatten().next().unwrap_or(f64::NAN);
        }
    }
    let find = |name| contestants.iter().position(|(other, _)| *other == name).unwrap_or_default();
    for (at, (name, _)) in contestants.iter().enumerate() {
        let mut set = |metric: &str, number| results.set("two threads", name, metric, number);
        set("one thread", median(&one[at]));
        set("ns", median(&two[at]));
        set("ns p10", quantile(&two[at], 0.1));
        set("ns p90", quantile(&two[at], 0.9));
        set("ratio", median(&ratios(&two[at], &two[0])));
        set("against composed", median(&ratios(&two[at], &two[find(COMPOSED)])));
        set("against tokio", median(&ratios(&two[at], &two[find(TOKIO)])));
    }
}
