//! What was written, and what came up.
//!
//! Owns: the digest of the text, and a count for each kind of event, answer and refusal. Lacks any
//! judgement: whether enough came up is for whoever reads it.

use core::fmt::{self, Write};

use admission_core::{ChangeError, Event, Hold, LimitsError, Reason, Side, Step, UnitId};

/// How often each thing came up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Calls into a coordinator, each with a line.
    pub decisions: u32,
    /// Starts, within a request and after a wait.
    pub starts: u32,
    /// Events: granted, refused, taken back, forgotten.
    pub events: [u32; 4],
    /// Answers to a step: start, wait, give up, running, gone.
    pub steps: [u32; 5],
    /// Refusals, in the order of `REASONS`.
    pub reasons: [u32; REASONS.len()],
    /// What held back those that were refused or explained, in the order of `HOLDS`.
    pub holds: [u32; HOLDS.len()],
    /// Changes that were not made, in the order of `CHANGES`.
    pub changes: [u32; CHANGES.len()],
}

/// A name and how often it came up.
pub type Count = (&'static str, u32);

/// Every reason to refuse.
const REASONS: [Reason; 10] = [
    Reason::Aborted,
    Reason::Closed,
    Reason::UnknownProvider,
    Reason::Removed,
    Reason::UnknownUnit,
    Reason::ImpossibleCost,
    Reason::Exhausted,
    Reason::MaxWait,
    Reason::Overflow,
    Reason::AdmissionTimeout,
];

const REASON_NAMES: [&str; 10] = [
    "aborted",
    "closed",
    "unknown-provider",
    "removed",
    "unknown-unit",
    "impossible-cost",
    "exhausted",
    "max-wait",
    "overflow",
    "admission-timeout",
];

/// Every kind of hold, each pacer by its first of either side.
const HOLDS: [Hold; 12] = [
    Hold::Unpolled,
    Hold::Key,
    Hold::Concurrency(Side::Client),
    Hold::Concurrency(Side::Provider),
    Hold::HandOff(Side::Client),
    Hold::HandOff(Side::Provider),
    Hold::Cooldown,
    Hold::Interval(Side::Client, 0),
    Hold::Interval(Side::Provider, 0),
    Hold::Log(Side::Client, 0),
    Hold::Log(Side::Provider, 0),
    Hold::Order,
];

const HOLD_NAMES: [&str; 12] = [
    "unpolled",
    "key",
    "concurrency-client",
    "concurrency-provider",
    "hand-off-client",
    "hand-off-provider",
    "cooldown",
    "interval-client",
    "interval-provider",
    "log-client",
    "log-provider",
    "order",
];

/// Every kind of change that was not made.
const CHANGES: [ChangeError; 6] = [
    ChangeError::UnknownProvider,
    ChangeError::ProviderExists,
    ChangeError::Limits(LimitsError::ZeroConcurrency),
    ChangeError::UnknownUnit,
    ChangeError::NotRunning,
    ChangeError::Requests,
];

const CHANGE_NAMES: [&str; 6] =
    ["unknown-provider", "provider-exists", "limits", "unknown-unit", "not-running", "requests"];

impl Tally {
    pub(crate) fn event(&mut self, event: Event) {
        let at = match event {
            Event::Granted(_) => 0,
            Event::Refused(..) => 1,
            Event::TakenBack(_) => 2,
            _ => 3,
        };
        self.events[at] += 1;
    }

    pub(crate) fn step(&mut self, step: Step) {
        let at = match step {
            Step::Start => 0,
            Step::Wait => 1,
            Step::GiveUp(_) => 2,
            Step::Running => 3,
            Step::Gone => 4,
        };
        self.steps[at] += 1;
        self.starts += u32::from(step == Step::Start);
    }

    pub(crate) fn reason(&mut self, reason: Reason) {
        count(&REASONS, &mut self.reasons, |known| *known == reason);
    }

    pub(crate) fn hold(&mut self, hold: Hold) {
        let hold = match hold {
            Hold::Interval(side, _) => Hold::Interval(side, 0),
            Hold::Log(side, _) => Hold::Log(side, 0),
            hold => hold,
        };
        count(&HOLDS, &mut self.holds, |known| *known == hold);
    }

    pub(crate) fn change(&mut self, error: ChangeError) {
        let error = match error {
            ChangeError::Limits(_) => ChangeError::Limits(LimitsError::ZeroConcurrency),
            error => error,
        };
        count(&CHANGES, &mut self.changes, |known| *known == error);
    }

    /// Everything that is counted, by name: a history that leaves one at 0 shows less than it could.
    pub fn counts(&self) -> impl Iterator<Item = Count> + '_ {
        pairs(&["granted", "refused", "taken-back", "forgotten"], &self.events)
            .chain(pairs(&["start", "wait", "give-up", "running", "gone"], &self.steps))
            .chain(pairs(&REASON_NAMES, &self.reasons))
            .chain(pairs(&HOLD_NAMES, &self.holds))
            .chain(pairs(&CHANGE_NAMES, &self.changes))
    }

    pub(crate) fn write(&self, out: &mut Digesting<'_>) -> fmt::Result {
        write!(out, "starts {}", self.starts)?;
        for (name, count) in self.counts() {
            write!(out, " {name} {count}")?;
        }
        out.write_str("\n")
    }
}

fn pairs<'a>(names: &'static [&'static str], counts: &'a [u32]) -> impl Iterator<Item = Count> + 'a {
    names.iter().copied().zip(counts.iter().copied())
}

fn count<T>(known: &[T], counts: &mut [u32], is_it: impl FnMut(&T) -> bool) {
    if let Some(at) = known.iter().position(is_it) {
        counts[at] += 1;
    }
}

/// A writer that keeps a digest (FNV-1a, 64 bits) of all that passes through. It tells differing texts apart
/// where they are not compared as they stand; nobody means to deceive it.
pub(crate) struct Digesting<'a> {
    out: &'a mut dyn Write,
    digest: u64,
    bytes: u64,
}

impl<'a> Digesting<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, digest: 0xcbf2_9ce4_8422_2325, bytes: 0 }
    }

    pub(crate) fn line(&mut self, words: fmt::Arguments<'_>) -> fmt::Result {
        self.write_fmt(words)?;
        self.write_str("\n")
    }

    /// The last line.
    pub(crate) fn end(mut self, decisions: u32) -> fmt::Result {
        let (digest, bytes) = (self.digest, self.bytes);
        self.line(format_args!("digest {digest:016x} of {bytes} bytes, {decisions} decisions"))
    }
}

impl Write for Digesting<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.bytes += text.len() as u64;
        self.out.write_str(text)
    }
}

/// A unit that no configuration here has.
pub(crate) const STRANGE_UNIT: UnitId = UnitId::new(9);
