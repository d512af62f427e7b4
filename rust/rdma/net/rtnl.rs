// SPDX-License-Identifier: GPL-2.0

//! The lock of the network's configuration.
//!
//! C header: [`include/linux/rtnetlink.h`](srctree/include/linux/rtnetlink.h)

use crate::bindings;
use core::mem::ManuallyDrop;

/// The RTNL lock, held.
pub struct Rtnl(());

impl Rtnl {
    /// Takes the lock. Sleeps.
    pub(crate) fn lock() -> Self {
        // SAFETY: May be called where sleeping is allowed.
        unsafe { bindings::rtnl_lock() };
        Self(())
    }

    /// For whom the kernel calls with the lock held.
    ///
    /// # Safety
    ///
    /// The lock is held, and is not released before the value goes.
    pub(crate) unsafe fn held() -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(()))
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: Taken by `lock`; what `held` makes is never dropped.
        unsafe { bindings::rtnl_unlock() };
    }
}
