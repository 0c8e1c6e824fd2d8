//! Every order of the steps of the races in `races/`, tried by loom: `cargo xtask loom`.
//!
//! Owns: the bounds. Lacks the bodies. A step is what lies between two looks at a lock, at what is set
//! once, or at a place beside the lock (`src/sync.rs`); the adapters' own atomics and the wakers are no part of it. Loom prints the orders that
//! it tried; what it finds it prints as a panic, and `LOOM_LOG=trace` with it says in which order.

#![cfg(all(admission_loom, not(admission_shuttle)))]
#![allow(clippy::print_stdout, reason = "how many orders there were is what is to be known")]

mod common;
mod races;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// rules W3, W4, W5, W6, W7, S3, S4, S6, T6, L1, L7, L10, E4, D3, D5
#[test]
fn every_order_of_steps_keeps_the_rules() {
    let only = std::env::var("RACE").unwrap_or_default();
    // With so many changes from a thread that could go on; `LOOM_MAX_PREEMPTIONS` sets another number.
    let bound = std::env::var("LOOM_MAX_PREEMPTIONS").ok().and_then(|bound| bound.parse().ok()).unwrap_or(3);
    let mut total = 0;
    for &(name, race) in races::RACES.iter().filter(|(name, _)| name.contains(&only)) {
        let orders = Arc::new(AtomicU64::new(0));
        let counted = orders.clone();
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(bound);
        model.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            race();
        });
        let orders = orders.load(Ordering::Relaxed);
        println!("{orders:>8} orders: {name}");
        assert!(orders > 1, "{name}: only one order");
        total += orders;
    }
    println!("{total:>8} orders in all, with at most {bound} preemptions each");
}
