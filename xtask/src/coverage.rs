//! `cargo xtask coverage`: which lines, regions and branches of the core and the async layer their tests reach.
//!
//! Owns: what is run, the table, and the list of lines that nothing reaches. Lacks the instrumenting and the
//! counting, which are `cargo-llvm-cov`'s and LLVM's, and lacks a bound below which it fails: a number says
//! less than a look at what is missing.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;

use crate::proof::has_subcommand;
use crate::step::Step;
use crate::workspace;

/// Count what the tests of the core and the async layer reach, the conformance suite included.
#[derive(Args)]
pub(crate) struct Coverage {
    /// Name the lines that nothing reaches, too
    #[arg(long)]
    missing: bool,
    /// Run nothing: tell of the last run again
    #[arg(long)]
    again: bool,
}

/// What is counted of a file, and of a crate.
const KINDS: [&str; 4] = ["lines", "regions", "functions", "branches"];

/// Whose files are told of.
const CRATES: [&str; 2] = ["crates/admission-core/src/", "crates/admission-rt/src/"];

impl Coverage {
    pub(crate) fn run(&self) -> Result<(), String> {
        has_subcommand("llvm-cov", "0.9.1")?;
        let tools = Tools::find()?;
        if !self.again {
            tools.step("clean --workspace").run_here()?;
            // Branches are counted by no stable compiler, unless it is told to be another, for this run alone.
            let words = "--no-report --branch --no-cfg-coverage";
            for tests in ["-p admission-core -p admission-rt", "-p conformance --test virtual_clock"] {
                tools.step(&format!("{words} {tests}")).run_here()?;
            }
        }
        let path = workspace::target_folder()?.join("coverage.json");
        let words = format!("report --branch --json --skip-functions --output-path {}", path.display());
        tools.step(&words).run_here()?;
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let report = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        print!("{}", table(&report, &workspace::root()?, self.missing));
        Ok(())
    }
}

/// LLVM's programs, of the version with which the compiler was built.
struct Tools {
    cov: String,
    profdata: String,
}

impl Tools {
    fn find() -> Result<Tools, String> {
        if let (Ok(cov), Ok(profdata)) = (env::var("LLVM_COV"), env::var("LLVM_PROFDATA")) {
            return Ok(Tools { cov, profdata });
        }
        let compiler = workspace::rustc(&["-vV"])?;
        let version = compiler.lines().find_map(|line| line.strip_prefix("LLVM version: "));
        let version = version.and_then(|version| version.split('.').next()).unwrap_or_default();
        let [cov, profdata] = ["llvm-cov", "llvm-profdata"].map(|name| format!("{name}-{version}"));
        let is_there =
            |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
        if is_there(&cov) && is_there(&profdata) {
            Ok(Tools { cov, profdata })
        } else {
            Err(format!(
                "skipped: {cov} is not installed; apt-get install --no-install-recommends llvm-{version}"
            ))
        }
    }

    fn step(&self, words: &str) -> Step {
        Step::cargo(&format!("llvm-cov {words}"))
            .env("LLVM_COV", &self.cov)
            .env("LLVM_PROFDATA", &self.profdata)
            .env("RUSTC_BOOTSTRAP", "1")
    }
}

/// How many there are of a kind, and how many were reached.
#[derive(Clone, Copy, Default)]
struct Reached {
    all: u64,
    reached: u64,
}

impl Reached {
    fn told(self) -> String {
        if self.all == 0 {
            return "-".to_owned();
        }
        // Not rounded: what is not all is not 100 %.
        let tenths = self.reached * 1_000 / self.all;
        format!("{}/{} {}.{}", self.reached, self.all, tenths / 10, tenths % 10)
    }
}

/// A line for each file, and one for each crate.
fn table(report: &Value, root: &Path, names_missing: bool) -> String {
    let mut lines = vec![[&["file"], &KINDS[..]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()];
    let mut missing = String::new();
    for home in CRATES {
        let mut sums = [Reached::default(); KINDS.len()];
        for (path, file) in files(report, root).range(home.to_owned()..) {
            let Some(name) = path.strip_prefix(home) else { break };
            let counted = KINDS.map(|kind| {
                let number = |of: &str| file["summary"][kind][of].as_u64().unwrap_or_default();
                Reached { all: number("count"), reached: number("covered") }
            });
            for (sum, more) in sums.iter_mut().zip(counted) {
                sum.all += more.all;
                sum.reached += more.reached;
            }
            lines.push(line(name, counted));
            let unreached = unreached(&file["segments"]);
            if !unreached.is_empty() {
                let numbers: Vec<_> = unreached.iter().map(u64::to_string).collect();
                missing += &format!("{path}: {}\n", numbers.join(", "));
            }
        }
        lines.push(line(home, sums));
    }
    let widths: Vec<_> = (0..=KINDS.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut page = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells =
            cells.map(
                |(column, (cell, &width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            );
        page += &format!("{}\n", cells.collect::<Vec<_>>().join("  "));
    }
    if names_missing { page + "\nlines that nothing reaches\n" + &missing } else { page }
}

fn line(name: &str, counted: [Reached; KINDS.len()]) -> Vec<String> {
    let counted = counted.map(Reached::told);
    [name.to_owned()].into_iter().chain(counted).collect()
}

/// The files of a report, by their paths from the root.
fn files<'a>(report: &'a Value, root: &Path) -> BTreeMap<String, &'a Value> {
    let files = report["data"].as_array().into_iter().flatten();
    let files = files.flat_map(|data| data["files"].as_array().into_iter().flatten());
    let named = files.filter_map(|file| {
        let path = Path::new(file["filename"].as_str()?).strip_prefix(root).ok()?;
        Some((path.to_string_lossy().into_owned(), file))
    });
    named.collect()
}

/// One place in a file where a count begins or ends.
struct Segment {
    line: u64,
    count: u64,
    has_count: bool,
    is_entry: bool,
    is_gap: bool,
}

impl Segment {
    fn read(value: &Value) -> Segment {
        let number = |at: usize| value[at].as_u64().unwrap_or_default();
        let is = |at: usize| value[at].as_bool().unwrap_or_default();
        Segment { line: number(0), count: number(2), has_count: is(3), is_entry: is(4), is_gap: is(5) }
    }

    fn begins(&self) -> bool {
        self.has_count && self.is_entry && !self.is_gap
    }
}

/// The lines that have code, and none of it was reached: counted as LLVM counts them. A line has the largest count
/// of what begins on it, or else what holds from before.
fn unreached(segments: &Value) -> Vec<u64> {
    let segments: Vec<_> = segments.as_array().into_iter().flatten().map(Segment::read).collect();
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Vec::new() };
    let mut lines = Vec::new();
    let mut before: Option<&Segment> = None;
    let mut rest = &segments[..];
    for line in first.line..=last.line {
        let (here, later) = rest.split_at(rest.partition_point(|segment| segment.line <= line));
        rest = later;
        let is_skipped = here.first().is_some_and(|first| !first.has_count && first.is_entry);
        let holds = before.filter(|before| before.has_count && !is_skipped);
        let begun = here.iter().filter(|segment| segment.begins());
        let count = begun.chain(holds).map(|segment| segment.count).max();
        if count == Some(0) {
            lines.push(line);
        }
        before = here.last().or(before);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        let count = |all: u64, reached: u64| json!({ "count": all, "covered": reached });
        let summary = json!({
            "lines": count(5, 3), "regions": count(3, 3), "functions": count(1, 1), "branches": count(0, 0),
        });
        // A function over five lines, with a block in it, whose line was never come to, nor its brace.
        let segments = json!([
            [1, 1, 5, true, true, false],
            [2, 20, 0, true, true, false],
            [4, 6, 5, true, false, false],
            [5, 2, 0, false, false, false],
        ]);
        let file = |name: &str| json!({ "filename": name, "summary": summary, "segments": segments });
        let files = [file("/w/crates/admission-core/src/a.rs"), file("/w/crates/admission-sim/src/b.rs")];
        json!({ "data": [{ "files": files }] })
    }

    #[test]
    fn each_file_of_the_two_has_a_line_and_each_crate_another() {
        let page = table(&report(), Path::new("/w"), true);
        let lines: Vec<Vec<&str>> = page.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["file", "lines", "regions", "functions", "branches"]);
        let counts = ["3/5", "60.0", "3/3", "100.0", "1/1", "100.0", "-"];
        assert_eq!(lines[1], [&["a.rs"], &counts[..]].concat());
        assert_eq!(lines[2], [&[CRATES[0]], &counts[..]].concat());
        assert_eq!(lines[3], [CRATES[1], "-", "-", "-", "-"]);
        let rest = "\nlines that nothing reaches\ncrates/admission-core/src/a.rs: 3, 4\n";
        assert!(
            page.ends_with(rest) && !table(&report(), Path::new("/w"), false).contains("nothing"),
            "{page}"
        );
        let starts = |line: &str| line.find("3/5");
        assert_eq!(page.lines().nth(1).and_then(starts), page.lines().nth(2).and_then(starts), "columns");
    }

    #[test]
    fn a_line_counts_what_begins_on_it_or_what_holds_from_before() {
        let of = |segments: Value| unreached(&segments);
        assert_eq!(of(report()["data"][0]["files"][0]["segments"].clone()), [3, 4]);
        // What is skipped is no code, and neither is a gap.
        let skipped = json!([
            [1, 1, 0, true, true, false],
            [2, 1, 0, false, true, false],
            [3, 1, 0, true, true, true],
            [4, 1, 0, false, false, false],
        ]);
        assert_eq!(of(skipped), [1, 4]);
        assert!(of(json!([])).is_empty());
    }
}
