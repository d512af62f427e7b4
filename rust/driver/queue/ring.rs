// SPDX-License-Identifier: GPL-2.0

//! Rings with room for work queue entries of a given shape.

use crate::abi::wqe::{
    RecvWqe,
    WqeSge, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::ring::Ring;

/// A ring of `entries` receives with up to `max_sge` entries each.
pub(crate) fn receive_ring(max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
    ring(RecvWqe::LEN, max_sge, entries)
}

/// A ring of `entries` elements with room for `fixed` bytes and a scatter list.
pub(crate) fn ring(fixed: usize, max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
    // CAST: At most `MAX_SGE`.
    let list = (max_sge as usize).saturating_mul(size_of::<WqeSge>());
    let ring = Ring::new(fixed.saturating_add(list), entries)?;
    Ok(Arc::new(ring, GFP_KERNEL_ACCOUNT)?)
}
