// SPDX-License-Identifier: GPL-2.0

//! Access rights, and the range check of a memory key. Arithmetic only: no keys, PDs or memory.

/// Rights to a memory region, or the rights that a QP grants its peer: a set of bits.
///
/// C: `enum ib_access_flags`, `rdma/ib_verbs.h`; `enum ib_uverbs_access_flags`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Access(u32);

impl Access {
    /// No right except local read, which is always granted.
    pub const NONE: Self = Self(0);
    /// Local write.
    pub const LOCAL_WRITE: Self = Self(1);
    /// Write by the peer.
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// Read by the peer.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// Atomic operations by the peer.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// Binding of memory windows.
    pub const MW_BIND: Self = Self(1 << 4);
    /// Remote addresses are offsets from the start of the region.
    pub const ZERO_BASED: Self = Self(1 << 5);
    /// Pages are not pinned (ODP).
    pub const ON_DEMAND: Self = Self(1 << 6);
    /// The memory consists of huge pages.
    pub const HUGETLB: Self = Self(1 << 7);
    /// FLUSH by the peer with global visibility.
    pub const FLUSH_GLOBAL: Self = Self(1 << 8);
    /// FLUSH by the peer with persistence.
    pub const FLUSH_PERSISTENT: Self = Self(1 << 9);
    /// Writes may become visible out of order. The lowest of the optional bits.
    pub const RELAXED_ORDERING: Self = Self(1 << 20);
    /// All optional bits. A driver ignores those that it does not support. C: `IB_ACCESS_OPTIONAL`.
    pub const OPTIONAL: Self = Self(0x3FF << 20);

    /// Keeps all bits of `bits`, known or not.
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

    /// Returns whether the set contains all rights of `other`.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the set contains a right to modify memory.
    #[inline]
    #[must_use]
    pub const fn writes(self) -> bool {
        let modifying = Self::LOCAL_WRITE.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0;
        self.0 & modifying != 0
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

/// Why a key does not grant an access.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AccessError {
    /// No memory has this key.
    Key,
    /// The memory belongs to another protection domain.
    ProtectionDomain,
    /// The memory does not grant the requested right.
    Rights,
    /// Some bytes are outside of the memory.
    Bounds,
    /// The memory is registered, but its pages cannot be faulted in.
    Fault,
}

/// Why payload was not copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obstacle<E> {
    /// Some of the memory is not present. The owner of the memory faults it in; then the operation
    /// must be repeated.
    Absent,
    /// The operation has failed; repeating it does not help.
    Refused(E),
}

impl<E> Obstacle<E> {
    /// Converts the error of [`Obstacle::Refused`].
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

/// The outcome of handling a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Taken {
    /// The packet was handled completely.
    Whole,
    /// Memory is not present. The caller must pass the packet again, before any other, when it is.
    Paused,
}

/// A range of a 64-bit address space.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Region {
    /// First address.
    pub iova: u64,
    /// Number of bytes.
    pub length: u64,
}

/// [`Region::offset_of`] for unsigned integers of any width.
///
/// The expression only compares, adds and subtracts, so it behaves alike in all widths. The tests
/// check every range of an 8-bit address space.
macro_rules! offset_of {
    ($iova:expr, $length:expr, $va:expr, $len:expr) => {{
        let offset = $va.checked_sub($iova)?;
        let available = $length.checked_sub(offset)?;
        if $len > available {
            return None;
        }
        if let Some(last) = $len.checked_sub(1) {
            $va.checked_add(last)?;
        }
        Some(offset)
    }};
}

impl Region {
    /// Returns the offset in the region of the `len` bytes at `va`; `None` unless the region
    /// contains all of them.
    ///
    /// Addresses do not wrap: bytes beyond the last address are in no region, whatever its length.
    /// A range of 0 bytes may start anywhere from the first address of the region to the one after
    /// its last. Operations of length 0 must not be checked at all (C9-88).
    #[inline]
    #[must_use]
    pub fn offset_of(&self, va: u64, len: u64) -> Option<u64> {
        offset_of!(self.iova, self.length, va, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected result of [`Region::offset_of`], computed in integers too wide to overflow.
    fn expected_offset(region: Region, va: u64, len: u64) -> Option<u64> {
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
                        expected_offset(region, va, len),
                        "{region:x?} {va:#x} {len:#x}"
                    );
                }
            }
        }
    }

    /// All values in an address space of 256 bytes. By the argument at [`offset_of!`], this covers
    /// any width.
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
                    let expected = if fits { Some(va - iova) } else { None };
                    assert_eq!(
                        checked(iova, length, va, len),
                        expected,
                        "{iova} {length} {va} {len}"
                    );
                    inside += u32::from(fits);
                }
            }
        }
        assert!(inside > 0);
    }

    #[test]
    fn rights_match_the_abi() {
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
    fn a_set_contains_another_only_with_all_its_rights() {
        let both = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
        assert!(both.contains(Access::REMOTE_READ));
        assert!(!Access::REMOTE_READ.contains(both));
        assert!(Access::NONE.contains(Access::NONE));
        assert_eq!(both.intersection(Access::REMOTE_READ), Access::REMOTE_READ);
        assert_eq!(both.bits(), 6);
    }
}
