//! A small generator with a seed (SplitMix64): 64 bits wide on every machine.
//!
//! Owns: numbers. Lacks any source of chance but its seed, and whatever would lie beside the core on a bare machine:
//! hence a copy of its own.

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn small(&mut self, n: u32) -> u32 {
        // Less than `n`, so that nothing is cut off.
        self.below(u64::from(n)) as u32
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of a list. Its length is counted in 64 bits, whatever a length is on this machine.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.below((from.len() as u64).max(1));
        from.get(at as usize).copied()
    }
}
