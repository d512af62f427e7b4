// SPDX-License-Identifier: GPL-2.0

//! Number of completions covered by the delayed event, and the order between completions and the timer.
//!
//! Called by the parent module in any context, without a lock. The atomic type is that of the parent module:
//! `tests/loom` compiles this file over a model of it.

use super::{
    Full,
    PendingCompletions,
    Relaxed, //
};

/// Action to take after a completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EventAction {
    /// Nothing.
    None,
    /// Notify the consumer.
    Notify,
    /// Arm the timer.
    ArmTimer,
}

/// Counts a completion. `notify`: the consumer has armed the CQ for it. `max_completions` share one event.
#[inline]
pub(super) fn on_completion(
    pending: &PendingCompletions,
    notify: bool,
    max_completions: u32,
) -> EventAction {
    let mut old = pending.load(Relaxed);
    loop {
        if old == 0 && !notify {
            return EventAction::None;
        }
        let new = old.saturating_add(1);
        let is_due = new >= max_completions;
        // Full ordering: if this CPU arms the timer afterwards, then either it finds the timer expired, or
        // the expiry handler finds this completion.
        match pending.cmpxchg(old, if is_due { 0 } else { new }, Full) {
            Ok(_) if is_due => return EventAction::Notify,
            Ok(0) => return EventAction::ArmTimer,
            Ok(_) => return EventAction::None,
            Err(current) => old = current,
        }
    }
}

/// Takes the delayed event because the timer expired. Returns whether to notify the consumer.
#[inline]
pub(super) fn take_pending(pending: &PendingCompletions) -> bool {
    // Full ordering, as above. A prior relaxed load would not be sufficient: it could precede the expiry of
    // the timer, and then the timer would not be armed again.
    pending.xchg(0, Full) != 0
}
