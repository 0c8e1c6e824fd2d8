//! Counts values that are read as a whole right after they were written in pieces, through valgrind's lackey.
//!
//! A processor hands what was just written on to whoever reads it, but only if one write has all of it. Otherwise the
//! read waits until the pieces are out: 12 cycles and more, which is as much as a lock, and no count of instructions
//! shows it. It comes of values that are put together field by field and then moved as a whole.
//!
//! Owns: the trace of one case, and what is looked for in it. Lacks the cases, and any knowledge of locks: they too
//! wait until what was written is out, so a read right behind one costs nothing more, and is counted all the same.

use std::collections::{HashMap, VecDeque};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::instructions::counted;
use crate::{Group, Run};

/// Operations that are looked at in one run. A trace has a line for each instruction.
const TRACED: u64 = 500;
/// For how many instructions a write is on its way.
const ON_ITS_WAY: u64 = 60;
/// So often in each operation is too often.
pub const OFTEN: f64 = 0.5;
/// So many places are named at most.
const NAMED: usize = 8;
/// So many lines are kept of what was said beside the trace.
const KEPT: usize = 20;
/// Written right before what is looked at, and right after it.
static MARK: AtomicU64 = AtomicU64::new(0);

/// What the traced process does: set one case up, warm it up, and run it once between two marks.
///
/// # Errors
///
/// There is no such case.
pub fn one(groups: &[Group], group: &str, case: &str) -> Result<(), String> {
    let mut run: Run = crate::find(groups, group, case)?;
    run(TRACED);
    let (mark, code) = (&raw const MARK as usize, counted as *const () as usize);
    // In one piece, into the midst of the trace.
    let line = format!("\nmark {mark:x} {code:x}\n");
    std::io::stderr().write_all(line.as_bytes()).map_err(|error| error.to_string())?;
    MARK.store(1, Ordering::SeqCst);
    counted(&mut run, TRACED);
    MARK.store(2, Ordering::SeqCst);
    Ok(())
}

/// How often one operation of a case reads so, and where.
#[derive(Debug)]
pub struct Stalls {
    /// In each operation.
    pub each: f64,
    /// The instructions where that is [too often](OFTEN), most of all first; by name if the tools for that are there.
    pub places: Vec<String>,
}

/// Looks at one case in a process of its own.
///
/// # Errors
///
/// What the process said.
pub fn count(group: &str, case: &str) -> Result<Stalls, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut traced = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(&program)
        .args(["trace", group, case])
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("valgrind could not be run: {error}"))?;
    let mut trace = Trace::default();
    let lines = traced.stderr.take().ok_or("there is no trace")?;
    for line in BufReader::new(lines).split(b'\n') {
        trace.hear(&line.map_err(|error| error.to_string())?);
    }
    let status = traced.wait().map_err(|error| error.to_string())?;
    if !status.success() || trace.marks < 2 {
        let said: Vec<_> = trace.said.into();
        return Err(format!("{group}, {case}: nothing was traced\n{}", said.join("\n")));
    }
    let each = trace.found.values().sum::<u64>() as f64 / TRACED as f64;
    if each < OFTEN {
        return Ok(Stalls { each, places: vec![] });
    }
    let base = base(&program, trace.code).unwrap_or(0);
    let name = |at: u64| {
        let at = at.saturating_sub(base);
        name(&program, at).unwrap_or_else(|| format!("{at:x}"))
    };
    let most = trace.most().into_iter().take(NAMED);
    let places =
        most.map(|(read, written)| format!("read by {}\n      written by {}", name(read), name(written)));
    Ok(Stalls { each, places: places.collect() })
}

/// What was heard of a trace.
#[derive(Default)]
struct Trace {
    mark: u64,
    code: u64,
    marks: u32,
    /// Instructions so far, and where the last is.
    instructions: u64,
    at: u64,
    written: VecDeque<Written>,
    /// Pairs of a read and a write, and how often they met.
    found: HashMap<(u64, u64), u64>,
    /// What valgrind and the program said beside it, lastly.
    said: VecDeque<String>,
}

struct Written {
    from: u64,
    to: u64,
    instruction: u64,
    at: u64,
}

impl Trace {
    fn hear(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        if let Some(mark) = line.strip_prefix("mark ") {
            if let Some((mark, code)) = mark.split_once(' ') {
                self.mark = hex(mark).unwrap_or(0);
                self.code = hex(code).unwrap_or(0);
            }
            return;
        }
        let Some((kind, from, size)) = access(line) else { return self.keep(line) };
        match kind {
            "I  " => {
                self.instructions += 1;
                self.at = from;
            }
            " L " => self.read(from, from + size),
            " S " => self.write(from, from + size),
            " M " => {
                self.read(from, from + size);
                self.write(from, from + size);
            }
            _ => self.keep(line),
        }
    }

    fn keep(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if self.said.len() == KEPT {
            self.said.pop_front();
        }
        self.said.push_back(line.to_owned());
    }

    /// The pairs that met, those that met most often first.
    fn most(&self) -> Vec<(u64, u64)> {
        let mut pairs: Vec<_> = self.found.iter().collect();
        pairs.sort_by_key(|(pair, times)| (std::cmp::Reverse(**times), **pair));
        pairs.into_iter().map(|(pair, _)| *pair).collect()
    }

    fn read(&mut self, from: u64, to: u64) {
        if self.marks != 1 {
            return;
        }
        let since = self.instructions.saturating_sub(ON_ITS_WAY);
        let recent = self.written.iter().rev().take_while(|write| write.instruction >= since);
        let newest = recent.into_iter().find(|write| write.from < to && from < write.to);
        if let Some(write) = newest.filter(|write| from < write.from || write.to < to) {
            *self.found.entry((self.at, write.at)).or_insert(0) += 1;
        }
    }

    fn write(&mut self, from: u64, to: u64) {
        if from == self.mark {
            self.marks += 1;
        }
        if self.marks == 1 {
            if self.written.len() > 2 * ON_ITS_WAY as usize {
                self.written.pop_front();
            }
            self.written.push_back(Written { from, to, instruction: self.instructions, at: self.at });
        }
    }
}

/// What kind of access a line tells of, where, and how large.
fn access(line: &str) -> Option<(&str, u64, u64)> {
    let (kind, place) = line.split_at_checked(3)?;
    let (from, size) = place.split_once(',')?;
    Some((kind, hex(from)?, size.parse().ok()?))
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim(), 16).ok()
}

/// How far from where it was linked the program ran, by where one function of it was.
fn base(program: &std::path::Path, code: u64) -> Option<u64> {
    let output = Command::new("nm").arg("-C").arg(program).output().ok()?;
    let symbols = String::from_utf8(output.stdout).ok()?;
    let line = symbols.lines().find(|line| line.ends_with("admission_hot_paths::instructions::counted"))?;
    code.checked_sub(hex(line.split(' ').next()?)?)
}

/// The lines of source that an instruction is of.
fn name(program: &std::path::Path, at: u64) -> Option<String> {
    let output =
        Command::new("addr2line").args(["-Cfipe"]).arg(program).arg(format!("{at:x}")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let short = |line: &str| line.rsplit_once('/').map(|(_, end)| end.to_owned());
    let lines: Vec<String> = text.lines().filter_map(short).take(4).collect();
    (!lines.is_empty()).then(|| format!("{at:x} {}", lines.join(" in ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> u64 {
        let mut trace = Trace::default();
        for line in ["mark 10 20", "I  1,4", " S 10,8"].iter().chain(lines).chain(&[" S 10,8"]) {
            trace.hear(line.as_bytes());
        }
        assert_eq!(trace.marks, 2);
        trace.found.values().sum()
    }

    #[test]
    fn a_value_that_is_read_as_it_was_written_or_in_part_is_handed_on() {
        assert_eq!(found(&["I  2,4", " S 100,8", "I  6,4", " L 100,8", "I  a,4", " L 104,4"]), 0);
        assert_eq!(found(&["I  2,4", " S 100,8", "I  6,4", " L 108,8"]), 0, "another value");
    }

    #[test]
    fn one_that_is_read_as_a_whole_after_its_pieces_were_written_is_counted() {
        let pieces = ["I  2,4", " S 100,4", "I  6,4", " S 104,4", "I  a,4", " L 100,8"];
        assert_eq!(found(&pieces), 1);
        let modified = ["I  2,4", " S 100,1", "I  6,4", " M 100,8"];
        assert_eq!(found(&modified), 1);
        let later: Vec<&str> =
            pieces[..4].iter().chain(&["I  7,4"; 100]).chain(&pieces[4..]).copied().collect();
        assert_eq!(found(&later), 0, "they are out by then");
    }

    #[test]
    fn places_come_in_order() {
        let mut trace = Trace::default();
        trace.found.extend([((1, 2), 3), ((7, 8), 9), ((3, 4), 3)]);
        assert_eq!(trace.most(), [(7, 8), (1, 2), (3, 4)]);
    }

    #[test]
    fn what_is_said_beside_the_trace_is_kept_in_part() {
        let mut trace = Trace::default();
        for line in ["I  1,4", "==7== Lackey", " S 10,8", "I  2", "", "thread 'main' panicked, 4"] {
            trace.hear(line.as_bytes());
        }
        assert_eq!(trace.instructions, 1, "a line that was cut in two is none");
        assert_eq!(trace.said, ["==7== Lackey", "I  2", "thread 'main' panicked, 4"]);
        (0..100).for_each(|_| trace.hear(b"more"));
        assert_eq!(trace.said.len(), KEPT);
    }
}
