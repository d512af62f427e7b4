// SPDX-License-Identifier: GPL-2.0

//! Attributes in sysfs, whose functions and lists are in unions since 7.1: there they may be constant.
//!
//! C headers: [`include/linux/device.h`](srctree/include/linux/device.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)

use crate::bindings;
use kernel::ffi::c_char;

/// The function that shows an attribute of a device.
pub(crate) type Show = unsafe extern "C" fn(
    *mut bindings::device,
    *mut bindings::device_attribute,
    *mut c_char,
) -> isize;

/// Returns a device attribute that is only read.
pub(crate) const fn read_only(attr: bindings::attribute, show: Show) -> bindings::device_attribute {
    bindings::device_attribute {
        attr,
        #[cfg(has_const_attributes)]
        __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 { show: Some(show) },
        #[cfg(not(has_const_attributes))]
        show: Some(show),
        ..pin_init::zeroed()
    }
}

/// Returns a group of the attributes in the list `attrs`, which ends with null, and which the core only reads.
pub(crate) const fn group(attrs: *const *const bindings::attribute) -> bindings::attribute_group {
    bindings::attribute_group {
        #[cfg(has_const_attributes)]
        __bindgen_anon_2: bindings::attribute_group__bindgen_ty_2 { attrs_const: attrs },
        #[cfg(not(has_const_attributes))]
        attrs: attrs.cast_mut().cast(),
        ..pin_init::zeroed()
    }
}
