//! What runs in a scope, and what its limits know: the client has one of these and each provider.
//!
//! Owns: the counts of running and granted tickets, the not-before time, the pacers, and how far the
//! hand-off time is halved. It is told what happens and says nothing about who may go: that is
//! [`judge`](crate::verdict::judge)'s alone.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::config::{Limits, LimitsError, Pacer as PacerConfig};
use crate::pace::{IntervalPacer, Room, SlidingLog};
use crate::queue::Queue;
use crate::verdict::Folded;
use crate::{Instant, Side, UnitId};

#[derive(Clone, Default, Debug)]
pub(crate) struct Scope {
    /// The largest number of tickets granted or running.
    pub(crate) max_concurrent: u32,
    pub(crate) running: u32,
    pub(crate) granted: u32,
    /// How often the hand-off time is halved (rule S4a).
    pub(crate) halvings: u8,
    /// Whether one of the logs has to hear of calls that settle: counts from there, or did once.
    has_settling: bool,
    /// Whether one of the pacers is an interval (rule S2).
    pub(crate) has_interval: bool,
    /// Whether one of the pacers is a log.
    has_logs: bool,
    /// The number of the log, if there is one and no other; else that of no pacer.
    only_log: u16,
    /// Whether one of the logs counts anything but requests, and has to hear of the costs of grants.
    has_costs: bool,
    /// Whether one of the logs has something to say once a ticket is granted.
    hears_of_grants: bool,
    /// The number of the interval with the widest gap.
    widest: u16,
    /// The widest gap of its intervals.
    gap_nanos: u64,
    /// The last start, if there was one since the limits last changed: what its intervals run from.
    pub(crate) last_start: Option<Instant>,
    /// The end of the cooldown; for the client always the origin.
    pub(crate) not_before: Instant,
    pub(crate) pacers: Vec<Pacer>,
    /// What the pacers say, as long as no grant holds an interval.
    pub(crate) folded: Folded,
    /// Of its limits.
    pub(crate) fingerprint: u64,
}

/// The number of no pacer: there are fewer.
const NO_PACER: u16 = u16::MAX;

#[derive(Clone, Debug)]
pub(crate) enum Pacer {
    Interval(IntervalPacer),
    Log(SlidingLog),
}

/// What a ticket asks of one of its scopes. It is looked up when a log wants to know it.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    queue: &'a Queue,
    who: u32,
}

impl<'a> Ask<'a> {
    /// Who has no slot yet, and is being judged.
    const NEWCOMER: u32 = u32::MAX;
    /// Somebody of whom no log wants to know anything.
    const NOBODY: u32 = u32::MAX - 1;

    /// What the ticket in a slot asks.
    #[inline(always)]
    pub(crate) const fn of(queue: &'a Queue, index: u32) -> Self {
        Self { queue, who: index }
    }

    /// What the newcomer asks.
    #[inline(always)]
    pub(crate) const fn of_newcomer(queue: &'a Queue) -> Self {
        Self { queue, who: Self::NEWCOMER }
    }

    /// Nothing of the logs.
    pub(crate) const fn no_log(queue: &'a Queue) -> Self {
        Self { queue, who: Self::NOBODY }
    }

    pub(crate) fn cost(self, unit: UnitId) -> u64 {
        match (unit, self.who) {
            (UnitId::REQUESTS, _) => 1,
            (_, Self::NEWCOMER) => self.queue.newcomers_cost(unit),
            (_, Self::NOBODY) => 0,
            (_, index) => self.queue.cost(index, unit),
        }
    }

    /// Whether the logs of a side are not to be asked (rule D2).
    #[inline(always)]
    pub(crate) fn is_exempt(self, side: Side) -> bool {
        match self.who {
            Self::NEWCOMER => false,
            Self::NOBODY => true,
            index => self.queue.is_exempt(index, side),
        }
    }
}

impl Scope {
    /// A scope in which nothing has happened; the next start is number `next_start`.
    pub(crate) fn try_new(limits: &Limits, next_start: u64) -> Result<Self, LimitsError> {
        let mut scope = Self::default();
        scope.adapt(limits, next_start, next_start, Instant::ZERO)?;
        Ok(scope)
    }

    /// Makes room beforehand for what its logs may hold. For the scopes of the configuration; logs that
    /// come later grow as they are used, for there may be very many of them.
    pub(crate) fn try_reserve(&mut self) -> Result<(), TryReserveError> {
        self.pacers.iter_mut().try_for_each(|pacer| match pacer {
            Pacer::Interval(_) => Ok(()),
            Pacer::Log(log) => log.try_reserve(),
        })
    }

    /// Goes on with other limits (rule L7). A pacer keeps what it knows if its kind and unit stay, of
    /// several alike the n-th; a new one starts empty. What is granted is to be told again, by
    /// [`Scope::hold`]. `oldest`: the number of the oldest start that still runs, or less.
    pub(crate) fn adapt(
        &mut self,
        limits: &Limits,
        oldest: u64,
        next_start: u64,
        now: Instant,
    ) -> Result<(), LimitsError> {
        let mut old: Vec<Option<Pacer>> = Vec::new();
        let mut pacers = Vec::new();
        old.try_reserve_exact(self.pacers.len()).map_err(|_| LimitsError::OutOfMemory)?;
        pacers.try_reserve_exact(limits.pacers.len()).map_err(|_| LimitsError::OutOfMemory)?;
        // Nothing can fail from here on.
        old.extend(self.pacers.drain(..).map(Some));
        for config in &limits.pacers {
            let kept = old.iter_mut().find(|old| match (&**old, config) {
                (Some(Pacer::Interval(_)), PacerConfig::Interval(_)) => true,
                (Some(Pacer::Log(log)), PacerConfig::Log(config)) => log.unit == config.unit,
                _ => false,
            });
            pacers.push(match (kept.and_then(Option::take), config) {
                (Some(Pacer::Interval(mut interval)), PacerConfig::Interval(config)) => {
                    interval.adapt(config, self.last_start);
                    Pacer::Interval(interval)
                }
                (Some(Pacer::Log(mut log)), PacerConfig::Log(config)) => {
                    log.adapt(config, oldest, next_start, now);
                    Pacer::Log(log)
                }
                (_, PacerConfig::Interval(config)) => Pacer::Interval(IntervalPacer::new(config)),
                (_, PacerConfig::Log(config)) => Pacer::Log(SlidingLog::new(config, next_start)),
            });
        }
        self.has_settling =
            pacers.iter().any(|pacer| matches!(pacer, Pacer::Log(log) if log.may_be_unsettled()));
        self.last_start = None;
        (self.has_interval, self.widest, self.gap_nanos) = (false, 0, 0);
        for (index, pacer) in pacers.iter().enumerate() {
            if let Pacer::Interval(interval) = pacer {
                if interval.gap_nanos > self.gap_nanos {
                    (self.widest, self.gap_nanos) = (index as u16, interval.gap_nanos);
                }
                self.has_interval = true;
            }
        }
        let is_log = |pacer: &Pacer| matches!(pacer, Pacer::Log(_));
        let first_log = pacers.iter().position(is_log);
        self.has_logs = first_log.is_some();
        let only_log = first_log.filter(|_| pacers.iter().rposition(is_log) == first_log);
        self.only_log = only_log.map_or(NO_PACER, |index| index as u16);
        self.has_costs =
            pacers.iter().any(|pacer| matches!(pacer, Pacer::Log(log) if !log.counts_requests()));
        self.hears_of_grants = self.has_costs || (self.has_logs && !self.has_interval);
        self.pacers = pacers;
        self.max_concurrent = limits.max_concurrent.unwrap_or(u32::MAX);
        self.fingerprint = limits.fingerprint();
        self.fold(now);
        Ok(())
    }

    /// Something happened to a pacer.
    #[inline(never)]
    fn fold(&mut self, now: Instant) {
        let mut folded = Folded::OPEN;
        for (index, pacer) in self.pacers.iter_mut().enumerate() {
            match pacer {
                Pacer::Interval(interval) => {
                    folded.with_interval(index, interval.empty_from(self.last_start))
                }
                Pacer::Log(log) => folded.with_room(index, log.next_room(self.granted, now)),
            }
        }
        self.folded = folded;
    }

    /// No start before number `oldest` runs any more.
    pub(crate) fn forget_turns(&mut self, oldest: u64) {
        for pacer in &mut self.pacers {
            if let Pacer::Log(log) = pacer {
                log.forget_turns(oldest);
            }
        }
    }

    /// The logs hear of a granted ticket's budget. Those that count requests read it from the scope.
    #[inline(always)]
    pub(crate) fn hold(&mut self, ask: Ask<'_>, now: Instant) {
        if self.hears_of_grants {
            self.hold_costs(ask, now);
        }
    }

    #[inline(never)]
    fn hold_costs(&mut self, ask: Ask<'_>, now: Instant) {
        if self.has_costs {
            for (log, cost) in self.logs(ask) {
                log.hold(cost);
            }
        }
        if !self.has_interval {
            self.fold(now);
        }
    }

    /// A ticket may start, and holds its slot and its budget until it does.
    #[inline(always)]
    pub(crate) fn grant(&mut self, ask: Ask<'_>, now: Instant) {
        self.granted += 1;
        if self.hears_of_grants {
            self.hold_costs(ask, now);
        }
    }

    /// A granted ticket starts (rule S1).
    #[inline(always)]
    pub(crate) fn start(&mut self, ask: Ask<'_>, now: Instant) {
        self.run_granted();
        self.pace_granted(ask, now);
    }

    /// One that was granted runs; the pacers are still to hear of it.
    #[inline(always)]
    pub(crate) fn run_granted(&mut self) {
        self.granted -= 1;
        self.run();
    }

    /// One more runs.
    #[inline(always)]
    pub(crate) fn run(&mut self) {
        self.running += 1;
        self.halvings = 0;
    }

    /// Whether there are pacers, which hear of starts.
    #[inline(always)]
    pub(crate) fn is_paced(&self) -> bool {
        !self.pacers.is_empty()
    }

    /// Whether a log has something to say once a ticket is granted. (An interval says it for all.)
    #[inline(always)]
    pub(crate) fn hears_of_grants(&self) -> bool {
        self.hears_of_grants
    }

    /// Whether a log has to hear of the costs of grants.
    #[inline(always)]
    pub(crate) fn has_costs(&self) -> bool {
        self.has_costs
    }

    /// Whether a log has to hear of calls that settle.
    #[inline(always)]
    pub(crate) fn hears_of_ends(&self) -> bool {
        self.has_settling
    }

    /// The pacers hear of the start of a ticket that was granted.
    #[inline(always)]
    pub(crate) fn pace_granted(&mut self, ask: Ask<'_>, now: Instant) {
        if self.has_costs {
            self.let_go(ask);
        }
        self.pace_if_any(ask, now);
    }

    #[inline(never)]
    fn let_go(&mut self, ask: Ask<'_>) {
        for (log, cost) in self.logs(ask) {
            log.let_go(cost);
        }
    }

    /// A ticket that nobody saw granted starts (rule S6).
    #[inline(always)]
    pub(crate) fn start_at_once(&mut self, ask: Ask<'_>, now: Instant) {
        self.run();
        self.pace_if_any(ask, now);
    }

    /// The pacers hear of a start, if there are some.
    #[inline(always)]
    pub(crate) fn pace_if_any(&mut self, ask: Ask<'_>, now: Instant) {
        if self.is_paced() {
            self.pace_apart(ask, now);
        }
    }

    /// [`Self::pace`], where the code of it in its place is not worth its while.
    #[inline(never)]
    fn pace_apart(&mut self, ask: Ask<'_>, now: Instant) {
        self.pace(ask, now);
    }

    /// The pacers hear of a start.
    #[inline(always)]
    pub(crate) fn pace(&mut self, ask: Ask<'_>, now: Instant) {
        if self.has_interval {
            // Time does not run back: no start was later.
            self.last_start = Some(now);
            let over = now.plus(self.gap_nanos);
            if over == Instant::NEVER {
                return self.pace_without_end(ask, now);
            }
            self.folded = Folded::gap(over, self.widest);
        }
        self.log(ask, now);
    }

    /// The same after a start which an interval lets nobody follow.
    #[cold]
    fn pace_without_end(&mut self, ask: Ask<'_>, now: Instant) {
        self.folded = Folded::gap(Instant::NEVER, self.first_endless());
        if self.has_logs {
            self.log_each(ask, now);
        }
    }

    /// The first interval that is never over, if the widest is not: of several that say the same the first is
    /// told of.
    fn first_endless(&self) -> u16 {
        let is_endless = |pacer: &Pacer| match pacer {
            Pacer::Interval(interval) => interval.empty_from(self.last_start) == Instant::NEVER,
            _ => false,
        };
        self.pacers.iter().position(is_endless).map_or(self.widest, |index| index as u16)
    }

    /// The intervals hear of a start, or of a grant that was abandoned and counts as one (rule S3): that may be
    /// older than the last start.
    #[inline(always)]
    fn stamp(&mut self, at: Instant) {
        self.last_start = self.last_start.max(Some(at));
    }

    /// The logs hear of a start, after the intervals. Mostly there is one at most, and it has nothing to say.
    #[inline(always)]
    fn log(&mut self, ask: Ask<'_>, now: Instant) {
        if !self.has_interval {
            self.folded = Folded::OPEN;
        }
        let is_noted = match self.pacers.get_mut(usize::from(self.only_log)) {
            Some(Pacer::Log(log)) => log.start_easily(self.granted, now),
            _ => !self.has_logs,
        };
        if !is_noted {
            self.log_in_turn(ask, now);
        }
    }

    /// Or there is one, and one start goes out as one comes in.
    #[inline(never)]
    fn log_in_turn(&mut self, ask: Ask<'_>, now: Instant) {
        if let Some(Pacer::Log(log)) = self.pacers.get_mut(usize::from(self.only_log)) {
            if let Some(at) = log.start_in_turn(self.granted, now) {
                return self.folded.with_room(usize::from(self.only_log), Room::At(at));
            }
        }
        self.log_each(ask, now);
    }

    /// The same for any number of logs.
    #[inline(never)]
    fn log_each(&mut self, ask: Ask<'_>, now: Instant) {
        for (index, pacer) in self.pacers.iter_mut().enumerate() {
            if let Pacer::Log(log) = pacer {
                let room = log.start_shortly(ask.cost(log.unit), self.granted, now);
                self.folded.with_room(index, room);
            }
        }
    }

    /// The running call that was start number `number` is over.
    #[inline(always)]
    pub(crate) fn settle(&mut self, ask: Ask<'_>, number: u64, now: Instant) {
        self.running -= 1;
        if self.has_settling {
            self.settle_logs(ask, number, now);
        }
    }

    #[inline(never)]
    fn settle_logs(&mut self, ask: Ask<'_>, number: u64, now: Instant) {
        for log in self.pacers.iter_mut().filter_map(Pacer::log) {
            if log.is_unsettled(number) {
                log.settle(ask.cost(log.unit), now);
            }
        }
        self.fold(now);
    }

    /// The cost of a running call in one unit turned out to be another (rule L8).
    pub(crate) fn correct(
        &mut self,
        ask: Ask<'_>,
        unit: UnitId,
        cost: u64,
        number: u64,
        at: Instant,
        now: Instant,
    ) {
        for (log, old) in self.logs(ask).filter(|(log, _)| log.unit == unit) {
            log.correct(old, cost, number, at, now);
        }
        self.fold(now);
    }

    /// A grant is taken back before its start, and everything with it (rules S4, S5).
    pub(crate) fn take_back(&mut self, ask: Ask<'_>, now: Instant) {
        self.granted -= 1;
        self.let_go(ask);
        self.fold(now);
    }

    /// A granted ticket goes away before its start: its budget is spent, as of the grant (rule S3).
    pub(crate) fn abandon(&mut self, ask: Ask<'_>, granted_at: Instant, now: Instant) {
        self.granted -= 1;
        self.stamp(granted_at);
        for log in self.pacers.iter_mut().filter_map(Pacer::log) {
            log.abandon(ask.cost(log.unit), granted_at, now);
        }
        self.fold(now);
    }

    /// Forgets what the logs know of starts, running calls included (rule D2).
    pub(crate) fn reset_logs(&mut self, next_start: u64, now: Instant) {
        for pacer in &mut self.pacers {
            if let Pacer::Log(log) = pacer {
                log.reset(next_start);
            }
        }
        self.fold(now);
    }

    /// From when nothing is left to remember of it, if nothing happens until then (rule L10).
    pub(crate) fn empty_from(&self) -> Instant {
        self.pacers.iter().fold(self.not_before, |latest, pacer| {
            latest.max(match pacer {
                Pacer::Interval(interval) => interval.empty_from(self.last_start),
                Pacer::Log(log) => log.empty_from(),
            })
        })
    }

    #[cfg(steps)]
    pub(crate) fn steps(&self) -> u64 {
        let in_logs = self.pacers.iter().map(|pacer| match pacer {
            Pacer::Log(log) => log.steps.total(),
            Pacer::Interval(_) => 0,
        });
        in_logs.sum()
    }

    fn logs<'s>(&'s mut self, ask: Ask<'s>) -> impl Iterator<Item = (&'s mut SlidingLog, u64)> {
        self.pacers.iter_mut().filter_map(Pacer::log).map(move |log| {
            let cost = ask.cost(log.unit);
            (log, cost)
        })
    }
}

impl Pacer {
    fn log(&mut self) -> Option<&mut SlidingLog> {
        match self {
            Self::Log(log) => Some(log),
            Self::Interval(_) => None,
        }
    }
}
