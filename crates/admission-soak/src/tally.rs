//! What was done, counted.
//!
//! Owns: one counter for each kind of thing, and its name. Lacks any judgement about the numbers.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! events {
    ($($heading:literal: $($event:ident $label:literal),+;)+) => {
        /// What is counted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each has its label")]
        pub enum Event { $($($event),+),+ }

        const LABELS: &[(&str, &[(Event, &str)])] = &[$(($heading, &[$((Event::$event, $label)),+])),+];

        const EVENTS: usize = [$($(Event::$event),+),+].len();
    };
}

events! {
    "calls":
        Run "run", TryRun "try_run", Acquire "acquire and hold", TryAcquire "try_acquire", Enqueue "enqueue",
        Retry "retry", OnTemplate "of a template", RateLimiter "rate limiter", IntervalLimiter "interval limiter",
        OwnFace "of the blocking front", Refresh "refresh", Subscribe "subscribe", Driven "stream driven",
        Spawned "stream spawned", Paced "stream paced", Idle "idle", Change "change";
    "physical":
        Started "operations called", Finished "finished", Failed "failed", Sources "sources called", Items "items read",
        Settled "costs settled";
    "answers":
        Admitted "admitted", Aborted "aborted", Expired "expired", Overflow "overflow", OtherRefusal "refused otherwise";
    "cancels":
        DropUnpolled "dropped unpolled", DropQueued "queued", DropWoken "woken and not polled", DropRunning "running",
        DropStream "in mid-stream", DropRefresh "refresh", LostRace "lost to a timer", Fired "signals fired",
        WithRuntime "with their runtime", Left "left to a stranger";
    "changes":
        SetLimits "set_limits", SetMaxQueued "set_max_queued", Cooldown "cooldown", Reset "reset",
        AddProvider "add_provider", RemoveProvider "remove_provider", PauseQuery "pause and resume",
        Dispose "dispose", Look "snapshot", RuntimeEnded "runtimes ended";
    "hostility":
        PanicInOperation "operations panicked", PanicInClosure "closures panicked", PanicInDrop "destructors panicked",
        PanicInWaker "wakers panicked", PanicInHook "hooks panicked", CameOut "panics that came out of a poll",
        Wakes "hostile wakes", Meddled "came back in from a wake", PolledInWake "polled inside a wake";
}

/// The counters.
#[derive(Debug)]
pub struct Tally([AtomicU64; EVENTS]);

impl Tally {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; EVENTS])
    }

    /// One more.
    pub fn count(&self, event: Event) {
        self.add(event, 1);
    }

    /// So many more.
    pub fn add(&self, event: Event, times: u64) {
        self.0[event as usize].fetch_add(times, Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn of(&self, event: Event) -> u64 {
        self.0[event as usize].load(Ordering::Relaxed)
    }

    /// All that happened at all, one line for each heading.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for (heading, events) in LABELS {
            let counted = events.iter().filter(|(event, _)| self.of(*event) > 0);
            let counted: Vec<_> =
                counted.map(|(event, label)| format!("{label} {}", grouped(self.of(*event)))).collect();
            let _ = writeln!(text, "  {heading:<10}{}", counted.join(", "));
        }
        text
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

/// A number with its thousands apart.
#[must_use]
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
