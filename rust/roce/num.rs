// SPDX-License-Identifier: GPL-2.0

//! Integer conversions that the standard library does not name.
//!
//! Each is lossless, or its name says which bits it keeps. No other file of the crate uses `as` on
//! integers.

// The widening conversions rely on this.
const _: () = assert!(usize::BITS >= u32::BITS && usize::BITS <= u64::BITS);

/// Widens `value`; usable in constants.
#[inline]
#[must_use]
#[expect(clippy::as_conversions, reason = "`usize` has more than 8 bits")]
pub const fn u8_as_usize(value: u8) -> usize {
    value as usize
}

/// Widens `value`.
#[inline]
#[must_use]
#[expect(clippy::as_conversions, reason = "`usize` has at least 32 bits")]
pub const fn u32_as_usize(value: u32) -> usize {
    value as usize
}

/// Widens `value`.
#[inline]
#[must_use]
#[expect(clippy::as_conversions, reason = "`usize` has at most 64 bits")]
pub const fn usize_as_u64(value: usize) -> u64 {
    value as u64
}

/// Keeps the low 8 bits of `value`.
#[inline]
#[must_use]
#[expect(clippy::as_conversions, reason = "truncation is intended")]
pub const fn low_u8(value: u32) -> u8 {
    value as u8
}

/// Keeps the low 32 bits of `value`.
#[inline]
#[must_use]
#[expect(clippy::as_conversions, reason = "truncation is intended")]
pub const fn low_u32(value: u64) -> u32 {
    value as u32
}

/// Reinterprets `value` as two's complement.
#[inline]
#[must_use]
#[expect(clippy::as_conversions, reason = "keeps every bit")]
pub const fn signed(value: u32) -> i32 {
    value as i32
}

/// Narrows `value`. Returns `u16::MAX` if it does not fit.
#[inline]
#[must_use]
pub fn saturating_u16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_keeps_the_value() {
        assert_eq!(u32_as_usize(u32::MAX), 0xffff_ffff);
        assert_eq!(usize_as_u64(usize::MAX), usize::MAX as u64);
    }

    #[test]
    fn truncation_keeps_the_low_bits() {
        assert_eq!(low_u8(0x1234_5678), 0x78);
        assert_eq!(low_u32(0x1234_5678_9abc_def0), 0x9abc_def0);
    }

    #[test]
    fn signed_is_twos_complement() {
        assert_eq!(signed(u32::MAX), -1);
        assert_eq!(signed(0x7fff_ffff), i32::MAX);
    }

    #[test]
    fn saturating_stops_at_the_maximum() {
        assert_eq!(saturating_u16(0xffff), 0xffff);
        assert_eq!(saturating_u16(0x1_0000), 0xffff);
    }
}
