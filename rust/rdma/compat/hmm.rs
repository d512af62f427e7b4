// SPDX-License-Identifier: GPL-2.0

//! Page faults on a range that an MMU interval notifier watches: since 7.3, HMM takes the mmap lock itself.
//!
//! C header: [`include/linux/hmm.h`](srctree/include/linux/hmm.h)

use crate::bindings;
use kernel::prelude::*;

/// Faults the pages of `range` in, and sets its `notifier_seq`.
///
/// `EBUSY` if the range was invalidated again and again for `timeout_ms`; `EINTR` if a fatal signal came; other errors
/// are those of `hmm_range_fault()`. Before 7.3, a fault does not release the mmap lock: what needs that
/// (userfaultfd) fails with `EFAULT`.
///
/// # Safety
///
/// `range.notifier` must be subscribed to an address space that the caller keeps, `range.start` and `range.end` must
/// be in the subscribed range, and `range.hmm_pfns` have an element for each page between. The caller must not hold the
/// mmap lock.
#[cfg(has_hmm_unlocked_fault)]
pub(crate) unsafe fn fault(range: &mut bindings::hmm_range, timeout_ms: u32) -> c_int {
    let timeout = kernel::time::msecs_to_jiffies(timeout_ms);
    // SAFETY: By the function's contract.
    unsafe { bindings::hmm_range_fault_unlocked_timeout(range, timeout) }
}

/// See above.
///
/// # Safety
///
/// See above.
#[cfg(not(has_hmm_unlocked_fault))]
pub(crate) unsafe fn fault(range: &mut bindings::hmm_range, timeout_ms: u32) -> c_int {
    // SAFETY: `ktime_get` has no preconditions outside of NMI context and suspend.
    let now = || unsafe { bindings::ktime_get() };
    let deadline = now().saturating_add(i64::from(timeout_ms) * 1_000_000);
    loop {
        // SAFETY: By the function's contract.
        let error = unsafe { bindings::ferroce_helper_hmm_range_fault(range) };
        // CAST: The value is small.
        if error != -(bindings::EBUSY as c_int) || now() > deadline {
            return error;
        }
    }
}
