// SPDX-License-Identifier: GPL-2.0

//! A `rwlock_t` with the operations that the readers and the writer of the parent module need.
//!
//! C header: [`include/linux/rwlock.h`](srctree/include/linux/rwlock.h)

use crate::bindings;
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// A lock that readers only try.
#[pin_data]
pub(super) struct ReadersLock {
    #[pin]
    raw: Opaque<bindings::rwlock_t>,
}

impl ReadersLock {
    /// Creates a free lock.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises the whole lock in place.
            raw <- Opaque::ffi_init(|raw| unsafe {
                bindings::ferroce_helper_readers_lock_init(raw);
            }),
        })
    }

    /// Takes the lock for reading, unless a writer holds it or waits for it.
    #[inline]
    pub(super) fn try_read(&self) -> bool {
        // SAFETY: `new` initialised the lock, and the caller is in task context or softirq.
        unsafe { bindings::ferroce_helper_read_trylock(self.raw.get()) }
    }

    /// Releases the lock, which the caller has taken by [`ReadersLock::try_read`].
    #[inline]
    pub(super) fn read_unlock(&self) {
        // SAFETY: By the function's contract the caller holds the lock for reading, and it does so in the same context:
        // guards of readers are not `Send`.
        unsafe { bindings::ferroce_helper_read_unlock(self.raw.get()) };
    }

    /// Waits until the readers that hold the lock have left.
    pub(super) fn wait_for_readers(&self) {
        // SAFETY: `new` initialised the lock. It is released in the context that took it.
        unsafe {
            bindings::ferroce_helper_write_lock_bh(self.raw.get());
            bindings::ferroce_helper_write_unlock_bh(self.raw.get());
        }
    }
}
