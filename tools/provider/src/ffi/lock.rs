// SPDX-License-Identifier: GPL-2.0

//! A small lock: one word beside what it guards, so that a queue and its lock share a cache line.

use super::libc;
use crate::sync::{
    spin_loop,
    AtomicBool,
    Ordering,
    UnsafeCell, //
};

/// Whether threads have to be kept apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Locking {
    needed: bool,
}

impl Locking {
    /// They have.
    pub(crate) const NEEDED: Self = Self { needed: true };

    /// They need not be.
    ///
    /// # Safety
    ///
    /// One thread at a time uses each value whose lock is made with this.
    pub(super) const unsafe fn omitted() -> Self {
        Self { needed: false }
    }
}

/// A value that one thread at a time uses.
pub(crate) struct SpinLock<T> {
    locked: AtomicBool,
    locking: Locking,
    value: UnsafeCell<T>,
}

// SAFETY: The lock hands the value to one thread at a time; if it is omitted, `Locking::omitted` demands the same.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// Rounds of waiting before the processor is left to others: the holder may have lost it.
    const ROUNDS: u32 = 200;

    /// Creates the lock, not held.
    pub(crate) fn new(value: T) -> Self {
        Self::with_locking(value, Locking::NEEDED)
    }

    /// Creates the lock, not held, or omits it.
    pub(crate) fn with_locking(value: T, locking: Locking) -> Self {
        Self {
            locked: AtomicBool::new(false),
            locking,
            value: UnsafeCell::new(value),
        }
    }

    /// Calls `f` with the value.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.acquire();
        // SAFETY: This thread has just acquired the lock, and releases it below, behind the last use.
        let result = f(unsafe { self.held() });
        // SAFETY: This thread holds the lock.
        unsafe { self.release() };
        result
    }

    /// Acquires the lock until [`release`](Self::release).
    #[inline]
    pub(super) fn acquire(&self) {
        let taken = |lock: &AtomicBool| {
            let exchange = lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            exchange.is_err()
        };
        if self.locking.needed && taken(&self.locked) {
            self.wait(taken);
        }
    }

    #[cold]
    fn wait(&self, taken: impl Fn(&AtomicBool) -> bool) {
        let mut rounds = 0_u32;
        while self.locked.load(Ordering::Relaxed) || taken(&self.locked) {
            rounds = rounds.wrapping_add(1);
            if rounds > Self::ROUNDS {
                libc::yield_now();
            } else {
                spin_loop();
            }
        }
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// This thread has acquired the lock and does not release it while the reference is used, and has no other
    /// reference.
    #[allow(clippy::mut_from_ref)]
    #[inline]
    pub(super) unsafe fn held(&self) -> &mut T {
        // SAFETY: The caller guarantees that no other thread has the value, nor this one another reference.
        unsafe { &mut *self.value.get() }
    }

    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// This thread has acquired it, and uses the value no more.
    #[inline]
    pub(super) unsafe fn release(&self) {
        self.locked.store(false, Ordering::Release);
    }

    /// Returns the value of a lock that no other thread can have.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_omitted_is_never_waited_for() {
        // SAFETY: The value stays in this thread.
        let lock = SpinLock::with_locking(1, unsafe { Locking::omitted() });
        lock.acquire();
        assert_eq!(lock.with(|value| *value), 1);
    }

    #[test]
    fn threads_exclude_each_other() {
        let lock = SpinLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| lock.with(|value| *value += 1)));
            }
        });
        assert_eq!(lock.with(|value| *value), 80_000);
    }
}
