// SPDX-License-Identifier: GPL-2.0

//! Completion counters, as plain values: what they count, and how they are changed.
//!
//! C header: [`include/uapi/rdma/ib_user_ioctl_verbs.h`](srctree/include/uapi/rdma/ib_user_ioctl_verbs.h)

use crate::bindings;
use kernel::prelude::*;

/// Operations of a QP (`enum ib_uverbs_qp_attach_comp_cntr_op`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CompCntrOps(u32);

impl CompCntrOps {
    /// SENDs of the QP.
    pub const SEND: Self = Self(1 << 0);
    /// Receives of the QP.
    pub const RECV: Self = Self(1 << 1);
    /// RDMA READs of the QP.
    pub const RDMA_READ: Self = Self(1 << 2);
    /// RDMA WRITEs of the QP. The bit before is for RDMA READs of the peer.
    pub const RDMA_WRITE: Self = Self(1 << 4);
    /// RDMA WRITEs of the peer.
    pub const REMOTE_RDMA_WRITE: Self = Self(1 << 5);

    /// Returns the operations with these bits, known or not.
    pub(crate) const fn from_raw(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn as_raw(self) -> u32 {
        self.0
    }

    /// Returns the operations of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all of `ops` are among these.
    #[must_use]
    pub const fn contains(self, ops: Self) -> bool {
        self.0 & ops.0 == ops.0
    }
}

/// What a counter counts of a success (`enum ferroce_comp_cntr_type`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CompCntrUnit {
    /// One.
    Requests,
    /// The bytes of its payload.
    Bytes,
}

impl CompCntrUnit {
    pub(crate) fn from_raw(raw: u32) -> Result<Self> {
        match raw {
            bindings::ferroce_comp_cntr_type_FERROCE_COMP_CNTR_WRS => Ok(Self::Requests),
            bindings::ferroce_comp_cntr_type_FERROCE_COMP_CNTR_BYTES => Ok(Self::Bytes),
            _ => Err(EINVAL),
        }
    }
}

/// One of the two values of a counter (`enum ib_uverbs_comp_cntr_entry`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CompCntrEntry {
    /// Of operations that have succeeded.
    Completed,
    /// Of operations that have failed.
    Failed,
}

impl CompCntrEntry {
    pub(crate) fn from_raw(raw: u32) -> Result<Self> {
        match raw {
            0 => Ok(Self::Completed),
            1 => Ok(Self::Failed),
            _ => Err(EINVAL),
        }
    }
}

/// How a value is changed (`enum ib_uverbs_comp_cntr_modify_op`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CompCntrChange {
    /// It becomes this.
    Set(u64),
    /// This is added.
    Add(u64),
}

impl CompCntrChange {
    pub(crate) fn from_raw(op: u32, value: u64) -> Result<Self> {
        match op {
            0 => Ok(Self::Set(value)),
            1 => Ok(Self::Add(value)),
            _ => Err(EINVAL),
        }
    }
}

/// What a device says of its counters (`struct ib_comp_cntr_caps`).
#[derive(Clone, Copy, Debug)]
pub struct CompCntrCaps {
    /// The highest value. The next one is 0.
    pub max_value: u64,
    /// The number of counters.
    pub max_counters: u32,
    /// The operations that can be counted.
    pub ops: CompCntrOps,
}
