//! The least of a few numbers that each change now and then, as a tournament: a tree in which every node
//! has the lesser of the two below it. To change one is a walk to the root, which ends where nothing
//! changes; and whoever has the least is found by a walk down. It orders the providers that are ready,
//! and those that wait for an instant. It allocates only for larger members than ever before.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Nobody's key.
const ABSENT: u64 = u64::MAX;

/// Members are small dense numbers; each has one key, and equal keys are ordered by the number.
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// The root is the second; below the n-th are those with twice its number and one more. The upper
    /// half are the members' keys.
    nodes: Vec<u64>,
    /// The root's key, at hand.
    least: u64,
    #[cfg(steps)]
    pub(crate) steps: crate::steps::Steps,
}

impl Tournament {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            least: ABSENT,
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        }
    }

    /// Makes room for the members below a number.
    pub(crate) fn try_reserve(&mut self, members: usize) -> Result<(), TryReserveError> {
        let leaves = members.next_power_of_two();
        if leaves > self.leaves() {
            self.nodes.try_reserve_exact(2 * leaves - self.nodes.len())?;
            self.grow(members);
        }
        Ok(())
    }

    /// The smallest key, or the largest number there is.
    #[inline(always)]
    pub(crate) fn least(&self) -> u64 {
        self.least
    }

    /// The member with the smallest key.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        let least = self.least();
        if least == ABSENT {
            return None;
        }
        let leaves = self.leaves();
        let mut node = 1;
        while node < leaves {
            #[cfg(steps)]
            self.steps.count();
            node = 2 * node + usize::from(self.nodes[2 * node] != least);
        }
        Some((node - leaves) as u32)
    }

    /// Puts a member in, or moves it to another key.
    #[inline]
    pub(crate) fn set(&mut self, id: u32, key: u64) {
        if id as usize >= self.leaves() {
            self.grow(id as usize + 1);
        }
        self.change(self.leaves() + id as usize, key);
    }

    /// Takes a member out, if it is in.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        if (id as usize) < self.leaves() {
            self.change(self.leaves() + id as usize, ABSENT);
        }
    }

    #[inline(never)]
    fn change(&mut self, mut node: usize, mut key: u64) {
        let nodes = &mut self.nodes[..];
        while nodes[node] != key {
            #[cfg(steps)]
            self.steps.count();
            nodes[node] = key;
            if node == 1 {
                self.least = key;
                break;
            }
            key = key.min(nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// A member, if it is in, has another number from now on, which no member has.
    pub(crate) fn rename(&mut self, from: u32, to: u32) {
        if let Some(key) = self.key_of(from) {
            self.remove(from);
            self.set(to, key);
        }
    }

    /// No member from this number on is in: there is no room for many more any more.
    pub(crate) fn shrink(&mut self, members: usize, room: usize) {
        let leaves = room.max(members).next_power_of_two();
        if leaves < self.leaves() {
            let start = self.leaves();
            let keys = self.nodes[start..start + members].to_vec();
            self.build(leaves, &keys);
            self.nodes.shrink_to_fit();
        }
    }

    /// The key of a member, if it is in.
    pub(crate) fn key_of(&self, id: u32) -> Option<u64> {
        let key = *self.nodes.get(self.leaves() + id as usize)?;
        (key != ABSENT).then_some(key)
    }

    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    #[cold]
    fn grow(&mut self, members: usize) {
        let keys = self.nodes[self.leaves()..].to_vec();
        self.build(members.next_power_of_two(), &keys);
    }

    fn build(&mut self, leaves: usize, keys: &[u64]) {
        self.nodes.clear();
        self.nodes.resize(2 * leaves, ABSENT);
        self.nodes[leaves..leaves + keys.len()].copy_from_slice(keys);
        for node in (1..leaves).rev() {
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self) {
        for node in 1..self.leaves() {
            let least = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            assert_eq!(self.nodes[node], least, "tournament: the lesser of two");
        }
        assert_eq!(self.least, self.nodes.get(1).copied().unwrap_or(ABSENT), "tournament: the least");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_known_after_moves_and_removals() {
        let mut tournament = Tournament::new();
        let mut keys = alloc::vec![None; 64];
        let mut seed = 1u64;
        for turn in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = ((seed >> 33) % 64) as usize;
            let key = (seed >> 40) % 16;
            if (seed >> 60) % 3 == 0 {
                tournament.remove(id as u32);
                keys[id] = None;
            } else {
                tournament.set(id as u32, key);
                keys[id] = Some(key);
            }
            if turn % 1_000 == 999 {
                keys[32..].fill(None);
                (32..64).for_each(|id| tournament.remove(id));
                tournament.shrink(32, 32);
            }
            let least = (0..64).filter_map(|id| Some((keys[id]?, id as u32))).min();
            assert_eq!(tournament.first(), least.map(|(_, id)| id));
            assert_eq!(tournament.least(), least.map_or(u64::MAX, |(key, _)| key));
            assert_eq!(tournament.key_of(id as u32), keys[id]);
        }
    }
}
