// SPDX-License-Identifier: GPL-2.0

//! Pages for what super-packets carry.
//!
//! Each CPU has a few, and uses them again when no packet refers to them any more. So in a stream no page is allocated,
//! nor zeroed, as many distributions have the allocator do.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use crate::{
    bindings,
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};
use core::ptr;
use kernel::{
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    prelude::*, //
};

/// Pages of each CPU, of 32 KiB where possible: enough for two super-packets.
const RING_PAGES: usize = 4;

/// The rest of a page is not used if it is shorter.
const MIN_ROOM: u32 = 512;

/// A super-packet begins at a multiple of this.
const ALIGN: u32 = 64;

/// The pages of all CPUs.
pub struct PagePool {
    cpus: KVec<Pin<KBox<SpinLockIrq<Option<PageRing>>>>>,
}

impl PagePool {
    /// Creates a pool without pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        let mut cpus = KVec::new();
        for _ in 0..nr_cpu_ids() {
            let ring = KBox::pin_init(new_spinlock_irq!(None, "rdma::PagePool"), GFP_KERNEL)?;
            cpus.push(ring, GFP_KERNEL)?;
        }
        Ok(Self { cpus })
    }

    /// Takes the pages of this CPU. If they are in use, by a context that was interrupted or moved here, the lease
    /// begins without any.
    pub(super) fn take(&self) -> PageLease {
        let cpu = CpuId::current();
        let taken = self.ring(cpu).and_then(|ring| ring.lock().take());
        let mut ring = taken.unwrap_or_else(PageRing::new);
        ring.align();
        PageLease { cpu, ring }
    }

    /// Puts pages back, for the next super-packet. Pages that are not put back are released.
    pub(super) fn put(&self, lease: PageLease) {
        let PageLease { cpu, ring } = lease;
        let replaced = self.ring(cpu).and_then(|home| home.lock().replace(ring));
        // Without the lock.
        drop(replaced);
    }

    fn ring(&self, cpu: CpuId) -> Option<&SpinLockIrq<Option<PageRing>>> {
        // CAST: `u32` to `usize`, which has 64 bits.
        self.cpus.get(cpu.as_u32() as usize).map(|ring| &**ring)
    }
}

/// Pages of one CPU, used by one super-packet at a time.
pub(super) struct PageLease {
    cpu: CpuId,
    pub(super) ring: PageRing,
}

/// A few pages, filled one after the other.
///
/// # Invariants
///
/// The `page` of each is null, or a page to which a reference is owned, with `size` bytes. The bytes from `offset` on
/// are not used by anything else.
pub(super) struct PageRing {
    pages: [bindings::page_frag; RING_PAGES],
    current: usize,
}

// SAFETY: Pages belong to no task.
unsafe impl Send for PageRing {}

impl PageRing {
    const fn new() -> Self {
        const NO_PAGE: bindings::page_frag = bindings::page_frag {
            page: ptr::null_mut(),
            offset: 0,
            size: 0,
        };
        // INVARIANT: There are no pages.
        Self {
            pages: [NO_PAGE; RING_PAGES],
            current: 0,
        }
    }

    /// Skips bytes up to the next multiple of [`ALIGN`].
    fn align(&mut self) {
        if let Some(page) = self.pages.get_mut(self.current) {
            page.offset = page.offset.next_multiple_of(ALIGN).min(page.size);
        }
    }

    /// Returns the free bytes of the current page: page, offset, length. The length is 0 if the page is full.
    #[inline]
    pub(super) fn room(&self) -> (*mut bindings::page, u32, u32) {
        match self.pages.get(self.current) {
            Some(page)
                if !page.page.is_null() && page.size.saturating_sub(page.offset) >= MIN_ROOM =>
            {
                (page.page, page.offset, page.size.wrapping_sub(page.offset))
            }
            _ => (ptr::null_mut(), 0, 0),
        }
    }

    /// Uses `len` bytes of the current page, at most as many as are free.
    #[inline]
    pub(super) fn advance(&mut self, len: u32) {
        if let Some(page) = self.pages.get_mut(self.current) {
            // INVARIANT: Fewer bytes are free.
            page.offset = page.offset.saturating_add(len).min(page.size);
        }
    }

    /// Goes on to the next page: one that is not referred to any more, or a new one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn next_page(&mut self) -> Result {
        self.current = self.current.wrapping_add(1) % RING_PAGES;
        let page = self.pages.get_mut(self.current).ok_or(ENOMEM)?;
        let gfp = bindings::GFP_ATOMIC | bindings::__GFP_NOWARN;
        // INVARIANT: C keeps `offset` if others refer to the page, and has it begin again if this is the only
        // reference. SAFETY: `page` is null or a referenced page, by the type invariant. C releases the reference to
        // a page that it replaces; if it finds no other, `page` is null.
        match unsafe { bindings::skb_page_frag_refill(MIN_ROOM, page, gfp) } {
            true => Ok(()),
            false => Err(ENOMEM),
        }
    }
}

impl Drop for PageRing {
    fn drop(&mut self) {
        for page in &self.pages {
            if !page.page.is_null() {
                // SAFETY: A reference is owned by the type invariant, and released once.
                unsafe { bindings::ferroce_helper_put_page(page.page) };
            }
        }
    }
}
