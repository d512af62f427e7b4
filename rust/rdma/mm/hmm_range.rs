// SPDX-License-Identifier: GPL-2.0

//! A range of addresses of a process, and its present pages (HMM).
//!
//! Subscribes to MMU notifications for the range. [`HmmRange::fault`] adds pages and sleeps; an invalidation
//! removes them. Pages are not pinned. A copy holds the lock of the range for reading, and an invalidation
//! takes it for writing before it returns, so a page that a copy finds stays valid until the copy ends.
//!
//! C headers: [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h),
//! [`include/linux/hmm.h`](srctree/include/linux/hmm.h)

use crate::{
    bindings,
    compat::hmm, //
};
use core::{
    ffi::c_void,
    ops::Range,
    ptr, //
};
use kernel::{
    container_of,
    error::to_result,
    mm::MmWithUser,
    new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        SpinLock, //
    },
    types::Opaque, //
};

/// Page size.
const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// Page flag: the page is present and readable.
const PRESENT: usize = 1;
/// Page flag: the page is writable.
const WRITABLE: usize = 2;
/// Page flag: the page was written, and must be marked dirty when it is removed.
const DIRTY: usize = 4;

/// Tries of a fault that an invalidation interrupts.
const MAX_FAULT_TRIES: u32 = 16;

/// Time that one try of a fault waits for running invalidations, in milliseconds.
const FAULT_TIMEOUT_MS: u32 = 100;

/// How pages are faulted in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fetch {
    /// For reading.
    Read,
    /// For writing.
    Write,
    /// Only pages that are already in memory.
    Present,
}

/// A range of addresses of a process.
///
/// # Invariants
///
/// - `notifier` is subscribed to the addresses from `start` on, one page for each entry of `pages`.
/// - An entry is 0, or the kernel address of a page combined with the flags above. While it is `PRESENT` and
///   `lock` is held, the process maps that page at that address; writable, if the entry is `WRITABLE`.
#[pin_data(PinnedDrop)]
pub(super) struct HmmRange {
    start: u64,
    pages: KVec<Atomic<usize>>,
    /// Held for reading during a copy, for writing to change which pages are present.
    #[pin]
    lock: Opaque<bindings::rwlock_t>,
    /// Serializes removals: when one returns, all dirty pages of its range were marked dirty.
    #[pin]
    removal: SpinLock<()>,
    /// Must be the last field that is initialised, because `invalidate` may run from then on.
    #[pin]
    notifier: Opaque<bindings::mmu_interval_notifier>,
}

// SAFETY: The pages belong to no task; `lock` protects the entries, and C the subscription.
unsafe impl Send for HmmRange {}
// SAFETY: As for `Send`: shared access is protected by the locks.
unsafe impl Sync for HmmRange {}

/// The lock of a range, held for reading.
struct PagesReadGuard<'a>(&'a HmmRange);

impl<'a> PagesReadGuard<'a> {
    fn new(range: &'a HmmRange) -> Self {
        // SAFETY: The lock is initialised. Writers hold it with softirqs disabled, so a reader in softirq never
        // interrupts a writer on its own CPU.
        unsafe { bindings::ferroce_helper_read_lock(range.lock.get()) };
        Self(range)
    }
}

impl Drop for PagesReadGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` took the lock in this mode, in the same context.
        unsafe { bindings::ferroce_helper_read_unlock(self.0.lock.get()) };
    }
}

/// The lock of a range, held for writing.
struct PagesWriteGuard<'a>(&'a HmmRange);

impl<'a> PagesWriteGuard<'a> {
    fn new(range: &'a HmmRange) -> Self {
        // SAFETY: The lock is initialised, and the caller is not in a hard interrupt.
        unsafe { bindings::ferroce_helper_write_lock_bh(range.lock.get()) };
        Self(range)
    }
}

impl Drop for PagesWriteGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` took the lock in this mode, in the same context.
        unsafe { bindings::ferroce_helper_write_unlock_bh(self.0.lock.get()) };
    }
}

impl HmmRange {
    const OPS: &'static bindings::mmu_interval_notifier_ops =
        &bindings::mmu_interval_notifier_ops {
            invalidate: Some(invalidate),
            ..pin_init::zeroed()
        };

    /// Creates a range for `addresses` of `mm`, which must be page-aligned. No page is present yet. Sleeps.
    pub(super) fn new(mm: &MmWithUser, addresses: Range<u64>) -> impl PinInit<Self, Error> + '_ {
        // CAST: `u64` to `usize`, which has 64 bits.
        let first = addresses.start as usize;
        let len = (addresses.end as usize).wrapping_sub(first);
        let count = len / PAGE_SIZE;
        try_pin_init!(Self {
            start: addresses.start,
            pages: absent_pages(count)?,
            // SAFETY: C initialises the whole lock in place.
            lock <- Opaque::ffi_init(|lock| unsafe {
                bindings::ferroce_helper_rwlock_init(lock);
            }),
            removal <- new_spinlock!((), "HmmRange::removal"),
            // SAFETY: `mm` keeps the address space in use, as C requires. `pin_init` initialises fields in
            // the order written and `notifier` is the last one, so `invalidate` finds `start`, `pages`,
            // `lock` and `removal` initialised. The notifier is pinned, and `drop` removes it before its
            // memory is freed.
            notifier <- Opaque::try_ffi_init(|notifier| to_result(unsafe {
                bindings::mmu_interval_notifier_insert(
                    notifier, mm.as_raw(), first, len, Self::OPS,
                )
            })),
        }? Error)
    }

    /// Calls `f` with each piece of the `len` bytes at `address`, which must be in the range: for reading,
    /// and for writing if `write` is set. A piece lies in one page. For any context except hard interrupts.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: a page is absent or not writable; `f` was called for the pieces before it. Any error of `f`.
    pub(super) fn for_each_piece(
        &self,
        address: u64,
        len: usize,
        write: bool,
        mut f: impl FnMut(*mut u8, usize) -> Result,
    ) -> Result {
        let required = if write { PRESENT | WRITABLE } else { PRESENT };
        // CAST: `u64` to `usize`, which has 64 bits. The offset is inside the range.
        let mut at = address.wrapping_sub(self.start) as usize;
        let mut left = len;
        let _read_guard = PagesReadGuard::new(self);
        while left != 0 {
            let page = self.pages.get(at / PAGE_SIZE).ok_or(EFAULT)?;
            let entry = page.load(Relaxed);
            if entry & required != required {
                return Err(EAGAIN);
            }
            if write && entry & DIRTY == 0 {
                // Another copy may store the same flag. No other change is possible while the lock is held.
                page.store(entry | DIRTY, Relaxed);
            }
            let inside = at % PAGE_SIZE;
            let piece = left.min(PAGE_SIZE.wrapping_sub(inside));
            let start = entry & !(PAGE_SIZE - 1);
            f(
                ptr::with_exposed_provenance_mut::<u8>(start).wrapping_add(inside),
                piece,
            )?;
            at = at.wrapping_add(piece);
            left = left.wrapping_sub(piece);
        }
        Ok(())
    }

    /// Faults in the pages of the `len` bytes at `address`, which must be in the range. Sleeps. The caller
    /// holds a reference to the address space.
    ///
    /// # Errors
    ///
    /// - `EFAULT`, `EPERM`: the process has no such memory at the address.
    /// - `EBUSY`: invalidations interrupted every try.
    /// - `ENOMEM`, `EINTR`.
    pub(super) fn fault(&self, address: u64, len: u64, fetch: Fetch) -> Result {
        let start = address & !(PAGE_BYTES - 1);
        let end = address.saturating_add(len).next_multiple_of(PAGE_BYTES);
        // CAST: `u64` to `usize`, which has 64 bits. The range has fewer pages.
        let count = (end.wrapping_sub(start) / PAGE_BYTES) as usize;
        let flags = match fetch {
            Fetch::Present => 0,
            Fetch::Read => bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT,
            Fetch::Write => {
                bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT
                    | bindings::hmm_pfn_flags_HMM_PFN_REQ_WRITE
            }
        };
        for _ in 0..MAX_FAULT_TRIES {
            let mut pfns = KVec::from_elem(0usize, count, GFP_KERNEL)?;
            let mut range: bindings::hmm_range = pin_init::zeroed();
            range.notifier = self.notifier.get();
            range.start = start as usize;
            range.end = end as usize;
            range.hmm_pfns = pfns.as_mut_ptr();
            range.default_flags = flags;
            // SAFETY: All fields that C reads are set: the addresses are in the subscribed range, `pfns` has
            // one element for each of their pages, and `notifier` is subscribed to an address space that the
            // caller keeps. The mmap lock is not held.
            to_result(unsafe { hmm::fault(&mut range, FAULT_TIMEOUT_MS) })?;
            for pfn in &mut pfns {
                *pfn = page_entry(*pfn);
                if *pfn == 0 && fetch != Fetch::Present {
                    return Err(EFAULT);
                }
            }
            match self.publish(start, &pfns, range.notifier_seq) {
                Err(EAGAIN) => {}
                Err(EFAULT) if fetch == Fetch::Present => return Ok(()),
                done => return done,
            }
        }
        Err(EBUSY)
    }

    /// Stores the pages that HMM found at sequence number `seq` of the subscription.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: an invalidation began meanwhile.
    /// - `EFAULT`: the kernel cannot access some of the pages.
    fn publish(&self, address: u64, found: &[usize], seq: usize) -> Result {
        // CAST: `u64` to `usize`, which has 64 bits. The offset is inside the range.
        let first = (address.wrapping_sub(self.start) / PAGE_BYTES) as usize;
        let pages = self.pages.iter().skip(first);
        let notifier = self.notifier.get();
        let _write_guard = PagesWriteGuard::new(self);
        // SAFETY: The notifier is subscribed by the type invariant. Its sequence number changes only under
        // the lock that is held, as C requires.
        if unsafe { bindings::ferroce_helper_mmu_interval_read_retry(notifier, seq) } {
            return Err(EAGAIN);
        }
        let mut result = Ok(());
        for (page, &entry) in pages.zip(found).filter(|(_, &entry)| entry != 0) {
            if is_reachable(entry) {
                // INVARIANT: No invalidation began since HMM found the page at that address.
                let dirty = page.load(Relaxed) & DIRTY;
                page.store(entry | dirty, Relaxed);
            } else {
                result = Err(EFAULT);
            }
        }
        result
    }

    /// Removes the pages of `addresses`. When it returns, no copy by way of this range accesses them. `seq`
    /// is the new sequence number of the subscription, if this is an invalidation.
    fn remove_pages(&self, addresses: Range<u64>, seq: Option<usize>) {
        let index = |address: u64| (address.saturating_sub(self.start) / PAGE_BYTES) as usize;
        let first = index(addresses.start);
        // The last page may be covered in part.
        let end = index(addresses.end.saturating_add(PAGE_BYTES - 1)).min(self.pages.len());
        let pages = self.pages.get(first..end).unwrap_or_default();
        let _removal = self.removal.lock();
        let write_guard = PagesWriteGuard::new(self);
        if let Some(seq) = seq {
            let notifier = self.notifier.get();
            // SAFETY: The notifier is subscribed by the type invariant. `invalidate` passes the number that C
            // gave it, under the lock that `publish` checks it with.
            unsafe { bindings::ferroce_helper_mmu_interval_set_seq(notifier, seq) };
        }
        for page in pages {
            page.store(page.load(Relaxed) & !(PRESENT | WRITABLE), Relaxed);
        }
        drop(write_guard);
        // Without the lock, which softirqs spin for. The flags are clear, so no copy uses these pages, and
        // `publish` fails until C has finished the invalidation.
        for page in pages {
            let entry = page.load(Relaxed);
            if entry & DIRTY != 0 {
                let address = ptr::with_exposed_provenance::<u8>(entry & !(PAGE_SIZE - 1));
                // SAFETY: The entry holds the linear-map address of a page. That page cannot be freed or
                // truncated before this function returns: to remove it from the process, C must wait for
                // `invalidate`, which runs this function or waits for `removal`. `set_page_dirty` does not
                // sleep, so the spinlock may be held: C itself calls it under page table locks.
                unsafe {
                    let page = bindings::ferroce_helper_virt_to_page(address.cast());
                    bindings::set_page_dirty(page);
                }
            }
            page.store(0, Relaxed);
        }
    }
}

#[pinned_drop]
impl PinnedDrop for HmmRange {
    fn drop(self: Pin<&mut Self>) {
        self.remove_pages(0..u64::MAX, None);
        // SAFETY: The notifier is subscribed by the type invariant, and removed once. C waits for running
        // calls of `invalidate`. The caller may sleep.
        unsafe { bindings::mmu_interval_notifier_remove(self.notifier.get()) };
    }
}

/// `mmu_interval_notifier_ops.invalidate`: called before C changes the page tables at addresses of a range.
/// May run in a context that must not sleep.
///
/// # Safety
///
/// `notifier` must be the one of a [`HmmRange`], and `range` valid for the call.
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: usize,
) -> bool {
    // SAFETY: `notifier` is the field of an `HmmRange`, which is pinned and fully initialised, see
    // `HmmRange::new`. Its drop waits for this call. `range` is valid for the call.
    let (this, addresses) = unsafe {
        let notifier = Opaque::cast_from(notifier);
        let this = &*container_of!(notifier, HmmRange, notifier);
        (this, (*range).start as u64..(*range).end as u64)
    };
    // `remove_pages` does not sleep, so it need not be checked whether the range is blockable.
    this.remove_pages(addresses, Some(seq));
    true
}

/// Returns `count` absent pages.
fn absent_pages(count: usize) -> Result<KVec<Atomic<usize>>> {
    let mut pages = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..count {
        pages.push(Atomic::new(0), GFP_KERNEL_ACCOUNT)?;
    }
    Ok(pages)
}

/// Converts a PFN of HMM to an entry of [`HmmRange`]; 0 if the page is absent or is device memory, which has
/// no bytes to copy.
fn page_entry(pfn: usize) -> usize {
    if pfn & bindings::hmm_pfn_flags_HMM_PFN_VALID == 0 {
        return 0;
    }
    // SAFETY: `HMM_PFN_VALID` is set, so HMM found a page with a `struct page`. The page may be gone by now,
    // but its `struct page` stays; the result is an address that is used only after `publish` has checked the
    // sequence number.
    let address = unsafe { bindings::ferroce_helper_hmm_pfn_address(pfn) };
    if address.is_null() {
        return 0;
    }
    let writable = pfn & bindings::hmm_pfn_flags_HMM_PFN_WRITE != 0;
    address.expose_provenance() | PRESENT | if writable { WRITABLE } else { 0 }
}

/// Returns whether the kernel can access the page of an entry, which must be present. It cannot access secret
/// memory (`memfd_secret()`).
fn is_reachable(entry: usize) -> bool {
    let address = ptr::with_exposed_provenance::<c_void>(entry & !(PAGE_SIZE - 1));
    let mut probe = 0u8;
    // SAFETY: C writes one byte to `probe`. It reads from any address without harm, and reports a fault.
    0 == unsafe { bindings::copy_from_kernel_nofault((&raw mut probe).cast(), address, 1) }
}
