//! A small generator with a seed (SplitMix64).
//!
//! Owns: drawing. Lacks any source of chance of its own; what a real runtime does with what was drawn is up to its
//! threads, so a seed gives the same traffic and not the same history. Lacks a crate to share, as in the simulator.

/// Draws from a seed.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that begin with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if there is none.
    pub const fn below(&mut self, n: u64) -> u64 {
        let drawn = self.any();
        if n == 0 { 0 } else { drawn % n }
    }

    /// Whether this is the one among `n`.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Other dice, for somebody else.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self(self.any())
    }
}
