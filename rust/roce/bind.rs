// SPDX-License-Identifier: GPL-2.0

//! What a memory window may be bound to: arithmetic only.
//!
//! Owns the rules for binding (IBA volume 1, 10.6.7.2 and 11.2.8). Does not know the table in which
//! keys are found, nor whose they are: protection domains are compared elsewhere.

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

/// Who may use a memory window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WindowType {
    /// Type 1: every queue pair of the protection domain. Its owner binds it again and again.
    One,
    /// Type 2B: only the queue pair that has bound it, until the binding is invalidated.
    TwoB,
}

/// What a work request asks for: to bind a window to a part of a region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bind {
    /// The key that the window has until now.
    pub window: Rkey,
    /// The low byte of the key that it has from now on.
    pub key: u8,
    /// The region. Means nothing if `range` is empty.
    pub region: Lkey,
    /// What the window is to allow.
    pub access: Access,
    /// The part of the region, in its addresses. An empty one unbinds the window.
    pub range: Region,
}

/// What a work request asks for: to register the pages that its consumer has listed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FastReg {
    /// The key: that of the region, and the low byte that the consumer wants.
    pub key: u32,
    /// What the region is to allow.
    pub access: Access,
    /// Address of the first byte.
    pub iova: u64,
}

/// Rights that a window gives to peers.
const GRANTABLE: Access = Access::REMOTE_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC);

/// What may be asked for. A window gives no local right, but programs ask for those that its region
/// has.
const ACCEPTED: Access = GRANTABLE
    .union(Access::ZERO_BASED)
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND);

impl Bind {
    /// Returns whether a window of this type, bound already or not, may be bound like this at all.
    ///
    /// A type 1 window is not zero-based (o10-36.2.2). A type 2 window is bound only while it is
    /// free (o10-37.2.30), and not by binding it to nothing that it becomes free (o10-37.2.40).
    #[must_use]
    pub fn suits(&self, window: WindowType, is_bound: bool) -> bool {
        ACCEPTED.contains(self.access)
            && match window {
                WindowType::One => !self.access.contains(Access::ZERO_BASED),
                WindowType::TwoB => !is_bound && !self.unbinds(),
            }
    }

    /// Returns whether the window is to be bound to nothing.
    #[must_use]
    pub fn unbinds(&self) -> bool {
        self.range.length == 0
    }

    /// Returns what a peer may do.
    #[must_use]
    pub const fn rights(&self) -> Access {
        self.access.intersection(GRANTABLE)
    }

    /// Returns where the window starts in a region with the rights `access`, in bytes; `None` if
    /// the region does not allow it.
    ///
    /// The region must allow windows (C10-73), allow its owner to write if a peer may (C10-74), and
    /// hold all of the window (C10-75). Addresses of a zero-based region are no addresses for
    /// windows.
    #[must_use]
    pub fn place_in(&self, access: Access, region: Region) -> Option<u64> {
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

    /// Returns the addresses under which a peer reaches the window.
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
    fn a_window_lies_in_its_region() {
        let place =
            |iova, length| bind(Access::REMOTE_WRITE, iova, length).place_in(BINDABLE, REGION);
        assert_eq!(place(0x1000, 0x2000), Some(0));
        assert_eq!(place(0x2fff, 1), Some(0x1fff));
        assert_eq!(place(0xfff, 2), None);
        assert_eq!(place(0x2fff, 2), None);
        assert_eq!(place(0x1000, 0x2001), None);
        assert_eq!(place(u64::MAX, 2), None, "wraps");
        assert_eq!(place(0x1000, u64::MAX), None, "wraps");
    }

    #[test]
    fn a_region_must_allow_windows_and_writes() {
        let reader = bind(Access::REMOTE_READ, 0x1000, 1);
        assert_eq!(reader.place_in(Access::MW_BIND, REGION), Some(0));
        assert_eq!(reader.place_in(Access::LOCAL_WRITE, REGION), None);
        for right in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
            let writer = bind(right, 0x1000, 1);
            assert_eq!(writer.place_in(BINDABLE, REGION), Some(0));
            assert_eq!(writer.place_in(Access::MW_BIND, REGION), None);
        }
        let zero_based = BINDABLE.union(Access::ZERO_BASED);
        assert_eq!(reader.place_in(zero_based, REGION), None);
    }

    #[test]
    fn each_type_is_bound_in_its_own_way() {
        use WindowType::{
            One,
            TwoB, //
        };
        let plain = bind(Access::REMOTE_READ, 0x1000, 1);
        let zero_based = bind(Access::ZERO_BASED, 0x1000, 1);
        let nothing = bind(Access::NONE, 0, 0);
        let (free, bound) = (false, true);
        assert!(plain.suits(One, free) && plain.suits(One, bound));
        assert!(!zero_based.suits(One, free) && !zero_based.suits(One, bound));
        assert!(nothing.suits(One, free) && nothing.suits(One, bound));
        assert!(plain.suits(TwoB, free) && !plain.suits(TwoB, bound));
        assert!(zero_based.suits(TwoB, free));
        assert!(!nothing.suits(TwoB, free) && !nothing.suits(TwoB, bound));
    }

    #[test]
    fn a_window_gives_remote_rights_only() {
        for bit in 0..u32::BITS {
            let right = Access::from_bits(1 << bit);
            let given = bind(right, 0x1000, 1).suits(WindowType::TwoB, false);
            assert_eq!(given, bit <= 5, "bit {bit}");
            let rights = bind(right, 0x1000, 1).rights();
            let remote = (1..=3).contains(&bit);
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
