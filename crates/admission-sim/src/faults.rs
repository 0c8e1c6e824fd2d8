//! What was really done to the coordinator, by kind.
//!
//! Owns: the counts and their words. Lacks the deeds.

use std::fmt;

/// The kinds of fault, and what else a history is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is named by its word")]
pub enum Fault {
    DroppedBeforePoll,
    DroppedWaiting,
    DroppedWoken,
    DroppedRunning,
    AbortedWaiting,
    LeakedWaiting,
    LeakedPermit,
    Neglected,
    SpuriousPoll,
    PolledOutside,
    PanicInOperation,
    PanicInPredicate,
    PanicInWaker,
    PanicInClosure,
    PanicInDestructor,
    PolledInWake,
    CalledInWake,
    DroppedInWake,
    ChangedInWake,
    ClosedInWake,
    AlarmEarly,
    AlarmLate,
    AlarmLost,
    ClockStalled,
    ClockAhead,
    ClockBack,
    LimitsChanged,
    QueueChanged,
    ProviderAdded,
    ProviderRemoved,
    CooledDown,
    Reset,
    Settled,
    Closed,
    RuntimeDied,
}

const WORDS: [&str; Fault::RuntimeDied as usize + 1] = [
    "future dropped before its first poll",
    "future dropped while queued",
    "future dropped between grant and start",
    "operation or permit dropped early",
    "signal fired while waiting",
    "waiting future leaked",
    "permit or running future leaked",
    "future held and not polled",
    "future polled for no reason",
    "future polled outside any runtime",
    "operation panics",
    "retry predicate panics",
    "waker panics",
    "closure panics",
    "destructor of an operation panics",
    "future polled inside a wake",
    "call made inside a wake",
    "future dropped or aborted inside a wake",
    "coordinator changed inside a wake",
    "coordinator closed inside a wake",
    "alarm early",
    "alarm late",
    "alarm lost",
    "clock stalls",
    "clock jumps ahead",
    "clock goes back",
    "limits changed",
    "queue's length changed",
    "provider added",
    "provider removed",
    "cooldown",
    "reset",
    "cost settled",
    "close",
    "runtime shut down with callers in it",
];

const KINDS: usize = WORDS.len();

/// How often each was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults {
    counts: [u64; KINDS],
    /// Calls that started, calls that were refused, and steps in all.
    pub started: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Polls of futures.
    pub polls: u64,
}

impl Faults {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { counts: [0; KINDS], started: 0, refused: 0, polls: 0 }
    }

    pub(crate) fn note(&mut self, fault: Fault) {
        self.counts[fault as usize] += 1;
    }

    /// How often one kind was done.
    #[must_use]
    pub const fn count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// All kinds that were never done.
    pub fn missing(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.counts.iter().zip(WORDS).filter(|(count, _)| **count == 0).map(|(_, word)| word)
    }

    /// Adds those of another history.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.started += other.started;
        self.refused += other.refused;
        self.polls += other.polls;
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12}  calls started", self.started)?;
        writeln!(f, "{:>12}  calls refused", self.refused)?;
        writeln!(f, "{:>12}  polls", self.polls)?;
        for (count, word) in self.counts.iter().zip(WORDS) {
            writeln!(f, "{count:>12}  {word}")?;
        }
        Ok(())
    }
}
