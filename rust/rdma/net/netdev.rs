// SPDX-License-Identifier: GPL-2.0

//! Network interfaces.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use crate::bindings;

/// A reference to a network interface.
///
/// # Invariants
///
/// A reference is held.
pub struct NetDev(*mut bindings::net_device);

// SAFETY: An interface is used by many tasks.
unsafe impl Send for NetDev {}
// SAFETY: See `Send`.
unsafe impl Sync for NetDev {}

impl NetDev {
    /// Takes a reference.
    ///
    /// # Safety
    ///
    /// `raw` is a valid interface.
    pub(crate) unsafe fn from_raw(raw: *mut bindings::net_device) -> Self {
        // SAFETY: As the function requires.
        unsafe { bindings::ferroce_helper_dev_hold(raw) };
        // INVARIANT: Just taken.
        Self(raw)
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0
    }

    /// Its Ethernet address.
    pub fn mac_address(&self) -> [u8; 6] {
        let mut mac = [0; 6];
        // SAFETY: The interface is held, and an address has room for at least so many bytes.
        unsafe {
            core::ptr::copy_nonoverlapping((*self.0).dev_addr, mac.as_mut_ptr(), mac.len());
        }
        mac
    }

    /// It has not begun to be unregistered. Says something for as long as the RTNL lock is held.
    pub fn is_registered(&self) -> bool {
        // SAFETY: The interface is held.
        unsafe { bindings::ferroce_helper_dev_is_registered(self.0) }
    }
}

impl Drop for NetDev {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::ferroce_helper_dev_put(self.0) };
    }
}
