//! Queues that fill up once and drain once: what it costs to join, to be granted, to leave from anywhere, and to
//! be told that it is closed, as the queue grows; as bare futures, and as tasks on tokio.
//!
//! Futures lie in boxes in all cases alike, and are dropped inside of them, so that no allocator is timed.

pub mod eligible;
pub mod scale;
pub mod tasks;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use admission_hot_paths::queue::one_at_a_time;
use admission_hot_paths::{Dice, tokio_runtime};
use admission_rt::Permit;
use tokio::sync::Semaphore;

use crate::clocks::thread_cpu;
use crate::results::Results;
use crate::runner::{Effort, median};

/// How many wait.
pub const SIZES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

/// The sizes of a run, and how often each is repeated.
#[must_use]
pub fn sizes(effort: &Effort) -> Vec<(usize, usize)> {
    let repeats = |size| match size {
        0..=1_000 => effort.rounds(41),
        1_001..=10_000 => effort.rounds(15),
        10_001..=100_000 => 5,
        _ => 3,
    };
    let most = if effort.is_quick { 100_000 } else { usize::MAX };
    SIZES.into_iter().filter(|size| *size <= most).map(|size| (size, repeats(size))).collect()
}

/// What is done to the queue once it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// One release after the other, each followed by the poll of whoever is granted.
    Drain,
    /// Nine in ten leave, from anywhere.
    Cancel,
    /// It is closed, and everybody is told.
    Close,
}

/// Nanoseconds for each waiter.
#[derive(Clone, Copy, Debug)]
struct Sample {
    join: f64,
    end: f64,
}

type Waiting<F> = Vec<Pin<Box<Option<F>>>>;

fn poll<F: Future>(waiting: &mut Pin<Box<Option<F>>>, cx: &mut Context<'_>) -> Poll<F::Output> {
    waiting.as_mut().as_pin_mut().map_or(Poll::Pending, |future| future.poll(cx))
}

/// Makes so many futures and polls each once.
///
/// # Panics
///
/// If one does not wait.
pub fn fill<F: Future>(count: usize, make: impl Fn(usize) -> F) -> Waiting<F> {
    let mut cx = Context::from_waker(Waker::noop());
    (0..count)
        .map(|number| {
            let mut future = Box::pin(Some(make(number)));
            assert!(poll(&mut future, &mut cx).is_pending());
            future
        })
        .collect()
}

fn sample<P, F: Future<Output = Option<P>>>(
    size: usize,
    first: P,
    make: impl Fn(usize) -> F,
    close: impl FnOnce(),
    end: End,
) -> Sample {
    // The boxes are made beforehand.
    let mut waiting: Waiting<F> = (0..size).map(|_| Box::pin(None)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let began = thread_cpu();
    for (number, place) in waiting.iter_mut().enumerate() {
        place.as_mut().set(Some(make(number)));
        assert!(poll(place, &mut cx).is_pending());
    }
    let join = (thread_cpu() - began) / size as f64;
    let mut order = Dice::new(9).order(size);
    let began = thread_cpu();
    let count = match end {
        End::Drain => {
            let mut held = first;
            for place in &mut waiting {
                drop(held);
                match poll(place, &mut cx) {
                    Poll::Ready(Some(permit)) => held = permit,
                    _ => panic!("the head of the queue was not granted"),
                }
                place.as_mut().set(None);
            }
            drop(held);
            size
        }
        End::Cancel => {
            order.truncate(size * 9 / 10);
            for at in &order {
                waiting[*at].as_mut().set(None);
            }
            order.len()
        }
        End::Close => {
            close();
            for place in &mut waiting {
                assert!(matches!(poll(place, &mut cx), Poll::Ready(None)));
                place.as_mut().set(None);
            }
            size
        }
    };
    Sample { join, end: (thread_cpu() - began) / count as f64 }
}

fn of_tokio(size: usize, end: End) -> Option<Sample> {
    let semaphore = &Semaphore::new(1);
    let first = semaphore.try_acquire().ok()?;
    Some(sample(size, first, |_| async move { semaphore.acquire().await.ok() }, || semaphore.close(), end))
}

fn of_async_lock(size: usize, end: End) -> Option<Sample> {
    let semaphore = &async_lock::Semaphore::new(1);
    let first = semaphore.try_acquire()?;
    // It cannot be closed.
    (end != End::Close)
        .then(|| sample(size, first, |_| async move { Some(semaphore.acquire().await) }, || (), end))
}

fn of_admission(size: usize, end: End) -> Option<Sample> {
    let runtime = tokio_runtime();
    let _inside = runtime.enter();
    let (admission, providers) = one_at_a_time(size);
    let first = providers[0].key(1 << 40).try_acquire().ok()?;
    let make = |number: usize| {
        let acquire = providers[number % 16].key(number as u64).acquire();
        async move { acquire.await.ok() }
    };
    Some(sample::<Permit, _>(size, first, make, || admission.close(), end))
}

type Contestant = (&'static str, fn(usize, End) -> Option<Sample>);

const CONTESTANTS: [Contestant; 3] =
    [(TOKIO, of_tokio), ("async-lock Semaphore(1)", of_async_lock), (ADMISSION, of_admission)];

/// What they are called in the tables.
pub const TOKIO: &str = "tokio Semaphore(1)";
/// What they are called in the tables.
pub const ADMISSION: &str = "admission, 16 providers, each call its own key";

/// Measures bare futures.
pub fn measure(effort: &Effort, results: &mut Results) {
    for (size, repeats) in sizes(effort) {
        for (end, table) in [(End::Drain, "grant"), (End::Cancel, "cancel"), (End::Close, "close")] {
            let mut samples: [Vec<Option<Sample>>; CONTESTANTS.len()] = Default::default();
            for _ in 0..repeats {
                for (samples, (_, contestant)) in samples.iter_mut().zip(CONTESTANTS) {
                    samples.push(contestant(size, end));
                }
            }
            let ends = |at: usize| -> Vec<f64> {
                samples[at].iter().map(|sample| sample.map_or(f64::NAN, |sample| sample.end)).collect()
            };
            for (at, (name, _)) in CONTESTANTS.into_iter().enumerate() {
                results.set(table, name, &size.to_string(), median(&ends(at)));
                if end == End::Drain {
                    let joins: Vec<f64> = samples[at].iter().flatten().map(|sample| sample.join).collect();
                    results.set("join", name, &size.to_string(), median(&joins));
                }
                if name == ADMISSION {
                    let ratio = median(&crate::runner::ratios(&ends(at), &ends(0)));
                    results.set(table, "ratio to tokio", &size.to_string(), ratio);
                }
            }
        }
    }
}
