//! What runs in a scope, and what its limits know: the client has one of these and each provider.
//!
//! Owns: the counts of running and granted tickets, the not-before time, the pacers, and how far the
//! hand-off time is halved. It is told what happens and says nothing about who may go: that is
//! [`judge`](crate::verdict::judge)'s alone.

use alloc::vec::Vec;

use crate::config::{ConfigError, CountsFrom, Limits, Pacer as PacerConfig};
use crate::pace::{IntervalPacer, SlidingLog};
use crate::{Instant, UnitId};

#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The largest number of tickets granted or running.
    pub(crate) max_concurrent: u32,
    pub(crate) running: u32,
    pub(crate) granted: u32,
    /// How often the hand-off time is halved (rule S4a).
    pub(crate) halvings: u8,
    /// Whether one of the pacers is an interval (rule S2).
    pub(crate) has_interval: bool,
    /// The end of the cooldown; for the client always the origin.
    pub(crate) not_before: Instant,
    pub(crate) pacers: Vec<Pacer>,
}

#[derive(Clone, Debug)]
pub(crate) enum Pacer {
    Interval(IntervalPacer),
    Log(SlidingLog),
}

/// What a ticket asks of one of its scopes.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    /// Its costs in the units after requests.
    pub(crate) costs: &'a [u64],
    /// Whether the scope's logs are not to be asked (rule D2).
    pub(crate) exempt: bool,
}

impl Ask<'_> {
    pub(crate) fn cost(&self, unit: UnitId) -> u64 {
        match unit {
            UnitId::REQUESTS => 1,
            UnitId(unit) => self.costs[usize::from(unit) - 1],
        }
    }
}

impl Scope {
    pub(crate) fn try_new(limits: &Limits) -> Result<Self, ConfigError> {
        let mut pacers = Vec::new();
        pacers.try_reserve_exact(limits.pacers.len()).map_err(|_| ConfigError::OutOfMemory)?;
        for pacer in &limits.pacers {
            pacers.push(match pacer {
                PacerConfig::Interval(config) => Pacer::Interval(IntervalPacer::new(config)),
                PacerConfig::Log(config) => {
                    Pacer::Log(SlidingLog::try_new(config).map_err(|_| ConfigError::OutOfMemory)?)
                }
            });
        }
        Ok(Self {
            max_concurrent: limits.max_concurrent.unwrap_or(u32::MAX),
            running: 0,
            granted: 0,
            halvings: 0,
            has_interval: pacers.iter().any(|pacer| matches!(pacer, Pacer::Interval(_))),
            not_before: Instant::ZERO,
            pacers,
        })
    }

    /// A ticket may start, and holds its slot and its budget until it does.
    pub(crate) fn grant(&mut self, ask: Ask<'_>) {
        self.granted += 1;
        for (log, cost) in self.logs(ask) {
            log.hold(cost);
        }
    }

    /// A granted ticket starts (rule S1).
    pub(crate) fn start(&mut self, ask: Ask<'_>, now: Instant) {
        self.granted -= 1;
        self.running += 1;
        self.halvings = 0;
        for pacer in &mut self.pacers {
            match pacer {
                Pacer::Interval(interval) => interval.stamp(now),
                Pacer::Log(log) if log.counts == CountsFrom::Start => {
                    log.spend_held(ask.cost(log.unit), now, now);
                }
                Pacer::Log(_) => {}
            }
        }
    }

    /// A running call is over. `forgotten`: the logs were reset since it started (rule D2).
    pub(crate) fn settle(&mut self, ask: Ask<'_>, forgotten: bool, now: Instant) {
        self.running -= 1;
        if !forgotten {
            for (log, cost) in self.logs(ask).filter(|(log, _)| log.counts == CountsFrom::Settled) {
                log.spend_held(cost, now, now);
            }
        }
    }

    /// A grant is taken back before its start, and everything with it (rules S4, S5).
    pub(crate) fn take_back(&mut self, ask: Ask<'_>) {
        self.granted -= 1;
        for (log, cost) in self.logs(ask) {
            log.let_go(cost);
        }
    }

    /// A granted ticket goes away before its start: its budget is spent, as of the grant (rule S3).
    pub(crate) fn abandon(&mut self, ask: Ask<'_>, granted_at: Instant, now: Instant) {
        self.granted -= 1;
        for pacer in &mut self.pacers {
            match pacer {
                Pacer::Interval(interval) => interval.stamp(granted_at),
                Pacer::Log(log) => log.spend_held(ask.cost(log.unit), granted_at, now),
            }
        }
    }

    /// Forgets what the logs know of starts (rule D2). Running calls' holdings go one by one, by
    /// [`Scope::forget_running`].
    pub(crate) fn reset_logs(&mut self) {
        for pacer in &mut self.pacers {
            if let Pacer::Log(log) = pacer {
                log.reset();
            }
        }
    }

    /// A running call's holdings in the logs that count until it has settled.
    pub(crate) fn forget_running(&mut self, ask: Ask<'_>) {
        for (log, cost) in self.logs(ask).filter(|(log, _)| log.counts == CountsFrom::Settled) {
            log.let_go(cost);
        }
    }

    fn logs<'s>(&'s mut self, ask: Ask<'s>) -> impl Iterator<Item = (&'s mut SlidingLog, u64)> {
        self.pacers.iter_mut().filter_map(move |pacer| match pacer {
            Pacer::Log(log) => {
                let cost = ask.cost(log.unit);
                Some((log, cost))
            }
            Pacer::Interval(_) => None,
        })
    }
}
