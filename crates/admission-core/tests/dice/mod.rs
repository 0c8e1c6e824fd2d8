//! A small generator with a seed (SplitMix64), so that every run draws the same.
//!
//! Owns: drawing, for all tests of the core. Other programs that draw have a copy: its five lines are
//! less to keep than a crate for them.

#![allow(dead_code)] // each test that mounts this uses a part of it

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Takes one out of a list, in constant time.
    pub(crate) fn draw<T>(&mut self, from: &mut Vec<T>) -> T {
        let index = self.below(from.len() as u64) as usize;
        from.swap_remove(index)
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
