// SPDX-License-Identifier: GPL-2.0

//! The sysfs attribute `parent` of a device: the name of the netdev below its port.
//!
//! New attributes belong to netlink, which has this one too. It is here for scripts that read it for rdma_rxe.
//!
//! C header: [`include/linux/device.h`](srctree/include/linux/device.h)

use crate::{
    bindings,
    compat::sysfs, //
};
use core::ptr;
use kernel::{
    container_of,
    prelude::*,
    str::as_char_ptr_in_const_context, //
};

/// A static C structure that is only read.
#[repr(transparent)]
struct SyncStatic<T>(T);

// SAFETY: The statics below are immutable, C code only reads them, and their pointers point to other immutable
// statics or functions.
unsafe impl<T> Sync for SyncStatic<T> {}

static PARENT: SyncStatic<bindings::device_attribute> = SyncStatic({
    // Debug kernels have more fields, for lockdep, so a literal would not list all of them.
    let mut attr: bindings::attribute = pin_init::zeroed();
    attr.name = as_char_ptr_in_const_context(c"parent");
    attr.mode = 0o444;
    sysfs::read_only(attr, show)
});

static ATTRIBUTES: SyncStatic<[*const bindings::attribute; 2]> =
    SyncStatic([&raw const PARENT.0.attr, ptr::null()]);

static GROUP: SyncStatic<bindings::attribute_group> =
    SyncStatic(sysfs::group((&raw const ATTRIBUTES.0).cast()));

/// Returns the attribute group for `ib_device_ops.device_group`.
pub(crate) fn group() -> *const bindings::attribute_group {
    &GROUP.0
}

/// Shows the name of the netdev.
///
/// # Safety
///
/// `dev` is the `struct device` of an `ib_core_device`, and `buf` has room for a page.
unsafe extern "C" fn show(
    dev: *mut bindings::device,
    _attr: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: The caller guarantees that `dev` is the field of an `ib_core_device`, whose `owner` is valid while
    // its attributes are read. In another namespace the owner is a different object than the `ib_core_device`'s
    // container.
    let owner = unsafe { (*container_of!(dev, bindings::ib_core_device, dev)).owner };
    // SAFETY: sysfs removes the attributes before the device is unregistered, so `owner` is valid, and has port 1.
    let netdev = unsafe { bindings::ib_device_get_netdev(owner, 1) };
    if netdev.is_null() {
        // CAST: An errno has four digits at most.
        return ENODEV.to_errno() as isize;
    }
    // SAFETY: `netdev` is held until the put. Its name always ends with a NUL, also while it is renamed, and `%s`
    // takes a string. `buf` is the page that sysfs passed. The reference has no tracker, hence null.
    unsafe {
        let len = bindings::sysfs_emit(
            buf,
            c"%s\n".as_char_ptr(),
            (&raw const (*netdev).name).cast::<c_char>(),
        );
        bindings::ferroce_helper_netdev_put(netdev, ptr::null_mut());
        // CAST: At most the size of a page.
        len as isize
    }
}
