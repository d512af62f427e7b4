// SPDX-License-Identifier: GPL-2.0

//! Rules for binding memory windows (IBA volume 1, 10.6.7.2 and 11.2.8). Arithmetic only: the
//! caller looks up keys and compares PDs.

use crate::{
    access::{
        Access,
        Region, //
    },
    id::{
        Lkey,
        Rkey, //
    }, //
};

/// The type of a memory window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WindowType {
    /// Type 1: usable by all QPs of the PD; may be bound repeatedly.
    One,
    /// Type 2B: usable only by the QP that bound it, until the binding is invalidated.
    TwoB,
}

/// A request to bind a window to a part of a region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bind {
    /// Current key of the window.
    pub window: Rkey,
    /// Low byte of its new key.
    pub key: u8,
    /// Key of the region. Unused if `range` is empty.
    pub region: Lkey,
    /// Rights that the window grants.
    pub access: Access,
    /// The part of the region, in addresses of the region. An empty range unbinds the window.
    pub range: Region,
}

/// A request to register the pages that the consumer has listed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FastReg {
    /// Key: index of the region, and the low byte that the consumer chose.
    pub key: u32,
    /// Rights that the region grants.
    pub access: Access,
    /// Address of the first byte.
    pub iova: u64,
}

/// An operation on memory keys, which sends no packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalRequest {
    /// Invalidates a local memory key.
    Invalidate(Rkey),
    /// Binds a memory window.
    Bind(Bind),
    /// Registers pages. Only kernel consumers can request it.
    Register(FastReg),
}

/// Rights that a window can grant to peers.
const GRANTABLE: Access = Access::REMOTE_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT);

/// Rights that a bind request may contain. A window grants no local rights and has no memory of its
/// own, but consumers request what they requested for the region.
const ACCEPTED: Access = GRANTABLE
    .union(Access::ZERO_BASED)
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND)
    .union(Access::ON_DEMAND)
    .union(Access::HUGETLB)
    .union(Access::OPTIONAL);

impl Bind {
    /// Returns whether the request is valid for a window of this type that is bound or unbound.
    ///
    /// A type 1 window must not be zero-based (o10-36.2.2). A type 2 window can be bound only while
    /// it is unbound (o10-37.2.30), and is not unbound by a bind of length 0 (o10-37.2.40).
    #[must_use]
    pub fn is_valid_for(&self, window: WindowType, is_bound: bool) -> bool {
        ACCEPTED.contains(self.access)
            && match window {
                WindowType::One => !self.access.contains(Access::ZERO_BASED),
                WindowType::TwoB => !is_bound && !self.unbinds(),
            }
    }

    /// Returns whether the request unbinds the window.
    #[must_use]
    pub fn unbinds(&self) -> bool {
        self.range.length == 0
    }

    /// Returns the rights of peers.
    #[must_use]
    pub const fn rights(&self) -> Access {
        self.access.intersection(GRANTABLE)
    }

    /// Returns the offset of the window in a region with the rights `access`, in bytes; `None` if
    /// the region does not permit the binding.
    ///
    /// The region must permit windows (C10-73), permit local writes if a peer may write (C10-74),
    /// and contain the whole window (C10-75). A zero-based region cannot have windows.
    #[must_use]
    pub fn offset_in(&self, access: Access, region: Region) -> Option<u64> {
        let needed = if self.access.contains(Access::REMOTE_WRITE)
            || self.access.contains(Access::REMOTE_ATOMIC)
        {
            Access::MW_BIND.union(Access::LOCAL_WRITE)
        } else {
            Access::MW_BIND
        };
        if !access.contains(needed) || access.contains(Access::ZERO_BASED) {
            return None;
        }
        region.offset_of(self.range.iova, self.range.length)
    }

    /// Returns the addresses by which a peer accesses the window.
    #[must_use]
    pub fn addresses(&self) -> Region {
        if self.access.contains(Access::ZERO_BASED) {
            Region {
                iova: 0,
                length: self.range.length,
            }
        } else {
            self.range
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region {
        iova: 0x1000,
        length: 0x2000,
    };
    const BINDABLE: Access = Access::MW_BIND.union(Access::LOCAL_WRITE);

    fn bind(access: Access, iova: u64, length: u64) -> Bind {
        Bind {
            window: Rkey::new(0x101),
            key: 2,
            region: Lkey::new(0x201),
            access,
            range: Region { iova, length },
        }
    }

    #[test]
    fn a_window_must_lie_in_its_region() {
        let offset =
            |iova, length| bind(Access::REMOTE_WRITE, iova, length).offset_in(BINDABLE, REGION);
        assert_eq!(offset(0x1000, 0x2000), Some(0));
        assert_eq!(offset(0x2fff, 1), Some(0x1fff));
        assert_eq!(offset(0xfff, 2), None);
        assert_eq!(offset(0x2fff, 2), None);
        assert_eq!(offset(0x1000, 0x2001), None);
        assert_eq!(offset(u64::MAX, 2), None, "wraps");
        assert_eq!(offset(0x1000, u64::MAX), None, "wraps");
    }

    #[test]
    fn a_region_must_permit_windows_and_writes() {
        let reader = bind(Access::REMOTE_READ, 0x1000, 1);
        assert_eq!(reader.offset_in(Access::MW_BIND, REGION), Some(0));
        assert_eq!(reader.offset_in(Access::LOCAL_WRITE, REGION), None);
        for right in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
            let writer = bind(right, 0x1000, 1);
            assert_eq!(writer.offset_in(BINDABLE, REGION), Some(0));
            assert_eq!(writer.offset_in(Access::MW_BIND, REGION), None);
        }
        let zero_based = BINDABLE.union(Access::ZERO_BASED);
        assert_eq!(reader.offset_in(zero_based, REGION), None);
    }

    #[test]
    fn each_type_has_its_binding_rules() {
        use WindowType::{
            One,
            TwoB, //
        };
        let plain = bind(Access::REMOTE_READ, 0x1000, 1);
        let zero_based = bind(Access::ZERO_BASED, 0x1000, 1);
        let nothing = bind(Access::NONE, 0, 0);
        let (free, bound) = (false, true);
        assert!(plain.is_valid_for(One, free) && plain.is_valid_for(One, bound));
        assert!(!zero_based.is_valid_for(One, free) && !zero_based.is_valid_for(One, bound));
        assert!(nothing.is_valid_for(One, free) && nothing.is_valid_for(One, bound));
        assert!(plain.is_valid_for(TwoB, free) && !plain.is_valid_for(TwoB, bound));
        assert!(zero_based.is_valid_for(TwoB, free));
        assert!(!nothing.is_valid_for(TwoB, free) && !nothing.is_valid_for(TwoB, bound));
    }

    #[test]
    fn a_window_grants_remote_rights_only() {
        for bit in 0..u32::BITS {
            let right = Access::from_bits(1 << bit);
            let valid = bind(right, 0x1000, 1).is_valid_for(WindowType::TwoB, false);
            assert_eq!(valid, bit <= 9 || (20..30).contains(&bit), "bit {bit}");
            let rights = bind(right, 0x1000, 1).rights();
            let remote = (1..=3).contains(&bit) || (8..=9).contains(&bit);
            assert_eq!(
                rights,
                if remote { right } else { Access::NONE },
                "bit {bit}"
            );
        }
    }

    #[test]
    fn addresses_of_a_zero_based_window_start_at_zero() {
        let zero_based = bind(Access::ZERO_BASED, 0x1800, 0x10).addresses();
        assert_eq!((zero_based.iova, zero_based.length), (0, 0x10));
        let plain = bind(Access::REMOTE_READ, 0x1800, 0x10).addresses();
        assert_eq!((plain.iova, plain.length), (0x1800, 0x10));
    }
}
