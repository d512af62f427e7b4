// SPDX-License-Identifier: GPL-2.0

//! Calls a completion handler on one CPU at a time.
//!
//! The state records whether the handler runs and whether it must run again. Used in any context; takes no lock.
//! `tests/loom` compiles this file with a model of the atomic.

use super::{
    Full,
    HandlerState, //
};

/// The handler does not run.
pub(super) const IDLE: u32 = 0;
/// The handler runs.
const RUNNING: u32 = 1;
/// The handler runs or is about to, and must run after the latest call.
const RERUN: u32 = 2;

/// Runs `handler`, or makes the CPU that runs it run it once more.
#[inline]
pub(super) fn call(state: &HandlerState, mut handler: impl FnMut()) {
    // Full ordering: the handler sees all completions queued before this call, also if another CPU runs it.
    if state.xchg(RERUN, Full) != IDLE {
        return;
    }
    loop {
        // Full ordering again, for the calls that set `RERUN` since.
        state.xchg(RUNNING, Full);
        handler();
        if state.cmpxchg(RUNNING, IDLE, Full).is_ok() {
            return;
        }
    }
}
