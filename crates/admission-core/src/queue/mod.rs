//! Who waits, in which order, and who stands in front.
//!
//! Owns: the tickets, one line per provider of those that only a provider or the client can hold
//! back, the keys, and the deadlines. A ticket that waits for its key, or is passed over, stands in
//! no line and rejoins at its own place. Lacks limits and time: it never says that a ticket may go,
//! only which is the oldest; providers whose line changed are listed for those who judge. A ticket
//! has its provider's number; where that one's line is, only this module knows.
//!
//! This file has who is in and how a ticket comes and goes; the lines of the providers, those who share a
//! key and the costs have files of their own.

#[cfg(audit)]
mod audit;
mod costs;
mod key_table;
mod keys;
mod lanes;
mod line;
mod sharing;
mod slab;
mod tree;

use alloc::vec::Vec;

use hashbrown::HashTable;

use self::keys::Keys;
use self::lanes::Lane;
use crate::heap::Heap;
use crate::{ConfigError, Instant, Side, TicketId, UnitId};

pub(crate) use self::key_table::{Scattered, hash};
pub(crate) use self::keys::{Entry, Found};
pub(crate) use self::lanes::{Front, Rank};
pub(crate) use self::slab::{Ending, Flags, NIL, Slab, Slot, State};

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
    /// Whether a ticket was ever exempt from logs.
    had_exempt: bool,
    /// Providers whose front may have changed since they were last judged.
    changed: Vec<u32>,
}

/// What is to be known of a ticket that runs, when it ends.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    index: u32,
    pub(crate) provider: u32,
    key: Option<Scattered>,
    link: u32,
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
            had_exempt: false,
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

    /// Puts tickets in the order of submission. One copy for all who do: a sort is eight KiB of code.
    #[inline(never)]
    pub(crate) fn sort(&self, tickets: &mut [u32]) {
        tickets.sort_unstable_by_key(|&index| self.slab[index].seq);
    }

    pub(crate) fn has_room_for_ticket(&self) -> bool {
        self.slab.has_room()
    }

    pub(crate) fn find(&self, ticket: TicketId) -> Option<u32> {
        self.slab.find(ticket)
    }

    /// What has become of a ticket that is known.
    #[inline(always)]
    pub(crate) fn state(&self, ticket: TicketId) -> Option<State> {
        self.slab.of(ticket).map(|slot| slot.state)
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

    /// A ticket that is not anywhere yet but in the table of keys: it starts, is granted, or is put in
    /// with [`Queue::enqueue`].
    ///
    /// `found`: what [`Queue::look_up`] said of its key.
    #[inline(always)]
    pub(crate) fn create(
        &mut self,
        provider: u32,
        key: Option<Scattered>,
        costs: &[(UnitId, u64)],
        found: Option<Found>,
        now: Instant,
    ) -> (u32, &mut Slot) {
        if self.more_units > 0 {
            self.note_costs(self.slab.next(), costs);
        }
        if let (Some(key), Some(found @ Found { entry: None, .. })) = (key, found) {
            self.keys.enter(found, key, self.slab.next(), &mut self.slab);
        }
        self.slab.insert(provider, key, now)
    }

    /// The same for one without costs, whose key nobody else has; `None`, and nothing is changed, if somebody
    /// may, or if there is no room yet.
    #[inline(always)]
    pub(crate) fn create_plainly(
        &mut self,
        provider: u32,
        key: Option<Scattered>,
        now: Instant,
    ) -> Option<(u32, &mut Slot)> {
        let index = self.slab.first_free()?;
        if let Some(key) = key {
            self.keys.enter_plainly(key, index, &mut self.slab)?;
        }
        Some((index, self.slab.take(index, provider, key, now)))
    }

    /// A new ticket waits, which nobody shares a key with, and has no deadline; says whether it is the first in its
    /// line.
    #[inline(always)]
    pub(crate) fn join(&mut self, index: u32, place: u32) -> bool {
        self.queued += 1;
        let lane = &mut self.lanes[place as usize];
        lane.queued += 1;
        lane.line.push(&mut self.slab, index)
    }

    /// A ticket that is granted, and its provider's number.
    #[inline(always)]
    pub(crate) fn granted(&self, ticket: TicketId) -> Option<(u32, u32)> {
        let slot = self.slab.of(ticket).filter(|slot| slot.state == State::Granted)?;
        Some((ticket.index, slot.provider))
    }

    /// A ticket that runs.
    #[inline(always)]
    pub(crate) fn running(&self, ticket: TicketId) -> Option<Running> {
        let slot = self.slab.of(ticket).filter(|slot| slot.state == State::Running)?;
        Some(Running { index: ticket.index, provider: slot.provider, key: slot.key(), link: slot.link })
    }

    /// Nothing is left of a ticket that ran; `None`, and nothing is changed, if others may have to hear of it.
    #[inline(always)]
    pub(crate) fn forget_running(&mut self, running: &Running) -> Option<()> {
        let Running { index, key, link, .. } = *running;
        if let Some(key) = key {
            self.keys.remove_first(key, index, link)?;
        }
        self.slab.remove(index);
        Some(())
    }

    /// The same for one with a key that is not the first in its chain.
    #[inline(always)]
    pub(crate) fn forget_running_far(&mut self, index: u32) -> Option<()> {
        let Slot { key, link, .. } = self.slab[index];
        self.keys.remove_plainly(key, index, link, &mut self.slab)?;
        self.slab.remove(index);
        Some(())
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
        // Who is the only one that waits is the first in line.
        if self.join(index, place) {
            self.mark_changed(place);
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

    /// The oldest ticket of a line takes its key: it is granted. Where no other ticket has that key, it
    /// is its already. Its provider is to be judged by who is next.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, place: u32) -> (u32, Flags, Front) {
        let lane = &mut self.lanes[place as usize];
        let index = lane.line.first();
        let Slot { flags, group, right, .. } = self.slab[index];
        lane.line.remove_first(&mut self.slab, right);
        lane.queued -= 1;
        if flags.is_exempt_somewhere() {
            lane.unmetered -= 1;
        }
        let mut front = lane.front();
        self.queued -= 1;
        self.deadlines.remove(index);
        if group != NIL {
            self.take_shared(index, group);
            front = self.front_of(place);
        }
        (index, flags, front)
    }

    /// Nothing is left of a waiting ticket of which nobody else knows; says where its provider is. `None`, and nothing is
    /// changed, if there is more to do.
    ///
    /// `FIRST`: whether it is one in front of which nobody stands, whose provider is to be judged then, or one behind
    /// others.
    #[inline(always)]
    pub(crate) fn leave_plainly<const FIRST: bool>(&mut self, ticket: TicketId) -> Option<u32> {
        let index = ticket.index;
        let slot = self.slab.of(ticket)?;
        let is_plain = slot.state == State::InLine && slot.group == NIL && slot.deadline == Instant::NEVER;
        let (provider, key, is_metered) = (slot.provider, slot.key(), !slot.flags.is_exempt_somewhere());
        if !(is_plain && is_metered && provider < self.configured) {
            return None;
        }
        let lane = &mut self.lanes[provider as usize];
        if (lane.line.first() == index) != FIRST || !lane.line.remove_listed(&mut self.slab, index) {
            return None;
        }
        if FIRST {
            lane.line.find_first(&self.slab);
        }
        lane.queued -= 1;
        self.queued -= 1;
        self.slab.remove(index);
        if let Some(key) = key {
            // Nobody shares it: who stands in line and shares one is in a group.
            self.keys.remove_sole(key, index, &mut self.slab);
        }
        Some(provider)
    }

    /// The oldest ticket of a line is granted, which nobody shares a key with, and of which nothing else is to be
    /// remembered. Says which it is, and the place in the order of who is next; if nobody is, or may go as `is_open`
    /// says, the largest number, and the line is noted as held. `None`, and nothing is changed, if there is more to do.
    #[inline(always)]
    pub(crate) fn take_first_plainly(&mut self, place: u32, is_open: bool) -> Option<(u32, &mut Slot, u64)> {
        let lane = self.lanes.get_mut(place as usize)?;
        let index = lane.line.first();
        let slot = self.slab.get(index)?;
        let is_plain = slot.group == NIL && slot.deadline == Instant::NEVER && slot.flags.is_plain();
        let right = slot.right;
        if !is_plain || lane.is_fleeting {
            return None;
        }
        let next = if is_open { self.slab.get(right) } else { None };
        let seq = next.map_or(u64::MAX, |next| next.seq);
        let slot = self.slab.get_mut(index)?;
        if !lane.line.drop_first(right) {
            return None;
        }
        lane.queued -= 1;
        self.queued -= 1;
        if seq == u64::MAX {
            lane.rank = Rank::Held;
        }
        Some((index, slot, seq))
    }

    /// A waiting ticket goes away, and those behind it move up.
    #[inline(never)]
    pub(crate) fn leave(&mut self, index: u32) {
        let slot = &self.slab[index];
        let (state, group, provider, key) = (slot.state, slot.group, slot.provider, slot.key());
        let place = self.place_with_ticket(provider);
        if state == State::InLine {
            self.leave_line(index, place);
        }
        self.count_out(place);
        self.deadlines.remove(index);
        if group != NIL {
            self.leave_group(index, group, state);
        }
        if let Some(key) = key {
            self.quit_key(index, key);
        }
    }

    #[inline(never)]
    fn leave_group(&mut self, index: u32, group: u32, state: State) {
        if state == State::InLine {
            self.keys.group(group).delegate = NIL;
            self.send_delegate(group);
        } else if state == State::Parked {
            self.keys.group(group).parked.remove_any(&mut self.slab, index);
        }
        self.keys.drop_if_empty(group);
        self.slab[index].group = NIL;
    }

    /// A granted or running ticket is over: its key is free.
    #[inline(never)]
    pub(crate) fn finish(&mut self, index: u32) {
        self.finish_with(index, self.slab[index].key());
    }

    /// The same where its key is known.
    #[inline(always)]
    pub(crate) fn finish_with(&mut self, index: u32, key: Option<Scattered>) {
        let Some(key) = key else { return };
        if let Some(record) = self.keys.remove_sole(key, index, &mut self.slab) {
            self.finish_shared(record);
        }
    }

    /// Nothing is left of a ticket that has left or finished.
    #[inline(always)]
    pub(crate) fn forget(&mut self, index: u32) {
        self.slab.remove(index);
    }

    /// Whether logs of this side are not asked about this waiting ticket.
    #[inline(always)]
    pub(crate) fn is_exempt(&self, index: u32, side: Side) -> bool {
        self.had_exempt && self.slab[index].flags.is_exempt(side)
    }

    /// From now on logs of this side are not asked about this waiting ticket (rule D2).
    pub(crate) fn exempt(&mut self, index: u32, side: Side) {
        let slot = &mut self.slab[index];
        let was_metered = !slot.flags.is_exempt_somewhere();
        slot.flags.exempt(side);
        self.had_exempt = true;
        if was_metered && slot.state == State::InLine {
            self.lane(index).unmetered += 1;
        }
    }

    #[inline]
    fn watch_deadline(&mut self, index: u32) {
        let deadline = self.slab[index].deadline;
        if deadline < Instant::NEVER {
            self.deadlines.set(index, deadline.as_nanos());
        }
    }

    fn enter_line(&mut self, index: u32, place: u32) {
        let slot = &mut self.slab[index];
        slot.state = State::InLine;
        let is_metered = !slot.flags.is_exempt_somewhere();
        let lane = &mut self.lanes[place as usize];
        lane.line.insert(&mut self.slab, index);
        lane.unmetered -= u32::from(is_metered);
        if lane.line.first() == index {
            self.mark_changed(place);
        }
    }

    #[inline(always)]
    fn leave_line(&mut self, index: u32, place: u32) {
        let slot = &self.slab[index];
        let is_metered = !slot.flags.is_exempt_somewhere();
        let lane = &mut self.lanes[place as usize];
        let was_first = lane.line.first() == index;
        lane.line.remove(&mut self.slab, index);
        lane.unmetered += u32::from(is_metered);
        if was_first {
            self.mark_changed(place);
        }
    }
}
