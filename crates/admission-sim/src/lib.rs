//! A world of scripted callers over the async layer, with faults, and an observer who sees it from outside.
//!
//! A seed is a history: a coordinator with limits of its own, several runtimes, callers, and steps, all drawn
//! before anything runs. First come steps with faults, and every promise about *safety* is checked all the
//! time. Then the faults stop, everybody is polled, timers are honest, and *liveness* is checked: whoever
//! waits comes to an end in a time that follows from the limits, and then nothing is left of anybody. The
//! observer knows starts, ends, wakes and answers, and never looks into the coordinator.
//!
//! Owns: all of that, and the search for a short history once one fails. Lacks threads (the tests with loom
//! and the adapters' own have those), and lacks a model of decisions: the core is compared with one elsewhere.
//!
//! `cargo xtask sim --help` says how to run many, and how to replay one.

#![forbid(unsafe_code)]

mod acts;
mod caller;
mod clock;
mod dice;
mod faults;
mod history;
mod limits;
mod liveness;
mod observer;
mod plan;
mod shrink;
mod timers;
mod world;

use std::fmt;

pub use faults::{Fault, Faults};

/// A history that broke a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The rule, and how it was broken.
    pub what: String,
    /// The world and the steps that are left of it when it is cut short, as they went.
    pub transcript: String,
}

/// Lives through the history of a seed.
///
/// # Errors
///
/// [`Failure`] with a transcript of the shortest history found that breaks the same rule.
pub fn run(seed: u64) -> Result<Faults, Box<Failure>> {
    let (setup, steps) = plan::draw(seed);
    let outcome = history::live(&setup, &steps, false);
    let Some(violation) = outcome.violation else { return Ok(outcome.faults) };
    let (setup, steps) = shrink::shrink(setup, steps, &violation);
    let short = history::live(&setup, &steps, true);
    let told = short.violation.unwrap_or(violation);
    let what = format!("rule {}: {}", told.rule, told.what);
    Err(Box::new(Failure { seed, what, transcript: format!("{setup}\n{}", short.transcript.join("\n")) }))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what, transcript } = self;
        writeln!(f, "{what}")?;
        writeln!(f, "seed {seed}; to replay: cargo xtask sim --seeds 1 --seed {seed}")?;
        write!(f, "cut short, that is\n{transcript}")
    }
}
