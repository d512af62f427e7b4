// SPDX-License-Identifier: GPL-2.0

//! Readers that hold a lock, and a writer that takes it to wait for them: for PREEMPT_RT, where it sleeps for that.
//!
//! A reader holds the lock before it looks whether readers are admitted, and a writer forbids them before it takes the
//! lock. So the writer waits for the reader, or the reader fails. The lock is not kept by the writer: readers only try
//! it, and fail if the value is revoked anyway. `tests/loom` compiles this file with a model of flag and lock.

use super::{
    Acquire,
    ReaderState,
    Relaxed,
    Release, //
};

/// Becomes a reader, unless readers are excluded.
#[inline]
pub(super) fn try_enter(state: &ReaderState) -> bool {
    // A try fails only while a writer waits or is about to, which has excluded readers before.
    if !state.admitted.load(Relaxed) || !state.lock.try_read() {
        return false;
    }
    if !state.admitted.load(Acquire) {
        state.lock.read_unlock();
        return false;
    }
    true
}

/// Stops being a reader.
#[inline]
pub(super) fn leave(state: &ReaderState) {
    state.lock.read_unlock();
}

/// Returns whether readers are admitted. For the writer.
#[inline]
pub(super) fn are_admitted(state: &ReaderState) -> bool {
    state.admitted.load(Relaxed)
}

/// Admits readers, which are excluded. For the writer.
#[inline]
pub(super) fn admit(state: &ReaderState) {
    state.admitted.store(true, Release);
}

/// Excludes readers, and waits until none is left. For the writer.
#[inline]
pub(super) fn exclude(state: &ReaderState) {
    state.admitted.store(false, Relaxed);
    state.lock.wait_for_readers();
}
