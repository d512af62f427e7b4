// SPDX-License-Identifier: GPL-2.0

//! Rings that user space may map, and the `mmap` operation.
//!
//! The core keeps a table of mmap offsets for each user context. An entry owns a reference to its ring. It is
//! removed from the table with the verb object; pages that are mapped stay allocated until they are unmapped.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::ring::Ring, //
};
use core::{
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    mm::virt::VmaNew,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
/// Offset and length by which user space maps a ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct MmapInfo {
    /// Offset for `mmap`, in bytes.
    pub offset: u64,
    /// Length for `mmap`, in bytes.
    pub size: u32,
}

#[repr(C)]
struct MmapEntry {
    raw: Opaque<bindings::rdma_user_mmap_entry>,
    ring: Arc<Ring>,
}

/// A ring in the table of a user context. Dropping it prevents further mappings.
///
/// # Invariants
///
/// The entry is in the table, and `self` owns one reference to it. The user context is valid.
struct RingMapping(NonNull<MmapEntry>);

// SAFETY: The core's table has a lock; an entry may be removed from any task, and the `Arc` in it dropped there.
unsafe impl Send for RingMapping {}
// SAFETY: No method takes `&self`.
unsafe impl Sync for RingMapping {}

impl RingMapping {
    /// Adds `ring` to the table of `context`.
    ///
    /// # Safety
    ///
    /// `context` outlives the result.
    unsafe fn new(
        context: *mut bindings::ib_ucontext,
        ring: Arc<Ring>,
    ) -> Result<(Self, MmapInfo)> {
        let (_, bytes) = ring.memory();
        let entry = KBox::new(
            MmapEntry {
                raw: Opaque::zeroed(),
                ring,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let raw = entry.raw.get();
        // Not at page offset 0: an entry whose insertion is in progress, and may fail, claims that offset, and the
        // table would find it there.
        // SAFETY: The caller guarantees that the context is valid. The entry is zeroed, as the function requires,
        // and was allocated separately. If the insertion succeeds, the core frees it with `mmap_free`, so it is
        // leaked below.
        to_result(unsafe {
            bindings::rdma_user_mmap_entry_insert_range(context, raw, bytes, 1, u32::MAX)
        })?;
        // SAFETY: The entry is valid: its first reference is this function's. The core filled in the field before
        // it published the entry, and does not change it.
        let pgoff = unsafe { (*raw).start_pgoff };
        let info = MmapInfo {
            // OVERFLOW: A page offset has 32 bits.
            offset: (pgoff as u64).wrapping_mul(PAGE_SIZE as u64),
            // CAST: `Ring::new` has checked that the size fits 32 bits.
            size: bytes as u32,
        };
        // INVARIANT: The entry was inserted above, and its first reference belongs to the caller of the insertion.
        let mapping = Self(NonNull::from(KBox::leak(entry)));
        Ok((mapping, info))
    }
}

/// The rings of one verb object that user space may map.
#[derive(Default)]
pub(crate) struct Mappings([Option<RingMapping>; 2]);

impl Mappings {
    /// Returns whether there are no mappings.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Adds `ring` to the table of `context`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` for a third ring.
    ///
    /// # Safety
    ///
    /// `context` outlives `self`.
    pub(crate) unsafe fn add(
        &mut self,
        context: *mut bindings::ib_ucontext,
        ring: Arc<Ring>,
    ) -> Result<MmapInfo> {
        let free = self.0.iter_mut().find(|slot| slot.is_none());
        let free = free.ok_or(ENOSPC)?;
        // SAFETY: The caller guarantees that `context` outlives `self`, which owns the mapping.
        let (mapping, info) = unsafe { RingMapping::new(context, ring) }?;
        *free = Some(mapping);
        Ok(info)
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: By the invariants the entry is in the table and the context is valid. The function drops the
        // reference that `self` owns.
        unsafe {
            bindings::rdma_user_mmap_entry_remove(self.0.cast().as_ptr());
        }
    }
}

/// `ib_device_ops.mmap_free`: frees an entry, whose last reference was dropped.
///
/// # Safety
///
/// `entry` was made by [`RingMapping::new`], is no longer in the table and has no references.
pub(crate) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: The caller guarantees that `entry` is the first field of an `MmapEntry`, which `RingMapping::new`
    // leaked from a `KBox`, and that it is unused.
    drop(unsafe { KBox::from_raw(entry.cast::<MmapEntry>()) });
}

const _: () = assert!(offset_of!(MmapEntry, raw) == 0);

/// `ib_device_ops.mmap`: maps a ring, if the offset is that of a ring and the length is its length.
///
/// # Safety
///
/// Called by the core as the operation: `context` is a user context of this driver, and `vma` an area that is being
/// set up, with the mmap lock held for writing.
pub(crate) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    from_result(|| {
        // SAFETY: The caller guarantees that both are valid. The function returns null for private mappings and for
        // wrong lengths.
        let entry = unsafe { bindings::rdma_user_mmap_entry_get(context, vma) };
        let entry = NonNull::new(entry).ok_or(EINVAL)?;
        // SAFETY: Every entry in the table of a context of this driver is the first field of an `MmapEntry`. The
        // reference taken above keeps it until the put below.
        let ring = unsafe { &entry.cast::<MmapEntry>().as_ref().ring };
        // SAFETY: The caller guarantees that the area is being set up and that the mmap lock is held for writing.
        let mapped = map(unsafe { VmaNew::from_raw(vma) }, ring);
        // SAFETY: Drops the reference taken above, after the last use of `ring`.
        unsafe { bindings::rdma_user_mmap_entry_put(entry.as_ptr()) };
        mapped.map(|()| 0)
    })
}

/// Maps all pages of `ring` into `vma`.
fn map(vma: &VmaNew, ring: &Ring) -> Result {
    let (base, bytes) = ring.memory();
    for offset in (0..bytes).step_by(PAGE_SIZE) {
        // SAFETY: `offset` is inside the ring's memory, which came from vmalloc, so `vmalloc_to_page` finds an
        // order-0 page with a reference count, and the address has the same offset in the area, which has the same
        // length. `vm_insert_page` needs the mmap lock held for writing, because it sets a flag of the area:
        // `VmaNew` stands for an area in its `mmap` operation, where the lock is held.
        to_result(unsafe {
            let page = bindings::vmalloc_to_page(base.byte_add(offset).as_ptr());
            bindings::vm_insert_page(vma.as_ptr(), vma.start().wrapping_add(offset), page)
        })?;
    }
    vma.set_dontexpand();
    vma.set_dontdump();
    Ok(())
}
