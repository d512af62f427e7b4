// SPDX-License-Identifier: GPL-2.0

//! The protocol of [`Exclusive`](super::Exclusive): the order in which flag and lock are accessed.
//!
//! Independent of the kernel: flag, lock and barrier are those of the parent module.
//! `tests/loom/exclusive.rs` compiles this file over a model of them and checks it.
//!
//! # Why no work is lost
//!
//! A context that adds work tries the lock. If it becomes the owner, it processes the work. Otherwise it sets the flag
//! (F1), and tries the lock again (L1). An owner clears the flag before it processes the work, unlocks (L2), and reads
//! the flag again (F2). F1 orders like a full barrier, and another full barrier stands between L2 and F2. So either L1
//! comes after L2, and the context that added the work becomes the owner; or F2 comes after F1, and the owner processes
//! the work.
//!
//! A try of the kernel's locks also fails while a context waits in [`enter`], even if there is no owner at the moment
//! (with PREEMPT_RT, a waiter of higher priority). That context comes after L1 and becomes an owner, so its F2 counts.
//!
//! Setting and clearing the flag are read-modify-write operations. An owner that clears the flag therefore
//! synchronises with every context that set it before, including those that found it already set. With a
//! plain store, the owner would synchronise with the last of them only.

use super::{
    smp_mb,
    Flag,
    Lock, //
};

/// Whether work is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum More {
    /// Work is left, or may be.
    Yes,
    /// All work that was present is done.
    No,
}

/// What an owner leaves undone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Pending {
    /// Nothing, or another owner will do it.
    None,
    /// Work that no other context will do.
    Work,
}

/// Runs `f` as the owner for work that the caller has added, unless another context is the owner.
#[inline]
pub(crate) fn run<T: Unpin>(
    pending: &Flag,
    lock: &Lock<T>,
    mut rounds: u32,
    mut f: impl FnMut(&mut T) -> More,
) -> Pending {
    // The work of the caller, which the flag does not announce.
    let mut own_work = true;
    loop {
        let Some(mut state) = lock.try_lock() else {
            if !own_work {
                return Pending::None;
            }
            pending.set();
            own_work = false;
            continue;
        };
        while own_work || pending.is_set() {
            let Some(rounds_left) = rounds.checked_sub(1) else {
                return Pending::Work;
            };
            rounds = rounds_left;
            if !own_work || pending.is_set() {
                pending.clear();
            }
            own_work = false;
            if f(&mut state) == More::Yes {
                pending.set();
            }
        }
        drop(state);
        smp_mb();
        if !pending.is_set() {
            return Pending::None;
        }
    }
}

/// Calls `f` as the owner, unless another context is the owner. Reports work that arrived meanwhile.
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

/// Waits for the owner, then calls `f` as the owner. Reports work that arrived meanwhile.
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

/// Returns what an owner that did not process the work leaves pending.
#[inline]
fn pending_after(pending: &Flag) -> Pending {
    smp_mb();
    if pending.is_set() {
        Pending::Work
    } else {
        Pending::None
    }
}
