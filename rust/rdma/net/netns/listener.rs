// SPDX-License-Identifier: GPL-2.0

//! The object that the pernet hook calls: one at a time, and none while its hook is being unregistered.
//!
//! C passes nothing to the hook that leads to the object, so its address is in a static. The order of the
//! steps below ensures that a hook never sees the object of another one, which may have another type.
//! Independent of the kernel: the atomics are those of the parent module. `tests/loom/namespace.rs` compiles
//! this file over a model of them.

use super::{
    Acquire,
    Flag,
    Full,
    Pointer,
    Release, //
};
use core::{
    ffi::c_void,
    ptr, //
};

/// The registered object, if there is one.
pub(crate) struct Listener {
    /// Null if no hook is registered.
    object: Pointer,
    /// The hook of `object` is being unregistered. C then calls it for every namespace that exists.
    closing: Flag,
}

impl Listener {
    /// Creates a listener without an object.
    pub(crate) const fn new(object: Pointer, closing: Flag) -> Self {
        Self { object, closing }
    }

    /// Registers `object`. Returns false if another one is registered.
    pub(crate) fn claim(&self, object: *mut c_void) -> bool {
        self.object.cmpxchg(ptr::null_mut(), object, Full).is_ok()
    }

    /// Removes the object. Its hook must not be registered.
    pub(crate) fn release(&self) {
        self.object.store(ptr::null_mut(), Release);
    }

    /// Calls `unregister`, which may call the hook and waits for running calls, then removes the object.
    /// Meanwhile the hook finds no object, and no other object can be registered.
    pub(crate) fn close(&self, unregister: impl FnOnce()) {
        self.closing.store(true, Release);
        unregister();
        self.closing.store(false, Release);
        self.release();
    }

    /// Returns the object that a registered hook must call.
    pub(crate) fn get(&self) -> Option<*mut c_void> {
        let object = self.object.load(Acquire);
        (!self.closing.load(Acquire) && !object.is_null()).then_some(object)
    }
}
