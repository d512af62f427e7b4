// SPDX-License-Identifier: GPL-2.0

//! The attribute `parent` of a device in sysfs: the name of the interface below its port.
//!
//! New attributes belong into netlink, which has this one too; but scripts that know rdma_rxe read
//! it here.
//!
//! C header: [`include/linux/device.h`](srctree/include/linux/device.h)

use crate::bindings;
use core::ptr;
use kernel::{
    container_of,
    prelude::*,
    str::as_char_ptr_in_const_context, //
};

/// Structures that C code reads, and nobody writes.
#[repr(transparent)]
struct SyncStatic<T>(T);

// SAFETY: Nobody writes it.
unsafe impl<T> Sync for SyncStatic<T> {}

static PARENT: SyncStatic<bindings::device_attribute> = SyncStatic(bindings::device_attribute {
    attr: {
        // It has more fields where locks are checked, so it is not written as a whole.
        let mut attr: bindings::attribute = pin_init::zeroed();
        attr.name = as_char_ptr_in_const_context(c"parent");
        attr.mode = 0o444;
        attr
    },
    __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 { show: Some(show) },
    ..pin_init::zeroed()
});

static ATTRIBUTES: SyncStatic<[*const bindings::attribute; 2]> =
    SyncStatic([&raw const PARENT.0.attr, ptr::null()]);

static GROUP: SyncStatic<bindings::attribute_group> = SyncStatic(bindings::attribute_group {
    __bindgen_anon_2: bindings::attribute_group__bindgen_ty_2 {
        attrs_const: (&raw const ATTRIBUTES.0).cast(),
    },
    ..pin_init::zeroed()
});

/// For `ib_device_ops.device_group`.
pub(crate) fn group() -> *const bindings::attribute_group {
    &GROUP.0
}

/// # Safety
///
/// `dev` is part of an RDMA device, and `buf` has room for a page.
unsafe extern "C" fn show(
    dev: *mut bindings::device,
    _attr: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: As the function requires. A device that is seen from another namespace has an owner
    // that is not itself.
    let owner = unsafe { (*container_of!(dev, bindings::ib_core_device, dev)).owner };
    // SAFETY: The device is registered while its attributes are read.
    let netdev = unsafe { bindings::ib_device_get_netdev(owner, 1) };
    if netdev.is_null() {
        // CAST: An errno is small.
        return ENODEV.to_errno() as isize;
    }
    // SAFETY: The interface is held until it is put; its name always ends with a NUL. The format
    // wants a string.
    unsafe {
        let len = bindings::sysfs_emit(
            buf,
            c"%s\n".as_char_ptr(),
            (&raw const (*netdev).name).cast::<c_char>(),
        );
        bindings::ferroce_helper_netdev_put(netdev, ptr::null_mut());
        // CAST: At most a page.
        len as isize
    }
}
