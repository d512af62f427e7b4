// SPDX-License-Identifier: GPL-2.0

//! A value that readers find under RCU until it is taken out.
//!
//! Readers run in any context. Taking the value out waits for them and sleeps.
//!
//! C header: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

use crate::sync::quiesce::synchronize_rcu_expedited;
use core::{
    cell::UnsafeCell,
    mem::MaybeUninit, //
};
use kernel::sync::{
    atomic::{
        ordering::{
            Acquire,
            Full,
            Relaxed, //
        },
        AtomicFlag, //
    },
    rcu, //
};

/// A value with any number of readers that is taken out at most once.
///
/// [`RcuRevocable::get`] costs one load. [`RcuRevocable::take`] waits for the readers.
///
/// # Invariants
///
/// While `full` is set, `value` is initialised and only shared. The context that clears `full` owns `value`
/// once every reader that may have seen `full` set has left its RCU read-side critical section.
pub struct RcuRevocable<T> {
    full: AtomicFlag,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: Sending the container sends the value.
unsafe impl<T: Send> Send for RcuRevocable<T> {}
// SAFETY: Many tasks get references to the value (`T: Sync`), and any of them may take it out (`T: Send`).
unsafe impl<T: Send + Sync> Sync for RcuRevocable<T> {}

impl<T> RcuRevocable<T> {
    /// Creates a container that holds `value`.
    pub const fn new(value: T) -> Self {
        // INVARIANT: `value` is initialised and not shared yet.
        Self {
            full: AtomicFlag::new(true),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }

    /// Returns the value, unless it was taken out.
    #[inline]
    pub fn get<'g>(&'g self, _guard: &'g rcu::Guard) -> Option<&'g T> {
        if !self.full.load(Acquire) {
            return None;
        }
        // SAFETY: `full` was still set after the critical section of `_guard` had begun. By the type
        // invariant the value is not taken out before the section ends, and the result borrows the guard.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Takes the value out, and waits until no reader uses it. Sleeps; must not be called under RCU.
    pub fn take(&self) -> Option<T> {
        if !self.full.xchg(false, Full) {
            return None;
        }
        synchronize_rcu_expedited();
        // SAFETY: We cleared `full`, so no other caller takes the value, and after the grace period no reader
        // uses it.
        Some(unsafe { (*self.value.get()).assume_init_read() })
    }
}

impl<T> Drop for RcuRevocable<T> {
    fn drop(&mut self) {
        if self.full.load(Relaxed) {
            // SAFETY: `full` is set, so the value is initialised by the type invariant. Readers borrow
            // `self`, so none exists.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}
