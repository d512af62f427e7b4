// SPDX-License-Identifier: GPL-2.0

//! Readers that never wait, and a writer that excludes them and waits until they have left.
//!
//! The readers hold a `rwlock_t`, which they only try. So with PREEMPT_RT a writer that has preempted a reader on the
//! same CPU sleeps; elsewhere a reader is not preempted, and the writer spins. The order of accesses is in `protocol`;
//! `tests/loom/readers.rs` checks it.
//!
//! For task context or softirq. Readers have softirqs disabled: a softirq inside a reader could wait for that reader.
//!
//! C header: [`include/linux/rwlock.h`](srctree/include/linux/rwlock.h)

mod protocol;

use crate::bindings;
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
        Atomic, //
    },
    types::Opaque, //
};

/// Readers of a value. There is one writer at a time.
#[pin_data]
pub(crate) struct Readers {
    admitted: Atomic<bool>,
    #[pin]
    lock: ReadersLock,
}

impl Readers {
    /// Creates excluded readers.
    pub(crate) fn new_excluded() -> impl PinInit<Self> {
        pin_init!(Self {
            admitted: Atomic::new(false),
            lock <- ReadersLock::new(),
        })
    }

    /// Becomes a reader, unless readers are excluded. Undone by [`Readers::leave`].
    #[inline]
    pub(crate) fn try_enter(&self) -> bool {
        protocol::try_enter(self)
    }

    /// Stops being a reader.
    #[inline]
    pub(crate) fn leave(&self) {
        self.lock.read_unlock();
    }

    /// Returns whether readers are admitted. For the writer.
    #[inline]
    pub(crate) fn are_admitted(&self) -> bool {
        self.admitted.load(Relaxed)
    }

    /// Admits readers, which must be excluded. For the writer.
    #[inline]
    pub(crate) fn admit(&self) {
        protocol::admit(self);
    }

    /// Excludes readers, and waits until those before have left. For the writer.
    #[inline]
    pub(crate) fn exclude(&self) {
        protocol::exclude(self);
    }
}

/// A lock that readers only try.
#[pin_data]
struct ReadersLock {
    #[pin]
    raw: Opaque<bindings::rwlock_t>,
}

impl ReadersLock {
    /// Creates a free lock.
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises the whole lock in place.
            raw <- Opaque::ffi_init(|raw| unsafe {
                bindings::ferroce_helper_readers_lock_init(raw);
            }),
        })
    }

    /// Takes the lock for reading, unless a writer holds it or waits for it.
    #[inline]
    fn try_read(&self) -> bool {
        // SAFETY: `new` initialised the lock, and the caller is in task context or softirq.
        unsafe { bindings::ferroce_helper_read_trylock(self.raw.get()) }
    }

    /// Releases the lock, which the caller has taken by [`ReadersLock::try_read`].
    #[inline]
    fn read_unlock(&self) {
        // SAFETY: By the function's contract the caller holds the lock for reading, and it does so in the same context:
        // guards of readers are not `Send`.
        unsafe { bindings::ferroce_helper_read_unlock(self.raw.get()) };
    }

    /// Waits until the readers that hold the lock have left.
    fn wait_for_readers(&self) {
        // SAFETY: `new` initialised the lock. It is released in the context that took it.
        unsafe {
            bindings::ferroce_helper_write_lock_bh(self.raw.get());
            bindings::ferroce_helper_write_unlock_bh(self.raw.get());
        }
    }
}
