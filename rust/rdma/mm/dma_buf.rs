// SPDX-License-Identifier: GPL-2.0

//! Memory of a DMA buffer, which some driver exports and a process holds by a descriptor.
//!
//! Owns a reference to the buffer, the pin that keeps its bytes where they are, and the mapping by which the
//! processor reaches them, for as long as the region is there. A region outlives the descriptor. Does not
//! know what the exporter is.
//!
//! The processor's access begins when the buffer is mapped and ends with the mapping: no exporter can be
//! asked in softirq. Where devices see what is in the processor's caches, that makes no difference.
//!
//! C headers: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h),
//! [`include/linux/iosys-map.h`](srctree/include/linux/iosys-map.h)

use crate::mm::{
    extents::Extent,
    on_demand::{
        PERSISTENT,
        WRITABLE, //
    }, //
};
use crate::{
    bindings,
    ib_device::IbDevice, //
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

/// Both ways, since a region is read whatever else.
const BOTH: bindings::dma_data_direction = bindings::dma_data_direction::DMA_BIDIRECTIONAL;

/// A buffer that stays. The reference is ours.
struct Buffer(NonNull<bindings::dma_buf>);

impl Buffer {
    /// The buffer with a descriptor of the calling process.
    fn get(fd: c_int) -> Result<Self> {
        // SAFETY: For any number.
        let raw = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        NonNull::new(raw).map(Self).ok_or(EINVAL)
    }

    fn size(&self) -> u64 {
        // SAFETY: Ours, and its size does not change.
        unsafe { self.0.as_ref() }.size as u64
    }

    /// Whether the descriptor was given out for writing as well.
    fn is_writable(&self) -> bool {
        // SAFETY: The buffer has its file until it goes.
        let flags = unsafe { File::from_raw_file(self.0.as_ref().file) }.flags();
        flags & flags::O_ACCMODE != flags::O_RDONLY
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}

/// A device that wants to use a buffer.
struct Attachment {
    raw: NonNull<bindings::dma_buf_attachment>,
    buffer: Buffer,
}

impl Attachment {
    /// The device cannot follow a buffer that moves, nor reach memory of another device.
    const OPS: &'static bindings::dma_buf_attach_ops = &bindings::dma_buf_attach_ops {
        allow_peer2peer: false,
        invalidate_mappings: None,
    };

    fn new(device: &IbDevice, buffer: Buffer) -> Result<Self> {
        // SAFETY: Buffer and device are valid; the table is for ever.
        let raw = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(
                buffer.0.as_ptr(),
                device.as_device(),
                Self::OPS,
                ptr::null_mut(),
            )
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        Ok(Self { raw, buffer })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: Ours.
        unsafe { bindings::dma_buf_detach(self.buffer.0.as_ptr(), self.raw.as_ptr()) };
    }
}

/// A buffer that is pinned, and mapped as a whole.
struct DmaMapping {
    attachment: Attachment,
    map: bindings::iosys_map,
}

impl DmaMapping {
    fn new(attachment: Attachment) -> Result<Self> {
        let mut map = pin_init::zeroed();
        let buffer = attachment.buffer.0.as_ptr();
        // SAFETY: All is valid, and locked as the functions need it.
        to_result(unsafe {
            bindings::ferroce_helper_dma_resv_lock((*buffer).resv);
            let mut error = bindings::dma_buf_pin(attachment.raw.as_ptr());
            if error == 0 {
                error = bindings::dma_buf_vmap(buffer, &mut map);
                if error != 0 {
                    bindings::dma_buf_unpin(attachment.raw.as_ptr());
                }
            }
            bindings::ferroce_helper_dma_resv_unlock((*buffer).resv);
            error
        })?;
        Ok(Self { attachment, map })
    }
}

impl Drop for DmaMapping {
    fn drop(&mut self) {
        let buffer = self.attachment.buffer.0.as_ptr();
        // SAFETY: Mapped and pinned by `new`.
        unsafe {
            bindings::ferroce_helper_dma_resv_lock((*buffer).resv);
            bindings::dma_buf_vunmap(buffer, &mut self.map);
            bindings::dma_buf_unpin(self.attachment.raw.as_ptr());
            bindings::ferroce_helper_dma_resv_unlock((*buffer).resv);
        }
    }
}

/// A part of a DMA buffer.
///
/// # Invariants
///
/// `extents` and `len` describe bytes of the buffer that are mapped as long as `mapping` is there, and the
/// processor's access has begun.
pub struct DmaBuf {
    pub(super) extents: [Extent; 1],
    pub(super) len: u64,
    pub(super) writable: bool,
    mapping: DmaMapping,
}

// SAFETY: The mapping belongs to no task, and does not change.
unsafe impl Send for DmaBuf {}
// SAFETY: See `Send`.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// `len` bytes from byte `offset` on of the buffer with descriptor `fd` of the calling process, for a
    /// region with the rights `access` (`enum ib_access_flags`).
    ///
    /// # Errors
    ///
    /// `EBADF`, `EINVAL`: not a buffer, no bytes, not in it, or its exporter does not map it for the
    /// processor; `EACCES`: the descriptor is for reading only; `EOPNOTSUPP`: it is not memory, but that of
    /// a device on its bus; what the exporter says.
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
        // SAFETY: It is no memory of a bus, so that is the field; the buffer is ours.
        let start: *mut u8 = unsafe { mapping.map.__bindgen_anon_1.vaddr }.cast();
        // SAFETY: The buffer is ours.
        to_result(unsafe {
            bindings::dma_buf_begin_cpu_access(mapping.attachment.buffer.0.as_ptr(), BOTH)
        })?;
        Ok(Self {
            extents: [Extent {
                offset: 0,
                // CAST: Inside of the buffer.
                address: start.wrapping_add(offset as usize),
            }],
            len,
            writable,
            mapping,
        })
    }

    /// Whether the region can have the rights `access` (`enum ib_access_flags`) as it is.
    pub(super) fn allows(&self, access: u32) -> bool {
        let never = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND | PERSISTENT;
        access & never == 0 && (self.writable || access & WRITABLE == 0)
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        let buffer = self.mapping.attachment.buffer.0.as_ptr();
        // SAFETY: Ours, and `map` has begun. There is nobody to tell of a failure.
        unsafe { bindings::dma_buf_end_cpu_access(buffer, BOTH) };
    }
}
