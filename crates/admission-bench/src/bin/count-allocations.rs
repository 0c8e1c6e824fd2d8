//! Counts allocations and bytes: for each timed operation, for each waiter, and for a coordinator with a million
//! tickets. A program of its own, because an allocator that counts costs time.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a command line tool speaks to the terminal")]

use std::env;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Waker};

use admission_bench::cases;
use admission_bench::queues::{ADMISSION, SIZES, TOKIO, fill, scale, tasks};
use admission_bench::results::Results;
use admission_core::Limits;
use admission_hot_paths::machine::{Busy, Mix};
use admission_hot_paths::queue::one_at_a_time;
use admission_hot_paths::{combined, tokio_runtime};
use allocation_counter::measure;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        eprintln!("usage: count-allocations RESULTS [--quick]");
        return ExitCode::FAILURE;
    };
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let outcome = Results::read(Path::new(path)).and_then(|mut results| {
        operations(&mut results);
        steady(&mut results, is_quick);
        waiters(&mut results, is_quick);
        machines(&mut results, is_quick);
        results.write(Path::new(path))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// What one operation of each timed case allocates.
fn operations(results: &mut Results) {
    const OPERATIONS: u64 = 20_000;
    for group in cases::groups() {
        for case in group.cases.iter().filter(|case| !case.is_large) {
            let mut run = (case.make)();
            run(70_000);
            let info = measure(|| run(OPERATIONS));
            results.set(group.name, &case.name, "allocations", info.count_total as f64 / OPERATIONS as f64);
        }
    }
}

/// A million admissions in the steady state: at once, queued, and given up.
fn steady(results: &mut Results, is_quick: bool) {
    let count = if is_quick { 100_000 } else { 1_000_000 };
    let mut set = |case: &str, allocations: u64| {
        results.set("steady", case, "allocations", allocations as f64 / count as f64);
    };
    let admission = combined::admission(true);
    let providers = combined::handles(&admission);
    let acquire_at_once = || {
        for number in 0..count {
            drop(providers[number as usize % 16].key(number).try_acquire());
        }
    };
    acquire_at_once();
    set("at once", measure(acquire_at_once).count_total);

    let group = admission_hot_paths::queue::drained();
    let mut run = (group.cases[0].make)();
    run(count);
    set("queued, then granted", measure(|| run(count)).count_total);

    let runtime = tokio_runtime();
    let _inside = runtime.enter();
    let (_admission, providers) = one_at_a_time(1_000);
    let _held = providers[0].key(1 << 40).try_acquire();
    let mut cx = Context::from_waker(Waker::noop());
    let mut give_up = || {
        for number in 0..count {
            let mut acquire = providers[number as usize % 16].key(number).acquire();
            assert!(acquire.poll_acquire(&mut cx).is_pending());
        }
    };
    give_up();
    set("queued, then given up", measure(give_up).count_total);
}

/// The heap of each waiter: as a bare future, that included, and as a task on tokio.
fn waiters(results: &mut Results, is_quick: bool) {
    for size in SIZES {
        if is_quick && size > 100_000 {
            continue;
        }
        let column = size.to_string();
        let each = |bytes: i64| bytes as f64 / size as f64;
        let boxed = size_of::<Pin<Box<u8>>>() as f64;

        let semaphore = tokio::sync::Semaphore::new(1);
        let _first = semaphore.try_acquire();
        let mut kept = None;
        let info = measure(|| kept = Some(fill(size, |_| semaphore.acquire())));
        drop(kept);
        results.set("bytes, bare", TOKIO, &column, each(info.bytes_current) - boxed);

        let semaphore = async_lock::Semaphore::new(1);
        let _first = semaphore.try_acquire();
        let mut kept = None;
        let info = measure(|| kept = Some(fill(size, |_| semaphore.acquire())));
        drop(kept);
        results.set("bytes, bare", "async-lock Semaphore(1)", &column, each(info.bytes_current) - boxed);

        let runtime = tokio_runtime();
        let _inside = runtime.enter();
        let mut kept = None;
        let info = measure(|| {
            let (admission, providers) = one_at_a_time(size);
            let first = providers[0].key(1 << 40).try_acquire();
            let waiting = fill(size, |number| providers[number % 16].key(number as u64).acquire());
            kept = Some((admission, first, waiting));
        });
        drop(kept);
        results.set("bytes, bare", ADMISSION, &column, each(info.bytes_current) - boxed);
        results.set(
            "bytes, bare",
            "admission's future alone",
            &column,
            size_of::<admission_tokio::Acquire>() as f64,
        );
        drop(_inside);

        // Counted up to where all wait: that is when the measure is ended.
        for (name, bytes) in [
            (TOKIO, tasks_bytes(|waiting| tasks::of_tokio(size, waiting))),
            ("async-lock Semaphore(1)", tasks_bytes(|waiting| tasks::of_async_lock(size, waiting))),
            (ADMISSION, tasks_bytes(|waiting| tasks::of_admission(size, waiting))),
        ] {
            results.set("bytes, task", name, &column, bytes as f64 / size as f64);
        }
    }
}

/// The most that is held at one time, which is when all tasks wait.
fn tasks_bytes(run: impl FnOnce(fn()) -> f64) -> u64 {
    measure(|| {
        run(|| ());
    })
    .bytes_max
}

/// The heap of the machine alone.
fn machines(results: &mut Results, is_quick: bool) {
    for size in SIZES {
        if is_quick && size > 100_000 {
            continue;
        }
        for (case, mix) in
            [("each with its own key", Mix::Open), ("a hundred to a key", Mix::Keys(size as u64 / 100))]
        {
            let mut kept = None;
            let info = measure(|| kept = Some(Busy::new(16, &Limits::new(), size, mix)));
            drop(kept);
            // The numbers that are kept to drive it are 16 KiB.
            let bytes = info.bytes_current - 4_096 * 4;
            results.set("bytes, machine", case, &size.to_string(), bytes as f64 / size as f64);
        }
    }
    for scale in scale::SCALES {
        if is_quick && scale.0 > 100_000 {
            continue;
        }
        let mut machine = None;
        let empty = measure(|| machine = Some(scale::empty(scale)));
        let filled = measure(|| {
            if let Some(machine) = &mut machine {
                drop(scale::fill(machine, scale));
            }
        });
        drop(machine);
        let name = scale::name(scale);
        let mebibytes = |bytes: i64| bytes as f64 / f64::from(1 << 20);
        results.set("scale", &name, "MiB empty", mebibytes(empty.bytes_current));
        results.set("scale", &name, "MiB full", mebibytes(empty.bytes_current + filled.bytes_current));
        results.set("scale", &name, "allocations while filling", filled.count_total as f64 - 2.0);
    }
}
