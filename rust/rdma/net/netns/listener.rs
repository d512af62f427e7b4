// SPDX-License-Identifier: GPL-2.0

//! Which object the hook of namespaces calls: one at a time, and none while its hook is being unregistered.
//!
//! C calls the hook with nothing that leads to the object, so the object's address stands in a static. The order of
//! the steps below keeps a hook from ever seeing the object of another one, whose type may differ. It does not depend
//! on the kernel: the atomics are those of the parent module, and `tests/loom` compiles this file over a model of them.

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

/// The object that is called, if there is one.
pub(crate) struct Listener {
    /// Null if no hook is registered.
    object: Pointer,
    /// The hook of `object` is being unregistered. C then calls it for every namespace that exists.
    closing: Flag,
}

impl Listener {
    /// No object.
    pub(crate) const fn new(object: Pointer, closing: Flag) -> Self {
        Self { object, closing }
    }

    /// Makes `object` the one that is called. Returns false if there is another one.
    pub(crate) fn claim(&self, object: *mut c_void) -> bool {
        self.object.cmpxchg(ptr::null_mut(), object, Full).is_ok()
    }

    /// Gives the place up again. The hook of the object is not registered.
    pub(crate) fn release(&self) {
        self.object.store(ptr::null_mut(), Release);
    }

    /// Calls `unregister`, which may call the hook and waits for its calls, then gives the place up. Meanwhile the hook
    /// finds no object, and no other object can take the place.
    pub(crate) fn close(&self, unregister: impl FnOnce()) {
        self.closing.store(true, Release);
        unregister();
        self.closing.store(false, Release);
        self.release();
    }

    /// The object that the hook, which is registered, is to call.
    pub(crate) fn get(&self) -> Option<*mut c_void> {
        let object = self.object.load(Acquire);
        (!self.closing.load(Acquire) && !object.is_null()).then_some(object)
    }
}
