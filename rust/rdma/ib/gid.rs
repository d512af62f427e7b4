// SPDX-License-Identifier: GPL-2.0

//! Entries of a device's GID table.
//!
//! Owns references to them. The core fills the table, from the addresses of the interface and of
//! those above it.
//!
//! C header: [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h)

use crate::{
    bindings,
    ib_device::IbDevice, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::from_err_ptr;

/// The GID table of the one port that a device has.
pub struct GidTable;

impl GidTable {
    /// Finds the RoCEv2 entry for `gid`: is this address ours? For any context.
    pub fn find(dev: &IbDevice, gid: &[u8; 16]) -> Option<GidAttr> {
        let mut raw: bindings::ib_gid = pin_init::zeroed();
        raw.raw = *gid;
        // SAFETY: The device is valid, and the GID outlives the call. No interface in particular
        // is asked for.
        let entry = from_err_ptr(unsafe {
            bindings::rdma_find_gid_by_port(
                dev.as_raw(),
                &raw,
                bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP,
                1,
                ptr::null_mut(),
            )
            .cast_mut()
        });
        // INVARIANT: The function returns a reference.
        NonNull::new(entry.ok()?).map(GidAttr)
    }
}

/// A reference to an entry of a GID table.
///
/// # Invariants
///
/// A reference is held, and the device outlives it.
pub struct GidAttr(NonNull<bindings::ib_gid_attr>);

// SAFETY: An entry does not change while it is held, and may be given back by any task.
unsafe impl Send for GidAttr {}
// SAFETY: See `Send`.
unsafe impl Sync for GidAttr {}

impl Drop for GidAttr {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, by the invariant.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}
