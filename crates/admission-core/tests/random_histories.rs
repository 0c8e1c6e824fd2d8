//! Random histories, each decision compared with the reference model (rules E7, O3).
//!
//! Each history has a seed, which is printed when it fails, be it by a difference or by a panic of the
//! core (of its audit, say), with the command that runs that one alone: `SEED=…`. `HISTORIES=…` runs
//! another number of them. Settings
//! are drawn so that some histories lack a feature altogether and others have little else. Those of
//! the second test have hardly anything that is rare: the core has a way of its own for such calls.
//! They take longer, so that fewer are tried.

mod common;
mod dice;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::histories::{self, Difference, Setting, Totals};
use dice::Dice;

impl histories::Dice for Dice {
    fn below(&mut self, n: u64) -> u64 {
        Self::below(self, n)
    }
}

/// The test, what it draws its settings with, and how many times as long as others its histories take, so
/// that so many fewer are tried.
struct Kind {
    test: &'static str,
    draw: fn(&mut Dice) -> Setting,
    slow: u64,
}

impl Kind {
    fn live(&self, seed: u64, totals: &mut Totals) {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let mut dice = Dice(seed);
            (self.draw)(&mut dice).live(&mut dice, totals)
        }));
        let what = match lived {
            Ok(Ok(())) => return,
            Ok(Err(Difference(what))) => what,
            Err(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
                (Some(told), _) => format!("it panicked: {told}"),
                (_, Some(told)) => format!("it panicked: {told}"),
                _ => "it panicked".to_owned(),
            },
        };
        panic!("SEED={seed}: {what}\n\n{}", self.again(seed));
    }

    /// The command that lives through one history again, with the checks that there are now.
    fn again(&self, seed: u64) -> String {
        let audit = if cfg!(audit) { "RUSTFLAGS=\"--cfg audit\" " } else { "" };
        let folder = if cfg!(audit) { " --target-dir target/audit" } else { "" };
        let test = self.test;
        // (A seed says the same in a debug build, and there it also stops at an overflow.)
        format!(
            "repeat it: {audit}SEED={seed} cargo test{folder} -p admission-core --test random_histories {test}"
        )
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

// rules L7, L8, L10, O1
// rules E1, E2, E3, E4, E6, E7, L1, L2, L3, L4, L5, L6, L9, S1, S2, S3, S4, S4a, S5, S6, W1, W2, W3, W4, W6, R1, R2, R3, D2, D5, T1, T2, T6, O3
#[test]
fn the_core_decides_as_the_reference_model_does() {
    let test = "the_core_decides_as_the_reference_model_does";
    live_through(&Kind { test, draw: Setting::draw, slow: 1 });
}

// rules E1, E2, E4, E6, E7, L1, L2, L3, S1, S2, S4, S4a, S6, W1, W3, W6, O3
#[test]
fn usual_calls_are_decided_as_by_the_reference_model() {
    // Their queues are long, and the model looks at all who wait.
    let test = "usual_calls_are_decided_as_by_the_reference_model";
    live_through(&Kind { test, draw: Setting::usual, slow: 8 });
}

// rule O3
#[test]
#[should_panic(expected = "SEED=7: it panicked: rule T6: an alarm is in the future\n\nrepeat it: ")]
fn a_history_that_panics_says_how_to_repeat_it() {
    let draw = |_: &mut Dice| -> Setting { panic!("rule T6: an alarm is in the future") };
    Kind { test: "none", draw, slow: 1 }.live(7, &mut Totals::default());
}

fn live_through(kind: &Kind) {
    if let Some(seed) = number("SEED") {
        return kind.live(seed, &mut Totals::default());
    }
    let histories = number("HISTORIES").unwrap_or(if cfg!(debug_assertions) {
        2_000
    } else if cfg!(audit) {
        10_000
    } else {
        20_000
    });
    let histories = histories.div_ceil(kind.slow);
    let first = number("FIRST").unwrap_or(1);
    let mut totals = Totals::default();
    for seed in first..first + histories {
        kind.live(seed, &mut totals);
    }
    // A generator that never grants, refuses or takes back would compare nothing.
    assert!(totals.0.iter().all(|&total| total > histories / 4), "too few of something: {:?}", totals.0);
}
