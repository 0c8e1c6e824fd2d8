//! Random histories, each decision compared with the reference model (rules E7, O3).
//!
//! Each history has a seed, which is printed when it fails: `SEED=… cargo test --test
//! random_histories` runs that one alone, and `HISTORIES=…` runs another number of them. Settings
//! are drawn so that some histories lack a feature altogether and others have little else. Those of
//! the second test have hardly anything that is rare: the core has a way of its own for such calls.
//! They take longer, so that fewer are tried.

mod common;
mod dice;

use common::histories::{self, Difference, Setting, Totals};
use dice::Dice;

impl histories::Dice for Dice {
    fn below(&mut self, n: u64) -> u64 {
        Self::below(self, n)
    }
}

fn history(draw: fn(&mut Dice) -> Setting, seed: u64, totals: &mut Totals) {
    let mut dice = Dice(seed);
    let setting = draw(&mut dice);
    if let Err(Difference(what)) = setting.live(&mut dice, totals) {
        panic!("SEED={seed}: {what}");
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

// rules L7, L8, L10, O1
// rules E1, E2, E3, E4, E6, E7, L1, L2, L3, L4, L5, L6, L9, S1, S2, S3, S4, S4a, S5, S6, W1, W2, W3, W4, W6, R1, R2, R3, D2, D5, T1, T2, T6, O3
#[test]
fn the_core_decides_as_the_reference_model_does() {
    live_through(Setting::draw, 1);
}

// rules E1, E2, E4, E6, E7, L1, L2, L3, S1, S2, S4, S4a, S6, W1, W3, W6, O3
#[test]
fn usual_calls_are_decided_as_by_the_reference_model() {
    // Their queues are long, and the model looks at all who wait.
    live_through(Setting::usual, 8);
}

/// `slow`: how many times as long as others such histories take, so that so many fewer are tried.
fn live_through(draw: fn(&mut Dice) -> Setting, slow: u64) {
    if let Some(seed) = number("SEED") {
        return history(draw, seed, &mut Totals::default());
    }
    let histories = number("HISTORIES").unwrap_or(if cfg!(debug_assertions) {
        2_000
    } else if cfg!(audit) {
        10_000
    } else {
        20_000
    });
    let histories = histories.div_ceil(slow);
    let first = number("FIRST").unwrap_or(1);
    let mut totals = Totals::default();
    for seed in first..first + histories {
        history(draw, seed, &mut totals);
    }
    // A generator that never grants, refuses or takes back would compare nothing.
    assert!(totals.0.iter().all(|&total| total > histories / 4), "too few of something: {:?}", totals.0);
}
