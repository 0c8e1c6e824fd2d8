//! The soak itself, for some seconds: `cargo xtask soak` is the long run.
//!
//! Owns: one call for each runtime, one after the other, since the heap and the alarms are the whole process's.

#![forbid(unsafe_code)]

use admission_soak::host::{CurrentThread, Host, MultiThread, OnAsyncStd, OnSmol, PreciseThreads, Threads};
use admission_soak::{Options, quiet_about_booms, soak};

fn short<H: Host>() {
    let options = Options { calls: 12_000, time: None, round: 500, era: 8, seed: 1 };
    let (report, faults) = soak::<H>(options);
    assert!(faults.is_empty(), "{report}{faults:#?}");
}

// rules L1, L2, L3, L7, L10, T6, W2, W3, W5, W7, D3, Q6, I4
#[test]
fn nothing_is_left_of_mixed_traffic() {
    quiet_about_booms();
    short::<CurrentThread>();
    short::<MultiThread>();
    short::<PreciseThreads>();
    short::<OnSmol>();
    short::<OnAsyncStd>();
    short::<Threads>();
}
