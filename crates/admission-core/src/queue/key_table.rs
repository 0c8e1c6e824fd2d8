//! A table from keys to numbers, as plain as can be: the numbers whose keys have the same place are a
//! chain, of which the table has the first.
//!
//! What is in the table says who is next in its chain, and so needs one number of room for that. So a
//! table of three places for two members costs 6 bytes for each, most looks read the place and the one
//! they look for, and a removal leaves nothing behind: no table is ever put in order, but one that grows.
//! Lacks the keys and the links themselves: those are the members'.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Nobody.
pub(crate) const NOBODY: u32 = u32::MAX;
/// So many places there are ...
const PLACES: usize = 3;
/// ... for so many members, at least.
const MEMBERS: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    /// The first of each chain.
    heads: Vec<u32>,
    len: usize,
}

/// Who is in a table.
pub(crate) trait Members {
    fn key(&self, number: u32) -> u64;
    fn next(&self, number: u32) -> u32;
    fn set_next(&mut self, number: u32, next: u32);
}

impl KeyTable {
    pub(crate) const fn new() -> Self {
        Self { heads: Vec::new(), len: 0 }
    }

    #[cfg(audit)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for so many, while nobody is in.
    pub(crate) fn try_reserve(&mut self, members: usize) -> Result<(), TryReserveError> {
        let wanted = members.saturating_mul(PLACES).div_ceil(MEMBERS);
        if wanted > self.heads.len() {
            self.heads.try_reserve_exact(wanted - self.heads.len())?;
            self.heads.resize(wanted, NOBODY);
        }
        Ok(())
    }

    /// Where the chain for a key begins.
    #[inline(always)]
    pub(crate) fn home(&self, key: u64) -> usize {
        (((hash(key) >> 32) * self.heads.len() as u64) >> 32) as usize
    }

    /// The first of a chain.
    #[inline(always)]
    pub(crate) fn head(&self, home: usize) -> u32 {
        self.heads.get(home).copied().unwrap_or(NOBODY)
    }

    /// Whose key this is; `node` tells a member's key, and who is next.
    pub(crate) fn find(&self, key: u64, node: impl Fn(u32) -> (u64, u32)) -> Option<u32> {
        let mut number = self.head(self.home(key));
        while number != NOBODY {
            let (its, next) = node(number);
            if its == key {
                return Some(number);
            }
            number = next;
        }
        None
    }

    /// Puts somebody in whose key is not in, at the home of that key; says who is next.
    #[inline(always)]
    #[must_use]
    pub(crate) fn insert(&mut self, home: usize, key: u64, number: u32, members: &mut impl Members) -> u32 {
        let mut home = home;
        self.len += 1;
        if self.len * PLACES > self.heads.len() * MEMBERS {
            self.grow(members);
            home = self.home(key);
        }
        self.heads.get_mut(home).map_or(NOBODY, |head| core::mem::replace(head, number))
    }

    #[cold]
    fn grow(&mut self, members: &mut impl Members) {
        let places = (self.len + self.len / 2 + 4) * PLACES / MEMBERS;
        let old = core::mem::replace(&mut self.heads, alloc::vec![NOBODY; places]);
        for mut moved in old {
            while moved != NOBODY {
                let next = members.next(moved);
                let home = self.home(members.key(moved));
                members.set_next(moved, core::mem::replace(&mut self.heads[home], moved));
                moved = next;
            }
        }
    }

    /// Takes the first of a chain out.
    #[inline(always)]
    pub(crate) fn remove_head(&mut self, home: usize, next: u32) {
        self.len -= 1;
        if let Some(head) = self.heads.get_mut(home) {
            *head = next;
        }
    }

    /// Takes somebody with a key out; says whether that one was in.
    pub(crate) fn remove(&mut self, key: u64, number: u32, members: &mut impl Members) -> bool {
        let home = self.home(key);
        let mut before = self.head(home);
        if before == number {
            self.remove_head(home, members.next(number));
            return true;
        }
        while before != NOBODY {
            let after = members.next(before);
            if after == number {
                members.set_next(before, members.next(number));
                self.len -= 1;
                return true;
            }
            before = after;
        }
        false
    }
}

/// Scatters keys over a table, which reads the highest bits and the lowest.
pub(crate) fn hash(key: u64) -> u64 {
    let wide = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f_u128;
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// The key and the next of each number.
    struct Nodes(Vec<(u64, u32)>);

    impl Members for Nodes {
        fn key(&self, number: u32) -> u64 {
            self.0[number as usize].0
        }

        fn next(&self, number: u32) -> u32 {
            self.0[number as usize].1
        }

        fn set_next(&mut self, number: u32, next: u32) {
            self.0[number as usize].1 = next;
        }
    }

    #[test]
    fn whoever_is_in_is_found_after_any_removals() {
        let mut table = KeyTable::new();
        let mut nodes = Nodes(Vec::new());
        let mut model = BTreeMap::new();
        let mut seed = 3u64;
        for number in 0..50_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (seed >> 33) % 300;
            nodes.0.push((key, NOBODY));
            let found = table.find(key, |number| nodes.0[number as usize]);
            assert_eq!(found, model.get(&key).copied());
            if let Some(found) = found {
                model.remove(&key);
                table.remove(key, found, &mut nodes);
            } else {
                model.insert(key, number);
                let next = table.insert(table.home(key), key, number, &mut nodes);
                nodes.set_next(number, next);
            }
            assert_eq!(table.len, model.len());
        }
    }
}
