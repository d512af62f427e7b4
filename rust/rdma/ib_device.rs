// SPDX-License-Identifier: GPL-2.0

//! The core's part of a device (`struct ib_device`), as a reference-counted object.
//!
//! A driver's own part is in [`Device`](crate::ib::device::Device). This file stands below `mm`, because pinning
//! memory and mapping a DMA buffer need the core's part only.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    sync::aref::AlwaysRefCounted,
    types::Opaque, //
};

/// The core's part of a device (`struct ib_device`).
///
/// A reference keeps the memory, not the registration: what needs a device that is in use takes a
/// [`Device`].
#[repr(transparent)]
pub struct IbDevice(Opaque<bindings::ib_device>);

// SAFETY: The structure is made for use by many tasks, and the core locks what it has to.
unsafe impl Send for IbDevice {}
// SAFETY: See `Send`.
unsafe impl Sync for IbDevice {}

// SAFETY: The reference count of the embedded `struct device` keeps the memory.
unsafe impl AlwaysRefCounted for IbDevice {
    fn inc_ref(&self) {
        // SAFETY: A reference means that the count is not 0.
        unsafe { bindings::get_device(self.as_device()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference, so the structure is valid until it is given back.
        unsafe { bindings::put_device(obj.as_ref().as_device()) };
    }
}

impl IbDevice {
    /// # Safety
    ///
    /// `raw` is a valid device for all of `'a`.
    pub(crate) unsafe fn from_raw<'a>(raw: *const bindings::ib_device) -> &'a Self {
        // SAFETY: As the function requires; the representation is transparent.
        unsafe { &*raw.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    pub(crate) fn as_device(&self) -> *mut bindings::device {
        // SAFETY: The structure is valid; only an address is taken.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    /// Waits until the core has unregistered the device, if nobody uses it any more and that is all there is left
    /// to do. May sleep.
    pub(crate) fn settle(&self) {
        // SAFETY: The structure is valid, with all that the core has put into it.
        unsafe { bindings::ferroce_helper_ib_wait_for_unregistration(self.as_raw()) };
    }

    /// Speed and width of the port, as the interface has it (`enum ib_port_speed`,
    /// `enum ib_port_width`).
    ///
    /// Takes the RTNL lock. Logs a warning each time that the interface cannot tell, so ask once.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an interface.
    pub fn ethernet_speed(&self) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The structure is valid, and so are the places for the results.
        to_result(unsafe { bindings::ib_get_eth_speed(self.as_raw(), 1, &mut speed, &mut width) })?;
        Ok((speed, width))
    }
}
