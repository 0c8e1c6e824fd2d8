//! A table from keys to numbers, as plain as can be: the numbers whose keys have the same place are a
//! chain, of which the table has the first.
//!
//! What is in the table says who is next in its chain, and so needs one number of room for that. So a
//! table of three places for two members costs 6 bytes for each, most looks read the place and the one
//! they look for, and a removal leaves nothing behind: no table is ever put in order, but one that grows.
//! Who comes goes to the end of its chain, which it has walked anyway to see that its key is not in: so the
//! first to come, who is mostly the first to leave, is found at the front. Lacks the keys and the links
//! themselves: those are the members'.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::Key;

/// Nobody.
pub(crate) const NOBODY: u32 = u32::MAX;
/// So many places there are ...
const PLACES: usize = 3;
/// ... for so many members, at least.
const MEMBERS: usize = 2;

/// A key as it is kept: scattered once, so that its place is one multiplication. No two keys become one.
///
/// Anybody can undo it, and choose keys that all lie in one place: whoever lets others choose keys scatters those by a
/// secret first, as [`Key`] says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Scattered(u64);

impl Scattered {
    /// An odd number, so that a product with it can be undone ...
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    /// ... by this one.
    const INVERSE: u64 = 0xf1de_83e1_9937_733d;

    #[inline(always)]
    pub(crate) const fn of(key: Key) -> Self {
        Self((key.0 ^ (key.0 >> 32)).wrapping_mul(Self::FACTOR))
    }

    /// The key that it was.
    pub(crate) const fn key(self) -> Key {
        let mixed = self.0.wrapping_mul(Self::INVERSE);
        Key(mixed ^ (mixed >> 32))
    }
}

const _: () = assert!(Scattered::FACTOR.wrapping_mul(Scattered::INVERSE) == 1, "a product can be undone");

#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    /// The first of each chain.
    heads: Vec<u32>,
    len: usize,
    /// So many there are places for.
    most: usize,
}

/// Who is in a table.
pub(crate) trait Members {
    fn key(&self, number: u32) -> Scattered;
    fn next(&self, number: u32) -> u32;
    fn set_next(&mut self, number: u32, next: u32);
}

/// What a walk along a chain found.
#[derive(Clone, Copy)]
pub(crate) struct Walked {
    /// Whose key it is, or [`NOBODY`].
    pub(crate) found: u32,
    /// The last of those before, or [`NOBODY`].
    pub(crate) before: u32,
}

impl KeyTable {
    pub(crate) const fn new() -> Self {
        Self { heads: Vec::new(), len: 0, most: 0 }
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
            self.most = wanted * MEMBERS / PLACES;
        }
        Ok(())
    }

    /// Where the chain for a key begins.
    #[inline(always)]
    pub(crate) fn home(&self, key: Scattered) -> usize {
        (((key.0 >> 32) * self.heads.len() as u64) >> 32) as usize
    }

    /// The first of a chain.
    #[inline(always)]
    pub(crate) fn head(&self, home: usize) -> u32 {
        self.heads.get(home).copied().unwrap_or(NOBODY)
    }

    /// The first of the chain for a key, if there is a place for one more member.
    #[inline(always)]
    pub(crate) fn vacant_or_first(&mut self, key: Scattered) -> Option<&mut u32> {
        let home = self.home(key);
        self.heads.get_mut(home).filter(|_| self.len < self.most)
    }

    /// The first of the chain for a key, if there are places at all.
    #[inline(always)]
    pub(crate) fn first(&mut self, key: Scattered) -> Option<&mut u32> {
        let home = self.home(key);
        self.heads.get_mut(home)
    }

    /// Somebody was put in.
    #[inline(always)]
    pub(crate) fn count_in(&mut self) {
        self.len += 1;
    }

    /// Looks for a key from a member of its chain on; `node` tells a member's key, and who is next.
    #[inline(always)]
    pub(crate) fn walk(head: u32, key: Scattered, node: impl Fn(u32) -> (Scattered, u32)) -> Walked {
        let (mut before, mut number) = (NOBODY, head);
        while number != NOBODY {
            let (its, next) = node(number);
            if its == key {
                break;
            }
            before = number;
            number = next;
        }
        Walked { found: number, before }
    }

    /// Puts somebody in, of whom nobody is next, behind the last at the home of its key, which is not in.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        (home, last): (usize, u32),
        key: Scattered,
        number: u32,
        members: &mut impl Members,
    ) {
        self.len += 1;
        if self.len > self.most {
            self.grow_for(key, number, members);
        } else if last == NOBODY {
            self.set_head(home, number);
        } else {
            members.set_next(last, number);
        }
    }

    /// Makes room, and puts somebody in.
    #[cold]
    fn grow_for(&mut self, key: Scattered, number: u32, members: &mut impl Members) {
        let places = (self.len + self.len / 2 + 4) * PLACES / MEMBERS;
        let old = core::mem::replace(&mut self.heads, alloc::vec![NOBODY; places]);
        self.most = places * MEMBERS / PLACES;
        for mut moved in old {
            while moved != NOBODY {
                let next = members.next(moved);
                let home = self.home(members.key(moved));
                members.set_next(moved, core::mem::replace(&mut self.heads[home], moved));
                moved = next;
            }
        }
        let home = self.home(key);
        let last =
            Self::walk(self.head(home), key, |number| (members.key(number), members.next(number))).before;
        if last == NOBODY {
            self.set_head(home, number);
        } else {
            members.set_next(last, number);
        }
    }

    #[inline(always)]
    fn set_head(&mut self, home: usize, number: u32) {
        if let Some(head) = self.heads.get_mut(home) {
            *head = number;
        }
    }

    /// Somebody was taken out.
    #[inline(always)]
    pub(crate) fn count_out(&mut self) {
        self.len -= 1;
    }

    /// Takes somebody out of the chain with this home; says whether that one was in.
    pub(crate) fn remove(&mut self, home: usize, number: u32, members: &mut impl Members) -> bool {
        let mut before = self.head(home);
        if before == number {
            self.len -= 1;
            self.set_head(home, members.next(number));
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

    /// Puts somebody in the place of another with the same key and the same next one.
    pub(crate) fn replace(&mut self, home: usize, number: u32, by: u32, members: &mut impl Members) {
        let mut before = self.head(home);
        if before == number {
            return self.set_head(home, by);
        }
        while before != NOBODY {
            let after = members.next(before);
            if after == number {
                return members.set_next(before, by);
            }
            before = after;
        }
    }
}

/// Scatters numbers over a table, which reads the highest bits and the lowest.
pub(crate) fn hash(key: u64) -> u64 {
    let wide = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f_u128;
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// The key and the next of each number.
    struct Nodes(Vec<(Scattered, u32)>);

    impl Members for Nodes {
        fn key(&self, number: u32) -> Scattered {
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
        whoever_is_in_is_found(|number| Scattered::of(Key(number)));
    }

    // They cost a walk past each other, and nothing else goes wrong.
    #[test]
    fn so_is_who_has_a_key_that_was_chosen_to_lie_with_all_others() {
        whoever_is_in_is_found(|number| {
            let key = Scattered(number).key();
            assert_eq!(
                KeyTable { heads: alloc::vec![NOBODY; 1_000], len: 0, most: 0 }.home(Scattered::of(key)),
                0
            );
            Scattered::of(key)
        });
    }

    fn whoever_is_in_is_found(key_of: impl Fn(u64) -> Scattered) {
        let mut table = KeyTable::new();
        let mut nodes = Nodes(Vec::new());
        let mut model = BTreeMap::new();
        let mut seed = 3u64;
        for number in 0..50_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = key_of((seed >> 33) % 300);
            nodes.0.push((key, NOBODY));
            let home = table.home(key);
            let walked = KeyTable::walk(table.head(home), key, |number| nodes.0[number as usize]);
            let found = Some(walked.found).filter(|&number| number != NOBODY);
            assert_eq!(found, model.get(&key).copied());
            match found {
                // Now and then another takes the place of who is in.
                Some(found) if seed >> 62 == 0 => {
                    nodes.0[number as usize].1 = nodes.0[found as usize].1;
                    table.replace(home, found, number, &mut nodes);
                    model.insert(key, number);
                }
                Some(found) => {
                    model.remove(&key);
                    assert!(table.remove(home, found, &mut nodes));
                }
                None => {
                    model.insert(key, number);
                    table.insert((home, walked.before), key, number, &mut nodes);
                }
            }
            assert_eq!(table.len, model.len());
        }
    }

    #[test]
    fn a_key_comes_back_as_it_was() {
        for key in [0, 1, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef, u64::MAX << 32, u64::MAX >> 32] {
            assert_eq!(Scattered::of(Key(key)).key(), Key(key));
        }
    }

    #[test]
    fn keys_that_are_like_each_other_have_places_of_their_own() {
        let mut table = KeyTable::new();
        table.try_reserve(1_000).expect("there is memory for it");
        for shift in 0..54 {
            let mut homes: Vec<usize> =
                (0..1_000).map(|key| table.home(Scattered::of(Key(key << shift)))).collect();
            homes.sort_unstable();
            homes.dedup();
            // By chance it would be 730: two to a chain at the worst is near enough.
            assert!(homes.len() > 450, "{shift}: {}", homes.len());
        }
    }
}
