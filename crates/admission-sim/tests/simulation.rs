//! A small run of the simulator, as a test among others; `cargo xtask sim` runs many more.
//!
//! Owns: one look at whether the rules hold. Lacks names for what it finds: a failure prints its seed, the
//! command to replay it, and a short transcript.

use admission_sim::{Fault, Faults, run};

fn live(seeds: std::ops::Range<u64>) -> Faults {
    let mut faults = Faults::new();
    for seed in seeds {
        match run(seed) {
            Ok(more) => faults.add(&more),
            Err(failure) => panic!("{failure}"),
        }
    }
    faults
}

// rules L1, L2, L3, L5, E1, E2, S3, S4, W1, W2, W3, W4, W5, W6, T1, T3, T6, R1, I3, D5
#[test]
fn every_rule_holds_in_histories_with_faults() {
    let faults = live(0..400);
    assert!(faults.started > 1_000 && faults.refused > 1_000, "{faults}");
    assert!(faults.count(Fault::PanicInWaker) > 0, "{faults}");
    let missing: Vec<_> = faults.missing().filter(|word| !word.contains("closed inside a wake")).collect();
    assert!(missing.is_empty(), "never done: {missing:?}");
}

// rule O3
#[test]
fn a_seed_is_a_history() {
    for seed in 400..440 {
        assert_eq!(live(seed..seed + 1), live(seed..seed + 1));
    }
}

// rule L10: of all seeds up to half a million the one in which that could be told apart, by a millionth of a
// millisecond between an interval that was over and the one that the template would have made of it.
#[test]
fn a_call_that_is_aborted_before_it_asks_makes_no_provider() {
    assert!(live(71_000_572_642..71_000_572_643).started > 0);
}

// rules D5, W4
#[test]
fn a_newcomer_is_told_why_it_was_refused_though_its_poll_ends_in_anothers_panic() {
    assert!(live(71_000_813_163..71_000_813_164).refused > 0);
}

// rule L10: a reset finds that a provider of the template was forgotten, and wakes somebody whose waker makes it
// again; the observer took it to be gone.
#[test]
fn a_provider_that_a_waker_makes_again_is_there() {
    assert!(live(90_000_097_142..90_000_097_143).started > 0);
}
