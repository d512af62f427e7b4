// SPDX-License-Identifier: GPL-2.0

//! The order of accesses of readers and writer.
//!
//! A reader holds the lock before it looks whether readers are admitted, and a writer forbids them before it takes the
//! lock. So the writer waits for the reader, or the reader fails. The lock is not kept by the writer: readers only try
//! it, and fail if the value is revoked anyway. `tests/loom` compiles this file with a model of flag and lock.

use super::{
    Acquire,
    Readers,
    Relaxed,
    Release, //
};

/// Becomes a reader, unless readers are excluded.
#[inline]
pub(super) fn try_enter(readers: &Readers) -> bool {
    // A try fails only while a writer waits or is about to, which has excluded readers before.
    if !readers.admitted.load(Relaxed) || !readers.lock.try_read() {
        return false;
    }
    if !readers.admitted.load(Acquire) {
        readers.lock.read_unlock();
        return false;
    }
    true
}

/// Admits readers, which are excluded. For the writer.
#[inline]
pub(super) fn admit(readers: &Readers) {
    readers.admitted.store(true, Release);
}

/// Excludes readers, and waits until none is left. For the writer.
#[inline]
pub(super) fn exclude(readers: &Readers) {
    readers.admitted.store(false, Relaxed);
    readers.lock.wait_for_readers();
}
