// SPDX-License-Identifier: GPL-2.0

//! Identifiers on the wire: QP numbers, keys, message numbers. Each is a separate type. Values are
//! in host order.

/// Maximum value of a 24-bit field.
const MASK_24: u32 = 0xff_ffff;

macro_rules! impl_24_bits {
    ($($name:ident),+) => {
        $(
            impl $name {
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
        )+
    };
}

impl_24_bits!(Qpn, Srqn, Msn);

/// A queue pair number: 24 bits.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Qpn(u32);

impl Qpn {
    /// The general services interface (QP 1), which receives connection management datagrams.
    pub const GSI: Self = Self(1);

    /// The destination QP number of multicast packets.
    pub const MULTICAST: Self = Self(MASK_24);
}

/// The number of an XRC SRQ: 24 bits.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Srqn(u32);

impl Srqn {
    /// How many numbers there are.
    pub const COUNT: u32 = MASK_24 + 1;
}

/// The QP numbers of consumers: all but those that are reserved for management and multicast.
///
/// A table counts its entries from index 0. The number that belongs to index 0 is chosen when the table is created,
/// and after the largest number follows the smallest. A connection manager knows a connection by the number of the
/// peer's QP: with numbers that restart when a driver is loaded, it would take a new connection for an old one that
/// it has not closed yet.
#[derive(Clone, Copy, Debug)]
pub struct QpnSpace {
    /// The distance from the smallest number to that of index 0, less than [`QpnSpace::COUNT`].
    first: u32,
}

impl QpnSpace {
    /// The smallest number.
    const MIN: u32 = 16;

    /// How many numbers there are.
    pub const COUNT: u32 = MASK_24 - Self::MIN;

    /// Creates the space. `seed` chooses the number of index 0.
    #[must_use]
    pub const fn new(seed: u32) -> Self {
        Self {
            first: seed % Self::COUNT,
        }
    }

    /// Returns the number of the entry at `index`, which must be less than [`QpnSpace::COUNT`].
    #[inline]
    #[must_use]
    pub const fn number(self, index: u32) -> Qpn {
        let distance = self.first.wrapping_add(index) % Self::COUNT;
        Qpn::new(Self::MIN.wrapping_add(distance))
    }

    /// Returns the index of the entry with this number; for a reserved number, one that no entry has.
    #[inline]
    #[must_use]
    pub const fn index(self, number: Qpn) -> u32 {
        let Some(distance) = number.0.checked_sub(Self::MIN) else {
            return u32::MAX;
        };
        if distance >= Self::COUNT {
            return u32::MAX;
        }
        match distance.checked_sub(self.first) {
            Some(index) => index,
            None => distance.wrapping_add(Self::COUNT).wrapping_sub(self.first),
        }
    }
}

/// A message sequence number (MSN): 24 bits, counted by the responder.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Msn(u32);

impl Msn {
    /// Returns the next number.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }

    /// Returns the previous number.
    #[inline]
    #[must_use]
    pub const fn prev(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }
}

/// A partition key (P_Key): a 15-bit partition number and the membership bit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Pkey(u16);

impl Pkey {
    /// Full membership of the default partition: the only P_Key of a RoCE port.
    pub const DEFAULT: Self = Self(0xffff);

    /// The membership bit, set for full membership.
    const FULL_MEMBER: u16 = 0x8000;

    /// Wraps `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u16) -> Self {
        Self(value)
    }

    /// Returns the key, including the membership bit.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Returns whether members with these keys may communicate: they belong to the same partition,
    /// and at least one has full membership.
    #[inline]
    #[must_use]
    pub const fn matches(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::FULL_MEMBER == 0
            && (self.0 | other.0) & Self::FULL_MEMBER != 0
            && self.0 & !Self::FULL_MEMBER != 0
    }
}

/// A queue key (Q_Key), which a datagram must contain to be accepted.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Qkey(u32);

impl Qkey {
    /// Wraps `value`.
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

    /// Returns whether bit 31 is set. In a WR, such a key is replaced by the Q_Key of the QP.
    #[inline]
    #[must_use]
    pub const fn is_privileged(self) -> bool {
        self.0 >> 31 != 0
    }
}

/// A local memory key (L_Key).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Lkey(u32);

impl Lkey {
    /// Wraps `value`.
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

/// A remote memory key (R_Key) of a memory region or memory window.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rkey(u32);

impl Rkey {
    /// Wraps `value`.
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
    fn numbers_keep_24_bits() {
        assert_eq!(Qpn::new(0xff00_0011), Qpn::new(0x11));
        assert_eq!(Qpn::new(u32::MAX), Qpn::MULTICAST);
        assert_eq!(Msn::new(0x0100_0000).get(), 0);
    }

    #[test]
    fn each_index_has_a_qp_number_of_its_own_and_reserved_numbers_have_none() {
        for seed in [0, 1, 15, 16, 0x7f_ffff, QpnSpace::COUNT - 1, u32::MAX] {
            let space = QpnSpace::new(seed);
            for index in [0, 1, 2, QpnSpace::COUNT - 2, QpnSpace::COUNT - 1] {
                let number = space.number(index);
                assert!((16..0xff_ffff).contains(&number.get()), "{number:?}");
                assert_eq!(space.index(number), index);
            }
            for reserved in (0..16).chain([0xff_ffff]) {
                assert!(space.index(Qpn::new(reserved)) >= QpnSpace::COUNT);
            }
        }
    }

    #[test]
    fn qp_numbers_wrap_around() {
        let space = QpnSpace::new(QpnSpace::COUNT - 1);
        assert_eq!(space.number(0), Qpn::new(0xff_fffe));
        assert_eq!(space.number(1), Qpn::new(16));
    }

    #[test]
    fn msn_wraps_at_24_bits() {
        assert_eq!(Msn::new(0xff_ffff).next(), Msn::new(0));
        assert_eq!(Msn::new(7).next(), Msn::new(8));
        assert_eq!(Msn::new(0).prev(), Msn::new(0xff_ffff));
    }

    #[test]
    fn pkeys_match_if_one_is_a_full_member_of_the_same_partition() {
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
