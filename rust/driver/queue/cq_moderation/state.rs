// SPDX-License-Identifier: GPL-2.0

//! How many completions an event that is held back stands for.
//!
//! Owns the order in which completions and the timer meet. Does not know the queue, the kernel, nor what
//! telling is: the atomic is that of the parent module, and `tests/loom` compiles this file over a model
//! of it.

use super::{
    Full,
    Held,
    Relaxed, //
};

/// What a completion has to be followed by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Nothing.
    None,
    /// The consumer is told.
    Tell,
    /// The timer is armed.
    Arm,
}

/// A completion has come; `wanted`: the consumer wants an event. `most` completions share one.
#[inline]
pub(super) fn completed(held: &Held, wanted: bool, most: u32) -> Step {
    let mut before = held.load(Relaxed);
    loop {
        if before == 0 && !wanted {
            return Step::None;
        }
        let now = before.saturating_add(1);
        let due = now >= most;
        // Full ordering: either whoever arms the timer after this finds that it has expired, or who has
        // let it expire finds this.
        match held.cmpxchg(before, if due { 0 } else { now }, Full) {
            Ok(_) if due => return Step::Tell,
            Ok(0) => return Step::Arm,
            Ok(_) => return Step::None,
            Err(other) => before = other,
        }
    }
}

/// The time is over. Returns whether the consumer is to be told.
#[inline]
pub(super) fn release(held: &Held) -> bool {
    // Full ordering, as above. A look before would order nothing: it could come before the timer is seen to
    // have expired, and after that nobody would arm it.
    held.xchg(0, Full) != 0
}
