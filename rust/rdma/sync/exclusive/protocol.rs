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
pub enum Again {
    /// There is, or may be.
    Yes,
    /// Everything that was there is done.
    No,
}

/// What an owner leaves behind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Left {
    /// Nothing, or somebody else has it.
    Nothing,
    /// Work that nobody else will do.
    Unfinished,
}

/// Sets the flag, and does the work unless somebody else will.
#[inline]
pub(crate) fn run<T: Unpin>(
    pending: &Flag,
    lock: &Lock<T>,
    mut rounds: u32,
    mut f: impl FnMut(&mut T) -> Again,
) -> Left {
    pending.set();
    loop {
        let Some(mut state) = lock.try_lock() else {
            return Left::Nothing;
        };
        while pending.is_set() {
            let Some(left) = rounds.checked_sub(1) else {
                return Left::Unfinished;
            };
            rounds = left;
            pending.clear();
            if f(&mut state) == Again::Yes {
                pending.set();
            }
        }
        drop(state);
        full_barrier();
        if !pending.is_set() {
            return Left::Nothing;
        }
    }
}

/// Calls `f` as the owner unless there is one, and says whether work has come in meanwhile.
#[inline]
pub(crate) fn visit<T: Unpin, R>(
    pending: &Flag,
    lock: &Lock<T>,
    f: impl FnOnce(&mut T) -> R,
) -> Option<(R, Left)> {
    let mut state = lock.try_lock()?;
    let result = f(&mut state);
    drop(state);
    Some((result, left(pending)))
}

/// Calls `f` as the owner, and says whether work has come in meanwhile.
#[inline]
pub(crate) fn control<T: Unpin, R>(
    pending: &Flag,
    lock: &Lock<T>,
    f: impl FnOnce(&mut T) -> R,
) -> (R, Left) {
    let mut state = lock.lock();
    let result = f(&mut state);
    drop(state);
    (result, left(pending))
}

/// What one leaves who was the owner, and has not looked at the work.
#[inline]
fn left(pending: &Flag) -> Left {
    full_barrier();
    if pending.is_set() {
        Left::Unfinished
    } else {
        Left::Nothing
    }
}
