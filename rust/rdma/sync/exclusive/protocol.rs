// SPDX-License-Identifier: GPL-2.0

//! The protocol of a turn.
//!
//! Owns the order in which flag and lock are touched. Does not know the kernel: the flag, the lock
//! and the barrier are those of the parent module, and `tests/loom` compiles this file over a model
//! of them, and checks that.
//!
//! # Why no work is lost
//!
//! One who brings work sets the flag (F1), then tries the lock (L1). An owner clears the flag before
//! it looks at the work, unlocks (L2), and looks at the flag once more (F2). F1 orders like a full
//! barrier, and another stands between L2 and F2. So either L1 comes after L2, and the one who brought
//! the work becomes the owner; or F2 comes after F1, and the owner looks again.
//!
//! Setting and clearing read what they replace. So an owner that clears the flag knows of the work
//! of everybody who has set it before, also of those whose setting changed nothing. With a plain
//! store in its place, the work of all but the last could be overlooked.

use super::{
    full_barrier,
    Flag,
    Lock, //
};

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum More {
    /// There is, or may be.
    Yes,
    /// Everything that was there is done.
    No,
}

/// What an owner leaves behind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Pending {
    /// Nothing, or somebody else has it.
    None,
    /// Work that nobody else will do.
    Work,
}

/// Sets the flag, and does the work unless somebody else will.
#[inline]
pub(crate) fn run<T: Unpin>(
    pending: &Flag,
    lock: &Lock<T>,
    mut rounds: u32,
    mut f: impl FnMut(&mut T) -> More,
) -> Pending {
    pending.set();
    loop {
        let Some(mut state) = lock.try_lock() else {
            return Pending::None;
        };
        while pending.is_set() {
            let Some(pending_after) = rounds.checked_sub(1) else {
                return Pending::Work;
            };
            rounds = pending_after;
            pending.clear();
            if f(&mut state) == More::Yes {
                pending.set();
            }
        }
        drop(state);
        full_barrier();
        if !pending.is_set() {
            return Pending::None;
        }
    }
}

/// Calls `f` as the owner unless there is one, and says whether work has come in meanwhile.
#[inline]
pub(crate) fn try_enter<T: Unpin, R>(
    pending: &Flag,
    lock: &Lock<T>,
    f: impl FnOnce(&mut T) -> R,
) -> Option<(R, Pending)> {
    let mut state = lock.try_lock()?;
    let result = f(&mut state);
    drop(state);
    Some((result, pending_after(pending)))
}

/// Calls `f` as the owner, and says whether work has come in meanwhile.
#[inline]
pub(crate) fn enter<T: Unpin, R>(
    pending: &Flag,
    lock: &Lock<T>,
    f: impl FnOnce(&mut T) -> R,
) -> (R, Pending) {
    let mut state = lock.lock();
    let result = f(&mut state);
    drop(state);
    (result, pending_after(pending))
}

/// What one leaves who was the owner, and has not looked at the work.
#[inline]
fn pending_after(pending: &Flag) -> Pending {
    full_barrier();
    if pending.is_set() {
        Pending::Work
    } else {
        Pending::None
    }
}
