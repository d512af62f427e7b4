// SPDX-License-Identifier: GPL-2.0

//! The RTNL lock, which protects network configuration.
//!
//! C header: [`include/linux/rtnetlink.h`](srctree/include/linux/rtnetlink.h)

use crate::bindings;
use core::mem::ManuallyDrop;

/// Proof that the RTNL lock is held.
pub struct Rtnl(());

impl Rtnl {
    /// Takes the lock. Sleeps.
    pub(crate) fn lock() -> Self {
        // SAFETY: The caller may sleep and does not hold the lock; a violation deadlocks, and corrupts
        // nothing.
        unsafe { bindings::rtnl_lock() };
        Self(())
    }

    /// Returns the proof for a callback that C calls with the lock held.
    ///
    /// # Safety
    ///
    /// The lock must be held until the value is no longer used.
    pub(crate) unsafe fn held() -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(()))
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: `lock` took the lock. A value made by `held` is never dropped.
        unsafe { bindings::rtnl_unlock() };
    }
}
