//! `cargo xtask loom`, `shuttle`, `fuzz`, `sanitize` and `deny`: proofs that want tools or time of their own.
//!
//! Owns: which cargo is asked for what, and what helps where a tool is lacking. Lacks the models, the inputs and
//! the lists, which stand with the crates. Their short forms are rows of the matrix; see [`rows()`].

use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};

use crate::bare_metal::SecondCompiler;
use crate::rows::Row;
use crate::step::Step;
use crate::workspace;

/// Try every order of the steps of a few threads on the async layer
#[derive(Args)]
pub(crate) struct Loom {
    /// Only the races whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How often a thread that could go on may be changed for another
    #[arg(long, value_name = "N", default_value_t = 3)]
    preemptions: u32,
}

/// Draw many random orders of the steps of a few threads on the async layer
#[derive(Args)]
pub(crate) struct Shuttle {
    /// Only the races whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How many orders for each race
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    iterations: u32,
}

/// Let a fuzzer look for histories that the core decides otherwise than the model
#[derive(Args)]
pub(crate) struct Fuzz {
    /// For how long
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
    /// Leave out the check of every invariant after every call: more histories, and less told of each
    #[arg(long)]
    no_audit: bool,
}

/// Run the conformance suite and the tests of the async layer under a sanitizer
#[derive(Args)]
pub(crate) struct Sanitize {
    /// Which
    sanitizer: Sanitizer,
    /// Only this test program, such as `tokio_multi_thread`, or these
    #[arg(long, value_name = "NAME")]
    test: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sanitizer {
    /// What is read or written out of bounds or after it is gone, and what is leaked
    Address,
    /// What two threads touch at once without a lock
    Thread,
}

/// Ask cargo-deny about licences, bans and sources of everything that comes in from outside
#[derive(Args)]
pub(crate) struct Deny {}

/// The short forms, for the table of the matrix.
pub(crate) fn rows() -> Vec<Row> {
    let manifest = "--manifest-path fuzz/Cargo.toml";
    vec![
        Row::new(
            "fuzz seeds",
            "what the fuzzer found worth keeping is decided as by the model, every invariant checked",
            [
                Step::test(&format!("--locked {manifest}"))
                    .env("RUSTFLAGS", "--cfg audit")
                    .target_folder("fuzz-seeds"),
                Step::cargo(&format!("fmt {manifest} --check")),
                Step::cargo(&format!("clippy --locked {manifest} --all-targets -- -D warnings"))
                    .target_folder("fuzz-seeds"),
            ],
        ),
        Row::new(
            "rt loom",
            "every order of the steps of two or three threads keeps the rules",
            [loom(3, "").env(OPTIMISED, "0")],
        ),
        Row::new(
            "rt shuttle",
            "so do random orders, with more changes of thread than can all be tried",
            [shuttle(1_000, "").env(OPTIMISED, "0")],
        ),
        Sanitize::row(
            Sanitizer::Address,
            "virtual_clock",
            "every promise on the virtual clock, with nothing read or written that is gone, and nothing leaked",
        ),
        Sanitize::row(
            Sanitizer::Thread,
            "threads",
            "the races on the machine's own threads, with nothing that two of them touch without a lock",
        ),
        // Tidy checks the same in any case. The tool itself takes minutes to build, so nobody installs it here.
        Row {
            needs: vec!["cargo-deny".to_owned()],
            ..Row::new(
                "deny",
                "licences, bans and sources of everything that comes in from outside",
                [Step::cargo("fetch --locked"), deny()],
            )
        },
    ]
}

/// Short forms of the model checkers run for a few seconds, and to optimise them would take half a minute each.
const OPTIMISED: &str = "CARGO_PROFILE_RELEASE_OPT_LEVEL";

fn deny() -> Step {
    Step::cargo("deny --offline check licenses bans sources")
}

fn loom(preemptions: u32, only: &str) -> Step {
    Step::test("--release -p admission-rt --test loom -- --nocapture")
        .env("RUSTFLAGS", "--cfg admission_loom")
        .env("LOOM_MAX_PREEMPTIONS", &preemptions.to_string())
        .env("RACE", only)
        .target_folder("loom")
}

fn shuttle(iterations: u32, only: &str) -> Step {
    Step::test("--release -p admission-rt --test shuttle -- --nocapture")
        .env("RUSTFLAGS", "--cfg admission_shuttle")
        .env("ITERATIONS", &iterations.to_string())
        .env("RACE", only)
        .target_folder("shuttle")
}

impl Loom {
    pub(crate) fn run(&self) -> Result<(), String> {
        loom(self.preemptions, self.only.as_deref().unwrap_or_default()).run_here()
    }
}

impl Shuttle {
    pub(crate) fn run(&self) -> Result<(), String> {
        shuttle(self.iterations, self.only.as_deref().unwrap_or_default()).run_here()
    }
}

impl Fuzz {
    pub(crate) fn run(&self) -> Result<(), String> {
        has_subcommand("fuzz", "0.13.2")?;
        // What is found goes where it is in nobody's way; what is worth keeping is copied to the seeds by hand.
        let found = workspace::target_folder()?.join("fuzz-corpus");
        std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
        let found = found.display();
        let seconds = self.seconds;
        // The core has no unsafe code, so a sanitizer would find little, and make each many times slower.
        let step = Step::cargo(&format!(
            "fuzz run --fuzz-dir fuzz --features libfuzzer --sanitizer none histories {found} fuzz/seeds -- \
             -max_total_time={seconds} -max_len=2048 -print_final_stats=1"
        ))
        .target_folder("fuzz");
        if self.no_audit { step.run_here() } else { step.env("RUSTFLAGS", "--cfg audit").run_here() }
    }
}

impl Sanitize {
    pub(crate) fn run(&self) -> Result<(), String> {
        self.step()?.run_here()
    }

    /// A short form, which is skipped where the compiler lacks what it takes.
    fn row(sanitizer: Sanitizer, test: &str, shows: &str) -> Row {
        let name = match sanitizer {
            Sanitizer::Address => "sanitizer address",
            Sanitizer::Thread => "sanitizer thread",
        };
        match (Sanitize { sanitizer, test: vec![test.to_owned()] }).step() {
            Ok(step) => Row::new(name, shows, [step]),
            Err(why) => {
                // Anything else than what is lacking comes up again where the chore is run.
                let skip = why.strip_prefix("skipped: ").map(str::to_owned);
                let words = name.replacen("sanitizer", "xtask sanitize", 1);
                Row { skip, ..Row::new(name, shows, [Step::cargo(&format!("{words} --test {test}"))]) }
            }
        }
    }

    fn step(&self) -> Result<Step, String> {
        let machine = workspace::rustc(&["-vV"])?;
        let machine = machine.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let libraries = workspace::rustc(&["--print", "target-libdir"])?;
        let tests = match &self.test[..] {
            [] => "--tests".to_owned(),
            tests => tests.iter().map(|test| format!("--test {test}")).collect::<Vec<_>>().join(" "),
        };
        let words = format!("--no-fail-fast --target {machine} -p conformance -p admission-rt {tests}");
        // What a sanitizer says is of use with lines only.
        let test = || Step::test(&words).env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        match self.sanitizer {
            Sanitizer::Address => {
                find_library(libraries.trim(), "asan")?;
                let known = workspace::root()?.join("xtask/leaks-on-purpose.txt");
                let known = format!("suppressions={}:print_suppressions=0", known.display());
                let step = test().env("RUSTFLAGS", "-Zsanitizer=address");
                Ok(step.env("LSAN_OPTIONS", &known).env("RUSTC_BOOTSTRAP", "1").target_folder("address"))
            }
            Sanitizer::Thread => {
                // The library that comes with a compiler was not built for it, and hides its locks: std is
                // built anew, by the compiler that has its sources.
                let compiler = SecondCompiler::find().map_err(|why| format!("skipped: {why}"))?;
                let library = find_library(libraries.trim(), "tsan")?;
                let linked = format!(
                    "-Zsanitizer=thread -Zexternal-clangrt -Zpre-link-args=-Wl,--whole-archive \
                     -Zpre-link-args={library} -Zpre-link-args=-Wl,--no-whole-archive"
                );
                let step = test().word("-Zbuild-std").by(&compiler.cargo);
                let step = step.env("RUSTC", &compiler.rustc).env("RUSTDOC", &compiler.rustdoc());
                Ok(step.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", &linked).target_folder("thread"))
            }
        }
    }
}

impl Deny {
    pub(crate) fn run(&self) -> Result<(), String> {
        has_subcommand("deny", "0.20.2")?;
        deny().run_here()
    }
}

/// Whether cargo has this subcommand; if not, how to get it.
pub(crate) fn has_subcommand(name: &str, version: &str) -> Result<(), String> {
    let asked = Command::new(workspace::cargo())
        .args([name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match asked {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!(
            "skipped: cargo-{name} is not installed; cargo install cargo-{name} --version {version} --locked"
        )),
    }
}

/// The runtime library of a sanitizer, which comes with the pinned compiler.
fn find_library(folder: &str, sanitizer: &str) -> Result<String, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut libraries = names.filter(|name| name.ends_with(&format!("_rt.{sanitizer}.a")));
    let none = || format!("skipped: the compiler has no library for this sanitizer ({sanitizer})");
    libraries.next().map(|name| format!("{folder}/{name}")).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_told_with_what_helps() {
        let why = has_subcommand("not-there", "1.2.3").err().unwrap();
        assert_eq!(
            why,
            "skipped: cargo-not-there is not installed; cargo install cargo-not-there --version 1.2.3 --locked"
        );
        assert!(find_library(env!("CARGO_MANIFEST_DIR"), "asan").err().unwrap().starts_with("skipped: "));
    }

    #[test]
    fn models_can_be_typed_again() {
        assert_eq!(
            loom(3, "close").command_line(),
            "RUSTFLAGS=\"--cfg admission_loom\" LOOM_MAX_PREEMPTIONS=\"3\" RACE=\"close\" cargo test \
             --target-dir target/loom --release -p admission-rt --test loom -- --nocapture"
        );
    }
}
