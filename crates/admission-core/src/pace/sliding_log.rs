//! At most so much in any window (rule L3): the exact log of starts.
//!
//! Each entry carries the running total of all costs up to and with it, so the instant at which a
//! given amount is free again is one binary search, whatever the cost. What a grant or an unsettled
//! call holds is a plain sum beside the entries: time does not free it.
//!
//! A call counts as the log counted when the call started, whatever the log is changed to later
//! (rule L7). Which running calls it knows, and how, it tells by the numbers of their starts.

mod entries;
mod window;

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use self::window::Live;
use super::Room;
use super::ring::Ring;
use crate::config::{CountsFrom, Log};
use crate::{Instant, UnitId};

/// Room that is made beforehand at most; a log grows when more starts than this are in its window.
const RESERVED_ENTRIES: u64 = 4_096;

#[derive(Clone, Debug)]
pub(crate) struct SlidingLog {
    pub(crate) unit: UnitId,
    pub(crate) counts: CountsFrom,
    limit: u64,
    window_nanos: u64,
    /// What grants that have not started hold, unless it counts requests: then that is their number,
    /// which its scope has.
    granted: u128,
    /// What calls that have not settled hold, if they count until then.
    unsettled: u128,
    /// The first start that it knows of.
    knows_from: u64,
    /// Whatever started before has left a window that it once had.
    known_since: Instant,
    /// The starts at which it began to count from something else than before, in order; `counts` is
    /// what it counts from now. Empty, unless that was ever changed.
    turns: Vec<u64>,
    /// Oldest first; starts of one instant share an entry.
    entries: Ring<Entry>,
    /// What the entries add up to, those that have left the window since the last start included.
    kept: u64,
    /// No entry is later.
    last_at: Instant,
    /// The running total with the last entry.
    through: u64,
    /// Whether it counts requests from their starts, and none until it has settled.
    is_plain: bool,
    /// If it does: while it keeps less than this, grants counted, a start needs no look at what came before, for
    /// there is room and a place, and for one more. Else 0.
    easy_below: u64,
    /// When the first entry leaves the window, if it is plain and keeps as much as its limit, each entry one start:
    /// from then on one goes out as one comes in. Else never.
    turn_at: Instant,
    #[cfg(steps)]
    pub(crate) steps: crate::steps::Steps,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    /// The running total with this entry; it wraps, and only differences are read.
    through: u64,
}

impl SlidingLog {
    /// A log that knows of no start before the next, which is number `next_start`.
    pub(crate) fn new(config: &Log, next_start: u64) -> Self {
        let mut log = Self {
            unit: config.unit,
            counts: config.counts,
            limit: config.limit,
            window_nanos: config.window_nanos(),
            granted: 0,
            unsettled: 0,
            knows_from: next_start,
            known_since: Instant::ZERO,
            turns: Vec::new(),
            entries: Ring::new(),
            kept: 0,
            through: 0,
            last_at: Instant::ZERO,
            is_plain: false,
            easy_below: 0,
            turn_at: Instant::NEVER,
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        };
        log.reckon();
        log
    }

    /// Makes room beforehand for as many entries as its limit allows, and no more than some.
    pub(crate) fn try_reserve(&mut self) -> Result<(), TryReserveError> {
        if self.forgets_at_once() {
            return Ok(());
        }
        // A limit counts costs, so no more entries than that; most windows hold fewer.
        self.entries.try_reserve(self.limit.min(RESERVED_ENTRIES) as usize)?;
        self.reckon();
        Ok(())
    }

    /// Notes what a plain start wants to know, after anything else than such a start.
    #[inline(never)]
    fn reckon(&mut self) {
        let is_plain = self.counts_requests() && self.counts == CountsFrom::Start && self.unsettled == 0;
        self.is_plain = is_plain && !self.forgets_at_once();
        (self.easy_below, self.turn_at) = (0, Instant::NEVER);
        if self.is_plain {
            self.reckon_plain();
        }
    }

    /// The same where it is plain.
    #[inline(always)]
    fn reckon_plain(&mut self) {
        self.easy_below = self.limit.min(self.kept.saturating_add(self.vacant())).saturating_sub(1);
        let is_one_each = self.entries.len() as u64 == self.kept;
        let is_full = is_one_each && self.kept == self.limit;
        self.turn_at = if is_full { self.first_leaves() } else { Instant::NEVER };
    }

    /// For how many entries there is a place.
    #[inline(always)]
    fn vacant(&self) -> u64 {
        self.entries.vacant() as u64
    }

    /// How much more it has room for beside all that it keeps.
    #[inline(always)]
    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.kept)
    }

    /// When the first entry leaves the window; never, if there is none.
    fn first_leaves(&self) -> Instant {
        self.entries.front().map_or(Instant::NEVER, |first| self.leaves(first))
    }

    /// When an entry leaves the window.
    #[inline(always)]
    fn leaves(&self, entry: &Entry) -> Instant {
        entry.at.plus(self.window_nanos)
    }

    /// Whether every call costs it 1.
    #[inline(always)]
    pub(crate) fn counts_requests(&self) -> bool {
        self.unit == UnitId::REQUESTS
    }

    /// A log without a window forgets at once and refuses nothing.
    pub(crate) fn forgets_at_once(&self) -> bool {
        self.window_nanos == 0
    }

    /// Time does not run back, and never reaches the end (rules T1, T2). For those who do not see to that
    /// themselves.
    #[inline(always)]
    pub(crate) fn latest(&self, now: Instant) -> Instant {
        now.min(Instant::LAST).max(self.last_at)
    }

    /// Whether this cost could ever be admitted (rule L6).
    pub(crate) fn fits(&self, cost: u64) -> bool {
        self.forgets_at_once() || cost <= self.limit
    }

    /// When a start of this cost has room (rule L3). What costs nothing is not asked about.
    ///
    /// `grants`: how many are out in its scope, here and below.
    #[inline(always)]
    pub(crate) fn room(&self, cost: u64, grants: u32, now: Instant) -> Room {
        if self.is_easy(grants) {
            return Room::Now;
        }
        if self.turn_at < Instant::NEVER && grants == 0 {
            return if self.turn_at <= now { Room::Now } else { Room::At(self.turn_at) };
        }
        // Mostly there is room even with those that have left the window and are still kept.
        if self.held(grants) + self.unsettled + u128::from(cost) <= u128::from(self.left()) {
            return Room::Now;
        }
        self.room_in_window(cost, grants, now)
    }

    /// The same with those alone that are in the window.
    #[inline(never)]
    fn room_in_window(&self, cost: u64, grants: u32, now: Instant) -> Room {
        if cost == 0 || self.forgets_at_once() {
            return Room::Now;
        }
        let live = self.live(now);
        let wanted = self.spent(&live, grants) + u128::from(cost);
        match wanted.saturating_sub(u128::from(self.limit)) {
            0 => Room::Now,
            excess => self.freed(excess, &live).map_or(Room::Held(now.plus(self.window_nanos)), Room::At),
        }
    }

    /// When a start of this cost would have room after `ahead` more of cost 1, if all that is held
    /// were to count from now (rule R2). Starts come in rounds of one limit: the n-th is one window
    /// after the (n - limit)-th.
    pub(crate) fn room_behind(&self, ahead: u64, cost: u64, grants: u32, now: Instant) -> Room {
        if cost == 0 || self.forgets_at_once() {
            return Room::Now;
        }
        let (rounds, in_round) = (ahead / self.limit, ahead % self.limit);
        let live = self.live(now);
        let wanted = self.spent(&live, grants) + u128::from(in_round) + u128::from(cost);
        let first = match wanted.saturating_sub(u128::from(self.limit)) {
            0 => now,
            excess => self.freed(excess, &live).unwrap_or_else(|| now.plus(self.window_nanos)),
        };
        Room::At(first.plus(rounds.saturating_mul(self.window_nanos)))
    }

    /// How much is free right now (rule R3).
    pub(crate) fn available(&self, grants: u32, now: Instant) -> u64 {
        if self.forgets_at_once() {
            return self.limit;
        }
        let spent = self.spent(&self.live(now), grants);
        u64::try_from(u128::from(self.limit).saturating_sub(spent)).unwrap_or(0)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// How much is spent or held right now.
    pub(crate) fn spent_now(&self, grants: u32, now: Instant) -> u128 {
        if self.forgets_at_once() { 0 } else { self.spent(&self.live(now), grants) }
    }

    /// When the oldest start leaves the window.
    pub(crate) fn next_free(&self, now: Instant) -> Option<Instant> {
        self.freed(1, &self.live(now)).filter(|&at| at < Instant::NEVER)
    }

    /// When the last start that it knows has left the window; the origin if it knows none.
    pub(crate) fn empty_from(&self) -> Instant {
        self.entries.back().map_or(Instant::ZERO, |last| last.at.plus(self.window_nanos))
    }

    /// A ticket is granted: from here on it counts as inside the window (rule S2).
    pub(crate) fn hold(&mut self, cost: u64) {
        if !self.counts_requests() {
            self.granted += u128::from(cost);
        }
    }

    /// A grant is over: it starts, or is taken back and has spent nothing.
    pub(crate) fn let_go(&mut self, cost: u64) {
        if !self.counts_requests() {
            self.granted -= u128::from(cost);
        }
    }

    /// A ticket starts that holds nothing, or nothing any more: the shortest way of three. Says what
    /// [`Self::next_room`] would.
    #[inline(always)]
    pub(crate) fn start_shortly(&mut self, cost: u64, grants: u32, now: Instant) -> Room {
        if self.start_easily(grants, now) {
            return Room::Now;
        }
        if let Some(at) = self.start_in_turn(grants, now) {
            return Room::At(at);
        }
        self.start(cost, grants, now)
    }

    /// A ticket starts, after which there is room for every grant and one more: if that is plain to see.
    #[inline(always)]
    pub(crate) fn start_easily(&mut self, grants: u32, now: Instant) -> bool {
        let is_easy = self.is_easy(grants) && self.last_at < now;
        if is_easy {
            self.last_at = now;
            self.kept += 1;
            self.through = self.through.wrapping_add(1);
            self.entries.put(Entry { at: now, through: self.through });
        }
        is_easy
    }

    /// (Where costs add up to as much as a number can hold, it is never easy.)
    #[inline(always)]
    fn is_easy(&self, grants: u32) -> bool {
        self.kept.wrapping_add(u64::from(grants)) < self.easy_below
    }

    /// A ticket starts in a log that is full, after the first of its starts has left the window, and no grant is
    /// out: says when the next will. `None`, and nothing is changed, where more is to be looked at.
    #[inline(always)]
    pub(crate) fn start_in_turn(&mut self, grants: u32, now: Instant) -> Option<Instant> {
        if self.turn_at > now || self.last_at >= now || grants > 0 {
            return None;
        }
        self.last_at = now;
        self.through = self.through.wrapping_add(1);
        let first = self.entries.turn(Entry { at: now, through: self.through });
        let leaves = first.map_or(Instant::NEVER, |first| self.leaves(&first));
        self.turn_at = leaves;
        if leaves <= now {
            self.make_room(now);
        }
        Some(leaves)
    }

    /// More than one start has left: without them there may be room for some that need no look.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, now: Instant) {
        self.prune(now);
        self.reckon();
    }

    /// A ticket starts, in any case.
    #[inline(never)]
    pub(crate) fn start(&mut self, cost: u64, grants: u32, now: Instant) -> Room {
        if !self.is_plain {
            return self.start_otherwise(cost, grants, now);
        }
        if self.left() <= 1 || self.vacant() == 0 {
            self.prune(now);
        }
        self.last_at = now;
        self.kept += 1;
        self.through = self.through.wrapping_add(1);
        match self.entries.back_mut() {
            Some(last) if last.at == now => last.through = self.through,
            _ => self.entries.push_back(Entry { at: now, through: self.through }),
        }
        self.reckon_plain();
        let left = self.left();
        if left > u64::from(grants) {
            return Room::Now;
        }
        // One start out, one in: the first to leave makes room for the next. (What had left is gone by now.)
        let is_next = grants == 0 && self.kept == self.limit;
        if is_next { Room::At(self.first_leaves()) } else { self.next_room(grants, now) }
    }

    #[inline(never)]
    fn start_otherwise(&mut self, cost: u64, grants: u32, now: Instant) -> Room {
        match self.counts {
            CountsFrom::Start => self.spend(cost, now, now),
            CountsFrom::Settled => self.unsettled += u128::from(cost),
        }
        self.reckon();
        self.next_room(grants, now)
    }

    /// When a start of cost 1 has room, if every call costs it that: the answer is to serve for all.
    pub(crate) fn next_room(&mut self, grants: u32, now: Instant) -> Room {
        if !self.counts_requests() {
            return Room::Held(now);
        }
        if self.left() <= u64::from(grants) && self.has_dead(now) {
            self.prune(now);
            self.reckon();
        }
        self.room(1, grants, now)
    }

    /// A grant goes away before its start, and counts as of its instant (rule S3).
    pub(crate) fn abandon(&mut self, cost: u64, granted_at: Instant, now: Instant) {
        self.let_go(cost);
        self.spend(cost, granted_at, now);
        self.reckon();
    }

    /// A call that counted until it has settled is over.
    pub(crate) fn settle(&mut self, cost: u64, now: Instant) {
        self.unsettled -= u128::from(cost);
        self.spend(cost, now, now);
        self.reckon();
    }

    /// The cost of a running call, start number `number` at `at`, turned out to be another (rule L8).
    pub(crate) fn correct(&mut self, from: u64, to: u64, number: u64, at: Instant, now: Instant) {
        if self.is_unsettled(number) {
            self.unsettled = self.unsettled - u128::from(from) + u128::from(to);
        } else if number >= self.knows_from && at >= self.known_since {
            self.unspend(from, at, now);
            self.spend(to, at, now);
        }
        self.reckon();
    }

    /// Whether there may be running calls that count until they have settled.
    pub(crate) fn may_be_unsettled(&self) -> bool {
        self.counts == CountsFrom::Settled || !self.turns.is_empty()
    }

    /// Whether a running call counts until it has settled.
    pub(crate) fn is_unsettled(&self, number: u64) -> bool {
        let turns_since = match &self.turns[..] {
            [] => 0,
            turns => turns.len() - turns.partition_point(|&turn| turn <= number),
        };
        let counted_until_settled = (self.counts == CountsFrom::Settled) == (turns_since % 2 == 0);
        number >= self.knows_from && counted_until_settled
    }

    /// Forgets all starts, running calls included (rule D2). What is granted stays.
    pub(crate) fn reset(&mut self, next_start: u64) {
        self.entries.clear();
        self.kept = 0;
        self.unsettled = 0;
        self.knows_from = next_start;
        self.turns.clear();
        self.reckon();
    }

    /// Goes on with other settings, and with all that it knows (rule L7); a window that grows counts
    /// the starts that are inside the old one. What was granted is to be told again.
    ///
    /// `oldest`: the number of the oldest start that still runs, or less.
    pub(crate) fn adapt(&mut self, config: &Log, oldest: u64, next_start: u64, now: Instant) {
        self.granted = 0;
        self.forget_what_left(now);
        if self.forgets_at_once() || config.window_nanos() == 0 {
            // A window of zero forgets at once, those that run included.
            self.reset(next_start);
        }
        self.limit = config.limit;
        self.window_nanos = config.window_nanos();
        if self.counts != config.counts {
            self.counts = config.counts;
            self.turns.push(next_start);
        }
        self.forget_turns(oldest);
        self.forget_what_left(now);
        self.reckon();
    }

    /// No start before number `oldest` runs any more, so nobody asks how those counted.
    pub(crate) fn forget_turns(&mut self, oldest: u64) {
        let settled = self.turns.partition_point(|&turn| turn <= oldest);
        self.turns.drain(..settled);
    }

    /// What is outside the window now stays so, however it grows.
    fn forget_what_left(&mut self, now: Instant) {
        self.prune(now);
        // (Of a window of zero it knows nothing by the numbers of the starts.)
        let left = now.as_nanos().checked_sub(self.window_nanos).filter(|_| !self.forgets_at_once());
        if let Some(left) = left {
            self.known_since = self.known_since.max(Instant::from_nanos(left).plus(1));
        }
    }

    /// The running total before the first entry.
    fn before(&self) -> u64 {
        self.through.wrapping_sub(self.kept)
    }

    fn spent(&self, live: &Live, grants: u32) -> u128 {
        self.held(grants) + self.unsettled + u128::from(live.total)
    }

    /// What grants hold, so many of which are out in its scope.
    #[inline(always)]
    fn held(&self, grants: u32) -> u128 {
        if self.counts_requests() { u128::from(grants) } else { self.granted }
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self, granted: u128, grants: u32, unsettled: u128) {
        assert_eq!(self.held(grants), granted, "log: what grants hold");
        assert_eq!(self.unsettled, unsettled, "log: what unsettled calls hold");
        let through = self.entries.back().map_or(self.before(), |last| last.through);
        assert_eq!(self.through, through, "log: the running total");
        assert!(self.entries.back().is_none_or(|last| last.at <= self.last_at), "log: the last instant");
        let mut again = self.clone();
        again.reckon();
        assert_eq!(self.is_plain, again.is_plain, "log: whether it is plain");
        assert_eq!(self.easy_below, again.easy_below, "log: what may be noted without a look");
        assert_eq!(self.turn_at, again.turn_at, "log: from when one goes out as one comes in");
        let ats =
            |from| (from..self.entries.len()).filter_map(|nth| self.entries.get(nth)).map(|entry| entry.at);
        assert!(ats(0).zip(ats(1)).all(|(earlier, later)| earlier < later), "log: order");
    }
}
