// SPDX-License-Identifier: GPL-2.0

//! Whether a timer is queued: a field of its own since 7.1, and a bit of the state before.
//!
//! C header: [`include/linux/hrtimer_types.h`](srctree/include/linux/hrtimer_types.h)

use crate::bindings;

/// Returns whether `timer` is queued. C may change that meanwhile; the field is one byte, so the read does not tear.
///
/// # Safety
///
/// `timer` is valid and set up.
#[inline]
pub(crate) unsafe fn is_queued(timer: *const bindings::hrtimer) -> bool {
    #[cfg(has_hrtimer_is_queued)]
    // SAFETY: By the function's contract.
    unsafe {
        (&raw const (*timer).is_queued).read_volatile()
    }
    #[cfg(not(has_hrtimer_is_queued))]
    // SAFETY: By the function's contract.
    unsafe {
        (&raw const (*timer).state).read_volatile() != 0
    }
}
