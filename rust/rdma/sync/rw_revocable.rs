// SPDX-License-Identifier: GPL-2.0

//! A value that a writer may revoke from its readers at any moment, without sleeping.
//!
//! A reader never waits: it gets the value, or fails if the value is revoked. A writer revokes the value and
//! waits until the current readers are done (`readers`). They finish soon, because a reader runs with
//! softirqs disabled: only hard interrupts run on its CPU meanwhile, or with PREEMPT_RT other threads.
//!
//! Readers and writers run in task context or softirq, with interrupts enabled; never in hard interrupts.

use crate::{
    sync::{
        lockdep::LockdepMap,
        readers::Readers,
        softirq::BhDisabled, //
    }, //
};
use core::{
    cell::UnsafeCell,
    ops::Deref, //
};
use kernel::{
    prelude::*,
    sync::{
        new_spinlock,
        LockClassKey,
        SpinLock,
        SpinLockGuard, //
    },
};

/// A revocable value. [`RwRevocable::try_access`] reads it, [`RwRevocable::lock`] changes it.
///
/// # Invariants
///
/// - While `readers` are admitted, `value` does not change.
/// - While they are excluded, and none is left, only the owner of `writer` accesses `value`.
#[pin_data]
pub struct RwRevocable<T> {
    #[pin]
    readers: Readers,
    #[pin]
    writer: SpinLock<()>,
    #[pin]
    lockdep: LockdepMap,
    value: UnsafeCell<T>,
}

// SAFETY: Sending the container sends the value.
unsafe impl<T: Send> Send for RwRevocable<T> {}
// SAFETY: Many tasks read the value (`T: Sync`), and any task may change it (`T: Send`).
unsafe impl<T: Send + Sync> Sync for RwRevocable<T> {}

impl<T> RwRevocable<T> {
    /// Creates a container whose value is revoked. Lockdep sees its readers as a lock of class `class`,
    /// called `name`: a writer must not revoke a value while it reads another one of the same class.
    pub fn new_revoked(
        value: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            readers <- Readers::new_excluded(),
            writer <- new_spinlock!((), "rdma::RwRevocable::writer"),
            lockdep <- LockdepMap::new(name, class),
            value: UnsafeCell::new(value),
        })
    }

    /// Returns a guard for reading, or `None` if the value is revoked. No writer changes the value until the
    /// guard is dropped.
    #[inline]
    pub fn try_access(&self) -> Option<RwGuard<'_, T>> {
        let bh = BhDisabled::new();
        if !self.readers.try_enter() {
            return None;
        }
        self.lockdep.acquire_read();
        Some(RwGuard {
            owner: self,
            _bh: bh,
        })
    }

    /// Returns the writer. Excludes other writers, but not readers. Waits while there is another writer.
    pub fn lock(&self) -> RwRevocableWriter<'_, T> {
        let bh = BhDisabled::new();
        RwRevocableWriter {
            _lock: self.writer.lock(),
            owner: self,
            _bh: bh,
        }
    }
}

/// Read access to the value.
pub struct RwGuard<'a, T> {
    owner: &'a RwRevocable<T>,
    _bh: BhDisabled,
}

impl<T> Deref for RwGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: This reader has entered and not left, so a writer that excludes readers still waits. By the
        // type invariant the value does not change before the guard is dropped.
        unsafe { &*self.owner.value.get() }
    }
}

impl<T> Drop for RwGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.owner.lockdep.release();
        self.owner.readers.leave();
    }
}

/// The only writer of an [`RwRevocable`].
pub struct RwRevocableWriter<'a, T> {
    // Dropped in this order.
    _lock: SpinLockGuard<'a, ()>,
    owner: &'a RwRevocable<T>,
    _bh: BhDisabled,
}

impl<T> RwRevocableWriter<'_, T> {
    /// Returns whether readers can access the value.
    pub fn is_accessible(&self) -> bool {
        self.owner.readers.are_admitted()
    }

    /// Makes the value accessible to readers.
    pub fn make_accessible(&mut self) {
        if !self.is_accessible() {
            self.owner.readers.admit();
        }
    }

    /// Revokes the value: new readers fail. Waits until the current readers are done.
    pub fn revoke(&mut self) -> &mut T {
        self.owner.lockdep.might_wait();
        self.owner.readers.exclude();
        // SAFETY: Readers are excluded, none is left, and `_lock` excludes other writers, so by the type
        // invariant the access is exclusive. The value stays revoked while it is borrowed, because
        // `make_accessible` borrows the writer too.
        unsafe { &mut *self.owner.value.get() }
    }
}

impl<T> Deref for RwRevocableWriter<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Only the writer changes the value, through `revoke`, which borrows the writer exclusively.
        unsafe { &*self.owner.value.get() }
    }
}
