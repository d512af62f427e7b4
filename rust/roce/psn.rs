// SPDX-License-Identifier: GPL-2.0

//! Packet sequence numbers (PSN): 24-bit serial number arithmetic.
//!
//! PSNs wrap, so "before" is not transitive and there is no `Ord`. The comparison is meaningful for
//! PSNs that are less than half of the PSN space apart, which is why a requester may have at most
//! 2^23 packets outstanding.

use crate::num::signed;

/// Number of bits of a PSN.
const PSN_BITS: u32 = 24;

/// Number of unused high bits of the `u32` that holds a PSN.
const UNUSED_BITS: u32 = u32::BITS - PSN_BITS;

/// Maximum PSN.
const PSN_MASK: u32 = (1 << PSN_BITS) - 1;

/// Half of the PSN space. From this distance on, a PSN counts as earlier.
const HALF_PSN_SPACE: u32 = 1 << (PSN_BITS - 1);

/// A packet sequence number.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Psn(u32);

impl Psn {
    /// Keeps the low 24 bits of `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & PSN_MASK)
    }

    /// Returns the PSN in host order, always below 2^24.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the next PSN.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// Returns the PSN `count` packets later.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Returns the PSN `count` packets earlier.
    #[inline]
    #[must_use]
    pub const fn sub(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// Returns the forward distance from `earlier` to `self`: 0 to 2^24 - 1.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & PSN_MASK
    }

    /// Returns the signed distance from `other` to `self`: -2^23 to 2^23 - 1.
    #[inline]
    #[must_use]
    pub const fn diff(self, other: Self) -> i32 {
        // Shifted to the top of the word, so that shifting back sign-extends the 24-bit distance.
        signed(self.0.wrapping_sub(other.0) << UNUSED_BITS) >> UNUSED_BITS
    }

    /// Returns whether `self` is in the half of the PSN space before `other`.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) >= HALF_PSN_SPACE
    }

    /// Returns whether `self` is in the half of the PSN space after `other`.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        let distance = self.since(other);
        distance != 0 && distance < HALF_PSN_SPACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Psn = Psn::new(0xff_ffff);

    #[test]
    fn keeps_24_bits() {
        assert_eq!(Psn::new(0xab12_3456).get(), 0x12_3456);
    }

    #[test]
    fn wraps_in_both_directions() {
        assert_eq!(LAST.next(), Psn::new(0));
        assert_eq!(LAST.add(5), Psn::new(4));
        assert_eq!(Psn::new(4).sub(5), LAST);
        assert_eq!(Psn::new(3).add(u32::MAX), Psn::new(2));
    }

    #[test]
    fn since_is_the_forward_distance() {
        assert_eq!(Psn::new(4).since(LAST), 5);
        assert_eq!(LAST.since(Psn::new(4)), 0xff_fffb);
        assert_eq!(LAST.since(LAST), 0);
    }

    #[test]
    fn diff_is_the_shorter_distance() {
        assert_eq!(Psn::new(4).diff(LAST), 5);
        assert_eq!(LAST.diff(Psn::new(4)), -5);
        assert_eq!(Psn::new(HALF_PSN_SPACE).diff(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(HALF_PSN_SPACE - 1).diff(Psn::new(0)), 0x7f_ffff);
    }

    #[test]
    fn before_and_after_agree_with_diff() {
        for start in [
            0,
            1,
            HALF_PSN_SPACE - 1,
            HALF_PSN_SPACE,
            HALF_PSN_SPACE + 1,
            PSN_MASK,
        ] {
            for step in [
                0,
                1,
                2,
                HALF_PSN_SPACE - 1,
                HALF_PSN_SPACE,
                HALF_PSN_SPACE + 1,
                PSN_MASK - 1,
                PSN_MASK,
            ] {
                let (a, b) = (Psn::new(start), Psn::new(start).add(step));
                assert_eq!(b.is_after(a), b.diff(a) > 0, "{a:?} {b:?}");
                assert_eq!(b.is_before(a), b.diff(a) < 0, "{a:?} {b:?}");
                assert_eq!(a.add(b.since(a)), b);
            }
        }
    }

    /// All distances, from starts at which a bit changes. Only the distance matters to the
    /// arithmetic, so this is exhaustive.
    #[test]
    fn every_distance_agrees_with_wide_integers() {
        let psn_space = i64::from(PSN_MASK) + 1;
        for start in [
            0,
            1,
            0x5a_5a5a,
            HALF_PSN_SPACE - 1,
            HALF_PSN_SPACE,
            HALF_PSN_SPACE + 1,
            PSN_MASK - 1,
            PSN_MASK,
        ] {
            let a = Psn::new(start);
            for distance in 0..=PSN_MASK {
                let b = a.add(distance);
                let wide = i64::from(distance);
                let short = if wide < psn_space / 2 {
                    wide
                } else {
                    wide - psn_space
                };
                assert_eq!(i64::from(b.get()), (i64::from(start) + wide) % psn_space);
                assert_eq!(b.since(a), distance);
                assert_eq!(b.sub(distance), a);
                assert_eq!(i64::from(b.diff(a)), short);
                assert_eq!(b.is_after(a), short > 0);
                assert_eq!(b.is_before(a), short < 0);
            }
        }
    }
}
