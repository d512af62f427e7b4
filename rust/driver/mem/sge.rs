// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather elements: pieces of the local memory of a work request.
//!
//! Lists of them are private copies, which the consumer cannot change. The user ABIs decode to this type.

use crate::limits::MAX_MESSAGE_BYTES;
use core::borrow::Borrow;

pub(crate) use rdma::ib::wr::Sge;

/// Returns the total length of a scatter/gather list, or `None` above [`MAX_MESSAGE_BYTES`].
#[inline]
pub(crate) fn total_length<S: Borrow<Sge>>(sges: impl IntoIterator<Item = S>) -> Option<u32> {
    let total = sges
        .into_iter()
        .try_fold(0u32, |sum, sge| sum.checked_add(sge.borrow().length))?;
    (total <= MAX_MESSAGE_BYTES).then_some(total)
}

/// Returns the length of the longest message that fits in a scatter/gather list.
pub(crate) fn capacity(sges: &[Sge]) -> u32 {
    total_length(sges).unwrap_or(MAX_MESSAGE_BYTES)
}
