// SPDX-License-Identifier: GPL-2.0

//! Memory that data is moved to and from.
//!
//! Owns the access to it. Bytes are copied or checked, by their offset in the region;
//! no reference to them is ever made, because a user may write to them at any time. Does not know
//! keys or rights.
//!
//! On 64 bits every page has an address in the kernel, so pinned memory ([`Umem`]), a DMA buffer
//! ([`DmaBuf`]) and what a consumer in the kernel lists ([`FastRegPages`]) is a list of extents, each contiguous for
//! the kernel.
//! Memory on demand is not pinned ([`OnDemand`]): an access may find that pages are absent
//! (`EAGAIN`), and is to be done again, all of it, when they have been brought in. All functions but
//! those that make or drop memory are for any context.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use crate::{
    bindings,
    mm::{
        dma_buf::DmaBuf,
        extents::{
            Extent,
            Pieces, //
        },
        fast_reg::FastRegPages,
        on_demand::OnDemand,
        pinned::Umem, //
    }, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// All memory of the kernel; the offset is the address. For consumers in the kernel, who are
/// trusted with what they ask for.
pub struct KernelMemory(());

impl KernelMemory {
    /// One extent, in which every offset is an address.
    const EXTENTS: &'static [Extent] = &[Extent {
        offset: 0,
        address: ptr::null_mut(),
    }];

    /// # Safety
    ///
    /// Its offsets come only from consumers in the kernel, who own what is there.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: An extent is a place, and belongs to no task.
unsafe impl Sync for Extent {}
// SAFETY: See `Sync`.
unsafe impl Send for Extent {}

/// What a memory region is made of.
pub enum Memory {
    /// Pages of a process.
    User(Umem),
    /// Addresses of a process, with or without pages.
    OnDemand(Arc<OnDemand>),
    /// A part of a DMA buffer.
    DmaBuf(DmaBuf),
    /// Memory of the kernel.
    Kernel(KernelMemory),
    /// Pages that a consumer in the kernel has listed.
    FastRegPages(FastRegPages),
}

impl Memory {
    /// Whether it can stay as it is for a region with the rights `access` (`enum ib_access_flags`).
    pub fn allows(&self, access: u32) -> bool {
        match self {
            Self::User(umem) => umem.allows(access),
            Self::OnDemand(region) => region.allows(access),
            Self::DmaBuf(buffer) => buffer.allows(access),
            Self::Kernel(_) | Self::FastRegPages(_) => false,
        }
    }

    /// Where it is in the calling process: address and length, to register it anew. `None`: it is not
    /// the calling process's.
    pub fn origin(&self) -> Option<(u64, u64)> {
        match self {
            Self::User(umem) => umem.origin(),
            Self::OnDemand(region) => region.origin(),
            Self::DmaBuf(_) | Self::Kernel(_) | Self::FastRegPages(_) => None,
        }
    }

    /// Extents, length, and whether it may be written.
    fn extents(&self) -> (&[Extent], u64, bool) {
        match self {
            Self::User(umem) => (&umem.extents, umem.len, umem.writable),
            Self::OnDemand(_) => (&[], 0, false),
            Self::DmaBuf(buffer) => (&buffer.extents, buffer.len, buffer.writable),
            Self::Kernel(_) => (KernelMemory::EXTENTS, u64::MAX, true),
            Self::FastRegPages(pages) => (&pages.extents, pages.len, true),
        }
    }

    /// Whether its bytes stay where they are.
    pub fn stays(&self) -> bool {
        !matches!(self, Self::OnDemand(_))
    }

    /// The contiguous pieces of `len` bytes at `offset`, of memory that stays where it is.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the memory ends before. `EACCES`: it is not to be written, and `write` is set.
    pub(super) fn pieces(&self, offset: u64, len: usize, write: bool) -> Result<Pieces<'_>> {
        let (extents, end, writable) = self.extents();
        let pieces = Pieces::new(extents, end, offset, len).ok_or(EFAULT)?;
        if write && !writable {
            return Err(EACCES);
        }
        Ok(pieces)
    }

    /// Calls `f` with each contiguous piece of `len` bytes at `offset`, which is there until `f`
    /// returns, to read it, or to write it if `write`.
    ///
    /// # Errors
    ///
    /// As [`Memory::pieces`]. `EAGAIN`: a page is absent; `f` was called for what is before it. What
    /// `f` says.
    #[inline]
    pub(crate) fn each(
        &self,
        offset: u64,
        len: usize,
        write: bool,
        mut f: impl FnMut(*mut u8, usize) -> Result,
    ) -> Result {
        match self {
            Self::OnDemand(region) => region.walk(offset, len, write, f),
            _ => self
                .pieces(offset, len, write)?
                .try_for_each(|(start, len)| f(start, len)),
        }
    }

    /// Looks whether `len` bytes at `offset` are there, to be written if `write`.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: some are absent. `EFAULT`: the memory ends before. `EACCES`: it is not to be
    /// written.
    pub fn probe(&self, offset: u64, len: usize, write: bool) -> Result {
        self.each(offset, len, write, |_, _| Ok(()))
    }

    /// Copies bytes at `offset` to `to`.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the memory ends before. `EAGAIN`: a page is absent; some may have been copied.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result {
        // SAFETY: The slice is valid for writes.
        unsafe { self.read_raw(offset, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes at `offset` to `to`.
    ///
    /// # Safety
    ///
    /// `to` is valid for writing `len` bytes.
    ///
    /// # Errors
    ///
    /// As [`Memory::read`].
    pub(crate) unsafe fn read_raw(&self, offset: u64, mut to: *mut u8, len: usize) -> Result {
        self.each(offset, len, false, |from, len| {
            // SAFETY: The piece is there, and `to` has room for all pieces. C copies, so that it
            // does not matter to us what a user does to the bytes meanwhile.
            unsafe {
                bindings::ferroce_helper_memcpy(to.cast(), from.cast_const().cast(), len);
                to = to.add(len);
            }
            Ok(())
        })
    }

    /// Copies `from` to `offset`.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the memory ends before; `EACCES`: it is not to be written; `EAGAIN`: a page is
    /// absent, and some may have been copied.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result {
        let mut from = from;
        self.each(offset, from.len(), true, |to, len| {
            let (now, later) = from.split_at_checked(len).ok_or(EFAULT)?;
            // SAFETY: The piece is there and may be written. See `read_raw`.
            unsafe { bindings::ferroce_helper_memcpy(to.cast(), now.as_ptr().cast(), len) };
            from = later;
            Ok(())
        })
    }
}
