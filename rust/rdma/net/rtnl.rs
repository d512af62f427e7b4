// SPDX-License-Identifier: GPL-2.0

//! The lock of the network's configuration.
//!
//! C header: [`include/linux/rtnetlink.h`](srctree/include/linux/rtnetlink.h)

use crate::bindings;

/// The RTNL lock, held.
pub(crate) struct Rtnl;

impl Rtnl {
    /// Takes the lock. Sleeps.
    pub(crate) fn lock() -> Self {
        // SAFETY: May be called where sleeping is allowed.
        unsafe { bindings::rtnl_lock() };
        Self
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: Taken by `lock`.
        unsafe { bindings::rtnl_unlock() };
    }
}
