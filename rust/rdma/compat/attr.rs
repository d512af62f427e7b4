// SPDX-License-Identifier: GPL-2.0

//! Attributes: the fields of `ib_device_attr`, which are `int` before 7.3 and `u32` since, and those of uverbs.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

/// The type of a limit in `ib_device_attr`.
pub(crate) trait Limit {
    /// Returns the highest limit that the field can hold, up to `limit`.
    fn at_most(limit: u32) -> Self;
}

impl Limit for u32 {
    #[inline]
    fn at_most(limit: u32) -> Self {
        limit
    }
}

impl Limit for i32 {
    #[inline]
    fn at_most(limit: u32) -> Self {
        Self::try_from(limit).unwrap_or(Self::MAX)
    }
}

/// The attributes by which a process provides the memory of an SRQ itself: since 7.3.
#[cfg(has_srq_buffer_attr)]
pub(crate) const SRQ_BUFFER: &[u32] =
    &[crate::bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_BUF_UMEM];
/// See above.
#[cfg(not(has_srq_buffer_attr))]
pub(crate) const SRQ_BUFFER: &[u32] = &[];
