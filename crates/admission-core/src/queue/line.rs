//! A line of tickets in the order of their submission, from which any can leave and to which one can
//! return at its own place.
//!
//! Who joins at the tail, or goes before all others, stands in a linked list. Who returns to a place in
//! between (its key came free, its grant was taken back) stands in a [`Tree`] beside the list, and the
//! first of the line is the older of the two first ones. So the usual moves touch neighbours alone, and a
//! return takes O(log n). The nodes are the tickets' own slots: nothing is allocated.

use super::slab::{NIL, Slab};
use super::tree::Tree;

/// The parent of who is in the list: nobody's number.
const LISTED: u32 = NIL - 1;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The oldest of all.
    first: u32,
    /// The first in the list. Nobody reads what its left link says.
    head: u32,
    /// The last in the list, if there is one.
    tail: u32,
    returned: Tree,
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self { first: NIL, head: NIL, tail: NIL, returned: Tree::new() }
    }

    /// The oldest ticket, or [`NIL`].
    #[inline(always)]
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Puts a ticket at its place.
    pub(crate) fn insert(&mut self, slab: &mut Slab, index: u32) {
        let seq = slab[index].seq;
        if self.head == NIL || slab[self.tail].seq < seq {
            self.append(slab, index);
        } else if seq < slab[self.head].seq {
            let slot = &mut slab[index];
            slot.right = self.head;
            slot.parent = LISTED;
            slab[self.head].left = index;
            self.head = index;
        } else {
            self.returned.insert(slab, index);
        }
        if self.first == NIL || seq < slab[self.first].seq {
            self.first = index;
        }
    }

    /// The same for one that is younger than all; says whether it is the first.
    #[inline(always)]
    pub(crate) fn push(&mut self, slab: &mut Slab, index: u32) -> bool {
        self.append(slab, index);
        let is_first = self.first == NIL;
        if is_first {
            self.first = index;
        }
        is_first
    }

    /// Puts one that is younger than those in the list at its end.
    #[inline(always)]
    fn append(&mut self, slab: &mut Slab, index: u32) {
        let slot = &mut slab[index];
        slot.left = self.tail;
        slot.right = NIL;
        slot.parent = LISTED;
        if self.head == NIL {
            self.head = index;
        } else {
            slab[self.tail].right = index;
        }
        self.tail = index;
    }

    /// Takes a ticket of this line out.
    #[inline(always)]
    pub(crate) fn remove(&mut self, slab: &mut Slab, index: u32) {
        if !self.remove_listed(slab, index) {
            self.remove_returned(slab, index);
        }
        if index == self.first {
            self.find_first(slab);
        }
    }

    /// Takes a ticket out that is in the list; says no if it is not. If it was the first of the line, that is to be
    /// [found](Self::find_first) anew.
    #[inline(always)]
    pub(crate) fn remove_listed(&mut self, slab: &mut Slab, index: u32) -> bool {
        let slot = &slab[index];
        let (left, right) = (slot.left, slot.right);
        if slot.parent != LISTED {
            return false;
        }
        if index == self.tail {
            self.tail = left;
        } else {
            slab[right].left = left;
        }
        if index == self.head {
            self.head = right;
        } else {
            slab[left].right = right;
        }
        true
    }

    #[inline(never)]
    fn remove_returned(&mut self, slab: &mut Slab, index: u32) {
        self.returned.remove(slab, index);
    }

    /// Takes the oldest ticket out, of which it is told who is on its right.
    #[inline(always)]
    pub(crate) fn remove_first(&mut self, slab: &mut Slab, right: u32) {
        if !self.drop_first(right) {
            self.remove_any(slab, self.first);
        }
    }

    /// The same where nobody has returned; says no if somebody has.
    #[inline(always)]
    pub(crate) fn drop_first(&mut self, right: u32) -> bool {
        let is_listed = self.returned.is_empty();
        if is_listed {
            self.head = right;
            self.first = right;
        }
        is_listed
    }

    /// [`Self::remove`], where it is rare.
    #[inline(never)]
    pub(crate) fn remove_any(&mut self, slab: &mut Slab, index: u32) {
        self.remove(slab, index);
    }

    /// Looks for the first one anew.
    #[inline(always)]
    pub(crate) fn find_first(&mut self, slab: &Slab) {
        self.first = self.head;
        if !self.returned.is_empty() {
            self.find_first_of_both(slab);
        }
    }

    #[inline(never)]
    fn find_first_of_both(&mut self, slab: &Slab) {
        let returned = self.returned.first();
        if self.head == NIL || slab[returned].seq < slab[self.head].seq {
            self.first = returned;
        }
    }

    #[cfg(any(audit, test))]
    pub(crate) fn audit(&self, slab: &Slab) -> u32 {
        let mut count = 0;
        let mut index = self.head;
        let mut previous = NIL;
        while index != NIL {
            let slot = slab[index];
            assert_eq!(slot.parent, LISTED, "line: who is in the list");
            assert!(previous == NIL || slot.left == previous, "line: the one before");
            assert!(previous == NIL || slab[previous].seq < slot.seq, "line: order");
            previous = index;
            count += 1;
            index = slot.right;
        }
        assert!(self.head == NIL || self.tail == previous, "line: tail");
        let firsts = [self.head, self.returned.first()];
        let first = firsts.into_iter().filter(|&index| index != NIL).min_by_key(|&index| slab[index].seq);
        assert_eq!(self.first, first.unwrap_or(NIL), "line: first");
        count + self.returned.audit(slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    #[test]
    fn tickets_leave_and_return_at_their_own_place() {
        let mut slab = Slab::new();
        let all: Vec<u32> = (0..200).map(|_| slab.insert(0, None, Instant::NEVER).0).collect();
        let mut line = Line::new();
        let mut model = BTreeSet::new();
        let mut seed = 9u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = all[(seed >> 33) as usize % all.len()];
            if model.remove(&index) {
                line.remove(&mut slab, index);
            } else {
                model.insert(index);
                line.insert(&mut slab, index);
            }
            assert_eq!(line.first(), model.first().copied().unwrap_or(NIL));
            assert_eq!(line.audit(&slab) as usize, model.len());
        }
    }
}
