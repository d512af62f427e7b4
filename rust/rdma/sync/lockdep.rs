// SPDX-License-Identifier: GPL-2.0

//! What lockdep is told of waiting that is done without a lock of the kernel's.
//!
//! Owns the names under which lockdep knows such waits, so that it sees who waits for whom in a circle. Does
//! not wait itself. In a kernel without lockdep nothing is left of it.
//!
//! C header: [`include/linux/lockdep.h`](srctree/include/linux/lockdep.h)

use crate::bindings;
use kernel::{
    prelude::*,
    str::CStrExt,
    sync::LockClassKey,
    types::Opaque, //
};

/// Something that many may be in, and that others wait to find empty.
#[pin_data]
pub(crate) struct Inside {
    #[pin]
    map: Opaque<bindings::lockdep_map>,
}

// SAFETY: Lockdep keeps its own order.
unsafe impl Send for Inside {}
// SAFETY: See `Send`.
unsafe impl Sync for Inside {}

impl Inside {
    /// One of its `class`, that reports call `name`.
    pub(crate) fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises all of it, in place. Name and class live for ever.
            map <- Opaque::ffi_init(|map| unsafe {
                bindings::ferroce_helper_lockdep_init_map(map, name.as_char_ptr(), class.as_ptr());
            }),
        })
    }

    /// The caller is inside, and has not waited for it. Undone by [`Inside::leave`].
    #[inline]
    pub(crate) fn enter(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: Initialised.
            unsafe { bindings::ferroce_helper_rwlock_acquire_read(self.map.get()) };
        }
    }

    /// The caller goes out, in the context in which it came in.
    #[inline]
    pub(crate) fn leave(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: Initialised, and acquired by `enter`.
            unsafe { bindings::ferroce_helper_rwlock_release(self.map.get()) };
        }
    }

    /// The caller is about to wait until nobody is inside.
    #[inline]
    pub(crate) fn wait(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: Initialised; released at once, as nobody waits for who waits here.
            unsafe {
                bindings::ferroce_helper_rwlock_acquire(self.map.get());
                bindings::ferroce_helper_rwlock_release(self.map.get());
            }
        }
    }
}
