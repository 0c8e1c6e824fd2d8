//! The page: `docs/benchmarks.md`, and the pictures beside it.
//!
//! Owns: which tables there are, what their columns mean, and what is said about them. Lacks numbers and bars:
//! those come from what was measured, and from the goals.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::cases::rate;
use crate::goals::{Bar, goals};
use crate::picture;
use crate::results::Results;

struct Table {
    name: &'static str,
    title: &'static str,
    note: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

const CALL: &[(&str, &str)] = &[
    ("ns", "ns"),
    ("ns p10", "p10"),
    ("ns p90", "p90"),
    ("ratio", "ratio"),
    ("instructions", "instructions"),
    ("allocations", "allocations"),
];
const SIZES: &[(&str, &str)] =
    &[("100", "10²"), ("1000", "10³"), ("10000", "10⁴"), ("100000", "10⁵"), ("1000000", "10⁶")];
const GAPS: &[(&str, &str)] = &[
    ("loss", "loss, %"),
    ("us", "CPU, µs"),
    ("late", "late, µs"),
    ("late p90", "late p90"),
    ("least", "least gap, ms"),
    ("short", "short"),
    ("clearly short", "by a tenth"),
    ("short at permit", "short at the permit"),
];

const TABLES: &[Table] = &[
    Table {
        name: "permit",
        title: "One permit, nobody waiting",
        note: "Taken and given back. Only a limit of concurrency is set.",
        columns: CALL,
    },
    Table {
        name: "rate",
        title: "One rate check, nobody waiting",
        note: "The exact window by itself (`SlidingWindow`) is the log that the machine keeps: it is full all the \
               time with 60 a minute, and has room with 100,000. Those that are given the time read no clock. What \
               the log adds to a whole call is the difference between the machine with a window and the one without.",
        columns: CALL,
    },
    Table {
        name: "combined",
        title: "All limits at once, nobody waiting",
        note: "A client's limit, a provider's limit, one call per key, an interval and a window; sixteen \
               providers, ten thousand keys, on one thread of tokio. The compositions take four locks where \
               admission takes one; they also hold permits of the client behind a provider that is full. governor \
               reads the processor's time-stamp counter, admission the system's clock unless it is built with \
               another.\n\n\
               ![ns for one call](benchmarks/combined.svg)",
        columns: CALL,
    },
    Table {
        name: "machine",
        title: "The machine alone",
        note: "`admission-core` without lock, future or clock: a request, its grant, start and release, with P \
               providers and N tickets that wait. In *all limits* each provider has a limit of concurrency, an \
               interval and a window of 60.",
        columns: CALL,
    },
    Table {
        name: "join",
        title: "Joining the queue",
        note: "ns to make a future and poll it once, as N bare futures come to wait.",
        columns: SIZES,
    },
    Table {
        name: "grant",
        title: "A grant",
        note: "ns for one of N bare futures, while they drain: release, grant, poll.\n\n\
               ![ns for one grant](benchmarks/grant.svg)",
        columns: SIZES,
    },
    Table {
        name: "cancel",
        title: "Leaving the queue from anywhere",
        note: "ns to drop one of N futures that wait.",
        columns: SIZES,
    },
    Table {
        name: "close",
        title: "Closing",
        note: "ns for one of N bare futures, to be refused and told so.",
        columns: SIZES,
    },
    Table {
        name: "tasks",
        title: "Waiting tasks",
        note: "CPU ns for one grant, N tasks on one thread of tokio. Those that loop ask ten times, each time as soon as \
               they have let go.",
        columns: SIZES,
    },
    Table {
        name: "bytes, bare",
        title: "Bytes for each waiter: bare futures",
        note: "Everything that is on the heap, the future itself included, divided by N.",
        columns: SIZES,
    },
    Table {
        name: "bytes, task",
        title: "Bytes for each waiter: tasks",
        note: "The most that N tasks on tokio have on the heap, divided by N.",
        columns: SIZES,
    },
    Table {
        name: "bytes, machine",
        title: "Bytes for each ticket: the machine alone",
        note: "Sixteen providers.",
        columns: SIZES,
    },
    Table {
        name: "steady",
        title: "Allocations in the steady state",
        note: "For one call, over a million of them.",
        columns: &[("allocations", "allocations")],
    },
    Table {
        name: "wakes",
        title: "Polls and wakes of one waiter",
        note: "With 10 to 1,000 waiting. governor keeps no queue: each waiter sleeps by itself, and all of them \
               wake for each start.",
        columns: &[
            ("polls 10", "polls, 10"),
            ("polls 100", "polls, 100"),
            ("polls 1000", "polls, 1,000"),
            ("wakes 10", "wakes, 10"),
            ("wakes 100", "wakes, 100"),
            ("wakes 1000", "wakes, 1,000"),
            ("us 1000", "CPU µs, 1,000"),
        ],
    },
    Table {
        name: "blocked",
        title: "Who may go, when most may not",
        note: "All providers but one are blocked, and the one ticket that may go is the last; or all tickets but \
               a few wait for one key. For the machine: ns for a release, the grant that it allows, its start, and \
               a new request; for the scan: ns to find that ticket.\n\n![ns to find who may go](benchmarks/blocked.svg)",
        columns: SIZES,
    },
    Table {
        name: "head of the line",
        title: "The head of the line",
        note: "A client that runs eight calls at once. Eight calls to a provider that is full come first; then \
               a hundred to fifteen others.",
        columns: &[
            ("client permit, then provider permit", "client permit, then provider permit"),
            ("admission", "admission"),
        ],
    },
    Table {
        name: "scale",
        title: "A million tickets",
        note: "One machine whose providers each have a limit of concurrency and a window of 60; every ticket \
               has a key of its own. ns for each ticket.",
        columns: &[
            ("fill", "fill"),
            ("drain", "drain"),
            ("cancel", "cancel"),
            ("close", "close"),
            ("MiB empty", "MiB empty"),
            ("MiB full", "MiB full"),
            ("allocations while filling", "allocations while filling"),
        ],
    },
    Table {
        name: "two threads",
        title: "Two threads",
        note: "Each as fast as it can, on a core of its own. Wall ns for one operation of each.",
        columns: &[
            ("one thread", "alone"),
            ("ns", "ns"),
            ("ns p10", "p10"),
            ("ns p90", "p90"),
            ("ratio", "ratio"),
            ("against composed", "against the composition"),
            ("against tokio", "against tokio"),
        ],
    },
    Table {
        name: "gaps of 1 ms",
        title: "Starts 1 ms apart",
        note: "*Loss* is throughput that is lost while a call is always waiting; *late* is how much longer a gap \
               was than it had to be. *Short* are gaps below the interval as the caller sees them, who can lose \
               the core between the permit and a reading of its own; *at the permit* is what the decision was \
               made by. Calls come steadily and unevenly, with stalls, and for admission with waits that are \
               given up.",
        columns: GAPS,
    },
    Table { name: "gaps of 5 ms", title: "Starts 5 ms apart", note: "As above.", columns: GAPS },
    Table { name: "gaps of 100 ms", title: "Starts 100 ms apart", note: "As above.", columns: GAPS },
    Table {
        name: "quota",
        title: "Fifty in a tenth of a second",
        note: "The most starts in any window, with calls that never end and with bursts; and when the last of \
               2,000 calls was made, against ideal.",
        columns: &[("most", "most"), ("most, bursts", "most, bursts"), ("finish", "finish / ideal")],
    },
    Table {
        name: "made up",
        title: "In virtual time",
        note: "*Rough*: alarms are late, callers dawdle, some give up.",
        columns: &[
            ("starts", "starts"),
            ("over", "starts that broke the limit"),
            ("finish", "finish / ideal"),
        ],
    },
    Table {
        name: "alarms",
        title: "Alarms",
        note: "A thousand calls that wait for one interval, in one runtime.",
        columns: &[
            ("armed while they wait", "armed while they wait"),
            ("armed when nobody waits", "armed when nobody waits"),
            ("arms for one grant", "arms for one grant"),
            ("rings for one grant", "rings for one grant"),
        ],
    },
    Table {
        name: "size",
        title: "Compiled size",
        note: "The machine as an object of its own, optimised for speed.",
        columns: &[("KiB", "KiB of its own code"), ("KiB in all", "KiB with the hash table's and std's")],
    },
];

/// Writes the page and its pictures.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(results: &Results, docs: &Path) -> Result<(), String> {
    draw(results, &docs.join("benchmarks")).map_err(|error| format!("the pictures: {error}"))?;
    let path = docs.join("benchmarks.md");
    fs::write(&path, page(results)).map_err(|error| format!("{}: {error}", path.display()))
}

fn draw(results: &Results, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    picture::letters()?;
    let rows = results.rows("combined").into_iter().flatten().map(|(case, _)| case);
    let ns = rows.filter_map(|case| Some((case.clone(), results.get("combined", case, "ns")?)));
    picture::bars(&folder.join("combined.svg"), "All limits, nobody waiting", "ns", &ns.collect::<Vec<_>>())?;
    for (table, title) in [("grant", "One grant"), ("blocked", "Who may go, when most may not")] {
        let rows = results.rows(table).into_iter().flatten();
        let lines = rows.filter(|(case, _)| !case.starts_with("ratio")).map(|(case, _)| {
            let points = SIZES
                .iter()
                .filter_map(|(size, _)| Some((size.parse().ok()?, results.get(table, case, size)?)));
            (case.clone(), points.collect())
        });
        let path = folder.join(format!("{table}.svg"));
        picture::lines(&path, title, "ns", &lines.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn page(results: &Results) -> String {
    let mut page = String::from(HEAD);
    page += &goal_table(results);
    for table in TABLES {
        let Some(rows) = results.rows(table.name) else { continue };
        let has = |metric: &str| rows.iter().any(|(case, _)| results.get(table.name, case, metric).is_some());
        let columns: Vec<_> = table.columns.iter().filter(|(metric, _)| has(metric)).collect();
        let _ = write!(page, "\n## {}\n\n{}", table.title, table.note);
        if table.name == "rate" {
            page += &in_the_machine(results).unwrap_or_default();
        }
        page += "\n\n| case |";
        columns.iter().for_each(|(_, head)| page += &format!(" {head} |"));
        page += "\n|---|";
        columns.iter().for_each(|_| page += "--:|");
        page.push('\n');
        for (case, _) in rows {
            let _ = write!(page, "| {case} |");
            for (metric, _) in &columns {
                let number = results.get(table.name, case, metric);
                let _ = write!(page, " {} |", number.map_or_else(|| "–".to_owned(), short));
            }
            page.push('\n');
        }
    }
    page
}

/// What the log adds to a call of the machine, in figures.
fn in_the_machine(results: &Results) -> Option<String> {
    let against = format!("against {}", rate::GIVEN_TIME);
    let adds = |case: &str, metric: &str| {
        let of = |case| results.get("rate", case, metric);
        Some(of(case)? - of(rate::MACHINE)?)
    };
    let told = |case: &str| {
        let checks = short(adds(case, &against)?);
        let instructions = adds(case, "instructions").map(short);
        Some(instructions.map_or_else(
            || format!("{checks} of governor's checks"),
            |count| format!("{checks} of governor's checks ({count} instructions)"),
        ))
    };
    let (full, with_room) = (told(rate::MACHINE_FULL)?, told(rate::MACHINE_WITH_ROOM)?);
    Some(format!(" That is {full} where it is full, and {with_room} where it has room."))
}

fn goal_table(results: &Results) -> String {
    let goals = goals(results);
    let state = |goal: &crate::goals::Goal| {
        let parts: Vec<_> = goal.parts.iter().map(crate::goals::Part::is_met).collect();
        if parts.contains(&Some(false)) {
            Some(false)
        } else {
            parts.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
        }
    };
    let met = goals.iter().filter(|goal| state(goal) == Some(true)).count();
    let mut page = format!(
        "\n## What is to be reached\n\nA goal is met if all of its numbers are. {met} of {} are.\n\n\
         | # | goal | number | bar | reached | |\n|--:|---|---|--:|--:|---|\n",
        goals.len()
    );
    for goal in &goals {
        for (at, part) in goal.parts.iter().enumerate() {
            let (number, what) = match at {
                0 => (goal.number.to_string(), goal.what),
                _ => (String::new(), ""),
            };
            let bar = match part.bar {
                Bar::AtMost(most) => format!("≤ {}", plain(most)),
                Bar::AtLeast(least) => format!("≥ {}", plain(least)),
                Bar::Exactly(wanted) => plain(wanted),
            };
            let reached = part.reached.map_or_else(|| "–".to_owned(), short);
            let verdict = match part.is_met() {
                Some(true) => "met",
                Some(false) => "**missed**",
                None => "not measured",
            };
            let _ = writeln!(page, "| {number} | {what} | {} | {bar} | {reached} | {verdict} |", part.what);
        }
    }
    page
}

/// As it was written down.
fn plain(number: f64) -> String {
    format!("{number}")
}

/// Three digits, or all before the point, in groups of three.
fn short(number: f64) -> String {
    let size = number.abs();
    if size < 1e-9 {
        return "0".to_owned();
    }
    if size < 9.995 {
        return format!("{number:.if_small$}", if_small = if size < 0.1 { 3 } else { 2 });
    }
    if size < 99.95 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 && digits.len() > 4 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

const HEAD: &str = "\
# What it costs

<!-- Written by `cargo xtask bench`; measure again rather than edit. -->

Admission beside what one would use instead, on the same work: semaphores of tokio and async-lock, the limiters
governor, leaky-bucket, ratelimit and tower, and compositions of them by hand.

Time is CPU time of the thread, in slices of 0.3 ms; all cases of a table run in turn in each round, each built
anew five times. Figures are medians of 151 rounds, with the tenth and ninetieth percentile; a ratio is taken
within a round, against the first line of its table, and then the median of those. So a busy machine moves the
figures little and the ratios hardly. Instructions come from callgrind and are the same each time; under it a
reading of the clock is a system call, so they tell nothing about that. Allocations are counted by a program of
its own. What happens in real time, pacing and two threads, is measured in real time.

Nanoseconds are those of one machine. Ratios, instructions and allocations are what to compare.

`cargo xtask bench` measures all of it in some minutes; `--quick` in fewer, `--only` a part. `cargo xtask
instructions` compares the instructions of the hot paths with those that are noted in
[instructions.json](../crates/admission-hot-paths/instructions.json).
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.0123, 1.0, 9.99, 12.34, 123.4, 1234.5, 12_345.6].map(short);
        assert_eq!(shown, ["0", "0.012", "1.00", "9.99", "12.3", "123", "1234", "12,346"]);
    }

    #[test]
    fn the_page_has_what_was_measured_and_says_what_was_not() {
        let mut results = Results::default();
        results.set("permit", "a case", "ns", 12.0);
        results.set("wakes", "admission", "wakes 1000", 1.0);
        let page = page(&results);
        assert!(page.contains("\n## One permit, nobody waiting\n"));
        assert!(page.contains("\n| case | ns |\n|---|--:|\n| a case | 12.0 |\n"));
        assert!(page.contains("| wakes | 1 | 1.00 | met |"));
        assert!(page.contains("| polls | 2 | – | not measured |"));
        assert!(!page.contains("## One rate check"));
    }

    #[test]
    fn the_page_says_what_a_log_adds_to_a_call() {
        let mut results = Results::default();
        let cases = [(rate::MACHINE, 6.0), (rate::MACHINE_FULL, 8.5), (rate::MACHINE_WITH_ROOM, 7.25)];
        for (case, checks) in cases {
            results.set("rate", case, &format!("against {}", rate::GIVEN_TIME), checks);
        }
        results.set("rate", rate::MACHINE, "instructions", 200.0);
        results.set("rate", rate::MACHINE_FULL, "instructions", 280.0);
        let full = "2.50 of governor's checks (80.0 instructions) where it is full";
        let told = format!(" That is {full}, and 1.25 of governor's checks where it has room.");
        assert!(page(&results).contains(&told));
    }
}
