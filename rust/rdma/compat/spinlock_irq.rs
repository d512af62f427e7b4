// SPDX-License-Identifier: GPL-2.0

//! A spinlock that disables interrupts: the kernel crate has one since 7.3.
//!
//! With PREEMPT_RT neither disables interrupts; the lock sleeps, like any `spinlock_t` there.

/// A spinlock that disables interrupts while it is held. Two that are held at once are released in reverse order.
#[cfg(has_spinlock_irq)]
pub use kernel::sync::SpinLockIrq;

#[cfg(not(has_spinlock_irq))]
pub use irqsave::SpinLockIrq;

/// Creates an initialiser of a [`SpinLockIrq`] with a lock class of its own, of the given name.
#[macro_export]
macro_rules! new_spinlock_irq {
    ($inner:expr, $name:literal) => {
        $crate::sync::SpinLockIrq::new(
            $inner,
            ::kernel::c_str!($name),
            ::kernel::static_lock_class!(),
        )
    };
}

pub use new_spinlock_irq;

#[cfg(not(has_spinlock_irq))]
mod irqsave {
    use crate::bindings;
    use kernel::{
        prelude::*,
        sync::lock::{
            spinlock::SpinLockBackend,
            Backend,
            Lock, //
        }, //
    };

    /// A spinlock that disables interrupts while it is held. Two that are held at once are released in reverse order.
    pub type SpinLockIrq<T> = Lock<T, IrqSave>;

    /// `spin_lock_irqsave()`.
    pub struct IrqSave;

    // SAFETY: A `spinlock_t` has one owner at a time. `relock` is the default, which calls `lock`.
    unsafe impl Backend for IrqSave {
        type State = bindings::spinlock_t;
        /// The state of interrupts before.
        type GuardState = usize;

        unsafe fn init(
            ptr: *mut Self::State,
            name: *const c_char,
            key: *mut bindings::lock_class_key,
        ) {
            // SAFETY: By the contract of the trait, `ptr` is valid for writes, and `name` and `key` stay for ever.
            unsafe { SpinLockBackend::init(ptr, name, key) }
        }

        #[inline]
        unsafe fn lock(ptr: *mut Self::State) -> usize {
            // SAFETY: By the contract of the trait, `init` was called.
            unsafe { bindings::ferroce_helper_spin_lock_irqsave(ptr) }
        }

        #[inline]
        unsafe fn try_lock(ptr: *mut Self::State) -> Option<usize> {
            let mut flags = 0;
            // SAFETY: By the contract of the trait, `init` was called. `flags` is valid for writes.
            unsafe { bindings::ferroce_helper_spin_trylock_irqsave(ptr, &mut flags) }
                .then_some(flags)
        }

        #[inline]
        unsafe fn unlock(ptr: *mut Self::State, flags: &usize) {
            // SAFETY: By the contract of the trait, the caller owns the lock, and `flags` came from `lock`.
            unsafe { bindings::ferroce_helper_spin_unlock_irqrestore(ptr, *flags) }
        }

        #[inline]
        unsafe fn assert_is_held(ptr: *mut Self::State) {
            // SAFETY: By the contract of the trait, `init` was called.
            unsafe { SpinLockBackend::assert_is_held(ptr) }
        }
    }
}
