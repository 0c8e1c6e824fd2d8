//! The jobs that are timed operation by operation, each a table of ways to do it.
//!
//! Owns: the list of tables, and what their cases share. Lacks queues that fill and drain once, threads and
//! real time: those are measured in files of their own.

pub mod combined;
pub mod machine;
pub mod permit;
pub mod rate;

use std::future::Future;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

use crate::runner::{Case, Group, Run, each};

/// All tables.
#[must_use]
pub fn groups() -> Vec<Group> {
    vec![permit::group(), rate::group(), combined::group(), machine::group()]
}

/// What regressions are looked for in: the hot paths, in instructions.
#[must_use]
pub fn watched() -> Vec<Group> {
    let keep = |mut group: Group, names: &[&str]| {
        group.cases.retain(|case| names.contains(&case.name.as_str()));
        group
    };
    vec![
        keep(permit::group(), &["admission: acquire().await"]),
        keep(combined::group(), &["admission: all limits", "admission: caps and keys only"]),
        keep(
            machine::group(),
            &[
                "P=16, N=0, caps and keys",
                "P=16, N=0, all limits",
                "P=1, N=1000, caps and keys",
                "P=16, N=1000, caps and keys",
                "P=1024, N=1000, caps and keys",
                "P=16, N=1000, all limits",
                "P=16, N=1000, submit and cancel",
            ],
        ),
        crate::queues::drained(),
    ]
}

/// A tokio runtime of one thread.
///
/// # Panics
///
/// If the system has no more descriptors.
#[must_use]
pub fn tokio_runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime of one thread can be built")
}

/// Awaits one future after the other on a tokio runtime of one thread.
pub fn on_tokio<F: Future>(mut call: impl FnMut() -> F + 'static) -> Run {
    let runtime = tokio_runtime();
    Box::new(move |n| {
        runtime.block_on(async {
            for _ in 0..n {
                drop(black_box(call().await));
            }
        });
    })
}

/// Awaits one future after the other on this thread, with smol.
pub fn on_smol<F: Future>(mut call: impl FnMut() -> F + 'static) -> Run {
    Box::new(move |n| {
        smol::block_on(async {
            for _ in 0..n {
                drop(black_box(call().await));
            }
        });
    })
}

/// A value that lives as long as the process. Cases are built a few times, so it is a few.
pub fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A counter behind a lock: the least that one permit can cost with std alone, and the reference.
#[derive(Debug)]
pub struct Counter(Mutex<usize>);

impl Counter {
    /// So many permits.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self(Mutex::new(permits))
    }

    /// Takes one and gives it back.
    #[inline]
    pub fn pair(&self) {
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(*permits > 0);
        *permits -= 1;
        drop(permits);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// What the reference is called.
pub const REFERENCE: &str = "std Mutex and a counter";

/// The reference of most tables.
#[must_use]
pub fn reference() -> Case {
    each(REFERENCE, || {
        let counter = Counter::new(64);
        move || black_box(&counter).pair()
    })
}
