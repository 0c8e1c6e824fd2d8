//! The one place that says whether a ticket may go, and if not, what would have to happen.
//!
//! [`judge`] looks at one scope of a ticket. The newcomer is judged by both of its scopes; the scan
//! keeps the providers whose oldest ticket passes its provider in order, and judges the first of
//! them by the client; the alarm is set for the instants that verdicts name. The rest of rule E1
//! needs no judgement: who waits for a key or is passed over stands in no line, and by rule E3 only
//! the oldest ticket of a line can go, because whatever holds it back holds the younger ones too.
//! [`Opening`] is the part that only time decides; estimates use it alone (rules R1, R2).
//! [`each_hold`] lists what [`judge`] picks from, for those who ask why a ticket waits (rule O2).

use crate::pace::{Room, SlidingLog};
use crate::scope::{Ask, Pacer, Scope};
use crate::{Hold, Instant, Side};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It may start now.
    Go,
    /// Time alone lets it start, at this instant.
    Until(Instant, Hold),
    /// It waits for somebody else: a call that ends, a grant that starts.
    Blocked(Hold),
}

/// Whether one scope lets a ticket start.
#[inline(always)]
pub(crate) fn judge(scope: &Scope, side: Side, ask: Ask<'_>, now: Instant) -> Verdict {
    if let Some(verdict) = judge_at_once(scope, side, now) {
        return verdict;
    }
    if scope.folded.is_known && !ask.is_exempt(side) {
        return scope.folded.verdict(scope.not_before, side);
    }
    judge_in_time(scope, side, ask, now)
}

/// The same, if it can be said of everybody without a look at the pacers.
#[inline(always)]
pub(crate) fn judge_at_once(scope: &Scope, side: Side, now: Instant) -> Option<Verdict> {
    if let Some(hold) = held_whoever_asks(scope, side) {
        return Some(Verdict::Blocked(hold));
    }
    (scope.not_before <= now && scope.folded.at <= now).then_some(Verdict::Go)
}

/// What a scope's pacers say to a call that costs 1 request, in one number: from when they let it start,
/// if nothing happens before. [`judge`] reads it in their place, for time only opens what is closed; whatever
/// happens to a pacer, the scope folds them anew. Only calls ask that cost so much, or are asked less.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Folded {
    /// Never, if it is not known.
    pub(crate) at: Instant,
    /// The number of the pacer that says so.
    pacer: u16,
    is_log: bool,
    /// Whether they can be folded: none counts anything but requests, and none waits for more than time.
    pub(crate) is_known: bool,
}

impl Default for Folded {
    fn default() -> Self {
        Self::OPEN
    }
}

impl Folded {
    /// No pacer has anything to say.
    pub(crate) const OPEN: Self = Self { at: Instant::ZERO, pacer: 0, is_log: false, is_known: true };
    const UNKNOWN: Self = Self { at: Instant::NEVER, is_known: false, ..Self::OPEN };

    /// What the widest of the intervals says right after a start, if it is over at `at`.
    #[inline(always)]
    pub(crate) const fn gap(at: Instant, pacer: u16) -> Self {
        Self { at, pacer, is_log: false, is_known: true }
    }

    /// An interval has its say.
    pub(crate) fn with_interval(&mut self, pacer: usize, over: Instant) {
        self.close_until(over, pacer, false);
    }

    /// A log has its say about a call that costs it 1.
    pub(crate) fn with_room(&mut self, pacer: usize, room: Room) {
        match room {
            Room::Now => {}
            Room::At(at) => self.close_until(at, pacer, true),
            Room::Held(_) => *self = Self::UNKNOWN,
        }
    }

    /// Of several that say the same the first is told of.
    fn close_until(&mut self, at: Instant, pacer: usize, is_log: bool) {
        let pacer = pacer as u16;
        if at > self.at || (at == self.at && pacer < self.pacer) {
            *self = Self { at, pacer, is_log, is_known: self.is_known };
        }
    }

    /// The verdict on a call that is not let go, unless it is exempt from the logs.
    #[inline(always)]
    fn verdict(self, not_before: Instant, side: Side) -> Verdict {
        if not_before >= self.at {
            Verdict::Until(not_before, Hold::Cooldown)
        } else if self.is_log {
            Verdict::Until(self.at, Hold::Log(side, self.pacer))
        } else {
            Verdict::Until(self.at, Hold::Interval(side, self.pacer))
        }
    }

    /// It says the same as the pacers do.
    #[cfg(audit)]
    pub(crate) fn audit(scope: &Scope, side: Side, ask: Ask<'_>, now: Instant) {
        if held_whoever_asks(scope, side).is_none() {
            assert_eq!(judge(scope, side, ask, now), judge_in_time(scope, side, ask, now), "folded pacers");
            let opens = Opening::behind_at_length(scope, side, ask, 0, now);
            assert_eq!(Opening::behind(scope, side, ask, 0, now), opens, "folded pacers");
        }
    }
}

/// What [`judge`] says where time decides.
#[inline(never)]
fn judge_in_time(scope: &Scope, side: Side, ask: Ask<'_>, now: Instant) -> Verdict {
    let opening = Opening::of(scope, side, ask, now);
    match opening.hold {
        None => Verdict::Go,
        Some(hold) if opening.held => Verdict::Blocked(hold),
        Some(hold) => Verdict::Until(opening.at, hold),
    }
}

/// What a log says to a ticket, which may be exempt from it (rule D2).
#[inline(always)]
fn room_in(log: &SlidingLog, side: Side, ask: Ask<'_>, room: impl FnOnce(u64) -> Room) -> Room {
    if ask.is_exempt(side) { Room::Now } else { room(ask.cost(log.unit)) }
}

/// What holds back every ticket of a scope, for as long as nobody ends or starts.
#[inline(always)]
pub(crate) fn held_whoever_asks(scope: &Scope, side: Side) -> Option<Hold> {
    if is_full(scope) {
        Some(Hold::Concurrency(side))
    } else {
        is_handing_off(scope).then_some(Hold::HandOff(side))
    }
}

#[inline]
fn is_full(scope: &Scope) -> bool {
    scope.running + scope.granted >= scope.max_concurrent
}

/// Whether a gap runs from a start that is still to come (rule S2).
#[inline]
fn is_handing_off(scope: &Scope) -> bool {
    scope.has_interval && scope.granted > 0
}

/// Tells of everything in one scope that holds a ticket back by itself, with the instant at which time
/// ends it; none if time alone does not.
pub(crate) fn each_hold(
    scope: &Scope,
    side: Side,
    ask: Ask<'_>,
    now: Instant,
    mut found: impl FnMut(Hold, Option<Instant>),
) {
    if is_full(scope) {
        found(Hold::Concurrency(side), None);
    }
    if is_handing_off(scope) {
        found(Hold::HandOff(side), None);
    }
    each_in_time(
        scope,
        side,
        ask,
        |log, cost| log.room(cost, scope.granted, now),
        now,
        |hold, room| match room {
            Room::At(at) => found(hold, Some(at).filter(|&at| at < Instant::NEVER)),
            Room::Now | Room::Held(_) => found(hold, None),
        },
    );
}

/// Whether a scope holds a ticket back, and by nothing but log budgets (rule E3).
pub(crate) fn is_held_by_logs_alone(scope: &Scope, side: Side, ask: Ask<'_>, now: Instant) -> bool {
    let (mut by_logs, mut by_else) = (false, false);
    each_hold(scope, side, ask, now, |hold, _| match hold {
        Hold::Log(..) => by_logs = true,
        _ => by_else = true,
    });
    by_logs && !by_else
}

/// Tells of the cooldown and of each pacer that holds a ticket back.
#[inline(always)]
fn each_in_time(
    scope: &Scope,
    side: Side,
    ask: Ask<'_>,
    room_of: impl Fn(&SlidingLog, u64) -> Room,
    now: Instant,
    mut found: impl FnMut(Hold, Room),
) {
    if scope.not_before > now {
        found(Hold::Cooldown, Room::At(scope.not_before));
    }
    for (index, pacer) in scope.pacers.iter().enumerate() {
        let index = index as u16;
        let (room, hold) = match pacer {
            Pacer::Interval(interval) => (interval.room(scope.last_start, now), Hold::Interval(side, index)),
            Pacer::Log(log) => (room_in(log, side, ask, |cost| room_of(log, cost)), Hold::Log(side, index)),
        };
        if room != Room::Now {
            found(hold, room);
        }
    }
}

/// When time opens a scope for a ticket: its cooldown and its pacers, and nothing else.
pub(crate) struct Opening {
    /// The latest of their instants; `now` if none is later.
    pub(crate) at: Instant,
    /// Which of them it is.
    pub(crate) hold: Option<Hold>,
    /// Whether one of them waits for more than time.
    pub(crate) held: bool,
}

impl Opening {
    #[inline]
    pub(crate) fn of(scope: &Scope, side: Side, ask: Ask<'_>, now: Instant) -> Self {
        Self::gather(scope, side, ask, now, |log, cost| log.room(cost, scope.granted, now))
    }

    /// The instant alone, for somebody who stands behind others (rule R2): logs of requests count those ahead,
    /// and what is held counts from now. Never later than the start can really be.
    #[inline(always)]
    pub(crate) fn behind(scope: &Scope, side: Side, ask: Ask<'_>, ahead: u32, now: Instant) -> Instant {
        // Behind nobody it is what the scope's pacers have been folded into.
        if ahead == 0 && scope.folded.is_known && !is_handing_off(scope) && !ask.is_exempt(side) {
            return now.max(scope.not_before).max(scope.folded.at);
        }
        Self::behind_at_length(scope, side, ask, ahead, now)
    }

    #[inline(never)]
    fn behind_at_length(scope: &Scope, side: Side, ask: Ask<'_>, ahead: u32, now: Instant) -> Instant {
        let opening = Self::gather(scope, side, ask, now, |log, cost| {
            let ahead = if log.counts_requests() { u64::from(ahead) } else { 0 };
            log.room_behind(ahead, cost, scope.granted, now)
        });
        opening.at
    }

    #[inline(always)]
    fn gather(
        scope: &Scope,
        side: Side,
        ask: Ask<'_>,
        now: Instant,
        room_of: impl Fn(&SlidingLog, u64) -> Room,
    ) -> Self {
        let mut opening = Self { at: now, hold: None, held: false };
        each_in_time(scope, side, ask, room_of, now, |hold, room| match room {
            Room::Now => {}
            Room::At(at) => opening.close_until(at, hold),
            Room::Held(at) => {
                opening.held = true;
                opening.close_until(at, hold);
            }
        });
        opening
    }

    fn close_until(&mut self, at: Instant, hold: Hold) {
        if at > self.at {
            self.at = at;
            self.hold = Some(hold);
        }
    }
}
