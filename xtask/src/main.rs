//! The chores of this workspace: `cargo xtask --help` lists them.
//!
//! One file per subcommand. They own no knowledge of the libraries beyond names: what is checked and
//! what is run stands in tables (`test_matrix.rs`, `tidy.rs` and `tidy/rules.rs`), so that a new row, check or
//! rule is a line and not a program. Keep the dependencies few; every clean build pays for them.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to the terminal")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bare_metal;
mod bench;
mod check;
mod ci;
mod conformance;
mod coverage;
mod faults;
mod machines;
mod mutants;
mod proof;
mod rows;
mod rust_version;
mod sim;
mod soak;
mod source;
mod step;
mod test_matrix;
mod tidy;
mod workspace;

fn main() -> ExitCode {
    let outcome = match Xtask::parse().chore {
        Chore::TestMatrix(chore) => chore.run(),
        Chore::Tidy(chore) => chore.run(),
        Chore::Conformance(chore) => chore.run(),
        Chore::Check(chore) => chore.run(),
        Chore::Ci(chore) => chore.run(),
        Chore::Bench(chore) => chore.run(),
        Chore::Instructions(chore) => chore.run(),
        Chore::Faults(chore) => chore.run(),
        Chore::Sim(chore) => chore.run(),
        Chore::Machines(chore) => chore.run(),
        Chore::Mutants(chore) => chore.run(),
        Chore::Loom(chore) => chore.run(),
        Chore::Shuttle(chore) => chore.run(),
        Chore::Fuzz(chore) => chore.run(),
        Chore::Sanitize(chore) => chore.run(),
        Chore::Deny(chore) => chore.run(),
        Chore::Coverage(chore) => chore.run(),
        Chore::Soak(chore) => chore.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The chores of the admission workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    TestMatrix(test_matrix::TestMatrix),
    Tidy(tidy::Tidy),
    Conformance(conformance::Conformance),
    Check(check::Check),
    Ci(ci::Ci),
    Bench(bench::Bench),
    Instructions(bench::Instructions),
    Faults(faults::Faults),
    Sim(sim::Sim),
    Machines(machines::Machines),
    Mutants(mutants::Mutants),
    Loom(proof::Loom),
    Shuttle(proof::Shuttle),
    Fuzz(proof::Fuzz),
    Sanitize(proof::Sanitize),
    Deny(proof::Deny),
    Coverage(coverage::Coverage),
    Soak(soak::Soak),
}
