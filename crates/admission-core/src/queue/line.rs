//! A line of tickets in the order of their submission, from which any can leave and to which one can
//! return at its own place.
//!
//! It is a search tree by submission number, balanced as a treap whose priorities are a hash of that
//! number, so that they need no space and are the same in every replay. To join at the tail, to
//! leave from the front and to leave from anywhere take a constant number of steps on average; to
//! return to a place takes O(log n). The nodes are the tickets' own slots: nothing is allocated.

use super::slab::{NIL, Slab};

#[derive(Clone, Debug)]
pub(crate) struct Line {
    root: u32,
    first: u32,
    last: u32,
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self { root: NIL, first: NIL, last: NIL }
    }

    /// The oldest ticket, or [`NIL`].
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Puts a ticket at its place.
    #[inline]
    pub(crate) fn insert(&mut self, slab: &mut Slab, index: u32) {
        if self.is_empty() {
            self.first = index;
            self.append(slab, index);
        } else if slab[self.last].seq < slab[index].seq {
            self.append(slab, index);
        } else {
            self.insert_before_last(slab, index);
        }
    }

    fn insert_before_last(&mut self, slab: &mut Slab, index: u32) {
        let seq = slab[index].seq;
        let mut parent = NIL;
        if seq < slab[self.first].seq {
            parent = self.first;
            slab[parent].left = index;
            self.first = index;
        } else {
            let mut next = self.root;
            while next != NIL {
                parent = next;
                next = if seq < slab[next].seq { slab[next].left } else { slab[next].right };
            }
            if seq < slab[parent].seq {
                slab[parent].left = index;
            } else {
                slab[parent].right = index;
            }
        }
        let slot = &mut slab[index];
        slot.left = NIL;
        slot.right = NIL;
        slot.parent = parent;
        let priority = priority(seq);
        while slab[index].parent != NIL && priority_of(slab, slab[index].parent) < priority {
            self.rotate_up(slab, index);
        }
    }

    /// Puts the youngest ticket at the tail: what is lighter at the end of the rightmost path hangs
    /// from it on the left.
    fn append(&mut self, slab: &mut Slab, index: u32) {
        let priority = priority_of(slab, index);
        let (mut parent, mut child) = (self.last, NIL);
        while parent != NIL && priority_of(slab, parent) < priority {
            child = parent;
            parent = slab[parent].parent;
        }
        let slot = &mut slab[index];
        slot.left = child;
        slot.right = NIL;
        slot.parent = parent;
        if child != NIL {
            slab[child].parent = index;
        }
        if parent == NIL {
            self.root = index;
        } else {
            slab[parent].right = index;
        }
        self.last = index;
    }

    /// Takes a ticket of this line out.
    #[inline]
    pub(crate) fn remove(&mut self, slab: &mut Slab, index: u32) {
        if index == self.first {
            self.remove_first(slab);
        } else {
            self.remove_behind_first(slab, index);
        }
    }

    fn remove_behind_first(&mut self, slab: &mut Slab, index: u32) {
        if index == self.last {
            self.last = predecessor(slab, index);
        }
        loop {
            let (left, right) = (slab[index].left, slab[index].right);
            if left == NIL || right == NIL {
                let child = if left == NIL { right } else { left };
                self.replace(slab, index, child);
                return;
            }
            let heavier = if priority_of(slab, left) > priority_of(slab, right) { left } else { right };
            self.rotate_up(slab, heavier);
        }
    }

    /// Takes the oldest ticket out, which has nothing on its left and hangs on the left of its parent.
    #[inline]
    pub(crate) fn remove_first(&mut self, slab: &mut Slab) -> u32 {
        let index = self.first;
        let (parent, child) = (slab[index].parent, slab[index].right);
        if parent == NIL {
            self.root = child;
        } else {
            slab[parent].left = child;
        }
        self.first = parent;
        if child != NIL {
            slab[child].parent = parent;
            self.first = leftmost(slab, child);
        }
        if index == self.last {
            self.last = NIL;
        }
        index
    }

    /// Puts `child` where `index` hangs.
    fn replace(&mut self, slab: &mut Slab, index: u32, child: u32) {
        let parent = slab[index].parent;
        if parent == NIL {
            self.root = child;
        } else if slab[parent].left == index {
            slab[parent].left = child;
        } else {
            slab[parent].right = child;
        }
        if child != NIL {
            slab[child].parent = parent;
        }
    }

    /// Makes a child the parent of its parent, with the order unchanged.
    fn rotate_up(&mut self, slab: &mut Slab, child: u32) {
        let parent = slab[child].parent;
        self.replace(slab, parent, child);
        let moved = if slab[parent].left == child {
            let moved = slab[child].right;
            slab[parent].left = moved;
            slab[child].right = parent;
            moved
        } else {
            let moved = slab[child].left;
            slab[parent].right = moved;
            slab[child].left = parent;
            moved
        };
        if moved != NIL {
            slab[moved].parent = parent;
        }
        slab[parent].parent = child;
    }

    #[cfg(any(audit, test))]
    pub(crate) fn audit(&self, slab: &Slab) -> u32 {
        let mut count = 0;
        let mut index = self.first;
        let mut previous = NIL;
        while index != NIL {
            let slot = slab[index];
            assert!(previous == NIL || slab[previous].seq < slot.seq, "line: order");
            for child in [slot.left, slot.right] {
                if child != NIL {
                    assert_eq!(slab[child].parent, index, "line: a child's parent");
                    assert!(priority(slab[child].seq) <= priority(slot.seq), "line: balance");
                }
            }
            previous = index;
            count += 1;
            index = successor(slab, index);
        }
        assert_eq!(self.last, previous, "line: tail");
        assert_eq!(self.root == NIL, count == 0, "line: root");
        assert!(self.root == NIL || slab[self.root].parent == NIL, "line: root");
        count
    }
}

/// The oldest ticket in and below one.
fn leftmost(slab: &Slab, mut index: u32) -> u32 {
    while slab[index].left != NIL {
        index = slab[index].left;
    }
    index
}

/// The next ticket in the line, or [`NIL`].
#[cfg(any(audit, test))]
fn successor(slab: &Slab, index: u32) -> u32 {
    let mut next = slab[index].right;
    if next != NIL {
        return leftmost(slab, next);
    }
    let mut from = index;
    next = slab[from].parent;
    while next != NIL && slab[next].right == from {
        from = next;
        next = slab[from].parent;
    }
    next
}

/// The one before it, or [`NIL`].
fn predecessor(slab: &Slab, index: u32) -> u32 {
    let mut next = slab[index].left;
    if next != NIL {
        while slab[next].right != NIL {
            next = slab[next].right;
        }
        return next;
    }
    let mut from = index;
    next = slab[from].parent;
    while next != NIL && slab[next].left == from {
        from = next;
        next = slab[from].parent;
    }
    next
}

fn priority_of(slab: &Slab, index: u32) -> u64 {
    priority(slab[index].seq)
}

/// A bijection that scatters consecutive numbers, so no two tickets have the same.
fn priority(seq: u64) -> u64 {
    let x = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
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
        let all: Vec<u32> = (0..200).map(|_| slab.insert(0, None, Instant::NEVER)).collect();
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
