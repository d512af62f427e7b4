// SPDX-License-Identifier: GPL-2.0

//! The operations of an attachment whose buffer is pinned. `move_notify` has another name and is optional since 7.1.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

use crate::bindings;

/// Of an attachment that pins its buffer, which therefore does not move, and that takes no memory of other devices.
pub(crate) const PINNED: &bindings::dma_buf_attach_ops = &bindings::dma_buf_attach_ops {
    allow_peer2peer: false,
    #[cfg(not(has_invalidate_mappings))]
    move_notify: Some(move_notify),
    #[cfg(has_invalidate_mappings)]
    invalidate_mappings: None,
};

/// Is not called: an exporter moves no buffer that is pinned.
///
/// # Safety
///
/// None.
#[cfg(not(has_invalidate_mappings))]
unsafe extern "C" fn move_notify(_attachment: *mut bindings::dma_buf_attachment) {}
