// SPDX-License-Identifier: GPL-2.0

//! Where libibverbs has the operations of a provider, in each layout of `struct verbs_context_ops`.
//!
//! `scripts/checks/provider-abi.py` writes the table. The number in the name of the library does not identify a layout:
//! two of them have 59.

use super::version::Family;

/// Number of layouts.
const LAYOUTS: usize = 5;

macro_rules! operations {
    (entries $($entries:literal)+; $($op:ident $($place:literal)+;)+) => {
        /// An operation that the library sets.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum Op {
            $(#[allow(missing_docs)] $op,)+
        }

        impl Op {
            /// All of them, in the order of the C structure.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$op,)+];

            /// Returns the place in the structure's array of pointers. `None` if this layout has no such operation.
            pub(crate) fn place(self, family: Family) -> Option<usize> {
                // -1: none.
                let places: [i8; LAYOUTS] = match self {
                    $(Self::$op => [$($place),+],)+
                };
                usize::try_from(select(places, family)).ok()
            }
        }

        /// Returns how many pointers the structure has.
        pub(crate) fn entries(family: Family) -> usize {
            select([$($entries),+], family)
        }
    };
}

/// The largest number of entries, of any layout.
pub(crate) const MAX_ENTRIES: usize = 93;

fn select<T>(columns: [T; LAYOUTS], family: Family) -> T {
    let [v34, v59, v62, v64, v65] = columns;
    match family {
        Family::V34 => v34,
        Family::V59 => v59,
        Family::V62 => v62,
        Family::V64 => v64,
        Family::V65 => v65,
    }
}

operations! {
    // v56.0, v61.0, v63.0, v64.0, HEAD
    entries 76 79 81 83 93;
    AdviseMr 0 0 0 0 0;
    AllocMw 2 3 3 4 4;
    AllocParentDomain 4 5 5 6 6;
    AllocPd 5 6 6 7 7;
    AllocTd 6 7 7 8 8;
    AttachMcast 9 10 10 11 11;
    BindMw 10 11 11 12 12;
    CloseXrcd 11 12 12 13 13;
    CreateAh 13 14 14 15 15;
    CreateCompCntr -1 -1 -1 -1 16;
    CreateCq 15 16 16 17 18;
    CreateCqEx 16 17 17 18 19;
    CreateQp 19 20 20 21 22;
    CreateQpEx 20 21 21 22 23;
    CreateSrq 22 23 23 24 25;
    CreateSrqEx 23 24 24 25 26;
    DeallocMw 25 27 27 28 29;
    DeallocPd 26 28 28 29 30;
    DeallocTd 27 29 29 30 31;
    DeregMr 28 30 30 31 32;
    DestroyAh 29 31 31 32 33;
    DestroyCompCntr -1 -1 -1 -1 34;
    DestroyCq 31 33 33 34 36;
    DestroyQp 34 36 36 37 39;
    DestroySrq 36 38 38 39 41;
    DetachMcast 38 40 40 41 43;
    FreeContext 39 41 42 44 46;
    GetSrqNum 41 43 44 46 48;
    ImportMr 43 45 46 48 50;
    ImportPd 44 46 47 49 51;
    IncCompCntr -1 -1 -1 -1 52;
    IncErrCompCntr -1 -1 -1 -1 53;
    ModifyCq 45 47 48 50 54;
    ModifyQp 47 49 50 52 56;
    ModifySrq 49 51 52 54 58;
    OpenQp 51 53 54 56 60;
    OpenXrcd 52 54 55 57 61;
    PollCq 53 55 56 58 62;
    PostRecv 54 56 57 59 63;
    PostSend 55 57 58 60 64;
    PostSrqRecv 57 59 60 62 66;
    QpAttachCompCntr -1 -1 -1 -1 67;
    QueryCompCntrCaps -1 -1 -1 -1 68;
    QueryDeviceEx 58 60 61 63 69;
    QueryPort 60 62 63 65 71;
    QueryPortSpeed -1 -1 64 66 72;
    QueryQp 61 63 65 67 73;
    QueryRtValues 63 65 67 69 75;
    QuerySrq 64 66 68 70 76;
    ReadCompCntr -1 -1 -1 -1 77;
    ReadErrCompCntr -1 -1 -1 -1 79;
    RegDmabufMr 67 69 71 73 81;
    RegMr 68 70 72 74 82;
    ReqNotifyCq 69 72 74 76 84;
    ReregMr 70 73 75 77 85;
    ResizeCq 71 74 76 78 86;
    SetCompCntr -1 -1 -1 -1 87;
    SetErrCompCntr -1 -1 -1 -1 89;
    UnimportMr 74 77 79 81 91;
    UnimportPd 75 78 80 82 92;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_sorted_and_inside() {
        for family in Family::ALL {
            let places: Vec<_> = Op::ALL.iter().filter_map(|op| op.place(family)).collect();
            assert!(places.is_sorted_by(|a, b| a < b), "{family:?}");
            assert!(*places.last().unwrap() < entries(family));
            assert!(entries(family) <= MAX_ENTRIES);
        }
    }

    #[test]
    fn post_send_is_where_the_compiled_headers_have_it() {
        let offsets = Family::ALL.map(|family| Op::PostSend.place(family).unwrap() * 8);
        assert_eq!(offsets, [440, 456, 464, 480, 512]);
    }

    #[test]
    fn a_layout_may_lack_an_operation() {
        let places = Family::ALL.map(|family| Op::QueryPortSpeed.place(family).is_some());
        assert_eq!(places, [false, false, true, true, true]);
    }
}
