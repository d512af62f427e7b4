// SPDX-License-Identifier: GPL-2.0

//! The names of things on the wire: QP numbers, keys, message numbers.
//!
//! Each is a type of its own, so that none can be passed for another. What a key opens and
//! which QP a number belongs to is not known here. All values are in host order.

/// The largest value of a 24-bit field.
const MASK_24: u32 = 0xff_ffff;

/// A queue pair number: 24 bits.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Qpn(u32);

impl Qpn {
    /// The general services interface, to which connection managers send.
    pub const GSI: Self = Self(1);

    /// The number that multicast packets carry in place of a QP's.
    pub const MULTICAST: Self = Self(MASK_24);

    /// Keeps the low 24 bits of `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK_24)
    }

    /// Returns the number, always below 2^24.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A message sequence number: 24 bits, counted by the responder.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Msn(u32);

impl Msn {
    /// Keeps the low 24 bits of `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK_24)
    }

    /// Returns the number, always below 2^24.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the number that follows.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }
}

/// A partition key: 15 bits of partition, and bit 15 for full membership.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Pkey(u16);

impl Pkey {
    /// The default partition with full membership: the only key of a RoCE port.
    pub const DEFAULT: Self = Self(0xffff);

    /// Bit of full membership.
    const FULL_MEMBER: u16 = 0x8000;

    /// Takes `value` as it is.
    #[inline]
    #[must_use]
    pub const fn new(value: u16) -> Self {
        Self(value)
    }

    /// Returns the key with its membership bit.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Returns whether members with these two keys may talk: one partition, and not both limited
    /// members of it.
    #[inline]
    #[must_use]
    pub const fn matches(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::FULL_MEMBER == 0
            && (self.0 | other.0) & Self::FULL_MEMBER != 0
            && self.0 & !Self::FULL_MEMBER != 0
    }
}

/// A queue key, which a datagram must carry to be accepted.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Qkey(u32);

impl Qkey {
    /// Takes `value` as it is.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// Returns the key.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns whether bit 31 is set: in a work request, such a key stands for that of the QP.
    #[inline]
    #[must_use]
    pub const fn is_privileged(self) -> bool {
        self.0 >> 31 != 0
    }
}

/// A local memory key.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Lkey(u32);

impl Lkey {
    /// Takes `value` as it is.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// Returns the key.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A remote memory key, of a memory region or of a memory window.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rkey(u32);

impl Rkey {
    /// Takes `value` as it is.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// Returns the key.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_24_bits_drop_the_rest() {
        assert_eq!(Qpn::new(0xff00_0011), Qpn::new(0x11));
        assert_eq!(Qpn::new(u32::MAX), Qpn::MULTICAST);
        assert_eq!(Msn::new(0x0100_0000).get(), 0);
    }

    #[test]
    fn msn_wraps_at_24_bits() {
        assert_eq!(Msn::new(0xff_ffff).next(), Msn::new(0));
        assert_eq!(Msn::new(7).next(), Msn::new(8));
    }

    #[test]
    fn pkey_needs_one_full_member_of_the_same_partition() {
        let full = Pkey::new(0x8001);
        let limited = Pkey::new(0x0001);
        assert!(full.matches(full));
        assert!(full.matches(limited));
        assert!(limited.matches(full));
        assert!(!limited.matches(limited));
        assert!(!full.matches(Pkey::DEFAULT));
        assert!(Pkey::DEFAULT.matches(Pkey::new(0x7fff)));
    }

    #[test]
    fn pkey_of_partition_zero_is_invalid() {
        assert!(!Pkey::new(0x8000).matches(Pkey::new(0x8000)));
        assert!(!Pkey::new(0).matches(Pkey::new(0x8000)));
    }

    #[test]
    fn qkey_with_the_top_bit_is_privileged() {
        assert!(Qkey::new(0x8001_0000).is_privileged());
        assert!(!Qkey::new(0x7fff_ffff).is_privileged());
    }
}
