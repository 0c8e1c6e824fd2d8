//! The jobs that are timed operation by operation, each a table of ways to do it.
//!
//! Owns: the list of tables, and what their cases share. Lacks queues that fill and drain once, threads and
//! real time: those are measured in files of their own.

pub mod combined;
pub mod permit;
pub mod rate;

use std::future::Future;
use std::hint::black_box;

use admission_hot_paths::{Group, Run, machine};

/// All tables.
#[must_use]
pub fn groups() -> Vec<Group> {
    vec![permit::group(), rate::group(), combined::group(), machine::group()]
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
