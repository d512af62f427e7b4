// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that is pinned.
//!
//! Owns the pages for as long as the region is there, and the list of where they are. Does not know what
//! is done with them.
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

/// Memory of a process, pinned.
///
/// # Invariants
///
/// - `raw` is valid and ours.
/// - `extents` begin at 0, rise, and together with `len` describe bytes that are pinned as long as
///   `raw` is there, in pages that belong to the user.
/// - If `persistent`, all of them keep their bytes when power is lost.
pub struct Umem {
    raw: NonNull<bindings::ib_umem>,
    pub(super) extents: KVVec<Extent>,
    pub(super) len: u64,
    pub(super) writable: bool,
    pub(super) persistent: bool,
}

// SAFETY: The pages belong to no task; the list does not change.
unsafe impl Send for Umem {}
// SAFETY: See `Send`.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes at `start` of the calling process, for a region with the rights `access`
    /// (`enum ib_access_flags`). They count against `RLIMIT_MEMLOCK`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also at the limit; `EPERM`, `EFAULT`, `EINVAL` as `ib_umem_get_va()`. `EINVAL` as well if it
    /// is to be flushed until safe from loss of power, and is not made for that.
    pub fn pin(device: &IbDevice, start: u64, len: u64, access: u32) -> Result<Self> {
        let size = usize::try_from(len)?;
        let start = usize::try_from(start)?;
        // CAST: Flags, as C has them.
        // SAFETY: The device is valid. There are no attributes.
        let raw = from_err_ptr(unsafe {
            bindings::ib_umem_get_attr_or_va(
                device.as_raw(),
                ptr::null(),
                0,
                start as u64,
                size,
                access as c_int,
            )
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: Just made.
        let writable = unsafe { raw.as_ref() }.writable() != 0;
        // INVARIANT: The list is made from what was pinned. If that fails, it is dropped again.
        let mut this = Self {
            raw,
            extents: KVVec::new(),
            len,
            writable,
            persistent: false,
        };
        this.fill()?;
        if access & PERSISTENT != 0 {
            this.persistent = this.survives();
            if !this.persistent {
                return Err(EINVAL);
            }
        }
        Ok(this)
    }

    /// Whether the region can have the rights `access` (`enum ib_access_flags`) as it is.
    pub(super) fn allows(&self, access: u32) -> bool {
        let on_demand = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;
        access & on_demand == 0
            && (self.writable || access & WRITABLE == 0)
            && (self.persistent || access & PERSISTENT == 0)
    }

    /// Whether all of it keeps its bytes when power is lost.
    fn survives(&self) -> bool {
        let rest = self.extents.iter().skip(1).map(|next| next.offset);
        let ends = Iterator::chain(rest, [self.len]);
        self.extents.iter().zip(ends).all(|(extent, end)| {
            // CAST: `u64` to `usize`, on 64 bits.
            is_persistent(extent.address, end.wrapping_sub(extent.offset) as usize)
        })
    }

    /// Address and length, if the memory is the calling process's.
    pub(super) fn origin(&self) -> Option<(u64, u64)> {
        // SAFETY: Valid, and not changed by anybody.
        let (start, owner) = unsafe { (self.raw.as_ref().address, self.raw.as_ref().owning_mm) };
        // SAFETY: There is a current task, and nobody changes its memory map but itself.
        let mine = owner == unsafe { (*bindings::get_current()).mm };
        mine.then_some((start as u64, self.len))
    }

    /// Makes the list of extents.
    fn fill(&mut self) -> Result {
        // SAFETY: Valid, and not changed by anybody.
        let (table, start) = unsafe {
            let umem = self.raw.as_ref();
            (&umem.sgt_append.sgt, umem.address)
        };
        // CAST: `u32` to `usize`, on 64 bits.
        self.extents = KVVec::with_capacity(table.orig_nents as usize, gfp_user())?;
        let mut skip = start & (PAGE_SIZE - 1);
        let mut offset = 0u64;
        let mut next = ptr::null_mut();
        let mut entry = table.sgl;
        for _ in 0..table.orig_nents {
            // SAFETY: The list has as many entries, all of mapped pages.
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
            // SAFETY: An entry of the list.
            entry = unsafe { bindings::sg_next(entry) };
        }
        // The last page is pinned to its end, so the region may be shorter, but not longer.
        if offset < self.len || self.extents.is_empty() {
            return Err(EINVAL);
        }
        Ok(())
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: Ours, by the invariant.
        unsafe { bindings::ib_umem_release(self.raw.as_ptr()) };
    }
}
