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

/// See above. HMM keeps the mmap lock while a page comes, so pages are brought one by one before it looks at them.
///
/// # Safety
///
/// See above.
#[cfg(not(has_hmm_unlocked_fault))]
pub(crate) unsafe fn fault(range: &mut bindings::hmm_range, timeout_ms: u32) -> c_int {
    // SAFETY: `ktime_get` has no preconditions outside of NMI context and suspend.
    let now = || unsafe { bindings::ktime_get() };
    let deadline = now().saturating_add(i64::from(timeout_ms) * 1_000_000);
    let mut tries = 0;
    loop {
        tries += 1;
        // SAFETY: By the function's contract.
        let mut error = unsafe { bring_absent(range) };
        if error == 0 {
            // SAFETY: By the function's contract.
            error = unsafe { bindings::ferroce_helper_hmm_range_fault(range) };
        }
        // A page that has gone again since, and that userfaultfd has yet to bring, is one that HMM does not wait for.
        let again = match error {
            error if error == EBUSY.to_errno() => now() < deadline,
            error if error == EFAULT.to_errno() => faults(range) && tries < MAX_TRIES,
            _ => false,
        };
        if !again {
            return error;
        }
    }
}

/// How often a range is faulted in before a fault in it is an error.
#[cfg(not(has_hmm_unlocked_fault))]
const MAX_TRIES: u32 = 16;

/// Returns whether pages of `range` that are absent are to be faulted in.
#[cfg(not(has_hmm_unlocked_fault))]
fn faults(range: &bindings::hmm_range) -> bool {
    range.default_flags & bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT as usize != 0
}

/// Faults in the pages of `range` that are absent, or not writable if they should be, and waits for those that are
/// late.
///
/// # Safety
///
/// As for [`fault`].
#[cfg(not(has_hmm_unlocked_fault))]
unsafe fn bring_absent(range: &mut bindings::hmm_range) -> c_int {
    if !faults(range) {
        return 0;
    }
    let flags = core::mem::take(&mut range.default_flags);
    // SAFETY: By the function's contract.
    let error = unsafe { bindings::ferroce_helper_hmm_range_fault(range) };
    range.default_flags = flags;
    if error != 0 {
        return error;
    }
    let write = flags & bindings::hmm_pfn_flags_HMM_PFN_REQ_WRITE as usize != 0;
    let mut wanted = bindings::hmm_pfn_flags_HMM_PFN_VALID as usize;
    if write {
        wanted |= bindings::hmm_pfn_flags_HMM_PFN_WRITE as usize;
    }
    let error_flag = bindings::hmm_pfn_flags_HMM_PFN_ERROR as usize;
    let addresses = (range.start..range.end).step_by(kernel::page::PAGE_SIZE);
    for (at, address) in addresses.enumerate() {
        // SAFETY: By the function's contract, there is an element for each page, which HMM has just written.
        let page = unsafe { *range.hmm_pfns.add(at) };
        // What is no memory stays an error when the range is faulted in.
        if page & error_flag != 0 || page & wanted == wanted {
            continue;
        }
        // SAFETY: By the function's contract, the notifier is subscribed to an address space that the caller keeps, and
        // the mmap lock is not held.
        let error = unsafe {
            bindings::ferroce_helper_fixup_user_fault((*range.notifier).mm, address, write)
        };
        // HMM tells which error it is.
        if error == EFAULT.to_errno() {
            return 0;
        }
        if error != 0 {
            return error;
        }
    }
    0
}
