//! Who may go, when most of those who wait may not: all providers but one are blocked, or one key is hot; beside a
//! plain scan of the queue. And the head of the line: ready calls behind one that is not.

use std::cell::Cell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admission_core::Limits;
use admission_hot_paths::machine::{Busy, Mix};
use admission_hot_paths::tokio_runtime;
use admission_tokio::Admission;
use tokio::sync::Semaphore;
use tokio::task::{LocalSet, spawn_local};

use super::sizes;
use crate::clocks::{slice, thread_cpu};
use crate::results::Results;
use crate::runner::{Effort, median};

/// What the scan is called.
pub const SCAN: &str = "plain scan of the queue, 16 providers";

/// The machine, with so many providers.
#[must_use]
pub fn name(providers: usize) -> String {
    format!("the machine, {providers} providers")
}

/// Measures them.
pub fn measure(effort: &Effort, results: &mut Results) {
    for (size, _) in sizes(effort) {
        let column = size.to_string();
        results.set("blocked", SCAN, &column, scan(size));
        for providers in [16, 1_024, 100_000] {
            let ns = turn_over(providers, size, Mix::BlockedButLast, effort);
            results.set("blocked", &name(providers), &column, ns);
        }
        let ns = turn_over(16, size, Mix::HotKey, effort);
        results.set("blocked", "the machine, 16 providers, one hot key", &column, ns);
    }
    let (composed, admission) = head_of_line();
    let case = "ready calls that started within 100 ms, of 100";
    results.set("head of the line", case, "client permit, then provider permit", composed as f64);
    results.set("head of the line", case, "admission", admission as f64);
}

/// A release, a grant, a start and a request, while so many wait.
fn turn_over(providers: usize, queued: usize, mix: Mix, effort: &Effort) -> f64 {
    let mut busy = Busy::new(providers, &Limits::new(), queued, mix);
    (0..1_000).for_each(|_| busy.turn_over());
    let rounds = (0..effort.rounds(41)).map(|_| {
        let (cpu, is_clean) = slice(|| (0..500).for_each(|_| busy.turn_over()));
        if is_clean { cpu / 500.0 } else { f64::NAN }
    });
    median(&rounds.collect::<Vec<_>>())
}

/// A queue that is looked through from the front: the one ticket that may go is the last.
fn scan(queued: usize) -> f64 {
    let is_blocked: Vec<bool> = (0..16).map(|provider| provider != 15).collect();
    let ticket = |number: usize| (number as u64, if number + 1 == queued { 15 } else { number % 15 });
    let mut queue: VecDeque<(u64, usize)> = (0..queued).map(ticket).collect();
    let repeats = (20_000_000 / queued).clamp(10, 20_000);
    let began = thread_cpu();
    for _ in 0..repeats {
        let is_open = |(_, provider): &(u64, usize)| !is_blocked[*provider];
        let at = black_box(&queue).iter().position(is_open).expect("one may go");
        let granted = queue.remove(at).expect("it is there");
        queue.push_back(black_box(granted));
    }
    (thread_cpu() - began) / repeats as f64
}

/// One provider is full and eight calls to it come first, at a client that runs eight calls; then come a hundred
/// calls to fifteen other providers. How many of those start: with two semaphores, and with admission.
fn head_of_line() -> (usize, usize) {
    let provider_of = |number: usize| if number < 8 { 0 } else { 1 + number % 15 };
    let runtime = tokio_runtime();
    let started = Rc::new(Cell::new(0));
    let count = |started: &Rc<Cell<usize>>| started.replace(0);
    LocalSet::new().block_on(&runtime, async {
        let client = Arc::new(Semaphore::new(8));
        let providers: Vec<_> = (0..16).map(|_| Arc::new(Semaphore::new(1))).collect();
        let _held = providers[0].clone().try_acquire_owned();
        for number in 0..108 {
            let (client, provider) = (client.clone(), providers[provider_of(number)].clone());
            let started = started.clone();
            spawn_local(async move {
                let _client = client.acquire().await;
                let _provider = provider.acquire().await;
                started.set(started.get() + 1);
            });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    let composed = count(&started);
    LocalSet::new().block_on(&runtime, async {
        let mut builder = Admission::builder().max_concurrent(8);
        for number in 0..16 {
            builder = builder.provider(number.to_string(), |limits| limits.max_concurrent(1));
        }
        let admission = builder.build().expect("the configuration is right");
        let provider = |number: usize| admission.provider(&number.to_string()).expect("it was named");
        let _held = provider(0).try_acquire();
        for number in 0..108 {
            let acquire = provider(provider_of(number)).key(number as u64).acquire();
            let started = started.clone();
            spawn_local(async move {
                let _permit = acquire.await;
                started.set(started.get() + 1);
            });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    (composed, count(&started))
}
