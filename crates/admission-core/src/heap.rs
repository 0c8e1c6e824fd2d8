//! A binary min-heap that knows where each of its members lies, so that any of them can be moved or
//! taken out in O(log n). It orders deadlines, and the providers that are to be forgotten. It allocates
//! only when it holds more members, or larger ids, than ever before.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// Members are small dense numbers; each has one key, and equal keys are ordered by the number.
#[derive(Clone, Debug)]
pub(crate) struct Heap {
    entries: Vec<(u64, u32)>,
    /// The smallest key; the largest there is, if nobody is in.
    least: u64,
    /// Where in `entries` a member is, or [`ABSENT`].
    places: Vec<u32>,
    #[cfg(steps)]
    pub(crate) steps: crate::steps::Steps,
}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            least: u64::MAX,
            places: Vec::new(),
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        }
    }

    pub(crate) fn try_reserve(&mut self, members: usize) -> Result<(), TryReserveError> {
        self.entries.try_reserve_exact(members)?;
        self.places.try_reserve_exact(members)
    }

    /// The smallest key and its member.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(u64, u32)> {
        self.entries.first().copied()
    }

    /// The smallest key, or the largest there is.
    #[inline(always)]
    pub(crate) fn least(&self) -> u64 {
        self.least
    }

    /// Puts a member in, or moves it to another key.
    #[inline]
    pub(crate) fn set(&mut self, id: u32, key: u64) {
        let index = id as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, ABSENT);
        }
        let place = self.places[index];
        if place == ABSENT {
            let last = self.entries.len();
            self.entries.push((key, id));
            self.places[index] = last as u32;
            self.rise(last);
        } else {
            let entry = &mut self.entries[place as usize];
            let before = core::mem::replace(&mut entry.0, key);
            if before < key {
                self.sink(place as usize);
            } else {
                self.rise(place as usize);
            }
        }
        self.least = self.entries[0].0;
    }

    /// Takes a member out, if it is in.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        match self.places.get(id as usize) {
            None | Some(&ABSENT) => {}
            Some(&place) => self.remove_at(id, place),
        }
    }

    fn remove_at(&mut self, id: u32, place: u32) {
        self.places[id as usize] = ABSENT;
        let place = place as usize;
        self.entries.swap_remove(place);
        if place < self.entries.len() {
            self.places[self.entries[place].1 as usize] = place as u32;
            let place = self.rise(place);
            self.sink(place);
        }
        self.least = self.entries.first().map_or(u64::MAX, |&(key, _)| key);
    }

    /// A member, if it is in, has another number from now on: a lower one, which no member has.
    pub(crate) fn rename(&mut self, from: u32, to: u32) {
        let place = self.places.get(from as usize).copied().unwrap_or(ABSENT);
        if place == ABSENT {
            return;
        }
        self.places[from as usize] = ABSENT;
        self.places[to as usize] = place;
        self.entries[place as usize].1 = to;
        let place = self.rise(place as usize);
        self.sink(place);
    }

    /// No member from this number on is in: there is no room for many more any more.
    pub(crate) fn shrink(&mut self, members: usize, room: usize) {
        self.places.truncate(members);
        self.places.shrink_to(room);
        self.entries.shrink_to(room);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.entries[place];
        let from = place;
        while place > 0 {
            let parent = (place - 1) / 2;
            #[cfg(steps)]
            self.steps.count();
            let above = self.entries[parent];
            if is_before(above, entry) {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        if place != from {
            self.put(place, entry);
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.entries[place];
        let from = place;
        while let Some(&(mut below)) = self.entries.get(2 * place + 1) {
            #[cfg(steps)]
            self.steps.count();
            let mut child = 2 * place + 1;
            if let Some(&right) = self.entries.get(child + 1) {
                if is_before(right, below) {
                    below = right;
                    child += 1;
                }
            }
            if is_before(entry, below) {
                break;
            }
            self.put(place, below);
            place = child;
        }
        if place != from {
            self.put(place, entry);
        }
    }

    #[inline(always)]
    fn put(&mut self, place: usize, entry: (u64, u32)) {
        #[cfg(steps)]
        self.steps.count();
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }

    /// The key of a member, if it is in.
    pub(crate) fn key_of(&self, id: u32) -> Option<u64> {
        let &place = self.places.get(id as usize)?;
        (place != ABSENT).then(|| self.entries[place as usize].0)
    }

    #[cfg(audit)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self) {
        for (place, &(_, id)) in self.entries.iter().enumerate() {
            assert_eq!(self.places[id as usize] as usize, place, "heap: a member's place");
            assert!(place == 0 || self.entries[(place - 1) / 2] <= self.entries[place], "heap: order");
        }
        assert_eq!(self.least, self.entries.first().map_or(u64::MAX, |&(key, _)| key), "heap: the least");
        let present = self.places.iter().filter(|&&place| place != ABSENT).count();
        assert_eq!(present, self.entries.len(), "heap: members");
    }
}

/// Members are ordered by their keys, and those of equal keys by their numbers.
#[inline(always)]
fn is_before((key, id): (u64, u32), (other_key, other_id): (u64, u32)) -> bool {
    key < other_key || (key == other_key && id < other_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_out_in_order_after_moves_and_removals() {
        let mut heap = Heap::new();
        let mut keys = alloc::vec![None; 64];
        let mut seed = 1u64;
        for _ in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = (seed >> 33) % 64;
            let key = (seed >> 40) % 16;
            if (seed >> 60) % 3 == 0 {
                heap.remove(id as u32);
                keys[id as usize] = None;
            } else {
                heap.set(id as u32, key);
                keys[id as usize] = Some(key);
            }
            let least = (0..64).filter_map(|id| Some((keys[id]?, id as u32))).min();
            assert_eq!(heap.peek(), least);
        }
        let mut last = None;
        while let Some(top) = heap.peek() {
            assert!(last < Some(top));
            last = Some(top);
            heap.remove(top.1);
        }
    }
}
