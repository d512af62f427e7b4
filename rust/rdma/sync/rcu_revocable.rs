// SPDX-License-Identifier: GPL-2.0

//! A value that readers find under RCU until it is taken away.
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

/// Holds a value that any number of readers use, and that is taken out at most once.
///
/// [`RcuRevocable::get`] costs one load. [`RcuRevocable::take`] waits for the readers.
///
/// # Invariants
///
/// While `full` is set, `value` is initialised and only shared. Whoever clears `full` owns `value`
/// once every reader that may have seen it set has left its RCU read-side critical section.
pub struct RcuRevocable<T> {
    full: AtomicFlag,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: Sending the slot sends the value.
unsafe impl<T: Send> Send for RcuRevocable<T> {}
// SAFETY: References to the value are handed out to many tasks, and any of them may take it.
unsafe impl<T: Send + Sync> Sync for RcuRevocable<T> {}

impl<T> RcuRevocable<T> {
    /// A slot that holds `value`.
    pub const fn new(value: T) -> Self {
        // INVARIANT: Initialised, and not shared yet.
        Self {
            full: AtomicFlag::new(true),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }

    /// The value, unless it was taken.
    #[inline]
    pub fn get<'g>(&'g self, _guard: &'g rcu::Guard) -> Option<&'g T> {
        if !self.full.load(Acquire) {
            return None;
        }
        // SAFETY: `full` was set after the read-side critical section had begun, so the value is
        // not taken out before it ends, by the invariant.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Takes the value out. When it returns, nobody uses the value any more. Sleeps; not to be
    /// called under RCU.
    pub fn take(&self) -> Option<T> {
        if !self.full.xchg(false, Full) {
            return None;
        }
        synchronize_rcu_expedited();
        // SAFETY: We cleared `full`, and all readers have left.
        Some(unsafe { (*self.value.get()).assume_init_read() })
    }
}

impl<T> Drop for RcuRevocable<T> {
    fn drop(&mut self) {
        if self.full.load(Relaxed) {
            // SAFETY: Initialised, by the invariant. Readers borrow the slot, so there is none.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}
