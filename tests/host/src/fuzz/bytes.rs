// SPDX-License-Identifier: GPL-2.0

//! Decisions from the bytes of a fuzzer. After the last byte, every decision is 0.

/// A reader of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Creates a reader.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether no byte is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Reads a number below `end`, which is at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// Reads a bool.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Reads a number that is often near 0, near a multiple of `unit`, or near a power of two.
    pub fn number(&mut self, unit: u32) -> u32 {
        let byte = u32::from(self.byte());
        match byte >> 5 {
            0..=2 => byte & 0x1f,
            3 => unit.wrapping_mul(byte & 0x1f),
            4 => unit.wrapping_mul(byte & 0x1f).wrapping_sub(1),
            5 => unit.wrapping_mul(byte & 0x1f).wrapping_add(1),
            6 => (1 << (byte & 0x1f)) - (u32::from(self.byte()) & 1),
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }
}
