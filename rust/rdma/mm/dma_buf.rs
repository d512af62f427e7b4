// SPDX-License-Identifier: GPL-2.0

//! Memory of a DMA-BUF, imported by file descriptor.
//!
//! A region holds a reference to the buffer, pins it, and maps it for the CPU until the region is dropped. It
//! outlives the descriptor. Creating and dropping a region is for process context; it takes the buffer's
//! reservation lock.
//!
//! CPU access begins when the buffer is mapped and ends with the mapping, because exporters cannot be called
//! in softirq. On cache-coherent machines that makes no difference.
//!
//! C headers: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h),
//! [`include/linux/iosys-map.h`](srctree/include/linux/iosys-map.h)

use crate::{
    bindings,
    compat::dma_buf::PINNED,
    ib_device::IbDevice, //
};
use crate::{
    errno::EOPNOTSUPP,
    mm::{
        extents::Extent,
        on_demand::{
            PERSISTENT,
            WRITABLE, //
        }, //
    }, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    fs::file::{
        flags,
        File, //
    },
    prelude::*, //
};

/// Direction of the CPU access: a writable region is also read.
const DIRECTION: bindings::dma_data_direction = bindings::dma_data_direction::DMA_BIDIRECTIONAL;

/// A reference to a DMA-BUF.
///
/// # Invariants
///
/// The buffer is valid, and the reference is owned.
struct Buffer(NonNull<bindings::dma_buf>);

impl Buffer {
    /// Returns the buffer of file descriptor `fd` of the calling process.
    fn get(fd: c_int) -> Result<Self> {
        // SAFETY: `dma_buf_get` accepts any number and is called in a process.
        let raw = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: C returned a reference.
        NonNull::new(raw).map(Self).ok_or(EINVAL)
    }

    fn size(&self) -> u64 {
        // SAFETY: The buffer is valid by the type invariant, and its size does not change.
        unsafe { self.0.as_ref() }.size as u64
    }

    /// Returns whether the exporter moves buffers that are not pinned.
    fn may_move(&self) -> bool {
        // SAFETY: The buffer is valid by the type invariant, and its operations do not change.
        unsafe { (*self.0.as_ref().ops).pin.is_some() }
    }

    /// Returns whether the descriptor was opened for writing.
    fn is_writable(&self) -> bool {
        // SAFETY: The buffer is valid by the type invariant. It keeps its file as long as it exists.
        let flags = unsafe { File::from_raw_file(self.0.as_ref().file) }.flags();
        flags & flags::O_ACCMODE != flags::O_RDONLY
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is owned, and this gives it up once.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}

/// The reservation lock of a buffer, held.
struct ReservationGuard<'a>(&'a Buffer);

impl<'a> ReservationGuard<'a> {
    /// Takes the lock. Sleeps.
    fn lock(buffer: &'a Buffer) -> Self {
        // SAFETY: The buffer is valid by the type invariant, and keeps its reservation object. The caller may sleep.
        unsafe { bindings::ferroce_helper_dma_resv_lock(buffer.0.as_ref().resv) };
        Self(buffer)
    }
}

impl Drop for ReservationGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: The buffer is borrowed, so still valid, and `lock` locked its reservation object in this task.
        unsafe { bindings::ferroce_helper_dma_resv_unlock(self.0 .0.as_ref().resv) };
    }
}

/// The attachment of a device to a buffer.
///
/// # Invariants
///
/// `raw` is valid and owned, and attached to `buffer`; by `PINNED` if the buffer may move.
struct Attachment {
    raw: NonNull<bindings::dma_buf_attachment>,
    buffer: Buffer,
}

impl Attachment {
    fn new(device: &IbDevice, buffer: Buffer) -> Result<Self> {
        // For a buffer that does not move, C may map an attachment that could follow it at once, for the DMA of the
        // device, which has none.
        let ops = match buffer.may_move() {
            true => ptr::from_ref(PINNED),
            false => ptr::null(),
        };
        let (dma_buf, device) = (buffer.0.as_ptr(), device.as_device());
        // SAFETY: Buffer and device are valid for the call, and `PINNED` is static. C keeps the device pointer;
        // the region's owner keeps the device.
        let raw = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(dma_buf, device, ops, ptr::null_mut())
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        // INVARIANT: C returned a new attachment.
        Ok(Self { raw, buffer })
    }

    /// Pins the buffer, unless it does not move anyway.
    fn pin(&self, _reservation: &ReservationGuard<'_>) -> Result {
        if !self.buffer.may_move() {
            return Ok(());
        }
        // SAFETY: By the type invariant the attachment is valid and was made by `PINNED`. The reservation lock is held.
        to_result(unsafe { bindings::dma_buf_pin(self.raw.as_ptr()) })
    }

    /// Undoes [`pin`](Self::pin), which has succeeded.
    fn unpin(&self, _reservation: &ReservationGuard<'_>) {
        if self.buffer.may_move() {
            // SAFETY: As in `pin`; the caller states that the attachment is pinned.
            unsafe { bindings::dma_buf_unpin(self.raw.as_ptr()) };
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the attachment is owned and belongs to `buffer`. A mapping that used
        // it was dropped before.
        unsafe { bindings::dma_buf_detach(self.buffer.0.as_ptr(), self.raw.as_ptr()) };
    }
}

/// A buffer that is pinned and completely mapped for the CPU.
///
/// # Invariants
///
/// `attachment` is pinned and `dma_buf_vmap` succeeded; `map` is its result.
struct DmaMapping {
    attachment: Attachment,
    map: bindings::iosys_map,
}

impl DmaMapping {
    /// Pins and maps the buffer. Sleeps.
    fn new(attachment: Attachment) -> Result<Self> {
        let mut map = pin_init::zeroed();
        let buffer = &attachment.buffer;
        let reservation = ReservationGuard::lock(buffer);
        attachment.pin(&reservation)?;
        // SAFETY: The buffer is valid by its type invariant and pinned, the reservation lock is held, and `map` is
        // a valid place for the result.
        to_result(unsafe { bindings::dma_buf_vmap(buffer.0.as_ptr(), &mut map) })
            .inspect_err(|_| attachment.unpin(&reservation))?;
        drop(reservation);
        // INVARIANT: Both calls succeeded.
        Ok(Self { attachment, map })
    }
}

impl Drop for DmaMapping {
    fn drop(&mut self) {
        let reservation = ReservationGuard::lock(&self.attachment.buffer);
        // SAFETY: By the type invariant `map` is a mapping of this buffer, and it is not used after this. The
        // reservation lock is held.
        unsafe { bindings::dma_buf_vunmap(self.attachment.buffer.0.as_ptr(), &mut self.map) };
        self.attachment.unpin(&reservation);
    }
}

/// A part of a DMA-BUF.
///
/// # Invariants
///
/// `extents` and `len` describe bytes of the buffer that are mapped as long as `mapping` exists. CPU access
/// has begun.
pub struct DmaBuf {
    pub(super) extents: [Extent; 1],
    pub(super) len: u64,
    pub(super) writable: bool,
    mapping: DmaMapping,
}

// SAFETY: The mapping belongs to no task, and does not change until the drop.
unsafe impl Send for DmaBuf {}
// SAFETY: As for `Send`: shared references only read fields that do not change.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Maps `len` bytes at `offset` of the buffer with file descriptor `fd` of the calling process, for a
    /// region with the rights `access` (`enum ib_access_flags`). Sleeps.
    ///
    /// # Errors
    ///
    /// - `EBADF`, `EINVAL`: `fd` is no DMA-BUF, `len` is 0, the range exceeds the buffer, or the exporter has
    ///   no CPU mapping.
    /// - `EACCES`: the region is writable, and the descriptor is read-only.
    /// - `EOPNOTSUPP`: the buffer is device memory (MMIO).
    /// - Any error of the exporter.
    pub fn map(device: &IbDevice, fd: c_int, offset: u64, len: u64, access: u32) -> Result<Self> {
        let buffer = Buffer::get(fd)?;
        let fits = offset
            .checked_add(len)
            .is_some_and(|end| end <= buffer.size());
        if len == 0 || !fits {
            return Err(EINVAL);
        }
        let writable = access & WRITABLE != 0;
        if writable && !buffer.is_writable() {
            return Err(EACCES);
        }
        let mapping = DmaMapping::new(Attachment::new(device, buffer)?)?;
        if mapping.map.is_iomem {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: `is_iomem` is false, so `vaddr` is the active field of the union.
        let start: *mut u8 = unsafe { mapping.map.__bindgen_anon_1.vaddr }.cast();
        // SAFETY: The buffer is valid by the invariant of `Buffer`, which `mapping` contains. The reservation
        // lock is not held.
        to_result(unsafe {
            bindings::dma_buf_begin_cpu_access(mapping.attachment.buffer.0.as_ptr(), DIRECTION)
        })?;
        Ok(Self {
            extents: [Extent {
                offset: 0,
                // CAST: `u64` to `usize`, which has 64 bits. The offset is inside the buffer.
                address: start.wrapping_add(offset as usize),
            }],
            len,
            writable,
            mapping,
        })
    }

    /// Returns whether a region with the rights `access` (`enum ib_access_flags`) can use this mapping.
    pub(super) fn allows(&self, access: u32) -> bool {
        let never = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND | PERSISTENT;
        access & never == 0 && (self.writable || access & WRITABLE == 0)
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        let buffer = self.mapping.attachment.buffer.0.as_ptr();
        // SAFETY: The buffer is valid by the invariant of `Buffer`, and `map` has begun CPU access. A failure
        // is ignored: a drop cannot report it.
        unsafe { bindings::dma_buf_end_cpu_access(buffer, DIRECTION) };
    }
}
