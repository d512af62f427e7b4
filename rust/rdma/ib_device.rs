// SPDX-License-Identifier: GPL-2.0

//! The core's structure of a device (`struct ib_device`), as a reference-counted object.
//!
//! The driver's data is in [`Device`](crate::ib::device::Device). This file stands below `mm`, because
//! pinning memory and mapping a DMA-BUF need only the core's structure.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    fmt,
    prelude::*,
    str::CString,
    sync::aref::AlwaysRefCounted,
    types::Opaque, //
};

/// The core's structure of a device (`struct ib_device`).
///
/// A reference keeps the memory, not the registration. Code that needs a registered device takes a
/// [`Device`](crate::ib::device::Device).
#[repr(transparent)]
pub struct IbDevice(Opaque<bindings::ib_device>);

// SAFETY: C uses `struct ib_device` from any task and does its own locking.
unsafe impl Send for IbDevice {}
// SAFETY: As for `Send`: C does the locking.
unsafe impl Sync for IbDevice {}

// SAFETY: The reference count of the embedded `struct device` keeps the structure: C frees it in that
// device's release function.
unsafe impl AlwaysRefCounted for IbDevice {
    fn inc_ref(&self) {
        // SAFETY: `self` exists, so the count is not 0.
        unsafe { bindings::get_device(self.as_device()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference, so the structure is valid until `put_device` gives it up.
        unsafe { bindings::put_device(obj.as_ref().as_device()) };
    }
}

impl IbDevice {
    /// # Safety
    ///
    /// `raw` must point to a device that stays valid for all of `'a`.
    pub(crate) unsafe fn from_raw<'a>(raw: *const bindings::ib_device) -> &'a Self {
        // SAFETY: By the function's contract, `raw` is valid for `'a`. The representation is transparent.
        unsafe { &*raw.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    pub(crate) fn as_device(&self) -> *mut bindings::device {
        // SAFETY: `as_raw` points to a valid structure, and only the address of a field is computed.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    /// Writes the name of the device for a log.
    pub fn name(&self) -> impl fmt::Display + '_ {
        // SAFETY: The structure is valid. A name that is being replaced may be mixed from both, but stays initialised.
        let name = unsafe { (&raw const (*self.as_raw()).name).read_volatile() };
        IbDeviceName(name)
    }

    /// Returns the name, to register another device under it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the core would not take it as it is: it is empty, or has a `%`, which a rename allows; `ENOMEM`.
    pub fn name_to_register(&self) -> Result<CString> {
        // SAFETY: As in `name`.
        let name = unsafe { (&raw const (*self.as_raw()).name).read_volatile() };
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| EINVAL)?;
        if name.is_empty() || name.to_bytes().contains(&b'%') {
            return Err(EINVAL);
        }
        Ok(CString::try_from(name)?)
    }

    /// Waits until the core has completed an unregistration that another thread began. May sleep.
    pub(crate) fn wait_unregistered(&self) {
        // SAFETY: The structure is valid, and the core initialised it when it allocated the device.
        unsafe { bindings::ferroce_helper_ib_wait_for_unregistration(self.as_raw()) };
    }

    /// Returns speed and width of the port as reported by its netdev (`enum ib_port_speed`, `enum
    /// ib_port_width`).
    ///
    /// Takes the RTNL lock. C logs a warning each time that the netdev cannot report its speed, so call this
    /// once.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a netdev.
    pub fn ethernet_speed(&self) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The structure is valid, and the results go to locals that outlive the call.
        to_result(unsafe { bindings::ib_get_eth_speed(self.as_raw(), 1, &mut speed, &mut width) })?;
        Ok((speed, width))
    }
}

/// The name of a device, padded with zeros.
struct IbDeviceName([c_char; bindings::IB_DEVICE_NAME_MAX as usize]);

impl fmt::Display for IbDeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = self.0.iter().take_while(|byte| **byte != 0);
        name.try_for_each(|byte| write_byte(f, *byte))
    }
}

/// Writes a byte of a name, escaped unless it is a printable character.
pub(crate) fn write_byte(f: &mut fmt::Formatter<'_>, byte: u8) -> fmt::Result {
    byte.escape_ascii()
        .try_for_each(|c| fmt::Write::write_char(f, char::from(c)))
}
