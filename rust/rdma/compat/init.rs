// SPDX-License-Identifier: GPL-2.0

//! Running an initialiser on a raw pointer: `pin_init` has functions for it since 7.3.

#[cfg(has_raw_init)]
pub(crate) use pin_init::{
    raw_init,
    raw_try_init, //
};

#[cfg(not(has_raw_init))]
mod by_trait {
    use core::convert::Infallible;
    use pin_init::PinInit;

    /// Initialises `slot`.
    ///
    /// # Safety
    ///
    /// `slot` must be valid for writes, and will not move until it is dropped.
    pub(crate) unsafe fn raw_init<T>(slot: *mut T, init: impl PinInit<T, Infallible>) {
        // SAFETY: By the function's contract. There is no error after which `slot` could be used.
        match unsafe { raw_try_init(slot, init) } {
            Ok(()) => {}
        }
    }

    /// Initialises `slot`, which must not be used if that fails.
    ///
    /// # Safety
    ///
    /// `slot` must be valid for writes, and will not move until it is dropped. If this fails, the caller may only free
    /// the memory.
    pub(crate) unsafe fn raw_try_init<T, E>(
        slot: *mut T,
        init: impl PinInit<T, E>,
    ) -> Result<(), E> {
        // SAFETY: By the function's contract.
        unsafe { init.__pinned_init(slot) }
    }
}

#[cfg(not(has_raw_init))]
pub(crate) use by_trait::{
    raw_init,
    raw_try_init, //
};
