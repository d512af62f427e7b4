// SPDX-License-Identifier: GPL-2.0

//! Rights to memory, and the range check of a memory key: arithmetic only.
//!
//! Owns the bits of the rights and the test whether one range lies in another. Does not know
//! keys, protection domains or memory.

/// Rights to a memory region, or those that a QP grants its peer: a set of bits.
///
/// C: `enum ib_access_flags`, `rdma/ib_verbs.h`; `enum ib_uverbs_access_flags`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Access(u32);

impl Access {
    /// No right but to read locally, which cannot be taken away.
    pub const NONE: Self = Self(0);
    /// To write locally.
    pub const LOCAL_WRITE: Self = Self(1);
    /// To be written by the peer.
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// To be read by the peer.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// To be changed atomically by the peer.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// To have memory windows bound to it.
    pub const MW_BIND: Self = Self(1 << 4);
    /// Remote addresses count from the start of the region.
    pub const ZERO_BASED: Self = Self(1 << 5);
    /// Pages are not pinned.
    pub const ON_DEMAND: Self = Self(1 << 6);
    /// The memory consists of huge pages.
    pub const HUGETLB: Self = Self(1 << 7);
    /// To be flushed until visible to all.
    pub const FLUSH_GLOBAL: Self = Self(1 << 8);
    /// To be flushed until safe from loss of power.
    pub const FLUSH_PERSISTENT: Self = Self(1 << 9);
    /// Writes to it need not be seen in order. The lowest of the optional bits.
    pub const RELAXED_ORDERING: Self = Self(1 << 20);
    /// Every bit that is a hint: who does not know one goes on without it. C: `IB_ACCESS_OPTIONAL`.
    pub const OPTIONAL: Self = Self(0x3FF << 20);

    /// Takes every bit of `bits`, known or not.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether every right of `other` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether something is changed by who uses one of these rights.
    #[inline]
    #[must_use]
    pub const fn writes(self) -> bool {
        let changing = Self::LOCAL_WRITE.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0;
        self.0 & changing != 0
    }

    /// Returns the rights that are in either set.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the rights that are in both sets.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Why a key does not open the memory that was asked for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AccessError {
    /// No memory has this key.
    Key,
    /// The memory belongs to another protection domain.
    ProtectionDomain,
    /// The memory does not grant the right.
    Rights,
    /// Some of the bytes lie outside of the memory.
    Bounds,
    /// The memory is registered, but its pages cannot be had.
    Fault,
}

/// Why bytes were not moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obstacle<E> {
    /// Some of the memory is not there at present. Whoever holds it will bring it, and then the
    /// same is to be done again.
    Absent,
    /// It cannot be done, now or later.
    Refused(E),
}

impl<E> Obstacle<E> {
    /// Changes the reason of a refusal.
    pub fn map<F>(self, f: impl FnOnce(E) -> F) -> Obstacle<F> {
        match self {
            Self::Absent => Obstacle::Absent,
            Self::Refused(error) => Obstacle::Refused(f(error)),
        }
    }
}

impl<E> From<E> for Obstacle<E> {
    fn from(error: E) -> Self {
        Self::Refused(error)
    }
}

/// What became of a packet that a QP was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Taken {
    /// All of it was dealt with.
    Whole,
    /// Memory that it needs is absent. Nobody can tell that it has arrived; it is to be given
    /// again, before any other, when the memory is there.
    Paused,
}

/// A range of an address space of 2^64 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Region {
    /// First address.
    pub iova: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Where in a region some bytes start, or `None`: [`Region::offset_of`], in unsigned integers of one width, whichever.
///
/// What is said of it in one width holds in all: it compares, adds and subtracts, and looks at no single bit. So the
/// tests try every range there is in eight bits.
macro_rules! offset_of {
    ($iova:expr, $length:expr, $va:expr, $len:expr) => {{
        let offset = $va.checked_sub($iova)?;
        let available = $length.checked_sub(offset)?;
        if $len > available {
            return None;
        }
        if let Some(to_last) = $len.checked_sub(1) {
            $va.checked_add(to_last)?;
        }
        Some(offset)
    }};
}

impl Region {
    /// Returns where in the region the `len` bytes at `va` start; `None` unless all of them lie
    /// in the region.
    ///
    /// Nothing wraps: bytes beyond the last address are in no region, whatever its length says.
    /// No bytes at all may start anywhere from the first address of the region to the one that
    /// follows its last (an operation of length 0 must not get here at all, C9-88).
    #[inline]
    #[must_use]
    pub fn offset_of(&self, va: u64, len: u64) -> Option<u64> {
        offset_of!(self.iova, self.length, va, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`Region::offset_of`] must say, in numbers too wide to wrap.
    fn oracle(region: Region, va: u64, len: u64) -> Option<u64> {
        let (first, start) = (u128::from(region.iova), u128::from(va));
        let end = (first + u128::from(region.length)).min(1 << 64);
        let inside = start >= first && start + u128::from(len) <= end;
        inside.then(|| va - region.iova)
    }

    #[test]
    fn range_check_is_exact_at_both_ends_of_the_address_space() {
        const N: u64 = 9;
        let ends = || (0..N).chain(u64::MAX - N + 1..=u64::MAX);
        for iova in ends() {
            for length in ends() {
                let region = Region { iova, length };
                for (va, len) in ends().flat_map(|va| ends().map(move |len| (va, len))) {
                    assert_eq!(
                        region.offset_of(va, len),
                        oracle(region, va, len),
                        "{region:x?} {va:#x} {len:#x}"
                    );
                }
            }
        }
    }

    /// All four numbers, in a space of 256 bytes: a proof for these, and by [`offset_of!`] for any.
    #[test]
    fn range_check_is_exact_for_every_range_of_a_small_address_space() {
        fn checked(iova: u8, length: u8, va: u8, len: u8) -> Option<u8> {
            offset_of!(iova, length, va, len)
        }
        let mut inside = 0u32;
        for (iova, length) in (0..=u8::MAX).flat_map(|iova| (0..=u8::MAX).map(move |l| (iova, l))) {
            let end = (u32::from(iova) + u32::from(length)).min(1 << 8);
            for va in 0..=u8::MAX {
                for len in 0..=u8::MAX {
                    let fits = va >= iova && u32::from(va) + u32::from(len) <= end;
                    let wanted = if fits { Some(va - iova) } else { None };
                    assert_eq!(
                        checked(iova, length, va, len),
                        wanted,
                        "{iova} {length} {va} {len}"
                    );
                    inside += u32::from(fits);
                }
            }
        }
        assert!(inside > 0);
    }

    #[test]
    fn rights_have_the_numbers_of_the_abi() {
        for (access, bits) in [
            (Access::NONE, 0),
            (Access::LOCAL_WRITE, 1),
            (Access::REMOTE_WRITE, 2),
            (Access::REMOTE_READ, 4),
            (Access::REMOTE_ATOMIC, 8),
            (Access::MW_BIND, 0x10),
            (Access::ZERO_BASED, 0x20),
            (Access::ON_DEMAND, 0x40),
            (Access::HUGETLB, 0x80),
            (Access::FLUSH_GLOBAL, 0x100),
            (Access::FLUSH_PERSISTENT, 0x200),
            (Access::RELAXED_ORDERING, 0x10_0000),
            (Access::OPTIONAL, 0x3FF0_0000),
        ] {
            assert_eq!(access.bits(), bits);
            assert_eq!(Access::from_bits(bits), access);
        }
    }

    #[test]
    fn rights_are_contained_only_all_together() {
        let both = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
        assert!(both.contains(Access::REMOTE_READ));
        assert!(!Access::REMOTE_READ.contains(both));
        assert!(Access::NONE.contains(Access::NONE));
        assert_eq!(both.intersection(Access::REMOTE_READ), Access::REMOTE_READ);
        assert_eq!(both.bits(), 6);
    }
}
