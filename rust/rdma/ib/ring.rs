// SPDX-License-Identifier: GPL-2.0

//! A ring of fixed-size elements, shared with user space.
//!
//! Owns the memory, its layout (`struct rxe_queue_buf`, then the elements) and every access to it.
//! User space may write any byte at any time, so nothing here is trusted and no reference to the
//! memory is ever made: elements are copied by value, indices are loaded once and masked with a
//! mask that user space cannot reach. Whoever consumes or produces keeps its own position; the ring
//! holds only the published copy. What the indices say, and in which order they and the elements are
//! touched, is in `index`, where it is also checked in a model. Knows nothing of what the elements
//! mean.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

mod index;

use crate::bindings;
use core::{
    ffi::c_void,
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        atomic_load,
        atomic_store,
        ordering::{
            Acquire,
            AcquireOrRelaxed,
            Release,
            ReleaseOrRelaxed, //
        }, //
    }, //
};

/// Bytes before the first element.
const HEADER: usize = size_of::<bindings::rxe_queue_buf>();

/// The smallest element: one cache line, so that neighbours do not share one.
const MIN_ELEMENT: usize = 64;

/// Elements are copied in pieces of this many bytes where they are aligned.
const WORD: usize = size_of::<u64>();

/// Memory of one queue, zeroed, charged to the task that made it.
///
/// One slot is always empty, so that a full ring differs from an empty one: a ring of `n` entries
/// has at least `n + 1` slots. Indices are in `0..=mask()`.
///
/// Drop it where sleeping is allowed, or in an interrupt.
pub struct Ring {
    base: NonNull<u8>,
    mask: u32,
    element: usize,
    bytes: usize,
}

// SAFETY: The memory belongs to the ring, and accesses are volatile or atomic.
unsafe impl Send for Ring {}
// SAFETY: See `Send`. Torn elements are the users' concern: user space can tear them anyway.
unsafe impl Sync for Ring {}

impl Ring {
    /// A ring for `entries` elements of `element_bytes` each.
    ///
    /// Both are rounded up: elements to a power of two of at least 64 bytes, the number of slots to
    /// a power of two above `entries`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the ring would be larger than user space can be told (4 GiB); `ENOMEM`, also
    /// when the caller's memory cgroup is exhausted.
    pub fn new(element_bytes: usize, entries: u32) -> Result<Self> {
        let element = element_bytes
            .max(MIN_ELEMENT)
            .checked_next_power_of_two()
            .ok_or(EINVAL)?;
        let slots = entries
            .checked_add(1)
            .and_then(u32::checked_next_power_of_two)
            .ok_or(EINVAL)?;
        let bytes = element
            .checked_mul(slots as usize)
            .and_then(|bytes| bytes.checked_add(HEADER))
            .and_then(|bytes| bytes.checked_next_multiple_of(kernel::page::PAGE_SIZE))
            .filter(|bytes| u32::try_from(*bytes).is_ok())
            .ok_or(EINVAL)?;

        // A process chooses the size, and its own memory may be exhausted: that is no news.
        let flags = bindings::GFP_KERNEL_ACCOUNT | bindings::__GFP_ZERO | bindings::__GFP_NOWARN;
        // SAFETY: No precondition; the size is not 0.
        let base = unsafe { bindings::__vmalloc_noprof(bytes, flags) };
        let ring = Self {
            base: NonNull::new(base.cast()).ok_or(ENOMEM)?,
            mask: slots.wrapping_sub(1),
            element,
            bytes,
        };
        ring.describe();
        Ok(ring)
    }

    /// Tells user space the shape of the ring. The kernel never reads these back.
    fn describe(&self) {
        let header = self.base.cast::<bindings::rxe_queue_buf>().as_ptr();
        // SAFETY: The header is inside the memory, which nobody else sees yet.
        unsafe {
            (&raw mut (*header).log2_elem_size).write(self.element.trailing_zeros());
            (&raw mut (*header).index_mask).write(self.mask);
        }
    }

    /// The highest index; adding to an index and masking with this moves it along the ring.
    #[inline]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Bytes of one element.
    #[inline]
    pub fn element_bytes(&self) -> usize {
        self.element
    }

    /// Elements that fit.
    #[inline]
    pub fn entries(&self) -> u32 {
        // One slot stays empty.
        self.mask
    }

    #[inline]
    fn producer_index(&self) -> SharedIndex<'_> {
        SharedIndex {
            ring: self,
            offset: offset_of!(bindings::rxe_queue_buf, producer_index),
        }
    }

    #[inline]
    fn consumer_index(&self) -> SharedIndex<'_> {
        SharedIndex {
            ring: self,
            offset: offset_of!(bindings::rxe_queue_buf, consumer_index),
        }
    }

    /// Copies from the element at `index`, beginning at its byte `offset`. Each byte is read once.
    ///
    /// What lies beyond the element reads as zero.
    #[inline]
    pub fn read(&self, index: u32, offset: usize, into: &mut [u8]) {
        let (from, room) = self.locate(index, offset);
        let (inside, beyond) = into.split_at_mut(into.len().min(room));
        beyond.fill(0);
        let words = if from.cast::<u64>().is_aligned() {
            inside.len() / WORD
        } else {
            0
        };
        let mut chunks = inside.chunks_exact_mut(WORD);
        let mut at = 0usize;
        for chunk in chunks.by_ref().take(words) {
            // SAFETY: Inside the element, since `inside` is no longer than `room`; aligned, since
            // `from` is. Volatile, because user space may write it at the same time.
            let word = unsafe { from.add(at).cast::<u64>().read_volatile() };
            chunk.copy_from_slice(&word.to_ne_bytes());
            at = at.wrapping_add(WORD);
        }
        for byte in inside.iter_mut().skip(at) {
            // SAFETY: See above; a byte is always aligned.
            *byte = unsafe { from.add(at).read_volatile() };
            at = at.wrapping_add(1);
        }
    }

    /// Copies `bytes` to the start of the element at `index`. What does not fit is left out.
    #[inline]
    pub fn write(&self, index: u32, bytes: &[u8]) {
        self.write_at(index, 0, bytes);
    }

    /// Copies the element at `index` to the place `to_index` of another ring. Of two sizes, the smaller
    /// one counts.
    pub fn copy_element(&self, index: u32, to: &Self, to_index: u32) {
        for offset in (0..self.element.min(to.element)).step_by(MIN_ELEMENT) {
            let mut piece = [0; MIN_ELEMENT];
            self.read(index, offset, &mut piece);
            to.write_at(to_index, offset, &piece);
        }
    }

    /// Copies `bytes` to the element at `index`, beginning at its byte `offset`, a multiple of 8.
    #[inline]
    fn write_at(&self, index: u32, offset: usize, bytes: &[u8]) {
        let (to, room) = self.locate(index, offset);
        let inside = bytes.get(..room).unwrap_or(bytes);
        let mut at = 0usize;
        for chunk in inside.chunks_exact(WORD) {
            let mut word = [0; WORD];
            word.copy_from_slice(chunk);
            // SAFETY: Inside the element, since `inside` is no longer than `room`; aligned, since
            // elements and `offset` are. Volatile, because user space may access it at the same time.
            unsafe {
                to.add(at)
                    .cast::<u64>()
                    .write_volatile(u64::from_ne_bytes(word));
            }
            at = at.wrapping_add(WORD);
        }
        for byte in inside.iter().skip(at) {
            // SAFETY: See above; a byte is always aligned.
            unsafe { to.add(at).write_volatile(*byte) };
            at = at.wrapping_add(1);
        }
    }

    /// Address of byte `offset` of the element at `index`, and how many bytes of the element are
    /// left there.
    #[inline]
    fn locate(&self, index: u32, offset: usize) -> (NonNull<u8>, usize) {
        let offset = offset.min(self.element);
        let start = ((index & self.mask) as usize).wrapping_mul(self.element);
        // OVERFLOW: `new` has checked the size of the whole.
        // SAFETY: At most the end of the memory.
        let at = unsafe {
            self.base
                .add(HEADER.wrapping_add(start).wrapping_add(offset))
        };
        (at, self.element.wrapping_sub(offset))
    }

    /// The memory as a whole, for mapping: page-aligned in start and length.
    pub(crate) fn memory(&self) -> (NonNull<c_void>, usize) {
        (self.base.cast(), self.bytes)
    }
}

/// One of the two indices in the header, which user space may write at any time.
struct SharedIndex<'a> {
    ring: &'a Ring,
    offset: usize,
}

impl SharedIndex<'_> {
    #[inline]
    fn load(&self, order: impl AcquireOrRelaxed) -> u32 {
        let base = self.ring.base.as_ptr();
        // SAFETY: Both indices are inside the header and aligned. User space can only access them
        // in ways that the hardware keeps apart, as with any memory that two CPUs share.
        unsafe { atomic_load(base.add(self.offset).cast::<u32>(), order) }
    }

    #[inline]
    fn store(&self, index: u32, order: impl ReleaseOrRelaxed) {
        let base = self.ring.base.as_ptr();
        // SAFETY: See `load`.
        unsafe { atomic_store(base.add(self.offset).cast::<u32>(), index, order) };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: The memory came from vmalloc. Pages that are still mapped live on until they
        // are unmapped, since mappings count references.
        unsafe { bindings::vfree(self.base.as_ptr().cast()) };
    }
}

const _: () = {
    assert!(HEADER == 384);
    assert!(HEADER % WORD == 0 && MIN_ELEMENT % WORD == 0);
    assert!(offset_of!(bindings::rxe_queue_buf, producer_index) == 128);
    assert!(offset_of!(bindings::rxe_queue_buf, consumer_index) == 256);
};
