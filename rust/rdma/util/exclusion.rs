// SPDX-License-Identifier: GPL-2.0

//! Keeps another kernel module out.
//!
//! Used by a module that takes the place of another one, where both at once would harm: for example, the RDMA core
//! (7.3) warns about a second link type of the same name, and crashes when its owner removes it.
//!
//! Process context, at module load and unload.
//!
//! C headers: [`include/linux/module.h`](srctree/include/linux/module.h),
//! [`include/linux/notifier.h`](srctree/include/linux/notifier.h)

use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// Excludes the module of a given name: it is not loaded, and its load fails with `EBUSY` while this exists.
///
/// A module that is being loaded when this is created may escape: for a moment it neither receives the notifier nor
/// can be found, and the kernel offers nothing to wait for it.
///
/// # Invariants
///
/// The notifier block is registered.
pub struct ModuleExclusion(Pin<KBox<ExclusionBlock>>);

#[pin_data]
struct ExclusionBlock {
    #[pin]
    raw: Opaque<bindings::notifier_block>,
    name: &'static CStr,
    refusal: &'static str,
}

// SAFETY: Only C accesses the block, under its own lock; the rest does not change.
unsafe impl Send for ExclusionBlock {}
// SAFETY: As for `Send`.
unsafe impl Sync for ExclusionBlock {}

impl ModuleExclusion {
    /// Excludes the module `name`. `refusal` is logged when a load of it fails for this reason. `this` is the calling
    /// module.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the other module is loaded; `ENOMEM`.
    pub fn new(
        this: &'static ThisModule,
        name: &'static CStr,
        refusal: &'static str,
    ) -> Result<Self> {
        let mut raw: bindings::notifier_block = pin_init::zeroed();
        raw.notifier_call = Some(call);
        let block = KBox::pin_init(
            pin_init!(ExclusionBlock {
                raw: Opaque::new(raw),
                name,
                refusal,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The block is completely initialised and pinned, and `drop` unregisters it before it is freed.
        to_result(unsafe { bindings::register_module_notifier(block.raw.get()) })?;
        // INVARIANT: The block was just registered.
        let exclusion = Self(block);
        // From here on no load begins; the search finds those that are past their beginning.
        if is_loaded(this, name) {
            return Err(EBUSY);
        }
        Ok(exclusion)
    }
}

impl Drop for ModuleExclusion {
    fn drop(&mut self) {
        // SAFETY: The block is registered by the type invariant, so this cannot fail. C waits for running calls.
        unsafe { bindings::unregister_module_notifier(self.0.raw.get()) };
    }
}

/// Returns whether a module of that name is loaded: whether it is in the set of modules that sysfs shows, as `this` is.
fn is_loaded(this: &'static ThisModule, name: &CStr) -> bool {
    // SAFETY: `this` is a loaded module, whose kobject C has initialised: the set does not change, and lives for
    // ever. `kset_find_obj` locks it. `name` is a C string. The result is null or a reference, which is put once.
    unsafe {
        let kset = (*this.as_ptr()).mkobj.kobj.kset;
        if kset.is_null() {
            return false;
        }
        let found = bindings::kset_find_obj(kset, name.as_char_ptr());
        if found.is_null() {
            return false;
        }
        bindings::kobject_put(found);
    }
    true
}

/// `notifier_block.notifier_call`.
///
/// # Safety
///
/// Only C may call this, with the registered block of a [`ModuleExclusion`] and a `struct module`.
unsafe extern "C" fn call(
    raw: *mut bindings::notifier_block,
    state: usize,
    module: *mut core::ffi::c_void,
) -> c_int {
    // CAST: The states are small numbers.
    if state != bindings::module_state_MODULE_STATE_COMING as usize {
        return bindings::NOTIFY_DONE as c_int;
    }
    let module: *const bindings::module = module.cast();
    // SAFETY: `raw` is the field of an `ExclusionBlock`, which exists as long as it is registered. C passes a module
    // that is valid for the call, and whose name is a C string.
    let (block, name) = unsafe {
        let raw = Opaque::cast_from(raw).cast_mut();
        (
            &*kernel::container_of!(raw, ExclusionBlock, raw),
            CStr::from_char_ptr((*module).name.as_ptr()),
        )
    };
    if name != block.name {
        return bindings::NOTIFY_DONE as c_int;
    }
    pr_err!("{}\n", block.refusal);
    // SAFETY: A pure function.
    unsafe { bindings::ferroce_helper_notifier_from_errno(EBUSY.to_errno()) }
}
