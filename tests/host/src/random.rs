// SPDX-License-Identifier: GPL-2.0

//! Reproducible pseudo-random numbers.

/// A splitmix64 generator. A seed gives the same numbers on any machine and with any toolchain.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. The seed is hashed, or consecutive seeds would give shifted copies of
    /// the same sequence.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Self(seed).bits())
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() >> 32) as usize % end.max(1)
    }

    /// Returns a random byte.
    pub fn byte(&mut self) -> u8 {
        self.bits() as u8
    }
}
