// SPDX-License-Identifier: GPL-2.0

//! Replaces `tools/provider/src/ffi/lock.rs`: where several threads spin, the orders in which they look again have no
//! end. That file itself is `spin_lock`, with a model of its own.

use loom::sync::Mutex;

#[derive(Clone, Copy)]
pub(crate) struct Locking;

impl Locking {
    pub(crate) const NEEDED: Self = Self;

    /// No model promises this.
    ///
    /// # Safety
    ///
    /// As of the real one.
    pub(super) const unsafe fn omitted() -> Self {
        Self
    }
}

pub(crate) struct SpinLock<T>(Mutex<T>);

impl<T> SpinLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn with_locking(value: T, _locking: Locking) -> Self {
        Self::new(value)
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock().unwrap())
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap()
    }
}
