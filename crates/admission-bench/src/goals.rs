//! What admission is to reach beside its peers, and whether it does: twenty-five goals, each one or more numbers
//! with a bar.
//!
//! Owns: the bars. Lacks excuses: a goal that is missed says so, and one that was not measured says that.

use admission_hot_paths::window;

use crate::cases::combined::{COMPOSED, EXACT};
use crate::cases::rate::GIVEN_TIME;
use crate::pacing::{ON_SMOL, ON_TOKIO, PRECISE};
use crate::queues::eligible;
use crate::queues::{ADMISSION, TOKIO};
use crate::results::Results;

/// A goal.
#[derive(Clone, Debug)]
pub struct Goal {
    /// Its number.
    pub number: u32,
    /// What it is about.
    pub what: &'static str,
    /// Its numbers.
    pub parts: Vec<Part>,
}

/// One number of a goal.
#[derive(Clone, Debug)]
pub struct Part {
    /// Which.
    pub what: String,
    /// What it may be.
    pub bar: Bar,
    /// What it is, if that was measured.
    pub reached: Option<f64>,
}

/// What a number may be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bar {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
    /// Exactly this, but for the last digits of a division.
    Exactly(f64),
}

impl Bar {
    /// Whether a number is what it may be.
    #[must_use]
    pub fn is_met(self, number: f64) -> bool {
        match self {
            Self::AtMost(most) => number <= most,
            Self::AtLeast(least) => number >= least,
            Self::Exactly(wanted) => (number - wanted).abs() < 1e-6,
        }
    }
}

impl Part {
    /// Whether it is met, if it was measured.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.reached.map(|reached| self.bar.is_met(reached))
    }
}

/// The goals with what was reached.
#[must_use]
pub fn goals(results: &Results) -> Vec<Goal> {
    let mut goals = calls(results);
    goals.extend(machine(results));
    goals.extend(queues(results));
    goals.extend(time(results));
    goals
}

fn part(what: impl Into<String>, bar: Bar, reached: Option<f64>) -> Part {
    Part { what: what.into(), bar, reached }
}

fn divided(number: Option<f64>, by: Option<f64>) -> Option<f64> {
    Some(number? / by?)
}

use Bar::{AtLeast, AtMost, Exactly};

fn calls(results: &Results) -> Vec<Goal> {
    let against = |table: &str, case: &str, peer: &str| results.get(table, case, &format!("against {peer}"));
    let instructions = |table: &str, case: &str, peer: &str| {
        let count = |case| results.get(table, case, "instructions");
        divided(count(case), count(peer))
    };
    let owned = "tokio Semaphore: acquire_owned().await";
    let one = "admission: acquire().await";
    let all = "admission: all limits";
    let caps = "admission: caps and keys only";
    vec![
        Goal {
            number: 1,
            what: "one permit on tokio, against tokio's `acquire_owned().await`",
            parts: vec![
                part("ns", AtMost(1.25), against("permit", one, owned)),
                part("instructions", AtMost(1.25), instructions("permit", one, owned)),
            ],
        },
        Goal {
            number: 2,
            what: "all limits on tokio, against A′",
            parts: vec![
                part("ns", AtMost(0.42), against("combined", all, COMPOSED)),
                part("instructions", AtMost(0.36), instructions("combined", all, COMPOSED)),
            ],
        },
        Goal {
            number: 3,
            what: "all limits on tokio, against D, the exact composition",
            parts: vec![part("ns", AtMost(0.36), against("combined", all, EXACT))],
        },
        Goal {
            number: 4,
            what: "caps and keys only, against A′",
            parts: vec![
                part("ns", AtMost(0.26), against("combined", caps, COMPOSED)),
                part("instructions", AtMost(0.28), instructions("combined", caps, COMPOSED)),
            ],
        },
    ]
}

fn machine(results: &Results) -> Vec<Goal> {
    let ratio = |case: &str| results.get("machine", case, "ratio");
    let count = |case: &str| results.get("machine", case, "instructions");
    let compared = |case: &str, other: &str| divided(count(case), count(other));
    let idle = "P=16, N=0, caps and keys";
    let busy = "P=16, N=1000, caps and keys";
    let all = "P=16, N=1000, all limits";
    let many = "P=16, N=1000000, caps and keys";
    // From one provider to 1,024 it doubles ten times.
    let doubling = |queued: &str| {
        let count = |providers: &str| count(&format!("P={providers}, N={queued}, caps and keys"));
        Some((count("1024")? - count("1")?) / 10.0)
    };
    let scan = divided(
        results.get("blocked", eligible::SCAN, "100000"),
        results.get("blocked", &eligible::name(16), "100000"),
    );
    vec![
        Goal {
            number: 5,
            what: "the machine alone, against a pair of a std Mutex",
            parts: vec![
                part("nobody waits, ratio", AtMost(5.0), ratio(idle)),
                part("nobody waits, instructions", AtMost(380.0), count(idle)),
                part("a thousand wait, ratio", AtMost(6.5), ratio(busy)),
                part("a thousand wait, instructions", AtMost(750.0), count(busy)),
                part("all limits, ratio", AtMost(9.5), ratio(all)),
                part("all limits, instructions", AtMost(960.0), count(all)),
            ],
        },
        Goal {
            number: 6,
            what: "instructions while a million wait, against a thousand",
            parts: vec![part("P = 16", AtMost(1.02), compared(many, busy))],
        },
        Goal {
            number: 7,
            what: "instructions for each doubling of the providers",
            parts: vec![
                part("a thousand wait", AtMost(30.0), doubling("1000")),
                part("nobody waits", AtMost(1.0), doubling("0")),
            ],
        },
        Goal {
            number: 8,
            what: "all providers but one blocked",
            parts: vec![
                part(
                    "instructions against none blocked",
                    AtMost(1.05),
                    compared("P=16, N=1000, all providers but one blocked", busy),
                ),
                part("times faster than a plain scan of 100,000", AtLeast(500.0), scan),
            ],
        },
    ]
}

fn queues(results: &Results) -> Vec<Goal> {
    let tasks = |size: &str| results.get("tasks", "ratio to tokio", size);
    let cancel = |size: &str| results.get("cancel", "ratio to tokio", size);
    let bytes = |size: &str| results.get("bytes, machine", "each with its own key", size);
    let bare = |size: &str| results.get("bytes, bare", ADMISSION, size);
    let task = |size: &str| {
        divided(results.get("bytes, task", ADMISSION, size), results.get("bytes, task", TOKIO, size))
    };
    let steady = |case: &str| results.get("steady", case, "allocations");
    let threads = |case: &str, peer: &str| results.get("two threads", case, &format!("against {peer}"));
    vec![
        Goal {
            number: 9,
            what: "grants to waiting tasks on tokio, CPU against tokio's Semaphore",
            parts: vec![
                part("100 wait", AtMost(1.0), tasks("100")),
                part("1,000 wait", AtMost(1.0), tasks("1000")),
                part("10,000 wait", AtMost(1.1), tasks("10000")),
            ],
        },
        Goal {
            number: 10,
            what: "wakes and polls of one call, a thousand waiting",
            parts: vec![
                part("wakes", Exactly(1.0), results.get("wakes", "admission", "wakes 1000")),
                part("polls", Exactly(2.0), results.get("wakes", "admission", "polls 1000")),
            ],
        },
        Goal {
            number: 11,
            what: "leaving the queue from anywhere, against tokio's Semaphore",
            parts: vec![
                part("100 wait", AtMost(3.5), cancel("100")),
                part("1,000 wait", AtMost(3.5), cancel("1000")),
                part("10,000 wait", AtMost(3.5), cancel("10000")),
            ],
        },
        Goal {
            number: 12,
            what: "bytes of the machine for each ticket that waits",
            parts: vec![
                part("100,000 wait", AtMost(80.0), bytes("100000")),
                part("1,000,000 wait", AtMost(80.0), bytes("1000000")),
            ],
        },
        Goal {
            number: 13,
            what: "bytes for each waiter, everything included",
            parts: vec![
                part("bare future, 100,000 wait", AtMost(128.0), bare("100000")),
                part("task on tokio, against Semaphore's, 100,000 wait", AtMost(0.9), task("100000")),
            ],
        },
        Goal {
            number: 14,
            what: "allocations for one call in the steady state",
            parts: vec![
                part("at once", Exactly(0.0), steady("at once")),
                part("queued, then granted", Exactly(0.0), steady("queued, then granted")),
                part("queued, then given up", Exactly(0.0), steady("queued, then given up")),
            ],
        },
        Goal {
            number: 15,
            what: "two threads",
            parts: vec![
                part(
                    "all limits, against the composition",
                    AtMost(0.9),
                    threads("admission: try_acquire, all limits", "composed"),
                ),
                part(
                    "client limit only, against tokio's `try_acquire`",
                    AtMost(1.1),
                    threads("admission: try_acquire, client limit only", "tokio"),
                ),
            ],
        },
    ]
}

fn time(results: &Results) -> Vec<Goal> {
    let made_up = |case: &str, metric: &str| results.get("made up", case, metric);
    let quota = |case: &str, metric: &str| results.get("quota", case, metric);
    let gaps =
        |millis: u32, case: &str, metric: &str| results.get(&format!("gaps of {millis} ms"), case, metric);
    let losses = |case: &str, bars: [(u32, f64); 3]| {
        let loss =
            |(millis, bar)| part(format!("{case}, {millis} ms, %"), AtMost(bar), gaps(millis, case, "loss"));
        bars.map(loss).to_vec()
    };
    let exact = |case: &str| results.get("rate", case, &format!("against {GIVEN_TIME}"));
    let alarms = |metric: &str| results.get("alarms", "admission", metric);
    vec![
        Goal {
            number: 16,
            what: "starts over the quota in any window, bursts included",
            parts: vec![
                part(
                    "ten million starts in virtual time",
                    Exactly(0.0),
                    made_up("50 in 100 ms, rough", "over"),
                ),
                part("most in a window of 50, on tokio", AtMost(50.0), quota(ON_TOKIO, "most")),
                part("the same, bursts", AtMost(50.0), quota(ON_TOKIO, "most, bursts")),
                part("the same on tokio, precise", AtMost(50.0), quota(PRECISE, "most, bursts")),
                part("the same on smol", AtMost(50.0), quota(ON_SMOL, "most, bursts")),
            ],
        },
        Goal {
            number: 17,
            what: "a saturated quota: finish, against ideal",
            parts: vec![
                part("virtual time", Exactly(1.0), made_up("50 in 100 ms, saturated", "finish")),
                part("a precise timer (smol)", AtMost(1.005), quota(ON_SMOL, "finish")),
                part("a precise timer on tokio", AtMost(1.005), quota(PRECISE, "finish")),
                part("tokio's timer", AtMost(1.015), quota(ON_TOKIO, "finish")),
            ],
        },
        Goal {
            number: 18,
            what: "the exact window by itself, a check that records, against governor's check, time given",
            parts: vec![
                part("full all the time, ns", AtMost(0.5), exact(window::FULL)),
                part("with room, ns", AtMost(0.5), exact(window::WITH_ROOM)),
            ],
        },
        Goal {
            number: 19,
            what: "gaps that are too short, stamped at the permit; stalls and cancels included",
            parts: vec![
                part("1 ms on tokio", Exactly(0.0), gaps(1, ON_TOKIO, "short at permit")),
                part("5 ms on tokio", Exactly(0.0), gaps(5, ON_TOKIO, "short at permit")),
                part("1 ms on tokio, precise", Exactly(0.0), gaps(1, PRECISE, "short at permit")),
                part("1 ms on smol", Exactly(0.0), gaps(1, ON_SMOL, "short at permit")),
                part("a million in virtual time", Exactly(0.0), made_up("5 ms apart, rough", "over")),
            ],
        },
        Goal {
            number: 20,
            what: "throughput that saturated pacing loses on tokio's own timer",
            parts: losses(ON_TOKIO, [(1, 55.0), (5, 20.0), (100, 1.5)]),
        },
        Goal {
            number: 21,
            what: "the same with a precise timer",
            parts: [ON_SMOL, PRECISE]
                .into_iter()
                .flat_map(|case| losses(case, [(1, 7.0), (5, 3.0), (100, 0.3)]))
                .collect(),
        },
        Goal {
            number: 22,
            what: "CPU of one paced start, µs",
            parts: [ON_TOKIO, PRECISE, ON_SMOL]
                .into_iter()
                .flat_map(|case| {
                    [(1, 60.0), (5, 110.0)].map(|(millis, bar)| {
                        part(format!("{case}, {millis} ms"), AtMost(bar), gaps(millis, case, "us"))
                    })
                })
                .collect(),
        },
        Goal {
            number: 23,
            what: "alarms of one coordinator in one runtime",
            parts: vec![
                part("armed while calls wait", Exactly(1.0), alarms("armed while they wait")),
                part("armed when nobody waits", Exactly(0.0), alarms("armed when nobody waits")),
                part("rings for one grant", AtMost(1.0), alarms("rings for one grant")),
                part("arms for one grant", AtMost(2.0), alarms("arms for one grant")),
            ],
        },
        Goal {
            number: 24,
            what: "ready calls held up by a blocked provider, of 100",
            parts: vec![part(
                "held up",
                Exactly(0.0),
                results
                    .get("head of the line", "ready calls that started within 100 ms, of 100", "admission")
                    .map(|started| 100.0 - started),
            )],
        },
        Goal {
            number: 25,
            what: "compiled size of the machine, without the hash table's own functions",
            parts: vec![part("KiB", AtMost(16.0), results.get("size", "admission-core", "KiB"))],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goals_are_numbered_in_order_and_nothing_is_met_by_default() {
        let goals = goals(&Results::default());
        assert!(goals.iter().map(|goal| goal.number).eq(1..=25));
        assert!(goals.iter().flat_map(|goal| &goal.parts).all(|part| part.is_met().is_none()));
    }

    #[test]
    fn a_bar_is_met_or_not() {
        assert!(AtMost(1.0).is_met(1.0) && !AtMost(1.0).is_met(1.01));
        assert!(AtLeast(500.0).is_met(780.0) && !AtLeast(500.0).is_met(499.0));
        assert!(Exactly(2.0).is_met(2.0) && !Exactly(2.0).is_met(1.999));
    }
}
