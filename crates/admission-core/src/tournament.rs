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
    /// As many, a power of two: who has the least key below each node. The root is the second; below the n-th are
    /// those with twice its number and one more. From the number of all on these are the members themselves, which
    /// are not here.
    winners: Vec<u32>,
    /// The root's key and winner, at hand.
    least: u64,
    first: u32,
    #[cfg(steps)]
    pub(crate) steps: crate::steps::Steps,
}

impl Tournament {
    pub(crate) const fn new() -> Self {
        Self {
            keys: Vec::new(),
            winners: Vec::new(),
            least: ABSENT,
            first: 0,
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        }
    }

    /// Makes room for the members below a number.
    pub(crate) fn try_reserve(&mut self, members: usize) -> Result<(), TryReserveError> {
        let leaves = members.next_power_of_two();
        if leaves > self.leaves() {
            self.keys.try_reserve_exact(leaves - self.keys.len())?;
            self.winners.try_reserve_exact(leaves - self.winners.len())?;
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
        (self.least != ABSENT).then_some(self.first)
    }

    /// The same among all but one: a look at whoever it would have met on the way to the root.
    #[inline(never)]
    pub(crate) fn first_beside(&self, id: u32) -> Option<u32> {
        let (mut first, mut least) = (None, ABSENT);
        let mut look = |member: u32| {
            if let Some(key) = self.key_of(member).filter(|&key| key < least) {
                (first, least) = (Some(member), key);
            }
        };
        let mut node = (self.leaves() + id as usize) / 2;
        if self.leaves() > 1 {
            look(id ^ 1);
        }
        while node > 1 {
            #[cfg(steps)]
            self.steps.count();
            look(self.winner_at(node ^ 1));
            node /= 2;
        }
        first
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

    /// (Numbers of nodes and members are below the number of all, a power of two: the mask says so to the compiler.)
    #[inline(never)]
    fn change(&mut self, id: u32, mut key: u64) {
        let (keys, winners) = (&mut self.keys[..], &mut self.winners[..]);
        let all = keys.len();
        if id as usize >= all || winners.len() != all {
            return;
        }
        let own = &mut keys[id as usize];
        if *own == key {
            return;
        }
        *own = key;
        let mask = all - 1;
        let mut node = (all + id as usize) / 2;
        let (mut winner, mut other) = (id, id ^ 1);
        while node > 0 {
            #[cfg(steps)]
            self.steps.count();
            let its = keys[other as usize & mask];
            let here = &mut winners[node & mask];
            if its < key {
                if *here == other {
                    return;
                }
                winner = other;
                key = its;
            }
            *here = winner;
            other = winners[(node ^ 1) & mask];
            node /= 2;
        }
        self.least = key;
        self.first = winner;
    }

    /// Moves the first to a larger key: below each node on its way it has won, so there is less to ask.
    #[inline(never)]
    pub(crate) fn move_first(&mut self, mut key: u64) {
        let id = self.first;
        let (keys, winners) = (&mut self.keys[..], &mut self.winners[..]);
        let all = keys.len();
        if id as usize >= all || winners.len() != all {
            return;
        }
        keys[id as usize] = key;
        let mask = all - 1;
        let mut node = (all + id as usize) / 2;
        let (mut winner, mut other) = (id, id ^ 1);
        while node > 0 {
            #[cfg(steps)]
            self.steps.count();
            let its = keys[other as usize & mask];
            if its < key {
                winner = other;
                key = its;
            }
            winners[node & mask] = winner;
            other = winners[(node ^ 1) & mask];
            node /= 2;
        }
        self.least = key;
        self.first = winner;
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
        for node in (1..leaves).rev() {
            self.winners[node] = self.winner_below(node);
        }
        self.first = self.winners.get(1).copied().unwrap_or(0);
    }

    fn winner_below(&self, node: usize) -> u32 {
        let (left, right) = (self.winner_at(2 * node), self.winner_at(2 * node + 1));
        if self.keys[right as usize] < self.keys[left as usize] { right } else { left }
    }

    fn winner_at(&self, node: usize) -> u32 {
        if node < self.leaves() { self.winners[node] } else { (node - self.leaves()) as u32 }
    }

    #[cfg(any(audit, test))]
    pub(crate) fn audit(&self) {
        let key = |winner: u32| self.keys[winner as usize];
        for node in 1..self.leaves() {
            let winner = self.winners[node];
            assert_eq!(key(winner), key(self.winner_below(node)), "tournament: the lesser of two");
            let below = [self.winner_at(2 * node), self.winner_at(2 * node + 1)];
            assert!(below.contains(&winner), "tournament: one of the two");
        }
        let first = if self.leaves() > 1 { self.winners[1] } else { 0 };
        let least = self.keys.get(first as usize).copied().unwrap_or(ABSENT);
        assert_eq!((self.least, self.first), (least, first), "tournament: the least");
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
            if let Some(first) = tournament.first().filter(|_| seed >> 57 & 3 == 0) {
                let later = tournament.least() + seed % 3;
                tournament.move_first(later);
                keys[first as usize] = Some(later);
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
