// SPDX-License-Identifier: GPL-2.0

//! A value that may be taken away from its readers at any moment, without sleeping.
//!
//! Owns the count of who reads it. A reader never waits: it finds the gate open, or it does not get
//! in. A writer shuts the gate and spins until the readers inside have left, which they do soon:
//! while one is inside, nothing else runs on its CPU but hard interrupts. So readers and writers
//! may be in task context or in softirq, but not in hard interrupts, nor with interrupts disabled.

use crate::{
    bindings,
    sync::lockdep::Inside, //
};
use core::{
    cell::UnsafeCell,
    ops::Deref, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        new_spinlock,
        LockClassKey,
        SpinLock,
        SpinLockGuard, //
    },
    types::NotThreadSafe, //
};

/// Softirqs do not run on this CPU, and nobody is scheduled on it.
struct BottomHalvesOff(NotThreadSafe);

impl BottomHalvesOff {
    #[inline]
    fn new() -> Self {
        // SAFETY: May be called from any context; undone by `drop`.
        unsafe { bindings::ferroce_helper_local_bh_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for BottomHalvesOff {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Undoes what `new` did.
        unsafe { bindings::ferroce_helper_local_bh_enable() };
    }
}

/// In [`RwRevocable::state`]: the gate is shut. The rest counts readers.
const SHUT: i32 = 1 << 30;

/// Guards a value. [`RwRevocable::enter`] to read, [`RwRevocable::lock`] to change.
///
/// # Invariants
///
/// - While the gate is open, `value` does not change.
/// - While the gate is shut, and no reader is inside that came before, only the owner of `writer`
///   touches `value`.
#[pin_data]
pub struct RwRevocable<T> {
    state: Atomic<i32>,
    #[pin]
    writer: SpinLock<()>,
    #[pin]
    readers: Inside,
    value: UnsafeCell<T>,
}

// SAFETY: Sending the gate sends the value.
unsafe impl<T: Send> Send for RwRevocable<T> {}
// SAFETY: The value is shared among readers, and changed by any task.
unsafe impl<T: Send + Sync> Sync for RwRevocable<T> {}

impl<T> RwRevocable<T> {
    /// A gate that is shut. Gates of one `class` are not shut by who is inside of another; lockdep calls
    /// their readers `name`.
    pub fn shut(
        value: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(SHUT),
            writer <- new_spinlock!((), "rdma::RwRevocable::writer"),
            readers <- Inside::new(name, class),
            value: UnsafeCell::new(value),
        })
    }

    /// Goes in, unless the gate is shut. No writer changes the value until the result is dropped.
    #[inline]
    pub fn enter(&self) -> Option<RwGuard<'_, T>> {
        let bottom_halves = BottomHalvesOff::new();
        // Those who come too late should not keep the writer waiting.
        if self.state.load(Relaxed) & SHUT != 0 {
            return None;
        }
        if self.state.fetch_add(1, Acquire) & SHUT != 0 {
            self.state.fetch_sub(1, Release);
            return None;
        }
        self.readers.enter();
        Some(RwGuard {
            gate: self,
            _bottom_halves: bottom_halves,
        })
    }

    /// Keeps other writers out, but not readers.
    pub fn lock(&self) -> Writer<'_, T> {
        let bottom_halves = BottomHalvesOff::new();
        Writer {
            _lock: self.writer.lock(),
            gate: self,
            _bottom_halves: bottom_halves,
        }
    }
}

/// A reader inside.
pub struct RwGuard<'a, T> {
    gate: &'a RwRevocable<T>,
    _bottom_halves: BottomHalvesOff,
}

impl<T> Deref for RwGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The gate was open when this reader was counted, so the value does not change
        // before it has left.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> Drop for RwGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.gate.readers.leave();
        self.gate.state.fetch_sub(1, Release);
    }
}

/// The only writer.
pub struct Writer<'a, T> {
    // Dropped in this order.
    _lock: SpinLockGuard<'a, ()>,
    gate: &'a RwRevocable<T>,
    _bottom_halves: BottomHalvesOff,
}

impl<T> Writer<'_, T> {
    /// Whether readers may go in.
    pub fn is_open(&self) -> bool {
        self.gate.state.load(Relaxed) & SHUT == 0
    }

    /// Lets readers in.
    pub fn open(&mut self) {
        if !self.is_open() {
            self.gate.state.fetch_sub(SHUT, Release);
        }
    }

    /// Lets nobody in any more, and waits until those inside have left.
    pub fn shut(&mut self) -> &mut T {
        let state = &self.gate.state;
        self.gate.readers.wait();
        if self.is_open() {
            state.fetch_add(SHUT, Full);
        }
        while state.load(Acquire) != SHUT {
            core::hint::spin_loop();
        }
        // SAFETY: The gate is shut, nobody is inside, and there is no other writer. The gate stays
        // shut while the value is borrowed, because `open` borrows the writer as well.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T> Deref for Writer<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Only the writer changes the value, and not while it is borrowed.
        unsafe { &*self.gate.value.get() }
    }
}
