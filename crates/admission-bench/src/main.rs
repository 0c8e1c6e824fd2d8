//! The program that measures: `cargo xtask bench` and `cargo xtask instructions` run it.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command line tool speaks to the terminal")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use admission_bench::cases::groups;
use admission_bench::results::Results;
use admission_bench::runner::Effort;
use admission_bench::{clocks, contention, pacing, page, queues, runner};
use admission_hot_paths::instructions;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures admission beside what one would use instead")]
struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measure, and note it in a file
    Measure {
        /// The file; what it has already is kept
        results: PathBuf,
        /// A quarter of the rounds, and no more than 100,000 of anything
        #[arg(long)]
        quick: bool,
        /// Only the parts whose name contains this text, or `part/case`
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// List the parts
    List,
    /// Write the page and its pictures from what is noted
    Page {
        /// The file
        results: PathBuf,
        /// The folder of the page
        docs: PathBuf,
    },
    /// Run one case as often as is counted (under callgrind)
    One {
        /// Its table
        group: String,
        /// Its name
        case: String,
    },
}

fn main() -> ExitCode {
    let outcome = match Bench::parse().what {
        What::Measure { results, quick, only } => measure(&results, quick, only),
        What::List => {
            PARTS.iter().for_each(|(name, about, _)| println!("{name:<13} {about}"));
            Ok(())
        }
        What::Page { results, docs } => {
            Results::read(&results).and_then(|results| page::write(&results, &docs))
        }
        What::One { group, case } => instructions::one(&groups(), &group, &case),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

type Part = fn(&Effort, &mut Results) -> Result<(), String>;

const PARTS: &[(&str, &str, Part)] = &[
    ("permit", "one permit, nobody waiting", |effort, results| time("permit", effort, results)),
    ("rate", "one rate check, nobody waiting", |effort, results| time("rate", effort, results)),
    ("combined", "all limits at once, nobody waiting", |effort, results| time("combined", effort, results)),
    ("machine", "the machine alone, idle and busy", |effort, results| time("machine", effort, results)),
    ("queues", "join, grant, cancel, close, as the queue grows", |effort, results| {
        queues::measure(effort, results);
        Ok(())
    }),
    ("tasks", "waiting tasks on tokio; polls and wakes", |effort, results| {
        queues::tasks::measure(effort, results);
        Ok(())
    }),
    ("eligible", "who may go, when most may not", |effort, results| {
        queues::eligible::measure(effort, results);
        Ok(())
    }),
    ("scale", "a million tickets, a hundred thousand providers", |effort, results| {
        queues::scale::measure(effort, results);
        Ok(())
    }),
    ("threads", "two threads at one limiter", |effort, results| {
        contention::measure(effort, results);
        Ok(())
    }),
    ("gaps", "starts held apart, in real time", |effort, results| {
        pacing::measure(effort, results);
        Ok(())
    }),
    ("quota", "fifty in a tenth of a second, in real time", |effort, results| {
        pacing::quota::measure(effort, results);
        Ok(())
    }),
    ("made-up", "millions of starts and alarms, in virtual time", |effort, results| {
        pacing::made_up::measure(effort, results);
        Ok(())
    }),
    ("allocations", "allocations and bytes", |_, _| Ok(())),
    ("instructions", "instructions, through valgrind", count),
];

fn measure(path: &Path, is_quick: bool, only: Option<String>) -> Result<(), String> {
    let (part, case) = match only.as_deref().and_then(|only| only.split_once('/')) {
        Some((part, case)) => (Some(part.to_owned()), Some(case.to_owned())),
        None => (only, None),
    };
    let effort = Effort { is_quick, only: case };
    let is_wanted = |name: &str| part.as_deref().is_none_or(|part| name.contains(part));
    let parts: Vec<_> = PARTS.iter().filter(|(name, ..)| is_wanted(name)).collect();
    if parts.is_empty() {
        return Err("no part has that in its name; `--list` names them".to_owned());
    }
    for (name, about, run) in parts {
        let began = clocks::now();
        eprint!("{name}: {about} … ");
        if *name == "allocations" {
            allocations(path, is_quick)?;
        } else {
            // Read and written each time, so that what is done stays done.
            let mut results = Results::read(path)?;
            run(&effort, &mut results)?;
            results.write(path)?;
        }
        eprintln!("{:.0} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn time(name: &str, effort: &Effort, results: &mut Results) -> Result<(), String> {
    for group in groups().iter().filter(|group| group.name == name) {
        runner::time(group, effort, results);
    }
    Ok(())
}

fn count(effort: &Effort, results: &mut Results) -> Result<(), String> {
    if let Err(message) = instructions::is_available() {
        eprint!("skipped: {message} ");
        return Ok(());
    }
    for group in groups() {
        for case in group.cases.iter().filter(|case| effort.wants(&case.name)) {
            if case.is_large && effort.is_quick {
                continue;
            }
            results.set(group.name, &case.name, "instructions", instructions::count(group.name, &case.name)?);
        }
    }
    Ok(())
}

/// The program beside this one counts them.
fn allocations(path: &Path, is_quick: bool) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program.with_file_name("count-allocations"));
    command.arg(path).args(is_quick.then_some("--quick"));
    let status = command.status().map_err(|error| format!("count-allocations could not be run: {error}"))?;
    if status.success() { Ok(()) } else { Err("count-allocations failed".to_owned()) }
}
