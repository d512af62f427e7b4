// SPDX-License-Identifier: GPL-2.0

//! Calling a completion handler once at a time.
//!
//! Owns the order in which callers meet. Does not know the kernel, nor what is called: the atomic
//! is that of the parent module, and `tests/loom` compiles this file over a model of it.

use super::{
    Full,
    State, //
};

/// Nobody is in the handler.
pub(super) const IDLE: u32 = 0;
/// Somebody is in the handler.
const RUNNING: u32 = 1;
/// Somebody is in the handler, and has to call it again.
const AGAIN: u32 = 2;

/// Has `handler` called after this, by whoever is in it, or else here and now.
#[inline]
pub(super) fn call(state: &State, mut handler: impl FnMut()) {
    // Full ordering: what was queued before this call is seen by the handler, also when
    // another CPU is the one that calls it.
    if state.xchg(AGAIN, Full) != IDLE {
        return;
    }
    loop {
        // Full ordering again, for whoever has asked since.
        state.xchg(RUNNING, Full);
        handler();
        if state.cmpxchg(RUNNING, IDLE, Full).is_ok() {
            return;
        }
    }
}
