//! `cargo xtask test-matrix`: the tests of every member in every shape in which it is used.
//!
//! Each row is a cargo invocation of its own: one for the whole workspace would unify features, and a
//! gap in one member would hide behind what another asks for. The laptop and the build machine run
//! the same rows. To add one, add it to `matrix`.

use clap::Args;

use crate::bare_metal;
use crate::machines;
use crate::proof;
use crate::rows::{self, Row};
use crate::rust_version;
use crate::step::Step;

/// Run the rows of the test matrix one by one, with a table at the end.
#[derive(Args, Default)]
pub(crate) struct TestMatrix {
    /// Run only the rows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// List the rows with their commands and run none
    #[arg(long)]
    list: bool,
    /// Run only the rows worth running in an inner loop
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// Run the rows, too, that are left out for their time unless they are named
    #[arg(long)]
    long: bool,
    /// Print the results as JSON on standard output, and everything else on standard error
    #[arg(long)]
    json: bool,
}

/// Every row, the quickest to fail first. Those that build in a folder of their own run beside the others.
fn matrix() -> Vec<Row> {
    let mut rows = vec![
        Row::new("reference", "the naive model keeps the rules", [Step::test("-p admission-reference")])
            .quick(),
        Row::new(
            "core audited",
            "the core agrees with the model, every invariant checked after every call",
            // Optimised, because it looks at everything after every call; overflows panic all the same.
            [Step::test("--release -p admission-core")
                .env("RUSTFLAGS", "--cfg audit")
                .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
                .target_folder("audit")],
        )
        .quick(),
        Row::new(
            "core steps",
            "a decision looks at no more when more is queued: counted, not timed",
            [Step::test("--release -p admission-core --test flat")
                .env("RUSTFLAGS", "--cfg steps")
                .target_folder("steps")],
        ),
        Row::new(
            "core release",
            "the same without the checks, as it is shipped: without overflow checks too",
            [Step::test("--release -p admission-core")],
        ),
        Row::new(
            "core no_std",
            "the core builds without std, and nothing below it asks for std",
            [
                Step::cargo("build -p admission-core --no-default-features"),
                Step::cargo("tree -p admission-core --no-default-features -e features,normal --prefix none")
                    .and(asks_for_no_std),
            ],
        )
        .quick(),
        Row::new("rt", "the async layer on its own", [Step::test("-p admission-rt --features timerfd")])
            .quick(),
        Row::new("testing", "the virtual clock and its executor", [Step::test("-p admission-testing")])
            .quick(),
        Row::new(
            "simulator",
            "safety in histories with faults, liveness after them, seen from outside",
            [Step::test("--release -p admission-sim")],
        )
        .quick(),
        Row::new(
            "tokio adapter",
            "timers and the death of a runtime",
            [Step::test("-p admission-tokio --features precise")],
        ),
        Row::new("smol adapter", "timers without a task or an executor", [Step::test("-p admission-smol")]),
        Row::new(
            "async-std adapter",
            "the same, where timers cannot be set again",
            [Step::test("-p admission-async-std")],
        ),
        Row::new(
            "blocking",
            "threads that park, and who of them leads",
            [Step::test("-p admission-blocking")],
        ),
        // Without features there may be nothing to test in the facade; that it builds is the point.
        Row::new(
            "facade bare",
            "the facade builds with no feature",
            [Step::cargo("test -p admission --no-default-features")],
        ),
        Row::new(
            "facade tokio",
            "the facade with the tokio module alone",
            [
                Step::test("-p admission --no-default-features --features tokio"),
                Step::cargo("check -p admission --no-default-features --features tokio-precise"),
            ],
        ),
        Row::new(
            "facade smol",
            "the facade with the smol module alone",
            [Step::cargo("test -p admission --no-default-features --features smol")],
        ),
        Row::new(
            "facade async-std",
            "the facade with the async-std module alone",
            [Step::cargo("test -p admission --no-default-features --features async-std")],
        ),
        Row::new(
            "facade blocking",
            "the facade with the module for threads alone",
            [Step::cargo("test -p admission --no-default-features --features blocking")],
        ),
        Row::new(
            "facade full",
            "the facade with everything, one coordinator under every runtime, and its pages' examples",
            [Step::test("-p admission --all-features")],
        ),
        conformance("virtual", "virtual_clock", "every promise, without sleeping").quick(),
        conformance("tokio current_thread", "tokio_current_thread", "every promise on one thread of tokio"),
        conformance("tokio multi_thread", "tokio_multi_thread", "every promise on several threads of tokio"),
        conformance("tokio precise", "tokio_precise", "every promise on tokio with the kernel's timers"),
        conformance("tokio paused", "tokio_paused", "every promise on tokio's paused clock"),
        conformance("smol", "smol", "every promise on smol"),
        conformance("async-std", "async_std", "every promise on async-std"),
        conformance("blocking", "blocking", "every promise on threads that park"),
        Row::new(
            "soak",
            "nothing is left of mixed traffic, of crowds, and of what is over at once",
            [Step::test("-p admission-soak").env("SMOL_THREADS", "2").env("ASYNC_STD_THREAD_COUNT", "2")],
        ),
        // Examples are built by `cargo test` and say nothing of tests.
        Row::new(
            "examples",
            "every example builds, and its tests pass",
            [Step::cargo("test -p admission-examples --all-targets")],
        ),
        Row::new("scenario", "the history that other machines play", [Step::test("-p scenario")]).quick(),
        Row::new("embedding", "loops, executors and runtimes of others", [Step::test("-p embedding")])
            .quick(),
        embassy_mock(),
        // Most of them are built by long rows alone, which would be the first to say so.
        Row::new(
            "lock files",
            "every workspace beside this one locks what it needs",
            ["fuzz", "tests/embassy-mock", "tests/machines", "tests/no-std"].map(|folder| {
                Step::cargo(&format!("update --workspace --locked --manifest-path {folder}/Cargo.toml"))
            }),
        )
        .quick(),
        Row::new("xtask", "these chores and the checks of tidy", [Step::test("-p xtask")]).quick(),
    ];
    rows.push(Row::new(
        "faults",
        "a sample of faults of one line, each noticed by a test of its rule",
        // All of them take a while, and those of the core are the quickest to build.
        [Step::chore("faults --package admission-core --every 8")],
    ));
    rows.push(rust_version::row());
    rows.push(Row {
        needs: vec!["valgrind".to_owned()],
        ..Row::new(
            "instructions",
            "the paths that every call takes have become no longer: counted, not timed",
            [Step::chore("instructions")],
        )
    });
    rows.extend(bare_metal::rows());
    rows.extend(machines::rows());
    rows.extend(proof::rows());
    rows
}

fn conformance(runtime: &str, test: &str, shows: &str) -> Row {
    Row::new(&format!("conformance {runtime}"), shows, [Step::test(&format!("-p conformance --test {test}"))])
}

/// No member, since a program has one time driver of embassy's; so the row looks at formatting and lints, too.
fn embassy_mock() -> Row {
    let manifest = "--manifest-path tests/embassy-mock/Cargo.toml";
    Row::new(
        "embassy mock clock",
        "every promise on embassy's executor, its clock advanced by hand",
        [
            Step::test(&format!("--locked {manifest}")).target_folder("embassy"),
            Step::cargo(&format!("fmt {manifest} --check")),
            Step::cargo(&format!("clippy --no-deps --locked {manifest} --all-targets -- -D warnings"))
                .target_folder("embassy"),
        ],
    )
    .long()
}

/// Reads what `cargo tree -e features` says: no crate below the core may have its `std` switched on.
fn asks_for_no_std(tree: &str) -> Result<(), String> {
    let asks = tree.lines().find(|line| line.contains("feature \"std\""));
    match asks {
        Some(line) => Err(format!("something below the core asks for std: {}", line.trim())),
        None if tree.contains("admission-core") => Ok(()),
        None => Err("cargo tree said nothing about the core".to_owned()),
    }
}

impl TestMatrix {
    pub(crate) fn run(&self) -> Result<(), String> {
        let rows = self.chosen(matrix())?;
        if self.list {
            for row in rows {
                let skip = row.skip.map(|why| format!(" (skipped: {why})")).unwrap_or_default();
                println!("{}: {}{skip}", row.name, row.shows);
                for step in &row.steps {
                    println!("    {}", step.command_line());
                }
            }
            return Ok(());
        }
        let report = rows::run(&rows, self.json)?;
        if self.json {
            println!("{:#}", report.json());
            eprintln!("{}", report.closing_line());
        } else {
            report.print_table();
            println!("{}", report.closing_line());
        }
        match report.failed() {
            0 => Ok(()),
            1 => Err("one row failed; what it printed stands above".to_owned()),
            failed => Err(format!("{failed} rows failed; what they printed stands above")),
        }
    }

    /// The rows that were asked for. What is left out stays in the table, as skipped, so that nobody takes
    /// such a run for a whole one.
    fn chosen(&self, mut rows: Vec<Row>) -> Result<Vec<Row>, String> {
        if let Some(text) = &self.only {
            let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
            rows.retain(|row| row.name.contains(text.as_str()));
            if rows.is_empty() {
                return Err(format!("no row has \"{text}\" in its name; there are: {}", names.join(", ")));
            }
        }
        for row in rows.iter_mut().filter(|row| self.quick && !row.is_quick) {
            row.skip = Some("left out by --quick".to_owned());
        }
        let are_named = self.long || self.only.is_some();
        for row in rows.iter_mut().filter(|row| row.is_long && !are_named) {
            row.skip.get_or_insert_with(|| "left out without --long".to_owned());
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_something_to_do() {
        let rows = matrix();
        for (at, row) in rows.iter().enumerate() {
            assert!(rows[..at].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.steps.is_empty() && !row.shows.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn only_chooses_by_name() {
        let only = |text: &str| TestMatrix { only: Some(text.to_owned()), ..TestMatrix::default() };
        let names = only("conformance").chosen(matrix()).unwrap();
        assert_eq!(names.len(), 8);
        let message = only("moon").chosen(matrix()).err().unwrap();
        assert!(message.starts_with("no row has \"moon\" in its name; there are: reference, "));
    }

    #[test]
    fn quick_skips_openly() {
        let rows = TestMatrix { quick: true, ..TestMatrix::default() }.chosen(matrix()).unwrap();
        assert_eq!(rows.len(), matrix().len());
        let skipped: Vec<_> = rows.iter().filter(|row| row.skip.is_some()).collect();
        assert!(!skipped.is_empty() && skipped.iter().all(|row| !row.is_quick));
    }

    #[test]
    fn long_rows_are_run_where_they_are_asked_for() {
        let is_skipped = |only: Option<&str>, long| {
            let only = only.map(str::to_owned);
            let rows = TestMatrix { only, long, ..TestMatrix::default() }.chosen(matrix()).unwrap();
            rows.into_iter()
                .find(|row| row.name == "embassy mock clock")
                .is_some_and(|row| row.skip.is_some())
        };
        assert!(is_skipped(None, false));
        assert!(!is_skipped(None, true));
        assert!(!is_skipped(Some("embassy"), false));
    }

    #[test]
    fn std_below_the_core_is_told() {
        assert_eq!(asks_for_no_std("admission-core v0.1.0\nhashbrown v0.17.2\n"), Ok(()));
        assert!(asks_for_no_std("admission-core v0.1.0\nhashbrown feature \"std\"\n").is_err());
        assert!(asks_for_no_std("").is_err());
    }
}
