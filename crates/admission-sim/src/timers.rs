//! What the alarms of all runtimes were asked for, and when they ring instead.
//!
//! Owns: the lies, and the check that no alarm is set for now or over and over. Lacks the timers themselves.

use std::time::Duration;

use admission_testing::Firing;

use crate::faults::Fault;
use crate::plan::Lie;

/// What the alarms of all runtimes do, and what they were asked for.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) lies: Vec<Option<(Lie, u32)>>,
    /// The latest instant, by the runtimes' clock, at which an alarm rings late.
    pub(crate) late_until: u64,
    /// The latest instant, by the coordinator's clock, for which it set an alarm that does not ring then. It
    /// will not set that one again before.
    pub(crate) lost_until: u64,
    told: Vec<Fault>,
    /// Armed so often without time passing.
    rush: (u64, u32),
    pub(crate) wrong: Option<String>,
}

impl Timers {
    /// Of so many runtimes, all honest.
    pub(crate) fn new(runtimes: usize) -> Self {
        Self { lies: vec![None; runtimes], ..Self::default() }
    }

    pub(crate) fn armed(&mut self, runtime: usize, now: u64, due: u64, reading: u64) -> Firing {
        if due <= now {
            self.wrong.get_or_insert("an alarm is set that is not in the future".to_owned());
        }
        self.rush = if self.rush.0 == now { (now, self.rush.1 + 1) } else { (now, 0) };
        if self.rush.1 > 1_000 {
            self.wrong.get_or_insert("an alarm is set again and again at one instant".to_owned());
            return Firing::Never;
        }
        let Some(Some((lie, left))) = self.lies.get_mut(runtime) else { return Firing::OnTime };
        if *left == 0 {
            return Firing::OnTime;
        }
        *left -= 1;
        let late = match lie {
            Lie::Late(by) => *by,
            Lie::Early(_) | Lie::Lost => 0,
        };
        self.late_until = self.late_until.max(due.saturating_add(late));
        self.lost_until = self.lost_until.max(reading.saturating_add(due - now));
        let (fault, firing) = match *lie {
            Lie::Early(by) => (Fault::AlarmEarly, Firing::Early(Duration::from_nanos(by))),
            Lie::Late(by) => (Fault::AlarmLate, Firing::Late(Duration::from_nanos(by))),
            Lie::Lost => (Fault::AlarmLost, Firing::Never),
        };
        self.told.push(fault);
        firing
    }

    pub(crate) fn take_told(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.told)
    }
}
