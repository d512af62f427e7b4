// SPDX-License-Identifier: GPL-2.0

//! Pinning the memory of a process: since 7.2 it may come by an attribute, which this module does not use.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use crate::bindings;
use kernel::ffi::c_int;

/// Pins `size` bytes at `address` of the calling process, for the rights `access`. Returns an `ERR_PTR` if that fails.
///
/// # Safety
///
/// `device` is valid. Called in a process, with the rights of `enum ib_access_flags`.
pub(crate) unsafe fn pin(
    device: *mut bindings::ib_device,
    address: usize,
    size: usize,
    access: u32,
) -> *mut bindings::ib_umem {
    // CAST: Flags, with the type that C uses.
    let access = access as c_int;
    #[cfg(has_umem_attr)]
    // SAFETY: By the function's contract. No attribute bundle is passed, for which C takes null and 0.
    unsafe {
        let none = core::ptr::null();
        bindings::ib_umem_get_attr_or_va(device, none, 0, address as u64, size, access)
    }
    #[cfg(not(has_umem_attr))]
    // SAFETY: By the function's contract.
    unsafe {
        bindings::ib_umem_get(device, address, size, access)
    }
}
