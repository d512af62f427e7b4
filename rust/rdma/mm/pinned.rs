// SPDX-License-Identifier: GPL-2.0

//! Pinned memory of a process (`struct ib_umem`), and the list of its extents.
//!
//! Pinning and unpinning is for process context; access is for any context.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use crate::mm::{
    extents::Extent,
    on_demand::{
        PERSISTENT,
        WRITABLE, //
    },
    pmem::is_persistent, //
};
use crate::{
    bindings,
    compat::umem,
    ib_device::IbDevice,
    util::alloc::gfp_user, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Pinned memory of a process.
///
/// # Invariants
///
/// - `raw` is valid and owned.
/// - `extents` begin at offset 0 and ascend. Together with `len` they describe bytes in pages of the process that
///   are pinned as long as `raw` exists.
/// - If `persistent` is set, all of these bytes are in persistent memory.
pub struct Umem {
    raw: NonNull<bindings::ib_umem>,
    pub(super) extents: KVVec<Extent>,
    pub(super) len: u64,
    pub(super) writable: bool,
    pub(super) persistent: bool,
}

// SAFETY: The pinned pages belong to no task, and the list does not change.
unsafe impl Send for Umem {}
// SAFETY: As for `Send`: shared references only read fields that do not change.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes at `start` of the calling process, for a region with the rights `access` (`enum
    /// ib_access_flags`). The pages count against `RLIMIT_MEMLOCK`. Sleeps.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`, also at the limit; `EPERM`, `EFAULT`, `EINVAL` as `ib_umem_get_va()`.
    /// - `EINVAL` if `access` requires persistent memory, and it is not persistent.
    pub fn pin(device: &IbDevice, start: u64, len: u64, access: u32) -> Result<Self> {
        let size = usize::try_from(len)?;
        let start = usize::try_from(start)?;
        // SAFETY: The device is valid. Called in a process.
        let raw = from_err_ptr(unsafe { umem::pin(device.as_raw(), start, size, access) })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: C just returned the structure, so it is valid.
        let writable = unsafe { raw.as_ref() }.writable() != 0;
        // INVARIANT: `raw` is owned from here on. `fill` derives the extents from the pinned pages; if it
        // fails, `this` is dropped.
        let mut this = Self {
            raw,
            extents: KVVec::new(),
            len,
            writable,
            persistent: false,
        };
        this.fill()?;
        if access & PERSISTENT != 0 {
            this.persistent = this.is_in_pmem();
            if !this.persistent {
                return Err(EINVAL);
            }
        }
        Ok(this)
    }

    /// Returns whether a region with the rights `access` (`enum ib_access_flags`) can use this memory.
    pub(super) fn allows(&self, access: u32) -> bool {
        let on_demand = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;
        access & on_demand == 0
            && (self.writable || access & WRITABLE == 0)
            && (self.persistent || access & PERSISTENT == 0)
    }

    /// Returns whether all of it is in persistent memory.
    fn is_in_pmem(&self) -> bool {
        let rest = self.extents.iter().skip(1).map(|next| next.offset);
        let ends = Iterator::chain(rest, [self.len]);
        self.extents.iter().zip(ends).all(|(extent, end)| {
            // CAST: `u64` to `usize`, which has 64 bits.
            is_persistent(extent.address, end.wrapping_sub(extent.offset) as usize)
        })
    }

    /// Returns address and length if the memory belongs to the calling process.
    pub(super) fn user_range(&self) -> Option<(u64, u64)> {
        // SAFETY: `raw` is valid by the type invariant, and C does not change these fields after creation.
        let (start, owner) = unsafe { (self.raw.as_ref().address, self.raw.as_ref().owning_mm) };
        // SAFETY: The current task is valid, and its `mm` is changed only by the task itself.
        let is_current = owner == unsafe { (*bindings::get_current()).mm };
        is_current.then_some((start as u64, self.len))
    }

    /// Builds the list of extents.
    fn fill(&mut self) -> Result {
        // SAFETY: `raw` is valid by the type invariant, and C does not change these fields after creation.
        let (table, start) = unsafe {
            let umem = self.raw.as_ref();
            (&umem.sgt_append.sgt, umem.address)
        };
        // CAST: `u32` to `usize`, which has 64 bits.
        self.extents = KVVec::with_capacity(table.orig_nents as usize, gfp_user())?;
        let mut skip = start & (PAGE_SIZE - 1);
        let mut offset = 0u64;
        let mut next = ptr::null_mut();
        let mut entry = table.sgl;
        for _ in 0..table.orig_nents {
            // SAFETY: The table has `orig_nents` entries, so `entry` is valid. Each describes pinned pages,
            // which have kernel addresses on 64 bits.
            let (address, len) = unsafe {
                let address: *mut u8 = bindings::ferroce_helper_sg_virt(entry).cast();
                (address.wrapping_add(skip), (*entry).length as usize)
            };
            let len = len.wrapping_sub(skip);
            skip = 0;
            if address != next {
                self.extents
                    .push(Extent { offset, address }, GFP_KERNEL_ACCOUNT)?;
            }
            next = address.wrapping_add(len);
            offset = offset.wrapping_add(len as u64);
            // SAFETY: `entry` is a valid entry of the table. C returns null after the last one, which is then
            // not used.
            entry = unsafe { bindings::sg_next(entry) };
        }
        // The last page is pinned completely, so the pages may exceed the region, but not fall short of it.
        if offset < self.len || self.extents.is_empty() {
            return Err(EINVAL);
        }
        Ok(())
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `raw` is valid and owned, and it is released once.
        unsafe { bindings::ib_umem_release(self.raw.as_ptr()) };
    }
}
