// SPDX-License-Identifier: GPL-2.0

//! Page faults on a range that an MMU interval notifier watches: since 7.3, HMM takes the mmap lock itself.
//!
//! C header: [`include/linux/hmm.h`](srctree/include/linux/hmm.h)

use crate::bindings;
use kernel::prelude::*;

/// Faults the pages of `range` in, and sets its `notifier_seq`.
///
/// `EBUSY` if the range was invalidated again and again for `timeout_ms`; `EINTR` if a fatal signal came; other errors
/// are those of `hmm_range_fault()`.
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
    let mut deadline = now().saturating_add(i64::from(timeout_ms) * 1_000_000);
    let mut late_tries = 0;
    loop {
        // SAFETY: By the function's contract.
        let error = unsafe { bindings::ferroce_helper_hmm_range_fault(range) };
        if error == EBUSY.to_errno() && now() < deadline {
            continue;
        }
        // A page that userfaultfd has yet to bring: HMM keeps the mmap lock, so it does not wait.
        let faults = range.default_flags & bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT as usize != 0;
        if error != EFAULT.to_errno() || !faults || late_tries == MAX_LATE_TRIES {
            return error;
        }
        late_tries += 1;
        // SAFETY: By the function's contract.
        let error = unsafe { bring(range) };
        if error != 0 {
            return error;
        }
        deadline = now().saturating_add(i64::from(timeout_ms) * 1_000_000);
    }
}

/// How often a range is faulted in page by page before a fault in it is an error.
#[cfg(not(has_hmm_unlocked_fault))]
const MAX_LATE_TRIES: u32 = 16;

/// Faults in each page of `range`, and waits for those that are late.
///
/// # Safety
///
/// As for [`fault`].
#[cfg(not(has_hmm_unlocked_fault))]
unsafe fn bring(range: &bindings::hmm_range) -> c_int {
    let write = range.default_flags & bindings::hmm_pfn_flags_HMM_PFN_REQ_WRITE as usize != 0;
    for address in (range.start..range.end).step_by(kernel::page::PAGE_SIZE) {
        // SAFETY: By the function's contract, the notifier is subscribed to an address space that the caller keeps, and
        // the mmap lock is not held.
        let error = unsafe {
            bindings::ferroce_helper_fixup_user_fault((*range.notifier).mm, address, write)
        };
        if error != 0 {
            return error;
        }
    }
    0
}
