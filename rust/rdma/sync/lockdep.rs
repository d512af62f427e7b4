// SPDX-License-Identifier: GPL-2.0

//! Annotations for lockdep: waits that use no lock of the kernel.
//!
//! Gives such waits a lock class, so that lockdep detects cycles. Compiles to nothing without
//! `CONFIG_LOCKDEP`.
//!
//! C header: [`include/linux/lockdep.h`](srctree/include/linux/lockdep.h)

use crate::bindings;
use kernel::{
    prelude::*,
    str::CStrExt,
    sync::LockClassKey,
    types::Opaque, //
};

/// A lockdep map for readers that a writer waits for, annotated like a read-write lock.
#[pin_data]
pub(crate) struct LockdepMap {
    #[pin]
    map: Opaque<bindings::lockdep_map>,
}

// SAFETY: Lockdep does its own locking, and the map is only passed to lockdep.
unsafe impl Send for LockdepMap {}
// SAFETY: As for `Send`: only lockdep accesses the map.
unsafe impl Sync for LockdepMap {}

impl LockdepMap {
    /// Creates a map of lock class `class`, called `name` in reports.
    pub(crate) fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises the whole map in place. `name` and `class` are `'static`, as lockdep
            // requires.
            map <- Opaque::ffi_init(|map| unsafe {
                bindings::ferroce_helper_lockdep_init_map(map, name.as_char_ptr(), class.as_ptr());
            }),
        })
    }

    /// Records that the caller is a reader, and did not wait to become one. Undone by
    /// [`LockdepMap::release`].
    #[inline]
    pub(crate) fn acquire_read(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: `new` initialised the map.
            unsafe { bindings::ferroce_helper_rwlock_acquire_read(self.map.get()) };
        }
    }

    /// Records that the caller is no longer a reader. Must run in the context of the matching
    /// [`LockdepMap::acquire_read`].
    #[inline]
    pub(crate) fn release(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: `new` initialised the map, and the caller acquired it with `acquire_read`.
            unsafe { bindings::ferroce_helper_rwlock_release(self.map.get()) };
        }
    }

    /// Records that the caller is about to wait until no reader is left.
    #[inline]
    pub(crate) fn might_wait(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: `new` initialised the map. It is released at once, because no context waits for this
            // writer by way of the map.
            unsafe {
                bindings::ferroce_helper_rwlock_acquire(self.map.get());
                bindings::ferroce_helper_rwlock_release(self.map.get());
            }
        }
    }
}
