//! Grants that have not started, by the instant at which they are taken back (rule S4).
//!
//! A hand-off time is the configured one, halved some number of times (rule S4a). All grants with
//! the same number lie in one list, and time does not run back, so each list is in the order of its
//! instants: to put a grant in, to take one out and to find the first is a matter of a few steps. The
//! first instant of all is kept at hand, for every call asks for it.

use alloc::vec::Vec;
use core::time::Duration;

use crate::config::MIN_HAND_OFF;
#[cfg(audit)]
use crate::queue::State;
use crate::queue::{Links, NIL, Slab};
use crate::time::nanos;
use crate::{ConfigError, Instant, TicketId};

#[derive(Clone, Debug)]
pub(crate) struct HandOff {
    lists: Vec<List>,
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
                return Ok(Self { lists, occupied: 0, first_due: Instant::NEVER });
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

    /// A ticket, whose name is told, is granted now.
    #[inline(always)]
    pub(crate) fn insert(&mut self, slab: &mut Slab, index: u32, halvings: u8, now: Instant) -> TicketId {
        let list = &mut self.lists[usize::from(halvings)];
        let last = list.last;
        let slot = &mut slab[index];
        slot.grant(now);
        slot.level = halvings;
        slot.left = last;
        slot.right = NIL;
        let ticket = slot.ticket(index);
        if last == NIL {
            list.first = index;
            self.occupied |= 1 << halvings;
            self.first_due = self.first_due.min(now.plus(list.nanos));
        } else {
            slab[last].right = index;
        }
        list.last = index;
        ticket
    }

    /// A granted ticket goes away, or is taken back.
    pub(crate) fn remove(&mut self, slab: &mut Slab, index: u32) {
        self.unlink(slab, slab[index].links());
    }

    /// The same for one that starts, and had these links.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, slab: &mut Slab, Links { left, right, level }: Links) {
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
    #[inline(always)]
    fn earliest(&self, slab: &Slab) -> Instant {
        let mut earliest = Instant::NEVER;
        let mut occupied = self.occupied;
        while occupied != 0 {
            let list = &self.lists[occupied.trailing_zeros() as usize];
            earliest = earliest.min(slab[list.first].since().plus(list.nanos));
            occupied &= occupied - 1;
        }
        earliest
    }

    /// Tells of every grant, with the instant at which it is to be taken back.
    pub(crate) fn each(&self, slab: &Slab, mut found: impl FnMut(u32, Instant)) {
        for list in &self.lists {
            let mut index = list.first;
            while index != NIL {
                found(index, slab[index].since().plus(list.nanos));
                index = slab[index].right;
            }
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
    }

    /// Adds all grants of the provider with a number, or of all, to `found`.
    pub(crate) fn of_scope(&self, slab: &Slab, provider: Option<u32>, found: &mut Vec<u32>) {
        for list in &self.lists {
            let mut index = list.first;
            while index != NIL {
                if provider.is_none_or(|provider| slab[index].provider == provider) {
                    found.push(index);
                }
                index = slab[index].right;
            }
        }
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self, slab: &Slab) -> u32 {
        let mut count = 0;
        for (level, list) in self.lists.iter().enumerate() {
            let mut previous = NIL;
            let mut index = list.first;
            while index != NIL {
                let slot = slab[index];
                assert_eq!(slot.state, State::Granted, "hand-off: only grants");
                assert_eq!((slot.left, usize::from(slot.level)), (previous, level), "hand-off: links");
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
