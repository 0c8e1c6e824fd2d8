//! The least of a few numbers that each change now and then, as a tournament: a tree in which every node
//! knows who has the lesser of the two below it. To change one is a walk to the root, which ends where
//! nothing changes. It orders the providers that are ready, and those that wait for an instant. It
//! allocates only for larger members than ever before.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Nobody's key.
const ABSENT: u64 = u64::MAX;

/// Members are small dense numbers; each has one key.
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// By the number of a member.
    keys: Vec<u64>,
    /// Who has the least key in and below each node. The root is the second; below the n-th are those with
    /// twice its number and one more. The upper half are the members themselves.
    winners: Vec<u32>,
    /// The root's key, at hand.
    least: u64,
    #[cfg(steps)]
    pub(crate) steps: crate::steps::Steps,
}

impl Tournament {
    pub(crate) const fn new() -> Self {
        Self {
            keys: Vec::new(),
            winners: Vec::new(),
            least: ABSENT,
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        }
    }

    /// Makes room for the members below a number.
    pub(crate) fn try_reserve(&mut self, members: usize) -> Result<(), TryReserveError> {
        let leaves = members.next_power_of_two();
        if leaves > self.leaves() {
            self.keys.try_reserve_exact(leaves - self.keys.len())?;
            self.winners.try_reserve_exact(2 * leaves - self.winners.len())?;
            self.grow(members);
        }
        Ok(())
    }

    /// The smallest key, or the largest number there is.
    #[inline(always)]
    pub(crate) fn least(&self) -> u64 {
        self.least
    }

    /// The member with the smallest key: one of them, if several have it.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<u32> {
        self.winners.get(1).copied().filter(|_| self.least != ABSENT)
    }

    /// Puts a member in, or moves it to another key.
    #[inline(always)]
    pub(crate) fn set(&mut self, id: u32, key: u64) {
        if id as usize >= self.leaves() {
            self.grow(id as usize + 1);
        }
        self.change(id, key);
    }

    /// Takes a member out, if it is in.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: u32) {
        self.change(id, ABSENT);
    }

    #[inline(never)]
    fn change(&mut self, id: u32, mut key: u64) {
        let mut node = self.leaves() + id as usize;
        match self.keys.get_mut(id as usize) {
            Some(own) if *own != key => *own = key,
            _ => return,
        }
        let mut winner = id;
        while node > 1 {
            #[cfg(steps)]
            self.steps.count();
            let Some(&other) = self.winners.get(node ^ 1) else { return };
            let Some(&its) = self.keys.get(other as usize) else { return };
            node /= 2;
            let Some(here) = self.winners.get_mut(node) else { return };
            if its < key {
                if *here == other {
                    return;
                }
                winner = other;
                key = its;
            }
            *here = winner;
        }
        self.least = key;
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
            self.keys.truncate(leaves);
            self.build(leaves);
            self.keys.shrink_to_fit();
            self.winners.shrink_to_fit();
        }
    }

    /// The key of a member, if it is in.
    pub(crate) fn key_of(&self, id: u32) -> Option<u64> {
        self.keys.get(id as usize).copied().filter(|&key| key != ABSENT)
    }

    #[inline(always)]
    fn leaves(&self) -> usize {
        self.keys.len()
    }

    #[cold]
    fn grow(&mut self, members: usize) {
        self.build(members.next_power_of_two());
    }

    fn build(&mut self, leaves: usize) {
        self.keys.resize(leaves, ABSENT);
        self.winners.clear();
        self.winners.resize(leaves, 0);
        self.winners.extend(0..leaves as u32);
        for node in (1..leaves).rev() {
            self.winners[node] = self.winner_below(node);
        }
    }

    fn winner_below(&self, node: usize) -> u32 {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        if self.keys[right as usize] < self.keys[left as usize] { right } else { left }
    }

    #[cfg(any(audit, test))]
    pub(crate) fn audit(&self) {
        let key = |winner: u32| self.keys[winner as usize];
        for node in 1..self.leaves() {
            let winner = self.winners[node];
            assert_eq!(key(winner), key(self.winner_below(node)), "tournament: the lesser of two");
            let below = [self.winners[2 * node], self.winners[2 * node + 1]];
            assert!(below.contains(&winner), "tournament: one of the two");
        }
        let least = self.winners.get(1).map_or(ABSENT, |&winner| key(winner));
        assert_eq!(self.least, least, "tournament: the least");
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
            let least = keys.iter().flatten().min().copied();
            assert_eq!(tournament.first().and_then(|id| keys[id as usize]), least);
            assert_eq!(tournament.least(), least.unwrap_or(u64::MAX));
            tournament.audit();
            assert_eq!(tournament.key_of(id as u32), keys[id]);
        }
    }
}
