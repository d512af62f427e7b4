// SPDX-License-Identifier: GPL-2.0

//! Rings for work queue entries. Called by the verbs when they create or resize a queue.

use crate::abi::wqe::{
    RecvWqe,
    WqeSge, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::ring::Ring;

/// Creates a ring of `entries` receives with up to `max_sge` SGEs each.
pub(crate) fn receive_ring(max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
    ring(RecvWqe::LEN, max_sge, entries)
}

/// Creates a ring of `entries` elements, each with a fixed part of `fixed_len` bytes and a scatter/gather
/// list.
pub(crate) fn ring(fixed_len: usize, max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
    // CAST: At most `MAX_SGE`.
    let sges_len = (max_sge as usize).saturating_mul(size_of::<WqeSge>());
    let ring = Ring::new(fixed_len.saturating_add(sges_len), entries)?;
    Ok(Arc::new(ring, GFP_KERNEL_ACCOUNT)?)
}
