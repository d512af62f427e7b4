// SPDX-License-Identifier: GPL-2.0

//! A short run of a process's addresses, and the pages that stand behind them at present.
//!
//! Owns the subscription to what the memory management does to those addresses. Pages come with
//! [`HmmRange::fault`], which sleeps, and go when the memory management wants them. No page is held: a
//! copy runs under a lock that the memory management waits for before it takes pages away, so each
//! page that a copy finds is there until the copy ends. Does not know regions.
//!
//! C headers: [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h),
//! [`include/linux/hmm.h`](srctree/include/linux/hmm.h)

use crate::bindings;
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
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// Bytes of a page.
const PAGE: u64 = PAGE_SIZE as u64;

/// The page is there, and may be read.
const PRESENT: usize = 1;
/// The page may be written as well.
const WRITABLE: usize = 2;
/// The page was written, and the memory management has to be told.
const DIRTY: usize = 4;

/// How often pages may be taken away again while they are brought in.
const ATTEMPTS: u32 = 16;

/// How long to wait for the memory management to leave the addresses alone, in milliseconds.
const PATIENCE: u32 = 100;

/// How pages are brought in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fetch {
    /// For reading.
    Read,
    /// For writing.
    Write,
    /// Only those that are in memory anyway.
    Present,
}

/// A run of addresses of a process.
///
/// # Invariants
///
/// - `notifier` is subscribed to the addresses from `start` on, as many as there are `pages`.
/// - A page is 0 or the address, for the kernel, of a page of memory, with the flags above. While
///   it is `PRESENT`, and `lock` is held, the process has that page at that place, to write as well
///   if it is `WRITABLE`.
#[pin_data(PinnedDrop)]
pub(super) struct HmmRange {
    start: u64,
    pages: KVec<Atomic<usize>>,
    /// Held for reading by a copy, for writing by who changes what is present.
    #[pin]
    lock: Opaque<bindings::rwlock_t>,
    /// Held while pages go: each of those who take one away must find that it was marked as dirty.
    #[pin]
    leaving: SpinLock<()>,
    /// The last to be made: from then on the memory management calls.
    #[pin]
    notifier: Opaque<bindings::mmu_interval_notifier>,
}

// SAFETY: The pages belong to no task; everything has its lock.
unsafe impl Send for HmmRange {}
// SAFETY: See `Send`.
unsafe impl Sync for HmmRange {}

/// The lock of a chunk, held by a copy.
struct Copying<'a>(&'a HmmRange);

impl<'a> Copying<'a> {
    fn new(chunk: &'a HmmRange) -> Self {
        // SAFETY: Initialised. Writers disable softirqs, so readers in softirq do not deadlock.
        unsafe { bindings::ferroce_helper_read_lock(chunk.lock.get()) };
        Self(chunk)
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        // SAFETY: Locked by `new`.
        unsafe { bindings::ferroce_helper_read_unlock(self.0.lock.get()) };
    }
}

/// The lock of a chunk, held by who changes what is present.
struct Changing<'a>(&'a HmmRange);

impl<'a> Changing<'a> {
    fn new(chunk: &'a HmmRange) -> Self {
        // SAFETY: Initialised.
        unsafe { bindings::ferroce_helper_write_lock_bh(chunk.lock.get()) };
        Self(chunk)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // SAFETY: Locked by `new`.
        unsafe { bindings::ferroce_helper_write_unlock_bh(self.0.lock.get()) };
    }
}

impl HmmRange {
    const OPS: &'static bindings::mmu_interval_notifier_ops =
        &bindings::mmu_interval_notifier_ops {
            invalidate: Some(invalidate),
            ..pin_init::zeroed()
        };

    /// The `addresses` of `mm`, which begin and end with a page. No page is there yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(mm: &MmWithUser, addresses: Range<u64>) -> impl PinInit<Self, Error> + '_ {
        // CAST: `u64` to `usize`, on 64 bits.
        let first = addresses.start as usize;
        let len = (addresses.end as usize).wrapping_sub(first);
        let count = len / PAGE_SIZE;
        try_pin_init!(Self {
            start: addresses.start,
            pages: no_pages(count)?,
            // SAFETY: C initialises all of it, in place.
            lock <- Opaque::ffi_init(|lock| unsafe {
                bindings::ferroce_helper_rwlock_init(lock);
            }),
            leaving <- new_spinlock!((), "HmmRange::leaving"),
            // SAFETY: The process is there, and so is everything else that `invalidate` needs. The
            // place does not move, and is taken off the list before it goes.
            notifier <- Opaque::try_ffi_init(|notifier| to_result(unsafe {
                bindings::mmu_interval_notifier_insert(
                    notifier, mm.as_raw(), first, len, Self::OPS,
                )
            })),
        }? Error)
    }

    /// Calls `f` with each piece of the `len` bytes at `address`, which are in the chunk, to read
    /// them, or to write them if `write`. Pieces lie in one page each. For any context but hard
    /// interrupts.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: a page is not there, or not to be written; `f` was called for those before it.
    /// What `f` says.
    pub(super) fn walk(
        &self,
        address: u64,
        len: usize,
        write: bool,
        mut f: impl FnMut(*mut u8, usize) -> Result,
    ) -> Result {
        let need = if write { PRESENT | WRITABLE } else { PRESENT };
        // CAST: Inside of the chunk.
        let mut at = address.wrapping_sub(self.start) as usize;
        let mut left = len;
        let _copying = Copying::new(self);
        while left != 0 {
            let page = self.pages.get(at / PAGE_SIZE).ok_or(EFAULT)?;
            let entry = page.load(Relaxed);
            if entry & need != need {
                return Err(EAGAIN);
            }
            if write && entry & DIRTY == 0 {
                // Another copy may do the same; nobody does anything else while the lock is held.
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

    /// Brings in the pages of the `len` bytes at `address`, which are in the chunk. Sleeps. The
    /// caller keeps the process.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `EPERM`: the process has no such memory there; `EBUSY`: the pages were taken away
    /// again and again; `ENOMEM`, `EINTR`.
    pub(super) fn fault(&self, address: u64, len: u64, fetch: Fetch) -> Result {
        let start = address & !(PAGE - 1);
        let end = address.saturating_add(len).next_multiple_of(PAGE);
        // CAST: Inside of the chunk.
        let count = (end.wrapping_sub(start) / PAGE) as usize;
        let flags = match fetch {
            Fetch::Present => 0,
            Fetch::Read => bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT,
            Fetch::Write => {
                bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT
                    | bindings::hmm_pfn_flags_HMM_PFN_REQ_WRITE
            }
        };
        for _ in 0..ATTEMPTS {
            let mut pfns = KVec::from_elem(0usize, count, GFP_KERNEL)?;
            let mut range: bindings::hmm_range = pin_init::zeroed();
            range.notifier = self.notifier.get();
            range.start = start as usize;
            range.end = end as usize;
            range.hmm_pfns = pfns.as_mut_ptr();
            range.default_flags = flags;
            // SAFETY: The range is in the process, whose subscription is ours; there is a place
            // for each of its pages.
            to_result(unsafe {
                bindings::hmm_range_fault_unlocked_timeout(&mut range, msecs_to_jiffies(PATIENCE))
            })?;
            for pfn in &mut pfns {
                *pfn = entry_of(*pfn);
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

    /// Makes pages known that were found by number `seq` of the subscription.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: some may be gone by now; `EFAULT`: the kernel itself cannot reach some.
    fn publish(&self, address: u64, found: &[usize], seq: usize) -> Result {
        // CAST: Inside of the chunk.
        let first = (address.wrapping_sub(self.start) / PAGE) as usize;
        let pages = self.pages.iter().skip(first);
        let notifier = self.notifier.get();
        let _changing = Changing::new(self);
        // SAFETY: The subscription is ours, and its number changes under the lock only.
        if unsafe { bindings::ferroce_helper_mmu_interval_read_retry(notifier, seq) } {
            return Err(EAGAIN);
        }
        let mut result = Ok(());
        for (page, &entry) in pages.zip(found).filter(|(_, &entry)| entry != 0) {
            if is_reachable(entry) {
                // INVARIANT: Nothing was taken away since the page was found there.
                let dirty = page.load(Relaxed) & DIRTY;
                page.store(entry | dirty, Relaxed);
            } else {
                result = Err(EFAULT);
            }
        }
        result
    }

    /// Lets go of the pages of `addresses`. When it returns, nobody reads or writes them by way of
    /// this chunk. `seq`: the number to give the subscription.
    fn forget(&self, addresses: Range<u64>, seq: Option<usize>) {
        let index = |address: u64| (address.saturating_sub(self.start) / PAGE) as usize;
        let first = index(addresses.start);
        // The last page may be hit in part.
        let end = index(addresses.end.saturating_add(PAGE - 1)).min(self.pages.len());
        let pages = self.pages.get(first..end).unwrap_or_default();
        let _leaving = self.leaving.lock();
        let changing = Changing::new(self);
        if let Some(seq) = seq {
            let notifier = self.notifier.get();
            // SAFETY: The subscription is ours.
            unsafe { bindings::ferroce_helper_mmu_interval_set_seq(notifier, seq) };
        }
        for page in pages {
            page.store(page.load(Relaxed) & !(PRESENT | WRITABLE), Relaxed);
        }
        drop(changing);
        // Not under the lock, which softirqs take. Nobody sees these pages any more, and no others
        // can come before the memory management is done.
        for page in pages {
            let entry = page.load(Relaxed);
            if entry & DIRTY != 0 {
                let address = ptr::with_exposed_provenance::<u8>(entry & !(PAGE_SIZE - 1));
                // SAFETY: The page cannot be freed before we return: who wants that waits for us.
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
        self.forget(0..u64::MAX, None);
        // SAFETY: Subscribed, by the invariant. Waits for calls that are on their way.
        unsafe { bindings::mmu_interval_notifier_remove(self.notifier.get()) };
    }
}

/// Called before the memory management changes something at addresses of a chunk.
///
/// # Safety
///
/// `notifier` is that of a [`HmmRange`].
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: usize,
) -> bool {
    // SAFETY: As the function requires; the range is the caller's.
    let (chunk, addresses) = unsafe {
        let notifier = Opaque::cast_from(notifier);
        let chunk = &*container_of!(notifier, HmmRange, notifier);
        (chunk, (*range).start as u64..(*range).end as u64)
    };
    // Nothing sleeps, so it does not matter whether it may.
    chunk.forget(addresses, Some(seq));
    true
}

/// A list of `count` pages, none of which is there.
fn no_pages(count: usize) -> Result<KVec<Atomic<usize>>> {
    let mut pages = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..count {
        pages.push(Atomic::new(0), GFP_KERNEL_ACCOUNT)?;
    }
    Ok(pages)
}

/// What a chunk keeps of a page that the memory management has found; 0 if there is nothing that
/// bytes could be copied from.
fn entry_of(pfn: usize) -> usize {
    if pfn & bindings::hmm_pfn_flags_HMM_PFN_VALID == 0 {
        return 0;
    }
    // SAFETY: A valid number.
    let address = unsafe { bindings::ferroce_helper_hmm_pfn_address(pfn) };
    if address.is_null() {
        return 0;
    }
    let writable = pfn & bindings::hmm_pfn_flags_HMM_PFN_WRITE != 0;
    address.expose_provenance() | PRESENT | if writable { WRITABLE } else { 0 }
}

/// Whether the kernel itself can reach the page of an entry, which is there. It cannot if the page is secret memory
/// (`memfd_secret()`).
fn is_reachable(entry: usize) -> bool {
    let address = ptr::with_exposed_provenance::<c_void>(entry & !(PAGE_SIZE - 1));
    let mut probe = 0u8;
    // SAFETY: Writes one byte, and reads any address without harm.
    0 == unsafe { bindings::copy_from_kernel_nofault((&raw mut probe).cast(), address, 1) }
}
