// SPDX-License-Identifier: GPL-2.0

//! Rings that user space may map.
//!
//! Owns the entries that the core's table of mmap offsets holds for a user context, and the `mmap`
//! operation. An entry holds its ring; it leaves the table when the verb object goes, while pages
//! that are mapped stay until they are unmapped.
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
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Tells user space where to map a ring (`struct mminfo`).
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
#[repr(C)]
pub struct MmapInfo {
    /// Offset to pass to `mmap`, bytes.
    pub offset: u64,
    /// Length to pass to `mmap`, bytes.
    pub size: u32,
    /// Zero.
    pub pad: u32,
}

#[repr(C)]
struct MmapEntry {
    raw: Opaque<bindings::rdma_user_mmap_entry>,
    ring: Arc<Ring>,
}

/// A ring in the table of a user context; dropping it ends that no more mappings are made.
///
/// # Invariants
///
/// The entry is in the table, and one of its references is ours. The user context lives.
struct RingMapping(NonNull<MmapEntry>);

// SAFETY: The entry may be removed from any task.
unsafe impl Send for RingMapping {}
// SAFETY: There is nothing to share.
unsafe impl Sync for RingMapping {}

impl RingMapping {
    /// Offers `ring` to the owner of `context`.
    ///
    /// # Safety
    ///
    /// `context` lives longer than the result.
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
        // Not at offset 0: an entry that is being inserted, which may still fail, says that it begins there, and the
        // table finds it by what it says.
        // SAFETY: The context is valid. The entry is zeroed; from here on it is the table's, which
        // gives it back through `mmap_free`.
        to_result(unsafe {
            bindings::rdma_user_mmap_entry_insert_range(context, raw, bytes, 1, u32::MAX)
        })?;
        // SAFETY: The entry was filled in by the call above.
        let pgoff = unsafe { (*raw).start_pgoff };
        let info = MmapInfo {
            // OVERFLOW: Page offsets have 32 bits.
            offset: (pgoff as u64).wrapping_mul(PAGE_SIZE as u64),
            // CAST: `Ring::new` has checked the size.
            size: bytes as u32,
            pad: 0,
        };
        // INVARIANT: Just inserted, and the first reference is the caller's.
        let mapping = Self(NonNull::from(KBox::leak(entry)));
        Ok((mapping, info))
    }
}

/// The rings of one verb object that user space may map.
#[derive(Default)]
pub(crate) struct Mappings([Option<RingMapping>; 2]);

impl Mappings {
    /// Nothing was offered.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Offers `ring` to the owner of `context`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` for the third ring.
    ///
    /// # Safety
    ///
    /// `context` lives longer than `self`.
    pub(crate) unsafe fn add(
        &mut self,
        context: *mut bindings::ib_ucontext,
        ring: Arc<Ring>,
    ) -> Result<MmapInfo> {
        let free = self.0.iter_mut().find(|slot| slot.is_none());
        let free = free.ok_or(ENOSPC)?;
        // SAFETY: As the function requires.
        let (mapping, info) = unsafe { RingMapping::new(context, ring) }?;
        *free = Some(mapping);
        Ok(info)
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: By the invariants, in the table with a reference of ours.
        unsafe {
            bindings::rdma_user_mmap_entry_remove(self.0.cast().as_ptr());
        }
    }
}

/// `ib_device_ops.mmap_free`: the last reference to an entry is gone.
///
/// # Safety
///
/// `entry` came from [`RingMapping::new`] and is no longer in the table.
pub(crate) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: As the function requires; the C part is the first field.
    drop(unsafe { KBox::from_raw(entry.cast::<MmapEntry>()) });
}

const _: () = assert!(offset_of!(MmapEntry, raw) == 0);

/// `ib_device_ops.mmap`: maps a ring, if the offset names one and the length is its length.
///
/// # Safety
///
/// The arguments are those of a call of the operation.
pub(crate) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    from_result(|| {
        // SAFETY: As the function requires. Refuses private mappings and wrong lengths.
        let entry = unsafe { bindings::rdma_user_mmap_entry_get(context, vma) };
        let entry = NonNull::new(entry).ok_or(EINVAL)?;
        // SAFETY: Every entry of a context came from `RingMapping::new`, and we hold this one.
        let ring = unsafe { &entry.cast::<MmapEntry>().as_ref().ring };
        // SAFETY: The area is being set up by the caller.
        let mapped = map(unsafe { VmaNew::from_raw(vma) }, ring);
        // SAFETY: Gives back the reference that was taken above.
        unsafe { bindings::rdma_user_mmap_entry_put(entry.as_ptr()) };
        mapped.map(|()| 0)
    })
}

fn map(vma: &VmaNew, ring: &Ring) -> Result {
    let (base, bytes) = ring.memory();
    for offset in (0..bytes).step_by(PAGE_SIZE) {
        // SAFETY: The page is inside the ring's memory, which came from vmalloc, and inside the
        // area, which has the same length.
        to_result(unsafe {
            let page = bindings::vmalloc_to_page(base.byte_add(offset).as_ptr());
            bindings::vm_insert_page(vma.as_ptr(), vma.start().wrapping_add(offset), page)
        })?;
    }
    vma.set_dontexpand();
    vma.set_dontdump();
    Ok(())
}
