//! The program that counts: `cargo xtask instructions` runs it, and it runs itself under valgrind.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a command line tool speaks to the terminal")]

use std::path::PathBuf;
use std::process::ExitCode;

use admission_hot_paths::{instructions, stalls, watched};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Counts the instructions of the hot paths, and what they wait for")]
struct HotPaths {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run one case as often as is counted (under callgrind)
    One {
        /// Its table
        group: String,
        /// Its name
        case: String,
    },
    /// Run one case a few times (under lackey)
    Trace {
        /// Its table
        group: String,
        /// Its name
        case: String,
    },
    /// Count, and compare with a file
    Watch {
        /// The file
        noted: PathBuf,
        /// Write the file anew
        #[arg(long)]
        renew: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match HotPaths::parse().what {
        What::One { group, case } => instructions::one(&watched(), &group, &case),
        What::Trace { group, case } => stalls::one(&watched(), &group, &case),
        What::Watch { noted, renew } => {
            instructions::is_available().and_then(|()| instructions::watch(&noted, &watched(), renew))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
