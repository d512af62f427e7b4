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
    let timeout = || now().saturating_add(i64::from(timeout_ms) * 1_000_000);
    let mut deadline = timeout();
    let mut late_tries = 0;
    // HMM does not wait for a page that has gone again since, and that userfaultfd has yet to bring.
    let mut may_have_gone = faults(range);
    loop {
        // SAFETY: By the function's contract.
        let brought = unsafe { bring_absent(range) };
        // A page may have been waited for, for long.
        if brought == Ok(true) && late_tries < MAX_LATE_TRIES {
            late_tries += 1;
            deadline = timeout();
            may_have_gone = true;
        }
        let error = match brought {
            // SAFETY: By the function's contract.
            Ok(_) => unsafe { bindings::ferroce_helper_hmm_range_fault(range) },
            Err(error) => error,
        };
        if error == EBUSY.to_errno() && now() < deadline {
            continue;
        }
        if error != EFAULT.to_errno() || !may_have_gone {
            return error;
        }
        may_have_gone = false;
    }
}

/// How often pages of a range are brought before a fault in it is an error.
#[cfg(not(has_hmm_unlocked_fault))]
const MAX_LATE_TRIES: u32 = 16;

/// Returns whether pages of `range` that are absent are to be faulted in.
#[cfg(not(has_hmm_unlocked_fault))]
fn faults(range: &bindings::hmm_range) -> bool {
    range.default_flags & bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT as usize != 0
}

/// Faults in the pages of `range` that are absent, or not writable if they should be, and waits for those that are
/// late. Returns whether there were any, or an errno.
///
/// # Safety
///
/// As for [`fault`].
#[cfg(not(has_hmm_unlocked_fault))]
unsafe fn bring_absent(range: &mut bindings::hmm_range) -> Result<bool, c_int> {
    if !faults(range) {
        return Ok(false);
    }
    let flags = core::mem::take(&mut range.default_flags);
    // SAFETY: By the function's contract.
    let error = unsafe { bindings::ferroce_helper_hmm_range_fault(range) };
    range.default_flags = flags;
    if error != 0 {
        return Err(error);
    }
    let write = flags & bindings::hmm_pfn_flags_HMM_PFN_REQ_WRITE as usize != 0;
    let mut wanted = bindings::hmm_pfn_flags_HMM_PFN_VALID as usize;
    if write {
        wanted |= bindings::hmm_pfn_flags_HMM_PFN_WRITE as usize;
    }
    let error_flag = bindings::hmm_pfn_flags_HMM_PFN_ERROR as usize;
    let mut brought = false;
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
            break;
        }
        if error != 0 {
            return Err(error);
        }
        brought = true;
    }
    Ok(brought)
}
