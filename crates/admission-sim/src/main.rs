//! `admission-sim`: many histories, one after the other, until there are enough or the time is over.
//!
//! Owns: arguments, progress, and the exit code. `cargo xtask sim` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to the terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use admission_sim::Faults;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}\nusage: admission-sim [--seeds N] [--minutes M] [--seed S] [--keep-going]");
            return ExitCode::FAILURE;
        }
    };
    let began = now();
    let mut faults = Faults::new();
    let (mut histories, mut failures, mut told) = (0_u64, 0_u64, Duration::ZERO);
    while histories < arguments.seeds && began.elapsed() < arguments.time {
        let seed = arguments.seed.wrapping_add(histories);
        histories += 1;
        match admission_sim::run(seed) {
            Ok(more) => faults.add(&more),
            Err(failure) => {
                failures += 1;
                println!("history {histories}: {failure}\n");
                if !arguments.keeps_going {
                    break;
                }
            }
        }
        if began.elapsed() > told + Duration::from_secs(5) {
            told = began.elapsed();
            println!("{histories} histories in {} s, next seed {}", told.as_secs(), seed.wrapping_add(1));
        }
    }
    println!("{histories} histories from seed {}, {failures} failed\n{faults}", arguments.seed);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::disallowed_methods, reason = "measures how long the histories take")]
fn now() -> Instant {
    Instant::now()
}

struct Arguments {
    seeds: u64,
    time: Duration,
    seed: u64,
    keeps_going: bool,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut seeds = None;
        let mut minutes = None;
        let mut arguments = Self { seeds: 10_000, time: Duration::MAX, seed: 0, keeps_going: false };
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().ok_or(format!("{word} needs a number"))?;
                value.parse::<u64>().map_err(|_| format!("{word} needs a number, not {value}"))
            };
            match word.as_str() {
                "--seeds" => seeds = Some(number()?),
                "--minutes" => minutes = Some(number()?),
                "--seed" => arguments.seed = number()?,
                "--keep-going" => arguments.keeps_going = true,
                _ => return Err(format!("{word} is nothing that is known here")),
            }
        }
        if let Some(minutes) = minutes {
            arguments.time = Duration::from_secs(minutes.saturating_mul(60));
            arguments.seeds = u64::MAX;
        }
        arguments.seeds = seeds.unwrap_or(arguments.seeds);
        Ok(arguments)
    }
}
