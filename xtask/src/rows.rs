//! Running rows: in two lanes, each one command after the other, watched, with a table at the end.
//!
//! A row is data: a name, what it shows, and steps, each a command of its own. This file
//! owns how they are run and reported; which rows there are is the business of `test_matrix.rs` and
//! `check.rs`. Rows that build in a folder of their own have a lane beside the others': cargo lets one build
//! at a time into a folder, and a row alone leaves much of a second core idle, while its last crate is built
//! and its tests run. More lanes would leave a machine with two cores no room for tests in real time.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::step::Step;
use crate::workspace;

/// One line of the table.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) shows: String,
    pub(crate) steps: Vec<Step>,
    /// Worth running in an inner loop.
    pub(crate) is_quick: bool,
    /// Run when it is asked for, and not with all the others, for its time.
    pub(crate) is_long: bool,
    /// Programs without which the row is skipped.
    pub(crate) needs: Vec<String>,
    /// A reason to skip that is known beforehand.
    pub(crate) skip: Option<String>,
}

/// What came of the rows.
pub(crate) struct Report {
    results: Vec<Finished>,
}

struct Finished {
    row: String,
    shows: String,
    result: Outcome,
    took: Duration,
}

enum Outcome {
    Passed { note: String },
    Failed { why: String },
    Skipped { why: String },
}

impl Row {
    pub(crate) fn new(name: &str, shows: &str, steps: impl Into<Vec<Step>>) -> Row {
        Row {
            name: name.to_owned(),
            shows: shows.to_owned(),
            steps: steps.into(),
            is_quick: false,
            is_long: false,
            needs: Vec::new(),
            skip: None,
        }
    }

    pub(crate) fn quick(self) -> Row {
        Row { is_quick: true, ..self }
    }

    pub(crate) fn long(self) -> Row {
        Row { is_long: true, ..self }
    }

    /// Whether its build is in nobody's way. What else its steps do, a glance at the formatting say, takes no time.
    fn is_apart(&self) -> bool {
        self.steps.first().is_some_and(Step::is_apart)
    }
}

/// Runs the rows, those of a lane in their order, and tells about it: on standard output, or on standard error
/// if the output is kept for JSON.
pub(crate) fn run(rows: &[Row], is_json: bool) -> Result<Report, String> {
    let teller = Teller::new(rows, is_json);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let lanes = lanes(rows, cores);
    let ended = thread::scope(|scope| {
        let teller = &teller;
        let running: Vec<_> =
            lanes.into_iter().map(|lane| scope.spawn(move || run_lane(lane, teller))).collect();
        let lanes = running.into_iter().map(|lane| lane.join().map_err(|_| "a lane panicked".to_owned())?);
        lanes.collect::<Result<Vec<_>, String>>()
    })?;
    teller.bar.finish_and_clear();
    let mut results: Vec<_> = ended.into_iter().flatten().collect();
    results.sort_by_key(|(at, _)| *at);
    Ok(Report { results: results.into_iter().map(|(_, finished)| finished).collect() })
}

/// The rows with their places: those that build in a folder of their own, and the others, if there is a core
/// for each.
fn lanes(rows: &[Row], cores: usize) -> [Vec<(usize, &Row)>; 2] {
    let (apart, shared) = rows.iter().enumerate().partition(|(_, row)| cores > 1 && row.is_apart());
    [shared, apart]
}

fn run_lane(rows: Vec<(usize, &Row)>, teller: &Teller) -> Result<Vec<(usize, Finished)>, String> {
    let mut results = Vec::new();
    for (at, row) in rows {
        teller.starts(at, row);
        let began = now();
        let mut printed = Vec::new();
        let result = run_row(row, teller, &mut printed)?;
        let finished =
            Finished { row: row.name.clone(), shows: row.shows.clone(), result, took: began.elapsed() };
        teller.ended(at, &finished, &printed);
        results.push((at, finished));
    }
    Ok(results)
}

fn run_row(row: &Row, teller: &Teller, printed: &mut Vec<String>) -> Result<Outcome, String> {
    if let Some(why) = &row.skip {
        return Ok(Outcome::Skipped { why: why.clone() });
    }
    if let Some(program) = row.needs.iter().find(|program| !is_installed(program)) {
        return Ok(Outcome::Skipped { why: format!("{program} is not installed") });
    }
    let mut tests = None;
    for step in &row.steps {
        let (succeeded, output) = run_step(step, row, teller, printed)?;
        let ran = count_of_tests(&output);
        if step.runs_tests || ran > 0 {
            *tests.get_or_insert(0) += ran;
        }
        let problem = if !succeeded {
            Some(format!("`{}` failed", step.command_line()))
        } else if step.runs_tests && ran == 0 {
            Some("it ran no test".to_owned())
        } else {
            step.check.and_then(|check| check(&output).err())
        };
        if let Some(why) = problem {
            return Ok(Outcome::Failed { why });
        }
    }
    let note = match tests {
        Some(1) => "1 test".to_owned(),
        Some(tests) => format!("{tests} tests"),
        None => String::new(),
    };
    Ok(Outcome::Passed { note })
}

/// Runs one step to its end, and returns whether it succeeded and what it wrote to standard output.
fn run_step(
    step: &Step,
    row: &Row,
    teller: &Teller,
    printed: &mut Vec<String>,
) -> Result<(bool, String), String> {
    let problem = |error: io::Error| format!("`{}` could not be run: {error}", step.command_line());
    let mut child = step.command()?.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(problem)?;
    let (sender, lines) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        send_lines(stdout, true, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        send_lines(stderr, false, sender);
    }
    let mut output = String::new();
    loop {
        match lines.recv_timeout(HEARTBEAT) {
            Ok((is_stdout, line)) => {
                teller.says(row, &line);
                if is_stdout {
                    let _ = writeln!(output, "{line}");
                }
                printed.push(line);
            }
            Err(RecvTimeoutError::Timeout) => teller.still_runs(row, printed.last()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(problem)?;
    Ok((status.success(), output))
}

/// Sends what a stream says line by line, until it ends. Bytes that are no UTF-8 are replaced: a row
/// must not end because a test printed something odd.
fn send_lines(stream: impl Read + Send + 'static, is_stdout: bool, sender: Sender<(bool, String)>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send((is_stdout, line)).is_err() {
                return;
            }
        }
    });
}

/// Writes down all that a failed row printed, and says where.
fn keep(row: &str, printed: &[String]) -> Result<PathBuf, String> {
    let folder = workspace::target_folder()?.join("rows");
    let path = folder.join(format!("{}.log", row.replace(' ', "-")));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, printed.join("\n") + "\n"));
    written.map_err(|error| error.to_string())?;
    Ok(path)
}

/// How many tests passed, over every test program that a step ran.
fn count_of_tests(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.trim().strip_prefix("test result: ok. "));
    results.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum()
}

fn is_installed(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[expect(clippy::disallowed_methods, reason = "measures how long a row takes, for the table")]
fn now() -> Instant {
    Instant::now()
}

/// Tells how it goes: a bar for a person at a terminal, lines for a log.
struct Teller {
    bar: ProgressBar,
    is_live: bool,
    is_json: bool,
    count: usize,
    width: usize,
}

impl Teller {
    fn new(rows: &[Row], is_json: bool) -> Teller {
        let is_live = io::stdout().is_terminal() && io::stderr().is_terminal();
        let bar = if is_live { ProgressBar::new(rows.len() as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        if is_live {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        Teller { bar, is_live, is_json, count: rows.len(), width }
    }

    fn starts(&self, at: usize, row: &Row) {
        if self.is_live {
            self.bar.set_message(row.name.clone());
        } else {
            self.line(&format!("[{:>2}/{}] start   {}", at + 1, self.count, row.name));
        }
    }

    fn says(&self, row: &Row, line: &str) {
        if self.is_live && !line.trim().is_empty() {
            self.bar.set_message(format!("{}: {}", row.name, line.trim()));
        }
    }

    fn still_runs(&self, row: &Row, last: Option<&String>) {
        if !self.is_live {
            let last = last.map_or("", |line| line.trim());
            self.line(&format!("        ...     {}: {last}", row.name));
        }
    }

    fn ended(&self, at: usize, finished: &Finished, printed: &[String]) {
        let (verdict, why) = finished.result.words();
        let width = self.width;
        let seconds = finished.took.as_secs_f64();
        let row = &finished.row;
        let line =
            format!("[{:>2}/{}] {verdict:<7} {row:<width$} {seconds:>7.1} s  {why}", at + 1, self.count);
        self.bar.inc(1);
        let mut lines = vec![line.trim_end().to_owned()];
        if matches!(finished.result, Outcome::Failed { .. }) {
            lines.push(format!("---- the end of what {row} printed"));
            lines.extend_from_slice(&printed[printed.len().saturating_sub(TAIL_LINES)..]);
            lines.push(match keep(row, printed) {
                Ok(path) => format!("---- all of it is in {}", path.display()),
                Err(error) => format!("---- all of it could not be written down: {error}"),
            });
        }
        // At once, so that the other lane says nothing in between.
        self.line(&lines.join("\n"));
    }

    fn line(&self, line: &str) {
        if self.is_live {
            self.bar.println(line);
        } else if self.is_json {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
    }
}

impl Report {
    pub(crate) fn failed(&self) -> usize {
        self.count("failed")
    }

    /// `N passed, N failed, N skipped`, alone on its line so that a script can find it.
    pub(crate) fn closing_line(&self) -> String {
        let count = |word| self.count(word);
        format!("{} passed, {} failed, {} skipped", count("passed"), count("failed"), count("skipped"))
    }

    pub(crate) fn print_table(&self) {
        print!("\n{}", self.table());
    }

    fn table(&self) -> String {
        let width =
            self.results.iter().map(|finished| finished.row.chars().count()).max().unwrap_or(0).max(3);
        let mut table = format!("{:<width$}  result   seconds  why\n", "row");
        for finished in &self.results {
            let (verdict, why) = finished.result.words();
            let seconds = finished.took.as_secs_f64();
            let line = format!("{:<width$}  {verdict:<7}  {seconds:>7.1}  {why}", finished.row);
            table += line.trim_end();
            table.push('\n');
        }
        table
    }

    pub(crate) fn json(&self) -> Value {
        let rows = self.results.iter().map(|finished| {
            let (result, why) = finished.result.words();
            json!({
                "name": finished.row,
                "shows": finished.shows,
                "result": result,
                "why": why,
                "seconds": finished.took.as_secs_f64(),
            })
        });
        json!({
            "rows": rows.collect::<Vec<_>>(),
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "skipped": self.count("skipped"),
        })
    }

    fn count(&self, word: &str) -> usize {
        self.results.iter().filter(|finished| finished.result.words().0 == word).count()
    }
}

impl Outcome {
    /// What the table says: the verdict, and why or what.
    fn words(&self) -> (&'static str, &str) {
        match self {
            Outcome::Passed { note } => ("passed", note),
            Outcome::Failed { why } => ("failed", why),
            Outcome::Skipped { why } => ("skipped", why),
        }
    }
}

/// How many of a row's last lines are shown if it fails.
const TAIL_LINES: usize = 60;

/// A log hears of a row that says nothing this often, so that a stuck one can be told from a slow one.
const HEARTBEAT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(row: &str, result: Outcome) -> Finished {
        Finished { row: row.to_owned(), shows: String::new(), result, took: Duration::from_millis(1_250) }
    }

    fn report() -> Report {
        let passed = Outcome::Passed { note: "3 tests".to_owned() };
        let failed = Outcome::Failed { why: "it ran no test".to_owned() };
        let skipped = Outcome::Skipped { why: "qemu is not installed".to_owned() };
        Report { results: vec![finished("one", passed), finished("second", failed), finished("3", skipped)] }
    }

    #[test]
    fn the_table_says_why() {
        assert_eq!(
            report().table(),
            "row     result   seconds  why\n\
             one     passed       1.2  3 tests\n\
             second  failed       1.2  it ran no test\n\
             3       skipped      1.2  qemu is not installed\n"
        );
    }

    #[test]
    fn the_closing_line_counts() {
        assert_eq!(report().closing_line(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(report().json()["failed"], 1);
        assert_eq!(report().json()["rows"][1]["why"], "it ran no test");
    }

    #[test]
    fn rows_with_a_folder_of_their_own_run_beside_the_others() {
        let audited = Step::test("-p admission-core").target_folder("audit");
        let plain = Step::test("-p admission-core");
        let rows = [
            Row::new("one", "", [plain.clone()]),
            Row::new("audited", "", [audited.clone(), plain.clone()]),
            Row::new("two", "", [plain, audited]),
        ];
        let places =
            |cores| lanes(&rows, cores).map(|lane| lane.iter().map(|(at, _)| *at).collect::<Vec<_>>());
        assert_eq!(places(2), [vec![0, 2], vec![1]]);
        assert_eq!(places(1), [vec![0, 1, 2], vec![]]);
    }

    #[test]
    fn the_table_has_the_rows_in_their_order() {
        let skipped = |name: &str| Row { skip: Some("not now".to_owned()), ..Row::new(name, "", []) };
        let apart = Row { steps: vec![Step::cargo("").target_folder("a")], ..skipped("a") };
        let report = run(&[apart, skipped("b"), skipped("c")], true).unwrap();
        let names: Vec<_> = report.results.iter().map(|finished| finished.row.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn tests_are_counted_over_all_programs() {
        let output = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored\n\n\
                      test result: ok. 40 passed; 0 failed\n";
        assert_eq!(count_of_tests(output), 42);
        assert_eq!(count_of_tests("nothing"), 0);
    }

    #[test]
    fn a_row_without_its_program_is_skipped_and_not_failed() {
        let row = Row { needs: vec!["no-such-program".to_owned()], ..Row::new("a", "", []) };
        let outcome = run_row(&row, &Teller::new(&[], false), &mut Vec::new()).unwrap();
        assert_eq!(outcome.words(), ("skipped", "no-such-program is not installed"));
    }
}
