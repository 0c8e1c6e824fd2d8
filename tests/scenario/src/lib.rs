//! One history of the core, written down line by line, that must be the same on every machine (rule O3).
//!
//! Owns: rounds, each a coordinator with limits that are drawn from a seed and some hundred calls into it;
//! a line for each call, with its answer, the events after it, who is where, and the next alarm; and a digest
//! of the text at its end. Some calls are a driver's daily work, others are slips and stale ones, so that
//! every event and every reason to refuse comes up: [`Tally`] counts them.
//!
//! Lacks, on purpose: std, a clock, and whatever is another on another machine. A text that named an address,
//! the width of a `usize` or the order of a map would differ where nothing is wrong. It judges nothing,
//! either: what a decision should be is the business of the core's own tests; that it is the same on a
//! machine of 32 bits, of another byte order, or without an operating system is all that is asked here.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod dice;
mod draw;
mod look;
mod round;
mod tally;

use core::fmt;

use crate::dice::Dice;
use crate::round::Round;
use crate::tally::Digesting;
pub use crate::tally::{Count, Tally};

/// How long a history is. The same plan gives the same text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Where the dice begin.
    pub seed: u64,
    /// How many coordinators there are, one after the other.
    pub rounds: u32,
    /// How many calls are made into each, before it is drained.
    pub calls: u32,
}

/// What every machine plays: every kind of event and refusal comes up, in some 800 kB of text.
impl Default for Plan {
    fn default() -> Self {
        Self { seed: 1, rounds: 32, calls: 300 }
    }
}

/// Plays a history, and writes it to `out` a line at a time.
///
/// # Errors
///
/// What `out` answers when it cannot take a line.
pub fn play(plan: &Plan, out: &mut dyn fmt::Write) -> Result<Tally, fmt::Error> {
    let mut tally = Tally::default();
    let mut out = Digesting::new(out);
    let mut dice = Dice(plan.seed);
    out.line(format_args!("seed {} rounds {} calls {}", plan.seed, plan.rounds, plan.calls))?;
    draw::refused_configurations(&mut out)?;
    for number in 0..plan.rounds {
        Round::begin(number, &mut dice, &mut tally, &mut out)?.play(plan.calls)?;
    }
    tally.write(&mut out)?;
    out.end(tally.decisions)?;
    Ok(tally)
}
