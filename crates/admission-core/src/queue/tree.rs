//! The tickets of a line that returned to it, by their submission: a search tree that knows its first.
//!
//! It is balanced as a treap whose priorities are a hash of the number of submission, so that they need
//! no space and are the same in every replay. To put one in takes O(log n), and to take one out a
//! constant number of steps on average. The nodes are the tickets' own slots: nothing is allocated.

use super::slab::{NIL, Slab};

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: u32,
    first: u32,
}

impl Tree {
    pub(crate) const fn new() -> Self {
        Self { root: NIL, first: NIL }
    }

    /// The oldest ticket, or [`NIL`].
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// Puts a ticket at its place.
    #[inline(never)]
    pub(crate) fn insert(&mut self, slab: &mut Slab, index: u32) {
        let seq = slab[index].seq;
        let mut parent = NIL;
        let mut next = self.root;
        while next != NIL {
            parent = next;
            next = if seq < slab[next].seq { slab[next].left } else { slab[next].right };
        }
        if parent == NIL {
            self.root = index;
        } else if seq < slab[parent].seq {
            slab[parent].left = index;
        } else {
            slab[parent].right = index;
        }
        if parent == self.first && (parent == NIL || seq < slab[parent].seq) {
            self.first = index;
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

    /// Takes a ticket of this tree out.
    #[inline(never)]
    pub(crate) fn remove(&mut self, slab: &mut Slab, index: u32) {
        if index == self.first {
            // Nothing is on its left.
            let right = slab[index].right;
            self.first = if right == NIL { slab[index].parent } else { leftmost(slab, right) };
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
            assert!(previous == NIL || slab[previous].seq < slot.seq, "tree: order");
            for child in [slot.left, slot.right] {
                if child != NIL {
                    assert_eq!(slab[child].parent, index, "tree: a child's parent");
                    assert!(priority(slab[child].seq) <= priority(slot.seq), "tree: balance");
                }
            }
            previous = index;
            count += 1;
            index = successor(slab, index);
        }
        assert_eq!(self.root == NIL, count == 0, "tree: root");
        assert!(self.root == NIL || slab[self.root].parent == NIL, "tree: root");
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
    use alloc::vec::Vec;

    /// How many stand on the way from the root to the deepest.
    fn depth(tree: &Tree, slab: &Slab) -> usize {
        let mut deepest = 0;
        let mut next = alloc::vec![(tree.root, 1)];
        while let Some((index, depth)) = next.pop() {
            if index != NIL {
                deepest = deepest.max(depth);
                next.extend([(slab[index].left, depth + 1), (slab[index].right, depth + 1)]);
            }
        }
        deepest
    }

    // rule E7: a ticket that returns to its place costs a logarithm, in whatever order they come
    #[test]
    fn a_tree_is_balanced_in_whatever_order_they_come() {
        const TICKETS: usize = 4_096;
        let mut slab = Slab::new();
        let all: Vec<u32> = (0..TICKETS).map(|_| slab.insert(0, None, Instant::NEVER).0).collect();
        let inwards = |nth: usize| if nth % 2 == 0 { nth / 2 } else { TICKETS - 1 - nth / 2 };
        let orders: [&dyn Fn(usize) -> usize; 3] = [&|nth| nth, &|nth| TICKETS - 1 - nth, &inwards];
        for order in orders {
            let mut tree = Tree::new();
            (0..TICKETS).for_each(|nth| tree.insert(&mut slab, all[order(nth)]));
            // A tree of chance has some 2.5 times the logarithm, which is 12.
            assert!(depth(&tree, &slab) <= 40, "{}", depth(&tree, &slab));
            (0..TICKETS).for_each(|nth| tree.remove(&mut slab, all[order(nth)]));
            assert!(tree.is_empty());
        }
    }
}
