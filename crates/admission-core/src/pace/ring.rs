//! The entries of a log, in a ring of memory: in at the back, out at the front.
//!
//! What std's has and this lacks is that each of its moves may be a call: to put one in, or one in for another that
//! goes out, is a few instructions here, wherever there is room. Its places are a power of two, so that where one
//! lies is a mask of how many came before it. It grows by as much again.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

#[derive(Debug)]
pub(super) struct Ring<T> {
    /// As long as places were used so far.
    slots: Vec<T>,
    /// One less than there are places.
    mask: usize,
    /// How many went out, up to a multiple of the places; it wraps.
    out: usize,
    len: usize,
}

/// How many places there are at first, without memory for them.
const FEW: usize = 4;

/// Put in order: nobody promises how much memory a copy gets.
impl<T: Copy> Clone for Ring<T> {
    fn clone(&self) -> Self {
        let mut slots = Vec::with_capacity(self.len);
        slots.extend((0..self.len).filter_map(|nth| self.get(nth)));
        Self { slots, mask: self.mask, out: 0, len: self.len }
    }
}

impl<T: Copy> Ring<T> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), mask: FEW - 1, out: 0, len: 0 }
    }

    /// Makes room for so many, before anybody was ever in.
    pub(super) fn try_reserve(&mut self, wanted: usize) -> Result<(), TryReserveError> {
        let places = wanted.next_power_of_two();
        self.slots.try_reserve_exact(places)?;
        self.mask = places - 1;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many more there are places for.
    #[inline(always)]
    pub(super) fn vacant(&self) -> usize {
        self.mask + 1 - self.len
    }

    /// The place of the n-th, or where it would be.
    #[inline(always)]
    fn place(&self, nth: usize) -> usize {
        self.out.wrapping_add(nth) & self.mask
    }

    #[inline(always)]
    pub(super) fn get(&self, nth: usize) -> Option<&T> {
        if nth < self.len { self.slots.get(self.place(nth)) } else { None }
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, nth: usize) -> Option<&mut T> {
        if nth >= self.len {
            return None;
        }
        let place = self.place(nth);
        self.slots.get_mut(place)
    }

    #[inline(always)]
    pub(super) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    #[inline(always)]
    pub(super) fn back(&self) -> Option<&T> {
        self.get(self.len.wrapping_sub(1))
    }

    #[inline(always)]
    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len.wrapping_sub(1))
    }

    /// How many at the front are so; behind the first that is not, none is.
    pub(super) fn partition_point(&self, is_so: impl Fn(&T) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len);
        while from < to {
            let middle = from + (to - from) / 2;
            if self.get(middle).is_some_and(&is_so) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// Puts one in at the back.
    pub(super) fn push_back(&mut self, value: T) {
        if self.vacant() == 0 {
            let first = self.place(0);
            self.slots.rotate_left(first);
            self.out = 0;
            self.mask = 2 * self.mask + 1;
        }
        self.put(value);
    }

    /// Puts one in at the back, where there is a place for it.
    #[inline(always)]
    pub(super) fn put(&mut self, value: T) {
        let place = self.place(self.len);
        match self.slots.get_mut(place) {
            Some(slot) => {
                *slot = value;
                self.len += 1;
            }
            None => self.put_anew(value),
        }
    }

    /// Uses a place that was not used before.
    #[cold]
    #[inline(never)]
    fn put_anew(&mut self, value: T) {
        self.use_anew(value);
        self.len += 1;
    }

    #[cold]
    #[inline(never)]
    fn use_anew(&mut self, value: T) {
        self.slots.push(value);
    }

    /// The first goes out, which is there, and another comes in at the back. Says which is the first now.
    #[inline(always)]
    pub(super) fn turn(&mut self, value: T) -> Option<T> {
        let place = self.place(self.len);
        match self.slots.get_mut(place) {
            Some(slot) => *slot = value,
            None => self.use_anew(value),
        }
        self.out = self.out.wrapping_add(1);
        self.slots.get(self.place(0)).copied()
    }

    /// So many go out at the front.
    #[inline(always)]
    pub(super) fn drop_front(&mut self, count: usize) {
        let count = count.min(self.len);
        self.out = self.out.wrapping_add(count);
        self.len -= count;
    }

    /// Puts one before the n-th.
    pub(super) fn insert(&mut self, nth: usize, value: T) {
        self.push_back(value);
        for later in (nth + 1..self.len).rev() {
            self.copy(later - 1, later);
        }
        if let Some(slot) = self.get_mut(nth) {
            *slot = value;
        }
    }

    /// Takes the n-th out.
    pub(super) fn remove(&mut self, nth: usize) {
        for later in nth + 1..self.len {
            self.copy(later, later - 1);
        }
        self.len -= usize::from(nth < self.len);
    }

    fn copy(&mut self, from: usize, to: usize) {
        if let Some(&value) = self.get(from) {
            if let Some(slot) = self.get_mut(to) {
                *slot = value;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.drop_front(self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    #[test]
    fn it_does_what_stds_does() {
        for reserved in [0, 1, 5, 64] {
            let mut ring = Ring::new();
            ring.try_reserve(reserved).expect("there is memory for it");
            let mut model = VecDeque::new();
            let mut seed = 7u64;
            for number in 0..20_000_u64 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (what, nth) = ((seed >> 33) % 12, (seed >> 40) as usize % (model.len() + 1));
                match what {
                    // It fills for a while, and empties for a while.
                    0..=3 if number / 100 % 2 == 0 || what == 0 => {
                        ring.push_back(number);
                        model.push_back(number);
                    }
                    4 | 5 => {
                        ring.drop_front(1);
                        model.pop_front();
                    }
                    6 if !model.is_empty() => {
                        model.pop_front();
                        model.push_back(number);
                        assert_eq!(ring.turn(number), model.front().copied());
                    }
                    7 => {
                        ring.insert(nth, number);
                        model.insert(nth, number);
                    }
                    8 => {
                        ring.remove(nth);
                        model.remove(nth);
                    }
                    9 if number % 50 == 0 => {
                        ring.drop_front(nth);
                        model.drain(..nth);
                    }
                    10 if number % 500 == 0 => {
                        ring.clear();
                        model.clear();
                    }
                    11 if number % 20 == 0 => ring = ring.clone(),
                    _ => {}
                }
                assert_eq!(ring.len(), model.len());
                assert!((0..=model.len()).all(|nth| ring.get(nth) == model.get(nth)));
                assert_eq!(ring.back(), model.back());
                let numbers = model.iter().filter(|&&other| other < number / 2).count();
                if model.iter().zip(model.iter().skip(1)).all(|(a, b)| a < b) {
                    assert_eq!(ring.partition_point(|&other| other < number / 2), numbers);
                }
            }
        }
    }
}
