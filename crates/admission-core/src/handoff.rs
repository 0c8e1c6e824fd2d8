//! Grants that have not started, by the instant at which they are taken back (rule S4).
//!
//! A hand-off time is the configured one, halved some number of times (rule S4a). All grants with
//! the same number lie in one list, and time does not run back, so each list is in the order of its
//! instants: to put a grant in, to take one out and to find the first is a matter of a few steps. The
//! latest grant is in no list but at hand, until there is a later one: mostly it starts before. And the
//! first instant of all is kept at hand, for every call asks for it.

use alloc::vec::Vec;
use core::time::Duration;

use crate::config::MIN_HAND_OFF;
#[cfg(audit)]
use crate::queue::State;
use crate::queue::{NIL, Slab, Slot};
use crate::time::nanos;
use crate::{ConfigError, Instant, TicketId};

#[derive(Clone, Debug)]
pub(crate) struct HandOff {
    lists: Vec<List>,
    /// The latest grant, or [`NIL`].
    latest: u32,
    /// Which lists have grants: one bit for each, the first being the lowest. Halving 64 bits of
    /// nanoseconds makes no more lists than that.
    occupied: u64,
    /// The first instant at which a grant is to be taken back; never, if there is none.
    first_due: Instant,
}

#[derive(Clone, Debug)]
struct List {
    nanos: u64,
    first: u32,
    last: u32,
}

impl HandOff {
    pub(crate) fn try_new(full: Duration) -> Result<Self, ConfigError> {
        let mut lists = Vec::new();
        let least = nanos(MIN_HAND_OFF);
        let mut nanos = nanos(full);
        loop {
            lists.try_reserve(1).map_err(|_| ConfigError::OutOfMemory)?;
            lists.push(List { nanos, first: NIL, last: NIL });
            if nanos <= least {
                return Ok(Self { lists, latest: NIL, occupied: 0, first_due: Instant::NEVER });
            }
            nanos = (nanos / 2).max(least);
        }
    }

    /// One halving more, down to the last.
    pub(crate) fn halve(&self, halvings: &mut u8) {
        if usize::from(*halvings) + 1 < self.lists.len() {
            *halvings += 1;
        }
    }

    /// The time that so many halvings leave.
    pub(crate) fn time(&self, halvings: u8) -> Duration {
        Duration::from_nanos(self.lists[usize::from(halvings)].nanos)
    }

    /// A ticket, whose name is told, is granted now; says when that is to be taken back.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        slab: &mut Slab,
        index: u32,
        halvings: u8,
        now: Instant,
    ) -> (TicketId, Instant) {
        if self.latest != NIL {
            self.put_by(slab);
        }
        self.latest = index;
        let due = now.plus(self.lists[usize::from(halvings)].nanos);
        self.first_due = self.first_due.min(due);
        let slot = &mut slab[index];
        slot.grant(now);
        slot.level = halvings;
        (slot.ticket(index), due)
    }

    /// The same where no grant is out.
    #[inline(always)]
    pub(crate) fn insert_only(
        &mut self,
        slot: &mut Slot,
        index: u32,
        halvings: u8,
        now: Instant,
    ) -> (TicketId, Instant) {
        let due = now.plus(self.lists[usize::from(halvings)].nanos);
        self.latest = index;
        self.first_due = due;
        slot.grant(now);
        slot.level = halvings;
        (slot.ticket(index), due)
    }

    /// Whether a grant is out: its instant does not tell, for one that is never to be taken back is out as well.
    #[inline(always)]
    pub(crate) fn has_any(&self) -> bool {
        self.latest != NIL || self.occupied != 0
    }

    /// Who is granted, if no other is.
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<u32> {
        (self.latest != NIL && self.occupied == 0).then_some(self.latest)
    }

    /// Puts the latest grant into its list: there is a later one.
    #[inline(never)]
    fn put_by(&mut self, slab: &mut Slab) {
        let index = self.latest;
        let slot = &mut slab[index];
        let list = &mut self.lists[usize::from(slot.level)];
        let last = list.last;
        slot.left = last;
        slot.right = NIL;
        if last == NIL {
            list.first = index;
            self.occupied |= 1 << slot.level;
        } else {
            slab[last].right = index;
        }
        list.last = index;
    }

    /// A granted ticket starts, or goes away; says whether it was the only one. If not it is still to be
    /// [removed](Self::remove).
    #[inline(always)]
    pub(crate) fn remove_only(&mut self, index: u32) -> bool {
        let is_only = index == self.latest && self.occupied == 0;
        if is_only {
            self.latest = NIL;
            self.first_due = Instant::NEVER;
        }
        is_only
    }

    /// The same, among any number of them.
    #[inline(always)]
    pub(crate) fn remove(&mut self, slab: &mut Slab, index: u32) {
        if index != self.latest {
            return self.unlink(slab, index);
        }
        self.latest = NIL;
        self.first_due = Instant::NEVER;
        if self.occupied != 0 {
            self.first_due = self.earliest(slab);
        }
    }

    #[inline(never)]
    fn unlink(&mut self, slab: &mut Slab, index: u32) {
        let Slot { left, right, level, .. } = slab[index];
        let list = &mut self.lists[usize::from(level)];
        if right == NIL {
            list.last = left;
        } else {
            slab[right].left = left;
        }
        if left == NIL {
            list.first = right;
            if right == NIL {
                self.occupied &= !(1 << level);
            }
            self.first_due = self.earliest(slab);
        } else {
            slab[left].right = right;
        }
    }

    /// The first instant at which a grant is to be taken back, or never.
    #[inline(always)]
    pub(crate) fn first_due(&self) -> Instant {
        self.first_due
    }

    /// The same, looked up: each list's first is its earliest.
    #[inline(never)]
    fn earliest(&self, slab: &Slab) -> Instant {
        let mut earliest = if self.latest == NIL { Instant::NEVER } else { self.due_at(slab, self.latest) };
        let mut occupied = self.occupied;
        while occupied != 0 {
            let list = &self.lists[occupied.trailing_zeros() as usize];
            earliest = earliest.min(slab[list.first].since().plus(list.nanos));
            occupied &= occupied - 1;
        }
        earliest
    }

    /// When a grant is to be taken back.
    fn due_at(&self, slab: &Slab, index: u32) -> Instant {
        slab[index].since().plus(self.lists[usize::from(slab[index].level)].nanos)
    }

    /// Tells of every grant, with the instant at which it is to be taken back.
    pub(crate) fn each(&self, slab: &Slab, mut found: impl FnMut(u32, Instant)) {
        for first in self.lists.iter().map(|list| list.first) {
            let mut index = first;
            while index != NIL {
                found(index, self.due_at(slab, index));
                index = slab[index].right;
            }
        }
        if self.latest != NIL {
            found(self.latest, self.due_at(slab, self.latest));
        }
    }

    /// Adds the grants that are due to be taken back to `found`.
    pub(crate) fn due(&self, slab: &Slab, now: Instant, found: &mut Vec<u32>) {
        for list in &self.lists {
            let mut index = list.first;
            while index != NIL && slab[index].since().plus(list.nanos) <= now {
                found.push(index);
                index = slab[index].right;
            }
        }
        if self.latest != NIL && self.due_at(slab, self.latest) <= now {
            found.push(self.latest);
        }
    }

    /// Adds all grants of the provider with a number, or of all, to `found`.
    pub(crate) fn of_scope(&self, slab: &Slab, provider: Option<u32>, found: &mut Vec<u32>) {
        self.each(slab, |index, _| {
            if provider.is_none_or(|provider| slab[index].provider == provider) {
                found.push(index);
            }
        });
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self, slab: &Slab) -> u32 {
        let mut count = 0;
        if self.latest != NIL {
            assert_eq!(slab[self.latest].state, State::Granted, "hand-off: the latest");
            count += 1;
        }
        for (level, list) in self.lists.iter().enumerate() {
            let mut previous = NIL;
            let mut index = list.first;
            while index != NIL {
                let slot = slab[index];
                assert_eq!(slot.state, State::Granted, "hand-off: only grants");
                assert_eq!((slot.left, usize::from(slot.level)), (previous, level), "hand-off: links");
                assert_ne!(index, self.latest, "hand-off: the latest is in no list");
                assert!(previous == NIL || slab[previous].since() <= slot.since(), "hand-off: order");
                count += 1;
                previous = index;
                index = slot.right;
            }
            assert_eq!(list.last, previous, "hand-off: tail");
            assert_eq!(self.occupied >> level & 1 == 1, list.first != NIL, "hand-off: the lists in use");
        }
        let mut first_due = Instant::NEVER;
        self.each(slab, |_, at| first_due = at.min(first_due));
        assert_eq!(self.first_due, first_due, "hand-off: the first instant");
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn what_is_due_is_told_whichever_grants_end_in_between() {
        let mut slab = Slab::new();
        let all: Vec<u32> = (0..40).map(|_| slab.insert(0, None, Instant::ZERO).0).collect();
        let mut hand_off = HandOff::try_new(Duration::from_millis(8)).expect("there is memory for it");
        let mut model = BTreeMap::new();
        let (mut now, mut seed) = (Instant::ZERO, 11u64);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (index, halvings) = (all[(seed >> 33) as usize % all.len()], (seed >> 40) as u8 % 4);
            now = now.plus((seed >> 50) % 3 * 200_000);
            if model.remove(&index).is_some() {
                // One that is the only one starts so, others as well.
                if !hand_off.remove_only(index) {
                    hand_off.remove(&mut slab, index);
                }
            } else if seed >> 63 == 0 || model.is_empty() {
                let (ticket, due) = hand_off.insert(&mut slab, index, halvings, now);
                assert_eq!((ticket, due), (slab.ticket(index), now + hand_off.time(halvings)));
                model.insert(index, due);
            }
            let first_due = model.values().min().copied().unwrap_or(Instant::NEVER);
            assert_eq!((hand_off.first_due(), hand_off.has_any()), (first_due, !model.is_empty()));
            let mut due = Vec::new();
            hand_off.due(&slab, now, &mut due);
            due.sort_unstable();
            assert!(due.iter().eq(model.iter().filter(|&(_, &at)| at <= now).map(|(index, _)| index)));
            let mut each = BTreeMap::new();
            hand_off.each(&slab, |index, at| assert_eq!(each.insert(index, at), None, "told of once"));
            assert_eq!(each, model);
        }
    }
}
