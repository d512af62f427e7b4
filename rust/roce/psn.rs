// SPDX-License-Identifier: GPL-2.0

//! Packet sequence numbers: 24 bits, counted round and round.
//!
//! Owns the arithmetic of the circle and nothing else; which numbers are in flight is for the
//! requester and the responder to know.
//!
//! There are no operators and there is no `Ord`. "Before" on a circle is not transitive, so a
//! sorted order would be a lie; it holds between two numbers less than half the circle apart,
//! which is why no requester may have more than 2^23 packets outstanding.

use crate::num::signed;

/// Number of bits of a packet sequence number.
const BITS: u32 = 24;

/// Number of bits that a word has beyond those of a packet sequence number.
const UNUSED: u32 = u32::BITS - BITS;

/// The largest packet sequence number.
const MASK: u32 = (1 << BITS) - 1;

/// Half of the circle: the distance from which on a number counts as behind.
const HALF: u32 = 1 << (BITS - 1);

/// A 24-bit packet sequence number.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Psn(u32);

impl Psn {
    /// Keeps the low 24 bits of `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// Returns the number, in host order, always below 2^24.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the number that follows.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// Returns the number `count` packets later.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Returns the number `count` packets earlier.
    #[inline]
    #[must_use]
    pub const fn sub(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// Returns how many packets lie between `earlier` and `self`, going forward: 0 to 2^24 - 1.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & MASK
    }

    /// Returns the signed distance from `other` to `self`: -2^23 to 2^23 - 1.
    #[inline]
    #[must_use]
    pub const fn diff(self, other: Self) -> i32 {
        // At the top of the word, the shift back extends the sign of the 24-bit distance.
        signed(self.0.wrapping_sub(other.0) << UNUSED) >> UNUSED
    }

    /// Returns whether `self` lies in the half of the circle that precedes `other`.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) >= HALF
    }

    /// Returns whether `self` lies in the half of the circle that follows `other`.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        let distance = self.since(other);
        distance != 0 && distance < HALF
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
    fn wraps_both_ways() {
        assert_eq!(LAST.next(), Psn::new(0));
        assert_eq!(LAST.add(5), Psn::new(4));
        assert_eq!(Psn::new(4).sub(5), LAST);
        assert_eq!(Psn::new(3).add(u32::MAX), Psn::new(2));
    }

    #[test]
    fn distance_goes_forward() {
        assert_eq!(Psn::new(4).since(LAST), 5);
        assert_eq!(LAST.since(Psn::new(4)), 0xff_fffb);
        assert_eq!(LAST.since(LAST), 0);
    }

    #[test]
    fn signed_distance_is_short_way_round() {
        assert_eq!(Psn::new(4).diff(LAST), 5);
        assert_eq!(LAST.diff(Psn::new(4)), -5);
        assert_eq!(Psn::new(HALF).diff(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(HALF - 1).diff(Psn::new(0)), 0x7f_ffff);
    }

    #[test]
    fn before_and_after_agree_with_the_signed_distance() {
        for start in [0, 1, HALF - 1, HALF, HALF + 1, MASK] {
            for step in [0, 1, 2, HALF - 1, HALF, HALF + 1, MASK - 1, MASK] {
                let (a, b) = (Psn::new(start), Psn::new(start).add(step));
                assert_eq!(b.is_after(a), b.diff(a) > 0, "{a:?} {b:?}");
                assert_eq!(b.is_before(a), b.diff(a) < 0, "{a:?} {b:?}");
                assert_eq!(a.add(b.since(a)), b);
            }
        }
    }

    /// Every distance, from each start at which a bit more or less is set. Nothing in the arithmetic but the
    /// distance depends on the start, so this is all there is.
    #[test]
    fn every_distance_is_what_it_is_in_wide_integers() {
        let circle = i64::from(MASK) + 1;
        for start in [0, 1, 0x5a_5a5a, HALF - 1, HALF, HALF + 1, MASK - 1, MASK] {
            let a = Psn::new(start);
            for distance in 0..=MASK {
                let b = a.add(distance);
                let wide = i64::from(distance);
                let short = if wide < circle / 2 {
                    wide
                } else {
                    wide - circle
                };
                assert_eq!(i64::from(b.get()), (i64::from(start) + wide) % circle);
                assert_eq!(b.since(a), distance);
                assert_eq!(b.sub(distance), a);
                assert_eq!(i64::from(b.diff(a)), short);
                assert_eq!(b.is_after(a), short > 0);
                assert_eq!(b.is_before(a), short < 0);
            }
        }
    }
}
