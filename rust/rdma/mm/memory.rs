// SPDX-License-Identifier: GPL-2.0

//! The memory of a region, and access to it by offset.
//!
//! Bytes are copied or checked. No Rust reference to them is created, because a process may write to them at
//! any time. Keys and rights are checked by the caller.
//!
//! On 64 bits every page has a kernel address, so pinned memory ([`Umem`]), a DMA-BUF ([`DmaBuf`]) and the
//! page list of a kernel consumer ([`FastRegPages`]) are lists of extents that are contiguous for the kernel.
//! On-demand memory ([`OnDemand`]) is not pinned: an access may fail with `EAGAIN` because pages are absent,
//! and must be repeated as a whole after they were faulted in.
//!
//! Functions are for any context except hard interrupts, unless they create or drop memory.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use crate::{
    bindings,
    mm::{
        dma_buf::DmaBuf,
        extents::{
            one_piece,
            Extent,
            PieceIter, //
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

/// All kernel memory; an offset is an address. For kernel consumers (`get_dma_mr`), which are trusted with
/// the addresses in their requests.
///
/// This is the one type whose obligation cannot be expressed in types: the safe accessors of [`Memory`]
/// accept any offset. See "Known exceptions" in `Documentation/unsafe.rst` for the rules that keep it narrow.
pub struct KernelMemory(());

impl KernelMemory {
    /// One extent in which every offset is an address.
    const EXTENTS: &'static [Extent] = &[Extent {
        offset: 0,
        address: ptr::null_mut(),
    }];

    /// # Safety
    ///
    /// All offsets that are later used with this memory must come from trusted kernel consumers, by way of
    /// their work requests or of rkeys that they published. The caller cannot enforce that: accesses are safe
    /// functions, called later. It holds because the core calls `get_dma_mr` for kernel consumers only, and
    /// because the driver never chooses an offset itself.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: An extent holds an address and does not access it; the address belongs to no task.
unsafe impl Sync for Extent {}
// SAFETY: As for `Sync`: an extent is only an address.
unsafe impl Send for Extent {}

/// The memory of a memory region, by kind.
pub enum Memory {
    /// Pinned pages of a process.
    User(Umem),
    /// On-demand memory of a process.
    OnDemand(Arc<OnDemand>),
    /// A part of a DMA-BUF.
    DmaBuf(DmaBuf),
    /// All kernel memory.
    Kernel(KernelMemory),
    /// Pages that a kernel consumer listed for fast registration.
    FastRegPages(FastRegPages),
}

impl Memory {
    /// Returns whether a region with the rights `access` (`enum ib_access_flags`) can use this memory without
    /// registering it again.
    pub fn allows(&self, access: u32) -> bool {
        match self {
            Self::User(umem) => umem.allows(access),
            Self::OnDemand(region) => region.allows(access),
            Self::DmaBuf(buffer) => buffer.allows(access),
            Self::Kernel(_) | Self::FastRegPages(_) => false,
        }
    }

    /// Returns address and length in the calling process, to register the memory again. `None` if it does not
    /// belong to the calling process.
    pub fn user_range(&self) -> Option<(u64, u64)> {
        match self {
            Self::User(umem) => umem.user_range(),
            Self::OnDemand(region) => region.user_range(),
            Self::DmaBuf(_) | Self::Kernel(_) | Self::FastRegPages(_) => None,
        }
    }

    /// Returns extents, length, and whether the memory is writable.
    #[inline]
    fn extents(&self) -> (&[Extent], u64, bool) {
        match self {
            Self::User(umem) => (&umem.extents, umem.len, umem.writable),
            Self::OnDemand(_) => (&[], 0, false),
            Self::DmaBuf(buffer) => (&buffer.extents, buffer.len, buffer.writable),
            Self::Kernel(_) => (KernelMemory::EXTENTS, u64::MAX, true),
            Self::FastRegPages(pages) => (&pages.extents, pages.len, true),
        }
    }

    /// Returns whether all pages are present for the lifetime of the memory: true for all kinds but on-demand
    /// memory.
    pub fn is_pinned(&self) -> bool {
        !matches!(self, Self::OnDemand(_))
    }

    /// Returns the contiguous pieces of `len` bytes at `offset`. Not for on-demand memory.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: the range ends beyond the memory.
    /// - `EACCES`: `write` is set, and the memory is read-only.
    #[inline]
    pub(super) fn pinned_pieces(
        &self,
        offset: u64,
        len: usize,
        write: bool,
    ) -> Result<PieceIter<'_>> {
        let (extents, end, writable) = self.extents();
        let pieces = PieceIter::new(extents, end, offset, len).ok_or(EFAULT)?;
        if write && !writable {
            return Err(EACCES);
        }
        Ok(pieces)
    }

    /// Returns the start of `len` bytes at `offset` if they are one piece, present for the lifetime of the memory, and
    /// writable if `write` is set.
    #[inline]
    pub(super) fn one_piece(&self, offset: u64, len: usize, write: bool) -> Option<*mut u8> {
        let (extents, end, writable) = self.extents();
        let start = one_piece(extents, end, offset, len)?;
        (writable || !write).then_some(start)
    }

    /// Calls `f` with each contiguous piece of `len` bytes at `offset`. The piece is present until `f`
    /// returns: for reading, and for writing if `write` is set.
    ///
    /// # Errors
    ///
    /// As [`Memory::pinned_pieces`], and any error of `f`. `EAGAIN`: a page is absent; `f` was called for the
    /// pieces before it.
    #[inline]
    pub(crate) fn for_each_piece(
        &self,
        offset: u64,
        len: usize,
        write: bool,
        mut f: impl FnMut(*mut u8, usize) -> Result,
    ) -> Result {
        match self {
            Self::OnDemand(region) => region.for_each_piece(offset, len, write, f),
            _ => self
                .pinned_pieces(offset, len, write)?
                .try_for_each(|(start, len)| f(start, len)),
        }
    }

    /// Checks that `len` bytes at `offset` are present, and writable if `write` is set.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: some pages are absent.
    /// - `EFAULT`: the range ends beyond the memory.
    /// - `EACCES`: the memory is read-only.
    pub fn probe(&self, offset: u64, len: usize, write: bool) -> Result {
        self.for_each_piece(offset, len, write, |_, _| Ok(()))
    }

    /// Copies the bytes at `offset` to `to`.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: the range ends beyond the memory.
    /// - `EAGAIN`: a page is absent; some bytes may have been copied.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result {
        // SAFETY: The slice is valid for writes of its length.
        unsafe { self.read_raw(offset, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes at `offset` to `to`.
    ///
    /// # Safety
    ///
    /// `to` must be valid for writes of `len` bytes.
    ///
    /// # Errors
    ///
    /// As [`Memory::read`].
    pub(crate) unsafe fn read_raw(&self, offset: u64, mut to: *mut u8, len: usize) -> Result {
        self.for_each_piece(offset, len, false, |from, len| {
            // SAFETY: The piece is present until the closure returns. The pieces together have the length
            // that the caller guarantees at `to`. No region describes `to`. C copies, so a
            // concurrent write by a process is no data race in Rust.
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
    /// - `EFAULT`: the range ends beyond the memory.
    /// - `EACCES`: the memory is read-only.
    /// - `EAGAIN`: a page is absent; some bytes may have been copied.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result {
        let mut from = from;
        self.for_each_piece(offset, from.len(), true, |to, len| {
            let (now, later) = from.split_at_checked(len).ok_or(EFAULT)?;
            // SAFETY: The piece is present and writable until the closure returns, and `now` has its length.
            // C copies, so a concurrent access by a process is no data race in Rust.
            unsafe { bindings::ferroce_helper_memcpy(to.cast(), now.as_ptr().cast(), len) };
            from = later;
            Ok(())
        })
    }
}
