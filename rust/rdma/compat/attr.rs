// SPDX-License-Identifier: GPL-2.0

//! Attributes: the fields of `ib_device_attr`, which are `int` before 7.3 and `u32` since, and those of uverbs.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

#[allow(unused_imports, reason = "before 6.16 there is no attribute")]
use crate::bindings;

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

/// The attributes by which a process provides the memory of a CQ itself: since 6.16, and as `ib_umem` since 7.2.
pub(crate) const CQ_BUFFER: &[u32] = &[
    #[cfg(has_cq_buffer_attr)]
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_VA,
    #[cfg(has_cq_buffer_attr)]
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH,
    #[cfg(has_cq_buffer_attr)]
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_FD,
    #[cfg(has_cq_buffer_attr)]
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET,
    #[cfg(has_queue_umem_attr)]
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUF_UMEM,
];

/// The attributes by which a process provides the memory of the queues of a QP itself: since 7.2.
pub(crate) const QP_BUFFER: &[u32] = &[
    #[cfg(has_queue_umem_attr)]
    bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_BUF_UMEM,
    #[cfg(has_queue_umem_attr)]
    bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM,
    #[cfg(has_queue_umem_attr)]
    bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM,
];

/// The attributes by which a process provides the memory of an SRQ itself: since 7.3.
pub(crate) const SRQ_BUFFER: &[u32] = &[
    #[cfg(has_srq_buffer_attr)]
    bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_BUF_UMEM,
];
