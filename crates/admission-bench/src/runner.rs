//! Times the cases of a table in turn, in short slices of CPU time, and compares them round by round.
//!
//! Criterion and divan time one case after the other and compare figures that were taken minutes apart.
//! On a machine that others use too, that compares the neighbours as much as the code. Here every round
//! times every case once, a ratio is taken within a round, and what is reported is the median over all
//! rounds. Wall time is not looked at: a slice is 0.3 ms of the thread's CPU time, and one that the
//! scheduler cut into is thrown away. Each case is built anew several times, at other addresses, because
//! where data lies alone can double the time of one and the same code.
//!
//! Owns: that method. Lacks the counting of instructions and of allocations, which have files of their own.

use admission_hot_paths::{Case, Group, Run};

use crate::clocks::slice;
use crate::results::Results;

/// How much is measured.
#[derive(Clone, Debug, Default)]
pub struct Effort {
    /// A quarter of the rounds, and no more than 10^5 of anything.
    pub is_quick: bool,
    /// Only the cases whose name contains this, and the references.
    pub only: Option<String>,
}

impl Effort {
    /// So many rounds, or a quarter of them.
    #[must_use]
    pub fn rounds(&self, full: usize) -> usize {
        if self.is_quick { (full / 4).max(3) } else { full }
    }

    /// Whether the name is asked for.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|text| name.contains(text.as_str()))
    }
}

/// How often each case is built.
const BUILDS: usize = 5;
/// The same where that takes a second.
const LARGE_BUILDS: usize = 2;
const ROUNDS: usize = 151;
const LARGE_ROUNDS: usize = 41;
const SLICE_NS: f64 = 300_000.0;
const LARGE_SLICE_NS: f64 = 3_000_000.0;

/// Times a group.
pub fn time(group: &Group, effort: &Effort, results: &mut Results) {
    let is_needed = |index: usize, case: &Case| {
        let is_peer = group.against.iter().any(|(_, peer)| *peer == case.name);
        index == 0 || is_peer || effort.wants(&case.name)
    };
    let cases: Vec<&Case> =
        group.cases.iter().enumerate().filter(|(i, c)| is_needed(*i, c)).map(|(_, c)| c).collect();
    let small: Vec<&Case> = cases.iter().copied().filter(|case| !case.is_large).collect();
    report(group, &small, &rounds(&small, BUILDS, effort.rounds(ROUNDS), SLICE_NS), results);
    for case in cases.iter().copied().filter(|case| case.is_large && !effort.is_quick) {
        let pair = [cases[0], case];
        let ns = rounds(&pair, LARGE_BUILDS, LARGE_ROUNDS, LARGE_SLICE_NS);
        report(group, &pair[1..], &ns[1..], results);
        results.set(group.name, &case.name, "ratio", median(&ratios(&ns[1], &ns[0])));
    }
}

fn report(group: &Group, cases: &[&Case], ns: &[Vec<f64>], results: &mut Results) {
    for (case, rounds) in cases.iter().zip(ns) {
        let mut set = |metric: &str, number| results.set(group.name, &case.name, metric, number);
        set("ns", median(rounds));
        set("ns p10", quantile(rounds, 0.1));
        set("ns p90", quantile(rounds, 0.9));
        if cases[0].name == group.cases[0].name {
            let ratios = ratios(rounds, &ns[0]);
            set("ratio", median(&ratios));
            set("ratio p10", quantile(&ratios, 0.1));
            set("ratio p90", quantile(&ratios, 0.9));
        }
        for (_, peer) in group.against.iter().filter(|(name, _)| *name == case.name) {
            if let Some(at) = cases.iter().position(|other| other.name == *peer) {
                set(&format!("against {peer}"), median(&ratios(rounds, &ns[at])));
            }
        }
    }
}

/// Nanoseconds for each case and round; not a number where no slice was clean.
fn rounds(cases: &[&Case], builds: usize, rounds: usize, slice_ns: f64) -> Vec<Vec<f64>> {
    let count = cases.len();
    let mut ns = vec![vec![f64::NAN; rounds]; count];
    let mut operations = vec![0; count];
    for build in 0..builds {
        // What is built after this lies elsewhere.
        Box::leak(vec![0_u8; 1_040 * build + 72].into_boxed_slice());
        let mut runs: Vec<Run> = cases.iter().map(|case| (case.make)()).collect();
        for (run, operations) in runs.iter_mut().zip(&mut operations) {
            run(50_000);
            if build == 0 {
                *operations = fill(run, slice_ns);
            }
        }
        let (first, end) = (rounds * build / builds, rounds * (build + 1) / builds);
        (first..end).for_each(|round| {
            for step in 0..count {
                let at = (step + round) % count;
                for _ in 0..3 {
                    let (cpu, is_clean) = slice(|| runs[at](operations[at]));
                    if is_clean {
                        ns[at][round] = cpu / operations[at] as f64;
                        break;
                    }
                }
            }
        });
    }
    ns
}

/// How many operations fill a slice.
fn fill(run: &mut Run, slice_ns: f64) -> u64 {
    let mut n = 16;
    loop {
        let (cpu, is_clean) = slice(|| run(n));
        if (cpu >= slice_ns * 0.4 && is_clean) || cpu >= slice_ns * 4.0 {
            return ((n as f64 * slice_ns / cpu) as u64).max(16);
        }
        if cpu < slice_ns * 0.4 {
            n *= 2;
        }
    }
}

/// Round by round.
#[must_use]
pub fn ratios(numbers: &[f64], reference: &[f64]) -> Vec<f64> {
    numbers.iter().zip(reference).map(|(number, reference)| number / reference).collect()
}

/// The median of those that are numbers.
#[must_use]
pub fn median(numbers: &[f64]) -> f64 {
    quantile(numbers, 0.5)
}

/// A quantile of those that are numbers; not a number if none is.
#[must_use]
pub fn quantile(numbers: &[f64], at: f64) -> f64 {
    let mut numbers: Vec<f64> = numbers.iter().copied().filter(|number| !number.is_nan()).collect();
    numbers.sort_by(f64::total_cmp);
    let index = (numbers.len().saturating_sub(1) as f64 * at).round() as usize;
    numbers.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_does_not_count() {
        assert_eq!(median(&[3.0, f64::NAN, 1.0, 2.0]), 2.0);
        assert!(median(&[f64::NAN]).is_nan());
        assert_eq!(ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    }
}
