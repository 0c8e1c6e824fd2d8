//! Who waits, in which order, and who stands in front.
//!
//! Owns: the tickets, one line per provider of those that only a provider or the client can hold
//! back, the keys, and the deadlines. A ticket that waits for its key, or is passed over, stands in
//! no line and rejoins at its own place. Lacks limits and time: it never says that a ticket may go,
//! only which is the oldest; providers whose line changed are listed for those who judge. A ticket
//! has its provider's number; where that one's line is, only this module knows.

mod key_table;
mod keys;
mod line;
mod slab;
mod tree;

use alloc::vec::Vec;

use hashbrown::HashTable;

use self::keys::Keys;
use self::line::Line;
use crate::heap::Heap;
use crate::scope::Ask;
use crate::{ConfigError, Instant, Key, Side, TicketId, UnitId};

pub(crate) use self::key_table::hash;
pub(crate) use self::keys::{Entry, Found};
pub(crate) use self::slab::{Ending, Flags, Links, NIL, Slab, Slot, State};

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    slab: Slab,
    /// How many costs each ticket has beside its 1 request.
    more_units: usize,
    /// Those costs, by slot.
    costs: Vec<u64>,
    /// Those of a newcomer that is being judged.
    newcomer_costs: Vec<u64>,
    /// The lines, by place.
    lanes: Vec<Lane>,
    /// How many providers the configuration has: those have the places of their numbers.
    configured: u32,
    /// The places of the others, by their numbers.
    places: HashTable<u32>,
    keys: Keys,
    /// The deadlines of those that wait.
    deadlines: Heap,
    queued: u32,
    /// Providers whose front may have changed since they were last judged.
    changed: Vec<u32>,
}

/// The line of one provider.
#[derive(Clone, Debug)]
struct Lane {
    /// The provider's number.
    provider: u32,
    line: Line,
    /// How many in the line every log is asked about.
    metered: u32,
    /// How many wait at all, those parked and passed over included.
    queued: u32,
    is_changed: bool,
    /// Whether it is of interest though nobody stands in its line: it is forgotten some day, or its
    /// standing has changed.
    is_fleeting: bool,
    /// What was last said of its oldest ticket.
    rank: Rank,
}

/// What is known of a provider that is to be judged.
pub(crate) struct Front {
    /// Its oldest ticket, or [`NIL`].
    pub(crate) index: u32,
    /// What was last said of it.
    pub(crate) rank: Rank,
    /// Whether it is of interest though nobody waits there.
    pub(crate) is_fleeting: bool,
}

/// How those who judge have sorted a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// Its oldest ticket waits for somebody else, or there is none.
    Held,
    /// Its oldest ticket passes its provider.
    Ready,
    /// Only time holds its oldest ticket back.
    Timed,
}

impl Lane {
    const fn new(provider: u32) -> Self {
        Self {
            provider,
            line: Line::new(),
            metered: 0,
            queued: 0,
            is_changed: false,
            is_fleeting: true,
            rank: Rank::Held,
        }
    }
}

impl Queue {
    /// `have_deadlines`: every ticket will have one, so room is made for them too; otherwise that is
    /// left until some do.
    pub(crate) fn try_new(
        providers: usize,
        units: u16,
        tickets: usize,
        have_deadlines: bool,
    ) -> Result<Self, ConfigError> {
        let mut queue = Self {
            slab: Slab::new(),
            more_units: usize::from(units) - 1,
            costs: Vec::new(),
            newcomer_costs: Vec::new(),
            lanes: Vec::new(),
            configured: providers as u32,
            places: HashTable::new(),
            keys: Keys::new(),
            deadlines: Heap::new(),
            queued: 0,
            changed: Vec::new(),
        };
        let costs = tickets.saturating_mul(queue.more_units);
        queue
            .slab
            .try_reserve(tickets)
            .and_then(|()| queue.costs.try_reserve_exact(costs))
            .and_then(|()| queue.newcomer_costs.try_reserve_exact(queue.more_units))
            .and_then(|()| queue.lanes.try_reserve_exact(providers))
            .and_then(|()| queue.changed.try_reserve_exact(providers))
            .and_then(|()| queue.deadlines.try_reserve(if have_deadlines { tickets } else { 0 }))
            .map_err(|_| ConfigError::OutOfMemory)?;
        queue.keys.try_reserve(tickets).map_err(|_| ConfigError::OutOfMemory)?;
        queue.newcomer_costs.resize(queue.more_units, 0);
        queue.lanes.extend((0..queue.configured).map(Lane::new));
        Ok(queue)
    }

    /// How many wait, those passed over included.
    pub(crate) fn queued(&self) -> u32 {
        self.queued
    }

    pub(crate) fn has_room_for_ticket(&self) -> bool {
        self.slab.has_room()
    }

    pub(crate) fn find(&self, ticket: TicketId) -> Option<u32> {
        self.slab.find(ticket)
    }

    pub(crate) fn ticket(&self, index: u32) -> TicketId {
        self.slab.ticket(index)
    }

    pub(crate) fn slot(&self, index: u32) -> &Slot {
        &self.slab[index]
    }

    pub(crate) fn slot_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slab[index]
    }

    /// The slots themselves, for the hand-off's lists.
    pub(crate) fn slab(&self) -> &Slab {
        &self.slab
    }

    pub(crate) fn slab_mut(&mut self) -> &mut Slab {
        &mut self.slab
    }

    /// All slot numbers, the free ones too; only resetting and closing look at all.
    pub(crate) fn slots(&self) -> core::ops::Range<u32> {
        0..self.slab.len()
    }

    /// What a ticket asks of its scopes.
    #[inline(always)]
    pub(crate) fn ask(&self, index: u32) -> Ask<'_> {
        Ask::of(self, index)
    }

    /// The same for the newcomer that is being judged.
    #[inline(always)]
    pub(crate) fn ask_of_newcomer(&self) -> Ask<'_> {
        Ask::of_newcomer(self)
    }

    /// The same for somebody whom no log holds back.
    pub(crate) fn ask_no_log(&self) -> Ask<'_> {
        Ask::no_log(self)
    }

    /// Whether there are more units than requests.
    #[inline(always)]
    pub(crate) fn has_more_units(&self) -> bool {
        self.more_units > 0
    }

    /// How many units there are, requests included.
    pub(crate) fn units(&self) -> u16 {
        self.more_units as u16 + 1
    }

    /// Notes what a newcomer costs.
    pub(crate) fn judge_newcomer(&mut self, costs: &[(UnitId, u64)]) {
        self.newcomer_costs.fill(0);
        add_costs(&mut self.newcomer_costs, costs);
    }

    /// What the newcomer costs in a unit other than requests.
    pub(crate) fn newcomers_cost(&self, unit: UnitId) -> u64 {
        self.newcomer_costs[unit.index() - 1]
    }

    /// What a ticket costs in a unit other than requests.
    pub(crate) fn cost(&self, index: u32, unit: UnitId) -> u64 {
        self.costs[index as usize * self.more_units + unit.index() - 1]
    }

    /// The oldest ticket that only limits can hold back at a provider, or [`NIL`].
    pub(crate) fn front(&self, provider: u32) -> u32 {
        self.lanes[provider as usize].line.first()
    }

    /// How many wait at a provider.
    pub(crate) fn queued_at(&self, provider: u32) -> u32 {
        self.lanes[provider as usize].queued
    }

    /// The place of the provider with this number, if it has one.
    #[inline(always)]
    pub(crate) fn place_of(&self, provider: u32) -> Option<u32> {
        if provider < self.configured {
            return Some(provider);
        }
        self.place_of_other(provider)
    }

    /// The same for a provider that the configuration does not have.
    #[inline(never)]
    fn place_of_other(&self, provider: u32) -> Option<u32> {
        let is_its = |&place: &u32| self.lanes[place as usize].provider == provider;
        self.places.find(hash(u64::from(provider)), is_its).copied()
    }

    /// The place of the provider of a ticket that has not ended.
    #[inline(always)]
    pub(crate) fn place(&self, index: u32) -> u32 {
        self.place_with_ticket(self.slab[index].provider)
    }

    /// The place of a provider that has a ticket which has not ended.
    #[inline(always)]
    pub(crate) fn place_with_ticket(&self, provider: u32) -> u32 {
        self.place_of(provider).expect("a provider with a ticket has a place")
    }

    fn lane(&mut self, index: u32) -> &mut Lane {
        let place = self.place(index);
        &mut self.lanes[place as usize]
    }

    /// Makes a line for one more provider, in the next place.
    pub(crate) fn add_provider(&mut self, provider: u32) {
        let place = self.lanes.len() as u32;
        self.lanes.push(Lane::new(provider));
        let lanes = &self.lanes;
        self.places.insert_unique(hash(u64::from(provider)), place, |&place| hash_of(lanes, place));
    }

    /// A provider that is not the configuration's, and has no ticket, goes: the last one takes its place. None is
    /// to be judged anew: whoever changed was judged in this call before.
    pub(crate) fn remove_provider(&mut self, place: u32) {
        debug_assert!(!self.has_changed(), "a provider that is forgotten in the midst of a call");
        let last = self.lanes.len() as u32 - 1;
        if let Ok(entry) = self.places.find_entry(hash_of(&self.lanes, place), |&other| other == place) {
            entry.remove();
        }
        let hash_of_last = hash_of(&self.lanes, last);
        if let Some(moved) = self.places.find_mut(hash_of_last, |&other| other == last) {
            *moved = place;
        }
        self.lanes.swap_remove(place as usize);
    }

    /// How many providers there is room for in places that nobody has.
    pub(crate) fn vacant_places(&self) -> usize {
        self.lanes.capacity() - self.lanes.len()
    }

    /// There is room for so many providers from now on, and no more.
    pub(crate) fn shrink(&mut self, room: usize) {
        self.lanes.shrink_to(room);
        self.changed.shrink_to(room);
        let lanes = &self.lanes;
        self.places.shrink_to(room, |&place| hash_of(lanes, place));
    }

    /// How many in a provider's line its logs are asked about (rule R2).
    pub(crate) fn metered_in_line(&self, provider: u32) -> u32 {
        self.lanes[provider as usize].metered
    }

    /// The ticket with this key that is granted or running, if one is (rule L1).
    pub(crate) fn holder(&self, key: Key) -> Option<u32> {
        self.holder_of(self.keys.find(key, &self.slab)?)
    }

    fn holder_of(&self, entry: Entry) -> Option<u32> {
        match entry {
            Entry::Sole(index) => Some(index).filter(|&index| self.slab[index].state.holds_key()),
            Entry::Shared(record) => Some(self.keys.holder(record)).filter(|&index| index != NIL),
        }
    }

    /// The earliest deadline, or never.
    #[inline(always)]
    pub(crate) fn first_deadline(&self) -> Instant {
        Instant::from_nanos(self.deadlines.least())
    }

    /// A ticket whose deadline has passed, which is not watched any more: it is to end.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<u32> {
        let (_, index) = self.deadlines.peek().filter(|&(at, _)| Instant::from_nanos(at) < now)?;
        self.deadlines.remove(index);
        Some(index)
    }

    #[cfg(steps)]
    pub(crate) fn steps(&self) -> u64 {
        self.slab.steps.total() + self.keys.steps() + self.deadlines.steps.total()
    }

    /// A provider must be judged anew: its line or its limits changed. Where nobody waits, and nobody
    /// did when it was last judged, there is nothing to judge.
    #[inline(always)]
    pub(crate) fn mark_changed(&mut self, provider: u32) {
        let lane = &mut self.lanes[provider as usize];
        let is_plain = lane.rank == Rank::Held && !lane.is_fleeting && lane.line.is_empty();
        if !(is_plain || lane.is_changed) {
            self.mark(provider);
        }
    }

    #[inline(never)]
    fn mark(&mut self, provider: u32) {
        self.lanes[provider as usize].is_changed = true;
        self.changed.push(provider);
    }

    /// The same where nobody stands in line.
    #[inline(always)]
    pub(crate) fn mark_if_fleeting(&mut self, provider: u32) {
        if self.lanes[provider as usize].is_fleeting {
            self.mark_changed(provider);
        }
    }

    /// The same after a change of its standing.
    pub(crate) fn mark_fleeting(&mut self, provider: u32) {
        self.lanes[provider as usize].is_fleeting = true;
        self.mark_changed(provider);
    }

    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    #[inline(always)]
    pub(crate) fn next_changed(&mut self) -> Option<u32> {
        let place = self.changed.pop()?;
        self.lanes[place as usize].is_changed = false;
        Some(place)
    }

    #[inline(always)]
    pub(crate) fn front_of(&self, place: u32) -> Front {
        let lane = &self.lanes[place as usize];
        Front { index: lane.line.first(), rank: lane.rank, is_fleeting: lane.is_fleeting }
    }

    /// Whether a provider is to be judged after something that can only let a ticket go: not one that lets
    /// its oldest go as before, nor one where nobody waits.
    #[inline(always)]
    pub(crate) fn is_of_interest(&self, place: u32) -> bool {
        let lane = &self.lanes[place as usize];
        lane.rank != Rank::Ready && (lane.is_fleeting || !lane.line.is_empty())
    }

    /// Notes what is said of a provider's oldest ticket.
    #[inline(always)]
    pub(crate) fn note_rank(&mut self, provider: u32, rank: Rank) {
        self.lanes[provider as usize].rank = rank;
    }

    pub(crate) fn note_fleeting(&mut self, provider: u32, is_fleeting: bool) {
        self.lanes[provider as usize].is_fleeting = is_fleeting;
    }

    #[cfg(audit)]
    pub(crate) fn rank(&self, provider: u32) -> Rank {
        self.lanes[provider as usize].rank
    }

    /// A ticket that is not anywhere yet but in the table of keys: it starts, is granted, or is put in
    /// with [`Queue::enqueue`].
    ///
    /// `found`: what [`Queue::look_up`] said of its key.
    #[inline(always)]
    pub(crate) fn create(
        &mut self,
        provider: u32,
        key: Option<Key>,
        costs: &[(UnitId, u64)],
        found: Option<Found>,
        now: Instant,
    ) -> (u32, &mut Slot) {
        if self.more_units > 0 {
            self.note_costs(self.slab.next(), costs);
        }
        let mut link = NIL;
        if let (Some(key), Some(found @ Found { entry: None, .. })) = (key, found) {
            link = self.keys.enter(found, key, self.slab.next(), &mut self.slab);
        }
        self.slab.insert(provider, key, link, now)
    }

    #[inline(never)]
    fn note_costs(&mut self, index: u32, costs: &[(UnitId, u64)]) {
        let first = index as usize * self.more_units;
        if self.costs.len() < first + self.more_units {
            self.costs.resize(first + self.more_units, 0);
        }
        let own = &mut self.costs[first..first + self.more_units];
        own.fill(0);
        add_costs(own, costs);
    }

    /// A new ticket waits.
    ///
    /// `entered`: who else has its key. If nobody has, its state says that it is in line already.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, index: u32, place: u32, deadline: Instant, entered: Option<Entry>) {
        if deadline < Instant::NEVER {
            self.deadlines.set(index, deadline.as_nanos());
        }
        if let Some(entry) = entered {
            return self.enqueue_sharing(index, place, entry);
        }
        self.queued += 1;
        let lane = &mut self.lanes[place as usize];
        lane.queued += 1;
        lane.metered += 1;
        // Who is the only one that waits is the first in line.
        if lane.line.push(&mut self.slab, index) {
            self.mark_changed(place);
        }
    }

    #[inline(never)]
    fn enqueue_sharing(&mut self, index: u32, place: u32, entry: Entry) {
        self.count_in(place);
        if let Some(key) = self.slab[index].key() {
            let record = self.share_key(key, entry);
            self.stand_among(record, index, place);
        }
    }

    /// A ticket whose grant is taken back waits again: passed over, or at its own place.
    pub(crate) fn requeue(&mut self, index: u32, aside: bool) {
        self.slab[index].group = NIL;
        self.release_key(index);
        self.count_in(self.place(index));
        self.slab[index].flags.set(Flags::TAKEN_BACK);
        self.watch_deadline(index);
        if aside {
            self.slab[index].state = State::Aside;
        } else {
            self.stand(index);
        }
    }

    /// A ticket that was passed over is not any more.
    pub(crate) fn bring_back(&mut self, index: u32) {
        self.stand(index);
    }

    /// Who has a key, and where the next ticket with it enters the table.
    #[inline(always)]
    pub(crate) fn look_up(&self, key: Key) -> Found {
        self.keys.look_up(key, &self.slab)
    }

    /// Takes a key that others have for the next ticket that is created, which is granted, unless one
    /// of them holds it.
    #[inline(never)]
    pub(crate) fn claim(&mut self, key: Key, entry: Entry) -> bool {
        let is_free = self.holder_of(entry).is_none();
        if is_free {
            let record = self.share_key(key, entry);
            self.hold_shared(record, self.slab.next());
        }
        is_free
    }

    /// The oldest ticket of a line takes its key: it is granted. Where no other ticket has that key, it
    /// is its already. Its provider is to be judged.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, place: u32) -> (u32, Flags) {
        let lane = &mut self.lanes[place as usize];
        let index = lane.line.remove_first(&mut self.slab);
        let Slot { flags, group, .. } = self.slab[index];
        lane.metered -= u32::from(!flags.is_exempt_somewhere());
        lane.queued -= 1;
        self.queued -= 1;
        self.deadlines.remove(index);
        if group != NIL {
            self.take_shared(index, group);
        }
        (index, flags)
    }

    /// A delegate takes its key.
    #[inline(never)]
    fn take_shared(&mut self, index: u32, group: u32) {
        self.slab[index].group = NIL;
        self.keys.group(group).delegate = NIL;
        let record = self.keys.group(group).record;
        self.keys.drop_if_empty(group);
        self.hold_shared(record, index);
    }

    /// Nobody else stands in line for a key that is held.
    #[inline(never)]
    fn hold_shared(&mut self, record: u32, index: u32) {
        self.keys.record(record).holder = index;
        let mut group = self.keys.record(record).first_group;
        while group != NIL {
            let delegate = core::mem::replace(&mut self.keys.group(group).delegate, NIL);
            if delegate != NIL {
                self.leave_line(delegate, self.place(delegate));
                self.park(delegate, group);
            }
            group = self.keys.group(group).next;
        }
    }

    /// A waiting ticket goes away, and those behind it move up.
    pub(crate) fn leave(&mut self, index: u32) {
        let place = self.place(index);
        self.count_out(place);
        self.deadlines.remove(index);
        let slot = self.slab[index];
        match slot.state {
            State::InLine => {
                self.leave_line(index, place);
                if slot.group != NIL {
                    self.keys.group(slot.group).delegate = NIL;
                    self.send_delegate(slot.group);
                    self.keys.drop_if_empty(slot.group);
                }
            }
            State::Parked => {
                self.keys.group(slot.group).parked.remove(&mut self.slab, index);
                self.keys.drop_if_empty(slot.group);
            }
            _ => {}
        }
        self.slab[index].group = NIL;
        self.quit_key(index);
    }

    /// A granted or running ticket is over: its key is free.
    #[inline(never)]
    pub(crate) fn finish(&mut self, index: u32) {
        self.finish_with(index, self.slab[index].key());
    }

    /// The same where its key is known.
    #[inline(always)]
    pub(crate) fn finish_with(&mut self, index: u32, key: Option<Key>) {
        let Some(key) = key else { return };
        if let Some(record) = self.keys.remove_sole(key, index, &mut self.slab) {
            self.finish_shared(record);
        }
    }

    #[inline(never)]
    fn finish_shared(&mut self, record: u32) {
        self.release_shared(record);
        self.quit_shared(record);
    }

    /// Nothing is left of a ticket that has left or finished.
    #[inline(always)]
    pub(crate) fn forget(&mut self, index: u32) {
        self.slab.remove(index);
    }

    /// What a ticket costs in a unit turned out to be another (rule L8).
    pub(crate) fn correct_cost(&mut self, index: u32, unit: UnitId, cost: u64) {
        if let Some(place) = unit.index().checked_sub(1) {
            self.costs[index as usize * self.more_units + place] = cost;
        }
    }

    /// From now on logs of this side are not asked about this waiting ticket (rule D2).
    pub(crate) fn exempt(&mut self, index: u32, side: Side) {
        let slot = &mut self.slab[index];
        let was_metered = !slot.flags.is_exempt_somewhere();
        slot.flags.exempt(side);
        if was_metered && slot.state == State::InLine {
            self.lane(index).metered -= 1;
        }
    }

    /// One more ticket has a key that others have, whose record that is.
    #[inline(never)]
    fn share_key(&mut self, key: Key, entry: Entry) -> u32 {
        match entry {
            Entry::Shared(record) => {
                self.keys.record(record).tickets += 1;
                record
            }
            Entry::Sole(other) => {
                let Slot { state, provider, .. } = self.slab[other];
                let holder = if state.holds_key() { other } else { NIL };
                let record = self.keys.share(key, other, holder, &mut self.slab);
                self.keys.record(record).tickets = 2;
                if state == State::InLine {
                    let group = self.keys.group_at(record, provider);
                    self.keys.group(group).delegate = other;
                    self.slab[other].group = group;
                }
                record
            }
        }
    }

    /// One ticket less has its key, which it does not hold.
    fn quit_key(&mut self, index: u32) {
        let Some(key) = self.slab[index].key() else { return };
        if let Some(record) = self.keys.remove_sole(key, index, &mut self.slab) {
            self.quit_shared(record);
        }
    }

    fn quit_shared(&mut self, record: u32) {
        self.keys.record(record).tickets -= 1;
        if self.keys.record(record).tickets == 0 {
            self.keys.remove_shared(record, &mut self.slab);
        }
    }

    /// A ticket does not hold its key any more.
    fn release_key(&mut self, index: u32) {
        let Some(key) = self.slab[index].key() else { return };
        if let Some(Entry::Shared(record)) = self.keys.find(key, &self.slab) {
            self.release_shared(record);
        }
    }

    /// A key is free: at each provider the oldest that waits for it may stand in line (rule E6).
    fn release_shared(&mut self, record: u32) {
        self.keys.record(record).holder = NIL;
        let mut group = self.keys.record(record).first_group;
        while group != NIL {
            self.send_delegate(group);
            group = self.keys.group(group).next;
        }
    }

    #[inline]
    fn count_in(&mut self, place: u32) {
        self.queued += 1;
        self.lanes[place as usize].queued += 1;
        if self.lanes[place as usize].queued == 1 {
            // It is not at rest any more.
            self.mark_changed(place);
        }
    }

    #[inline]
    fn count_out(&mut self, place: u32) {
        self.queued -= 1;
        self.lanes[place as usize].queued -= 1;
        if self.lanes[place as usize].queued == 0 {
            // It may be at rest now.
            self.mark_changed(place);
        }
    }

    #[inline]
    fn watch_deadline(&mut self, index: u32) {
        let deadline = self.slab[index].deadline;
        if deadline < Instant::NEVER {
            self.deadlines.set(index, deadline.as_nanos());
        }
    }

    /// Puts a waiting ticket where it belongs: in line, or behind its key.
    fn stand(&mut self, index: u32) {
        let entry = self.slab[index].key().and_then(|key| self.keys.find(key, &self.slab));
        let place = self.place(index);
        match entry {
            Some(Entry::Shared(record)) => self.stand_among(record, index, place),
            Some(Entry::Sole(_)) | None => self.enter_line(index, place),
        }
    }

    /// The same where it is known who shares its key.
    #[inline(never)]
    fn stand_among(&mut self, record: u32, index: u32, place: u32) {
        let (provider, seq) = (self.slab[index].provider, self.slab[index].seq);
        let group = self.keys.group_at(record, provider);
        let delegate = self.keys.group(group).delegate;
        if self.keys.record(record).holder != NIL {
            self.park(index, group);
        } else if delegate == NIL {
            self.delegate(index, group);
        } else if seq < self.slab[delegate].seq {
            self.leave_line(delegate, place);
            self.park(delegate, group);
            self.delegate(index, group);
        } else {
            self.park(index, group);
        }
    }

    /// If nobody stands in line for a group, its oldest does from now on.
    fn send_delegate(&mut self, group: u32) {
        let oldest = self.keys.group(group).parked.first();
        let record = self.keys.group(group).record;
        if oldest != NIL && self.keys.group(group).delegate == NIL && self.keys.record(record).holder == NIL {
            self.keys.group(group).parked.remove(&mut self.slab, oldest);
            self.delegate(oldest, group);
        }
    }

    fn delegate(&mut self, index: u32, group: u32) {
        self.keys.group(group).delegate = index;
        self.slab[index].group = group;
        self.enter_line(index, self.place(index));
    }

    fn park(&mut self, index: u32, group: u32) {
        self.slab[index].state = State::Parked;
        self.slab[index].group = group;
        self.keys.group(group).parked.insert(&mut self.slab, index);
    }

    fn enter_line(&mut self, index: u32, place: u32) {
        let slot = &mut self.slab[index];
        slot.state = State::InLine;
        let is_metered = !slot.flags.is_exempt_somewhere();
        let lane = &mut self.lanes[place as usize];
        lane.line.insert(&mut self.slab, index);
        lane.metered += u32::from(is_metered);
        if lane.line.first() == index {
            self.mark_changed(place);
        }
    }

    #[inline]
    fn leave_line(&mut self, index: u32, place: u32) {
        let slot = &self.slab[index];
        let is_metered = !slot.flags.is_exempt_somewhere();
        let lane = &mut self.lanes[place as usize];
        let was_first = lane.line.first() == index;
        lane.line.remove(&mut self.slab, index);
        lane.metered -= u32::from(is_metered);
        if was_first {
            self.mark_changed(place);
        }
    }
}

fn hash_of(lanes: &[Lane], place: u32) -> u64 {
    hash(u64::from(lanes[place as usize].provider))
}

/// Adds stated costs to those in the units after requests; what is stated in requests is not asked.
fn add_costs(own: &mut [u64], costs: &[(UnitId, u64)]) {
    for &(unit, cost) in costs {
        if let Some(place) = unit.index().checked_sub(1) {
            own[place] = own[place].saturating_add(cost);
        }
    }
}

#[cfg(audit)]
impl Queue {
    pub(crate) fn audit(&self) {
        use alloc::collections::{BTreeMap, BTreeSet};
        let mut keys: BTreeMap<u64, (u32, Vec<u32>)> = BTreeMap::new();
        let mut queued = 0;
        let mut with_deadline = 0;
        for index in self.slots() {
            let slot = self.slot(index);
            let is_here = slot.state.is_queued();
            queued += u32::from(is_here);
            if is_here && slot.deadline < Instant::NEVER {
                with_deadline += 1;
                assert_eq!(
                    self.deadlines.key_of(index),
                    Some(slot.deadline.as_nanos()),
                    "a waiting deadline"
                );
            }
            if matches!(slot.state, State::Free | State::Ended(_)) {
                continue;
            }
            if let Some(key) = slot.key() {
                let (holders, tickets) = keys.entry(key.0).or_default();
                *holders += u32::from(slot.state.holds_key());
                tickets.push(index);
            }
        }
        assert_eq!(self.queued, queued, "the count of those that wait");
        assert_eq!(self.deadlines.len(), with_deadline, "deadlines of those that wait only");
        self.deadlines.audit();
        assert_eq!(self.keys.counts().0, keys.len(), "a key for each that a ticket has, and no more");
        assert_eq!(self.keys.counts().2, self.keys.group_table_len(), "groups that can be found");
        for (&key, (holders, tickets)) in &keys {
            assert!(*holders <= 1, "rule L1: one ticket at a time per key");
            // The oldest waiting ticket of each provider stands in line, if the key is free.
            let mut seen = BTreeSet::new();
            let mut waiting: Vec<&Slot> = tickets.iter().map(|&i| self.slot(i)).collect();
            waiting.sort_by_key(|slot| slot.seq);
            for slot in waiting.iter().filter(|slot| matches!(slot.state, State::InLine | State::Parked)) {
                let is_delegate = *holders == 0 && seen.insert(slot.provider);
                assert_eq!(slot.state == State::InLine, is_delegate, "rule E6: who stands in line for a key");
            }
            let is_shared = matches!(self.keys.find(Key(key), &self.slab), Some(Entry::Shared(_)));
            for slot in waiting.iter().filter(|slot| slot.state == State::InLine) {
                assert_eq!(slot.group != NIL, is_shared, "who is in line knows whether its key is shared");
            }
            match self.keys.find(Key(key), &self.slab) {
                Some(Entry::Sole(index)) => assert_eq!(tickets, &[index], "a sole ticket"),
                Some(Entry::Shared(_)) => {}
                None => panic!("a key that a ticket has"),
            }
        }
        assert_eq!(self.places.len() + self.configured as usize, self.lanes.len(), "a place for each");
        for (place, lane) in self.lanes.iter().enumerate() {
            let provider = lane.provider;
            assert_eq!(self.place_of(provider), Some(place as u32), "a provider can be found");
            let here = || {
                self.slots()
                    .map(|i| self.slot(i))
                    .filter(move |slot| slot.state == State::InLine && slot.provider == provider)
            };
            assert_eq!(lane.line.audit(&self.slab) as usize, here().count(), "a provider's line");
            let waits = |slot: &&Slot| slot.state.is_queued() && slot.provider == provider;
            let queued = self.slots().map(|i| self.slot(i)).filter(waits).count();
            assert_eq!(lane.queued as usize, queued, "those that wait at a provider");
            let metered = here().filter(|slot| !slot.flags.is_exempt_somewhere()).count();
            assert_eq!(lane.metered as usize, metered, "the metered in a line");
        }
    }
}
