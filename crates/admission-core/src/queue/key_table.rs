//! A table from keys to numbers, as plain as can be: each look is one short walk.
//!
//! Open addressing with linear steps. An entry keeps 32 bits of its key's hash beside its number, so
//! that a walk reads nobody's slot but the one it looks for, and so that entries can close the gap that
//! a removal leaves: no mark stays behind, and a table of the same members never has to be put in order.
//! Lacks the keys themselves: whoever asks compares them.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Nobody's place. No number has all its bits set.
const EMPTY: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    /// The hash in the upper half, the number in the lower.
    entries: Vec<u64>,
    len: usize,
    /// How many there may be before it grows.
    room: usize,
}

impl KeyTable {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), len: 0, room: 0 }
    }

    #[cfg(audit)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for so many. A walk is short while no more than five places in eight are taken.
    pub(crate) fn try_reserve(&mut self, members: usize) -> Result<(), TryReserveError> {
        let wanted = members.saturating_add(members / 5 * 3).saturating_add(8);
        if wanted > self.entries.len() {
            let mut entries = Vec::new();
            entries.try_reserve_exact(wanted)?;
            entries.resize(wanted, EMPTY);
            self.room = wanted / 8 * 5;
            let old = core::mem::replace(&mut self.entries, entries);
            for entry in old.into_iter().filter(|&entry| entry != EMPTY) {
                let mut place = self.home((entry >> 32) as u32);
                while self.entries[place] != EMPTY {
                    place = self.after(place);
                }
                self.entries[place] = entry;
            }
        }
        Ok(())
    }

    /// The place of a number with this hash, or where it would go.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Result<usize, usize> {
        let mut place = self.home(hash);
        loop {
            let Some(&entry) = self.entries.get(place) else { return Err(place) };
            if (entry >> 32) as u32 == hash && entry != EMPTY && is_it(entry as u32) {
                return Ok(place);
            }
            if entry == EMPTY {
                return Err(place);
            }
            place = self.after(place);
        }
    }

    /// The number at a place that was found.
    #[inline(always)]
    pub(crate) fn at(&self, place: usize) -> u32 {
        self.entries[place] as u32
    }

    /// Puts another number in the place of one with the same hash.
    pub(crate) fn replace(&mut self, place: usize, number: u32) {
        let entry = &mut self.entries[place];
        *entry = *entry >> 32 << 32 | u64::from(number);
    }

    /// Puts a number where one with its hash was not found.
    #[inline(always)]
    pub(crate) fn insert(&mut self, place: usize, hash: u32, number: u32) {
        let entry = u64::from(hash) << 32 | u64::from(number);
        self.len += 1;
        if self.len <= self.room {
            self.entries[place] = entry;
        } else {
            self.insert_growing(hash, entry);
        }
    }

    #[cold]
    fn insert_growing(&mut self, hash: u32, entry: u64) {
        let members = self.len + self.len / 2;
        if self.try_reserve(members).is_err() {
            alloc::alloc::handle_alloc_error(core::alloc::Layout::new::<u64>());
        }
        let mut place = self.home(hash);
        while self.entries[place] != EMPTY {
            place = self.after(place);
        }
        self.entries[place] = entry;
    }

    /// Takes a number out. Those behind it that stand further from home than its place move up.
    #[inline(always)]
    pub(crate) fn remove(&mut self, place: usize) {
        self.len -= 1;
        let next = self.after(place);
        if self.entries[next] != EMPTY {
            return self.close_gap(place, next);
        }
        self.entries[place] = EMPTY;
    }

    #[inline(never)]
    fn close_gap(&mut self, mut gap: usize, mut next: usize) {
        loop {
            let entry = self.entries[next];
            if entry == EMPTY {
                break;
            }
            let home = self.home((entry >> 32) as u32);
            if self.steps(home, next) >= self.steps(gap, next) {
                self.entries[gap] = entry;
                gap = next;
            }
            next = self.after(next);
        }
        self.entries[gap] = EMPTY;
    }

    /// Whether nobody is where the walk for a hash begins.
    #[inline(always)]
    pub(crate) fn is_vacant(&self, home: usize) -> bool {
        self.entries.get(home) == Some(&EMPTY)
    }

    /// Whether a number is where the walk for its hash begins.
    #[inline(always)]
    pub(crate) fn is_home(&self, home: usize, hash: u32, number: u32) -> bool {
        self.entries.get(home) == Some(&(u64::from(hash) << 32 | u64::from(number)))
    }

    /// Where a walk for a hash begins.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.entries.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        if place + 1 < self.entries.len() { place + 1 } else { 0 }
    }

    /// How many steps lead from one place to another.
    fn steps(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.entries.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn whoever_is_in_is_found_after_any_removals() {
        let mut table = KeyTable::new();
        let mut model = BTreeMap::new();
        let mut seed = 3u64;
        for number in 0..50_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Few hashes, and those close together at both ends: long walks, around the end too.
            let key = (seed >> 33) as u32 % 300;
            let hash = if key % 2 == 0 { u32::MAX - key / 8 } else { key << 24 };
            let members: Vec<(u32, u32)> = model.iter().map(|(&key, &number)| (key, number)).collect();
            let number_of = |key| members.iter().find(|(other, _)| *other == key).map(|(_, number)| *number);
            match table.find(hash, |found| number_of(key) == Some(found)) {
                Ok(place) => {
                    assert_eq!(Some(table.at(place)), model.remove(&key));
                    table.remove(place);
                }
                Err(place) => {
                    assert_eq!(model.insert(key, number), None);
                    table.insert(place, hash, number);
                }
            }
            assert_eq!(table.len, model.len());
        }
    }
}
