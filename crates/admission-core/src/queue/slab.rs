//! Tickets, each in a slot of one cache line, addressed by number.
//!
//! A slot's links serve whichever structure its ticket is in: the list or the tree of a line while it waits,
//! the list of the hand-off while it is granted. It is never in two. What no structure needs any more
//! holds what is to be told of the ticket: since when it is granted or runs, and once it has ended,
//! why. A generation tells a ticket from a later one in the same slot.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use super::key_table::Scattered;
use crate::{Hold, Instant, KeyHolder, ProviderId, Reason, Side, TicketId};

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;
/// Slots that there can be: the key index uses the top bit of a number.
const MOST_SLOTS: usize = (u32::MAX >> 1) as usize;

/// Where a ticket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Nowhere: the slot is free.
    Free,
    /// Waits in its provider's line; its key, if it has one, is free.
    InLine,
    /// Waits behind its key.
    Parked,
    /// Waits, and is passed over until its caller polls it (rule S4).
    Aside,
    /// May start, and has not (rule S1).
    Granted,
    /// Has started, and is not over.
    Running,
    /// Was refused, and its caller has not been told. Holds nothing and counts nowhere.
    Ended(Reason),
}

impl State {
    pub(crate) fn is_queued(self) -> bool {
        matches!(self, Self::InLine | Self::Parked | Self::Aside)
    }

    /// Whether a ticket in this state keeps others with its key from starting (rule L1).
    pub(crate) fn holds_key(self) -> bool {
        matches!(self, Self::Granted | Self::Running)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The order of submission; once ended, the limits that held it back, or since when its key was
    /// held.
    pub(crate) seq: u64,
    /// If it has one.
    pub(super) key: Scattered,
    /// Expires after it; once running, the number of its start; once ended, the instant from which a
    /// retry may help.
    pub(crate) deadline: Instant,
    pub(crate) submitted: Instant,
    /// Once ended, with the other links, who held its key.
    pub(crate) left: u32,
    pub(crate) right: u32,
    /// Once granted, a half of when; the other is in `group`.
    pub(crate) parent: u32,
    /// The number of its provider.
    pub(crate) provider: u32,
    generation: u32,
    /// While it waits, its group among those that share its key, if there is one.
    pub(crate) group: u32,
    /// While it is the only one with its key, the next at the same place of the table of keys; once
    /// ended, what held it back, as a number.
    pub(crate) link: u32,
    pub(crate) flags: Flags,
    pub(crate) state: State,
    /// How often the hand-off time that it has was halved, while it is granted.
    pub(crate) level: u8,
}

impl Slot {
    /// A fresh ticket, of which it is still to be said whether it runs or waits.
    #[inline(always)]
    fn renew(&mut self, seq: u64, provider: u32, key: Option<Scattered>, now: Instant) {
        self.seq = seq;
        self.key = key.unwrap_or_default();
        self.submitted = now;
        self.provider = provider;
        self.link = NIL;
        self.flags = Flags(if key.is_some() { Flags::KEYED } else { 0 });
    }

    /// A fresh ticket does not start at once.
    #[inline(always)]
    pub(crate) fn wait(&mut self, deadline: Instant) {
        self.state = State::InLine;
        self.deadline = deadline;
        self.group = NIL;
    }

    /// The name of the ticket that is in this slot.
    #[inline(always)]
    pub(crate) fn ticket(&self, index: u32) -> TicketId {
        TicketId { index, generation: self.generation }
    }

    pub(crate) fn key(&self) -> Option<Scattered> {
        self.flags.has(Flags::KEYED).then_some(self.key)
    }

    /// Which start it was, counted over the whole coordinator. Of a running ticket only.
    pub(crate) fn start_number(&self) -> u64 {
        self.deadline.as_nanos()
    }

    /// When it was granted or, once running, started; never if nobody knows. Of those only.
    pub(crate) fn since(&self) -> Instant {
        Instant::from_nanos(u64::from(self.parent) << 32 | u64::from(self.group))
    }

    /// It runs, and that is seen now: if nobody knows since when, then from now on.
    pub(crate) fn stamp(&mut self, now: Instant) {
        if self.since() == Instant::NEVER {
            self.set_since(now);
            self.flags.set(Flags::STAMPED);
        }
    }

    /// When its start was logged. If nobody knows since when it runs, that was in the call that submitted it. Of a
    /// running ticket only.
    pub(crate) fn logged(&self) -> Instant {
        let since = self.since();
        if since == Instant::NEVER || self.flags.has(Flags::STAMPED) { self.submitted } else { since }
    }

    fn set_since(&mut self, at: Instant) {
        self.parent = (at.as_nanos() >> 32) as u32;
        self.group = at.as_nanos() as u32;
    }

    /// It is granted now, and stands in no line and in no group.
    #[inline(always)]
    pub(crate) fn grant(&mut self, now: Instant) {
        self.state = State::Granted;
        self.flags.clear(Flags::TAKEN_BACK | Flags::FULL_TIME);
        self.set_since(now);
    }

    /// It starts, as the `number`-th; nobody asks for its deadline any more.
    pub(crate) fn run(&mut self, at: Instant, number: u64) {
        self.state = State::Running;
        self.set_since(at);
        self.deadline = Instant::from_nanos(number);
    }

    /// It has left whatever it was in, and keeps what its caller is to be told.
    pub(crate) fn end(&mut self, ending: &Ending) {
        self.state = State::Ended(ending.reason);
        self.link = Hold::to_code(ending.hold);
        self.deadline = ending.retry_at;
        self.seq = ending.limits;
        if let Some(holder) = ending.key_holder {
            self.flags.set(Flags::KEY_WAS_HELD);
            if holder.is_running {
                self.flags.set(Flags::HOLDER_RAN);
            }
            self.seq = holder.since.as_nanos();
            self.left = holder.ticket.index;
            self.right = holder.ticket.generation;
            self.parent = holder.provider.number();
        }
    }

    /// What the caller of an ended ticket is to be told.
    pub(crate) fn ending(&self) -> Ending {
        let reason = match self.state {
            State::Ended(reason) => reason,
            _ => Reason::Aborted,
        };
        let key_holder = self.flags.has(Flags::KEY_WAS_HELD).then(|| KeyHolder {
            ticket: TicketId { index: self.left, generation: self.right },
            provider: ProviderId::new(self.parent),
            is_running: self.flags.has(Flags::HOLDER_RAN),
            since: Instant::from_nanos(self.seq),
        });
        let hold = Hold::from_code(self.link);
        Ending { reason, hold, retry_at: self.deadline, limits: self.seq, key_holder }
    }
}

/// What is told of a ticket that ended without a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) reason: Reason,
    pub(crate) hold: Option<Hold>,
    /// The instant from which a retry may help.
    pub(crate) retry_at: Instant,
    /// The fingerprint of the limits that it was held back by, if those held it back.
    pub(crate) limits: u64,
    pub(crate) key_holder: Option<KeyHolder>,
}

/// What else is to be remembered of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags(u16);

impl Flags {
    /// It has a key.
    const KEYED: u16 = 1;
    /// It was queued at a reset of the client's logs, which are not asked about it (rule D2).
    const EXEMPT_CLIENT: u16 = 1 << 1;
    /// The same for its provider's.
    const EXEMPT_PROVIDER: u16 = 1 << 2;
    /// Its grant was taken back, and it has not been polled since.
    pub(crate) const TAKEN_BACK: u16 = 1 << 3;
    /// It was polled since: its next grant gets the full hand-off time (rule S4a).
    pub(crate) const FULL_TIME: u16 = 1 << 4;
    /// Its deadline is the coordinator's longest wait, not its own (rule R2).
    pub(crate) const MAX_WAIT: u16 = 1 << 5;
    /// It ended while somebody else had its key, of whom it knows.
    const KEY_WAS_HELD: u16 = 1 << 6;
    /// That one was running.
    const HOLDER_RAN: u16 = 1 << 7;
    /// Nobody knows when it started, and since when it runs is when somebody came upon it.
    const STAMPED: u16 = 1 << 8;

    pub(crate) fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    pub(crate) fn clear(&mut self, flag: u16) {
        self.0 &= !flag;
    }

    pub(crate) fn is_exempt(self, side: Side) -> bool {
        self.has(match side {
            Side::Client => Self::EXEMPT_CLIENT,
            Side::Provider => Self::EXEMPT_PROVIDER,
        })
    }

    pub(crate) fn is_exempt_somewhere(self) -> bool {
        self.has(Self::EXEMPT_CLIENT | Self::EXEMPT_PROVIDER)
    }

    /// Whether a grant has nothing to look at but whether there is a key.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & !Self::KEYED == 0
    }

    pub(crate) fn exempt(&mut self, side: Side) {
        self.set(match side {
            Side::Client => Self::EXEMPT_CLIENT,
            Side::Provider => Self::EXEMPT_PROVIDER,
        });
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Slab {
    slots: Vec<Slot>,
    /// The first free slot; the others follow by their right links.
    free: u32,
    next_seq: u64,
    #[cfg(steps)]
    pub(crate) steps: crate::steps::Steps,
}

impl Slab {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NIL,
            next_seq: 0,
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        }
    }

    pub(crate) fn try_reserve(&mut self, tickets: usize) -> Result<(), TryReserveError> {
        self.slots.try_reserve_exact(tickets)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Whether one more ticket can be numbered.
    pub(crate) fn has_room(&self) -> bool {
        self.free != NIL || self.slots.len() < MOST_SLOTS
    }

    /// The slot that the next ticket will have.
    pub(crate) fn next(&self) -> u32 {
        if self.free == NIL { self.slots.len() as u32 } else { self.free }
    }

    /// A slot for the next ticket in the order of submission, which is to [wait](Slot::wait) or to
    /// [run](Slot::run) at once.
    #[inline(always)]
    pub(crate) fn insert(&mut self, provider: u32, key: Option<Scattered>, now: Instant) -> (u32, &mut Slot) {
        if self.free == NIL {
            self.push();
        }
        let index = self.free;
        (index, self.take(index, provider, key, now))
    }

    /// The first free slot, if there is one.
    #[inline(always)]
    pub(crate) fn first_free(&self) -> Option<u32> {
        Some(self.free).filter(|&index| index != NIL)
    }

    /// The same in the first free slot.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        index: u32,
        provider: u32,
        key: Option<Scattered>,
        now: Instant,
    ) -> &mut Slot {
        let seq = self.next_seq;
        self.next_seq += 1;
        let slot = &mut self.slots[index as usize];
        self.free = slot.right;
        slot.renew(seq, provider, key, now);
        slot
    }

    /// One more slot, which is free.
    #[cold]
    fn push(&mut self) {
        if self.slots.len() == self.slots.capacity() {
            // By a quarter, not by as much again: a slot is the largest part of a waiting call.
            self.slots.reserve_exact(self.slots.len() / 4 + 4);
        }
        self.slots.push(Slot {
            seq: 0,
            key: Scattered::default(),
            deadline: Instant::NEVER,
            submitted: Instant::ZERO,
            left: NIL,
            right: NIL,
            parent: NIL,
            provider: 0,
            generation: 0,
            group: NIL,
            link: NIL,
            flags: Flags::default(),
            state: State::Free,
            level: 0,
        });
        self.free = (self.slots.len() - 1) as u32;
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, index: u32) {
        let free = self.free;
        let slot = &mut self[index];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.right = free;
        self.free = index;
    }

    /// The slot with a number that may be none.
    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> Option<&Slot> {
        #[cfg(steps)]
        self.steps.count();
        self.slots.get(index as usize)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        #[cfg(steps)]
        self.steps.count();
        self.slots.get_mut(index as usize)
    }

    /// The slot that a ticket has, or had.
    #[inline(always)]
    pub(crate) fn of(&self, ticket: TicketId) -> Option<&Slot> {
        self.get(ticket.index).filter(|slot| slot.generation == ticket.generation)
    }

    /// The slot of a ticket, if it is still that ticket's.
    pub(crate) fn find(&self, ticket: TicketId) -> Option<u32> {
        let slot = self.slots.get(ticket.index as usize)?;
        (slot.generation == ticket.generation && slot.state != State::Free).then_some(ticket.index)
    }

    pub(crate) fn ticket(&self, index: u32) -> TicketId {
        TicketId { index, generation: self[index].generation }
    }

    /// All slots, the free ones too.
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }
}

impl core::ops::Index<u32> for Slab {
    type Output = Slot;

    fn index(&self, index: u32) -> &Slot {
        #[cfg(steps)]
        self.steps.count();
        &self.slots[index as usize]
    }
}

impl core::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        #[cfg(steps)]
        self.steps.count();
        &mut self.slots[index as usize]
    }
}

const _: () = assert!(size_of::<Slot>() == 64, "a ticket is one cache line");
const _: () = assert!(MOST_SLOTS <= 1 << 31, "the topmost bit of a ticket's name is free");
