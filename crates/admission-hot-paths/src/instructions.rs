//! Counts the instructions of a case, through valgrind's callgrind.
//!
//! The count is taken inside [`counted`] alone, after a warm-up, and comes out the same each time, on a
//! busy machine too: so it is what regressions are looked for with. A library that does this, gungraun,
//! needs a runner to be installed in a version that fits, and a main function of its own for each set of
//! cases; here the cases are those of the timed tables, and the count is one number that callgrind prints.
//!
//! Owns: the runs, the file of counts, and the comparison. Lacks the clock: under valgrind reading one is a
//! system call, so a count tells nothing about what a reading costs.

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::{Group, Run, stalls};

/// Operations that are counted in one run.
const COUNTED: u64 = 5_000;

/// Callgrind counts inside of this function alone, which it knows by its name.
#[inline(never)]
pub fn counted(run: &mut Run, n: u64) {
    run(n);
}

/// What each counted process does: set one case up, warm it up, and run it once inside the counted function.
///
/// # Errors
///
/// There is no such case.
pub fn one(groups: &[Group], group: &str, case: &str) -> Result<(), String> {
    let mut run = crate::find(groups, group, case)?;
    // The combined job goes through all of its keys once before it counts.
    run(if group == "combined" { 20_000 } else { 5_000 });
    counted(black_box(&mut run), COUNTED);
    Ok(())
}

/// Whether there is a valgrind to count with.
///
/// # Errors
///
/// Says how to get it.
pub fn is_available() -> Result<(), String> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("valgrind is not installed (Debian and Ubuntu: apt-get install valgrind)".to_owned()),
    }
}

/// Instructions for one operation of a case, counted in a process of its own.
///
/// # Errors
///
/// What the process said.
pub fn count(group: &str, case: &str) -> Result<f64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*instructions*counted*",
        ])
        .arg(program)
        .args(["one", group, case])
        .output()
        .map_err(|error| format!("valgrind could not be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    match collected.and_then(|(_, number)| number.trim().parse::<f64>().ok()) {
        Some(number) if number > 0.0 && output.status.success() => Ok(number / COUNTED as f64),
        _ => Err(format!("{group}, {case}: nothing was counted\n{said}")),
    }
}

/// How much more or fewer instructions are the same, relatively.
const TOLERANCE: f64 = 0.02;

/// Counts the cases that are watched and compares them with a file; or writes the file, if it is to be
/// renewed.
///
/// # Errors
///
/// Names what became worse, or better by more than the tolerance: then the file is stale. And what
/// [waits](crate::stalls) for its own writes.
pub fn watch(path: &Path, groups: &[Group], is_renewed: bool) -> Result<(), String> {
    let noted: Value = match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?,
        Err(_) if is_renewed => Value::Null,
        Err(error) => return Err(format!("{}: {error}; write it with --renew", path.display())),
    };
    let mut counts = Map::new();
    let (mut wrong, mut stalled) = (0, 0);
    for group in groups {
        for case in &group.cases {
            let now = count(group.name, &case.name)?;
            let before = noted[group.name][&case.name].as_f64();
            let verdict = verdict(before, now);
            let before = before.map_or_else(|| "–".to_owned(), |before| format!("{before:.1}"));
            println!(
                "{:<54} {before:>9} → {now:>9.1}  {}",
                format!("{}: {}", group.name, case.name),
                verdict.0
            );
            wrong += usize::from(!verdict.1);
            let stalls = stalls::count(group.name, &case.name)?;
            if stalls.each >= stalls::OFTEN {
                println!(
                    "  reads {:.1} values as a whole right after their pieces were written:",
                    stalls.each
                );
                stalls.places.iter().for_each(|place| println!("    {place}"));
                stalled += 1;
            }
            let of_group = counts.entry(group.name).or_insert_with(|| json!({}));
            of_group[&case.name] = json!((now * 10.0).round() / 10.0);
        }
    }
    if stalled > 0 {
        return Err(format!("{stalled} of the paths above wait for what they have just written"));
    }
    if is_renewed {
        let text = format!("{:#}\n", Value::Object(counts));
        return std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    if wrong > 0 {
        return Err(format!(
            "{wrong} of the counts above are not what they were; if that is as it should be, write them anew \
             with `cargo xtask instructions --renew` and say in the commit why"
        ));
    }
    Ok(())
}

/// What is to be said about a count, and whether it may stay.
fn verdict(before: Option<f64>, now: f64) -> (String, bool) {
    let Some(before) = before else { return ("not in the file".to_owned(), false) };
    let change = now / before - 1.0;
    let percent = format!("{:+.1} %", change * 100.0);
    if change > TOLERANCE {
        (format!("{percent}  WORSE"), false)
    } else if change < -TOLERANCE {
        (format!("{percent}  better: the file is stale"), false)
    } else {
        (percent, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_percent_are_the_same() {
        assert_eq!(verdict(Some(1_000.0), 1_019.0), ("+1.9 %".to_owned(), true));
        assert_eq!(verdict(Some(1_000.0), 981.0), ("-1.9 %".to_owned(), true));
        assert!(!verdict(Some(1_000.0), 1_021.0).1);
        assert!(!verdict(Some(1_000.0), 979.0).1, "the file has to be renewed");
        assert!(!verdict(None, 1.0).1);
    }
}
