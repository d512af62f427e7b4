// SPDX-License-Identifier: GPL-2.0

//! References to entries of a device's GID table.
//!
//! The core fills the table from the addresses of the netdev and of the netdevs above it.
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

/// The GID table of a device's only port.
pub struct GidTable;

impl GidTable {
    /// Finds the RoCEv2 entry for `gid`. Any context.
    pub fn find(dev: &IbDevice, gid: &[u8; 16]) -> Option<GidAttr> {
        let mut raw: bindings::ib_gid = pin_init::zeroed();
        raw.raw = *gid;
        // SAFETY: The device is valid, and `raw` is valid for the call. A null netdev matches all.
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
        // INVARIANT: On success the function returns a reference.
        NonNull::new(entry.ok()?).map(GidAttr)
    }
}

/// A reference to an entry of a GID table.
///
/// # Invariants
///
/// It owns one reference to the entry. The device outlives it.
pub struct GidAttr(NonNull<bindings::ib_gid_attr>);

// SAFETY: An entry does not change while it is referenced, and any task may drop the reference.
unsafe impl Send for GidAttr {}
// SAFETY: As for `Send`: a shared `GidAttr` only reads the entry.
unsafe impl Sync for GidAttr {}

impl Drop for GidAttr {
    fn drop(&mut self) {
        // SAFETY: By the invariant `self` owns the reference.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}
