// SPDX-License-Identifier: GPL-2.0

//! Readers that count themselves, and a writer that spins until none is left.
//!
//! A reader is counted before it looks whether readers are excluded, and a writer excludes them before it looks at the
//! count. So one of them finds the other. `tests/loom` compiles this file with a model of the atomic.

use super::{
    spin_loop,
    Acquire,
    Full,
    ReaderState,
    Relaxed,
    Release, //
};

/// Flag in the state: readers are excluded. The other bits count readers.
pub(super) const EXCLUDED: i32 = 1 << 30;

/// Becomes a reader, unless readers are excluded.
#[inline]
pub(super) fn try_enter(state: &ReaderState) -> bool {
    // Do not delay a waiting writer by counting a reader that must fail.
    if state.load(Relaxed) & EXCLUDED != 0 {
        return false;
    }
    if state.fetch_add(1, Acquire) & EXCLUDED != 0 {
        state.fetch_sub(1, Release);
        return false;
    }
    true
}

/// Stops being a reader.
#[inline]
pub(super) fn leave(state: &ReaderState) {
    state.fetch_sub(1, Release);
}

/// Returns whether readers are admitted. For the writer.
#[inline]
pub(super) fn are_admitted(state: &ReaderState) -> bool {
    state.load(Relaxed) & EXCLUDED == 0
}

/// Admits readers, which are excluded. For the writer.
#[inline]
pub(super) fn admit(state: &ReaderState) {
    state.fetch_sub(EXCLUDED, Release);
}

/// Excludes readers, and waits until none is left. For the writer.
#[inline]
pub(super) fn exclude(state: &ReaderState) {
    if are_admitted(state) {
        state.fetch_add(EXCLUDED, Full);
    }
    while state.load(Acquire) != EXCLUDED {
        spin_loop();
    }
}
