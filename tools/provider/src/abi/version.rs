// SPDX-License-Identifier: GPL-2.0

//! Which private interface a libibverbs has, and what differs between them.
//!
//! The interface has a number, in the name of `verbs_register_driver_NN`. Releases with one number may still differ:
//!
//! ====== ====== ==================================================
//! Number Since  What tells it from others of its number
//! ====== ====== ==================================================
//! 34     36     only 34 and 35 are older; no distribution has them
//! 57     57
//! 59     59     has no `ibv_cmd_query_port_speed`
//! 59     62     has it
//! 64     64
//! 65     65
//! ====== ====== ==================================================
//!
//! `struct verbs_qp` differs within 34, too, see [`QP_COMP_MASKS`].

/// Interfaces whose structures have one layout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Family {
    /// Numbers 34 and 57.
    V34,
    /// Number 59, up to release 61.
    V59,
    /// Number 59, since release 62.
    V62,
    /// Number 64.
    V64,
    /// Number 65.
    V65,
}

impl Family {
    /// All of them, in order.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 5] = [Self::V34, Self::V59, Self::V62, Self::V64, Self::V65];
}

/// A private interface of libibverbs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Version {
    /// Layouts.
    pub(crate) family: Family,
    /// `ibv_cmd_get_context` has an array of file descriptors as its fourth argument. Since 57.
    pub(crate) context_has_fds: bool,
}

impl Version {
    /// Returns the interface with this number. `has_port_speed`: there is `ibv_cmd_query_port_speed`.
    pub(crate) fn new(number: u32, has_port_speed: bool) -> Option<Self> {
        let family = match (number, has_port_speed) {
            (34 | 57, false) => Family::V34,
            (59, false) => Family::V59,
            (59, true) => Family::V62,
            (64, true) => Family::V64,
            (65, true) => Family::V65,
            _ => return None,
        };
        Some(Self {
            family,
            context_has_fds: number >= 57,
        })
    }

    /// Returns the offset of `context`, the last field of `struct verbs_context`.
    pub(crate) fn context_offset(self) -> usize {
        match self.family {
            Family::V34 => 320,
            Family::V59 => 344,
            Family::V62 => 352,
            Family::V64 | Family::V65 => 368,
        }
    }

    /// Whether `ibv_cmd_create_cq_ex` has attributes of the provider as its third argument.
    pub(crate) fn cq_has_provider_attr(self) -> bool {
        self.family != Family::V34
    }
}

/// Numbers that [`Version::new`] knows, newest first.
pub(crate) const NUMBERS: [u32; 5] = [65, 64, 59, 57, 34];

/// Where `comp_mask` of `struct verbs_qp` may be, in bytes from the end of `struct ibv_qp`: behind `struct ibv_qp_ex`,
/// which releases 44 and 45 extended, both with number 34. It is the one that `ibv_cmd_create_qp_ex2` writes.
pub(crate) const QP_COMP_MASKS: [usize; 3] = [184, 192, 200];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_layouts_of_59_are_told_apart() {
        let old = Version::new(59, false).unwrap();
        let new = Version::new(59, true).unwrap();
        assert_eq!((old.context_offset(), new.context_offset()), (344, 352));
    }

    #[test]
    fn an_unknown_interface_is_none() {
        assert_eq!(Version::new(66, true), None);
        // A vendor may have moved functions between releases: the table is not known.
        assert_eq!(Version::new(34, true), None);
        assert_eq!(Version::new(64, false), None);
    }

    #[test]
    fn every_number_has_an_interface() {
        for number in NUMBERS {
            assert!(Version::new(number, false).is_some() || Version::new(number, true).is_some());
        }
    }
}
