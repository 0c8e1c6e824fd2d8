//! `cargo xtask soak` is this program, built for release.
//!
//! Owns: the command line, and which runtimes there are. Lacks everything else.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it reports")]

use std::process::ExitCode;
use std::time::Duration;

use admission_soak::host::{CurrentThread, Host, MultiThread, OnAsyncStd, OnSmol, PreciseThreads, Threads};
use admission_soak::{Options, quiet_about_booms, soak};
use clap::Parser;

/// Mixed traffic through every runtime, and what is left of it.
#[derive(Parser)]
struct Arguments {
    /// For how many minutes at most, over all runtimes
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// How many calls on each runtime; 30,000 unless a time is given
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// How many calls in a round
    #[arg(long, value_name = "N", default_value_t = 3_000)]
    round: u64,
    /// How many rounds one coordinator lives through
    #[arg(long, value_name = "N", default_value_t = 30)]
    era: usize,
    /// Only the runtimes with this in their name
    #[arg(long, value_name = "NAME", default_value = "")]
    runtime: String,
    /// What is drawn follows from it
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

type Soak = fn(Options) -> (String, Vec<String>);

const RUNTIMES: [(&str, Soak); 6] = [
    (CurrentThread::NAME, soak::<CurrentThread>),
    (MultiThread::NAME, soak::<MultiThread>),
    (PreciseThreads::NAME, soak::<PreciseThreads>),
    (OnSmol::NAME, soak::<OnSmol>),
    (OnAsyncStd::NAME, soak::<OnAsyncStd>),
    (Threads::NAME, soak::<Threads>),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    quiet_about_booms();
    let chosen: Vec<_> = RUNTIMES.iter().filter(|(name, _)| name.contains(&arguments.runtime)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = RUNTIMES.iter().map(|(name, _)| *name).collect();
        println!("there is no such runtime; there are: {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    let time = arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0 / chosen.len() as f64));
    let calls = arguments.calls.unwrap_or(if time.is_some() { u64::MAX } else { 30_000 });
    let options = Options {
        calls,
        time,
        round: arguments.round.max(100),
        era: arguments.era.max(3),
        seed: arguments.seed,
    };
    let mut has_failed = false;
    for (name, soak) in chosen {
        let (report, faults) = soak(options);
        println!("{report}");
        for fault in &faults {
            println!("{name}, seed {}: {fault}", arguments.seed);
        }
        has_failed = !faults.is_empty();
        if has_failed {
            // What is left would be found in the next one, too.
            break;
        }
    }
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
