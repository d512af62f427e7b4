// SPDX-License-Identifier: GPL-2.0

//! A ring of fixed-size elements, shared with user space.
//!
//! Owns the memory (a head, then the elements) and makes every access to it. User space may write
//! any byte at any time, so no Rust reference to the memory exists and no value in it is trusted: elements are
//! copied, and an index is loaded once and masked with a mask that user space cannot write. The kernel's end of a
//! ring keeps its own position; the memory holds only the published copy.
//!
//! `index` defines the indices and the order of accesses to indices and elements; a model checks it. Takes no lock:
//! the caller serializes the producers, and the consumers, of a ring. Any context, except that [`Ring::new`]
//! sleeps.
//!
//! C headers: `include/uapi/rdma/ferroce-abi.h`,
//! [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

mod index;

use crate::{
    bindings,
    compat::barrier::smp_mb, //
};
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

/// The head of a ring, and how its indices count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RingLayout {
    /// `struct rxe_queue_buf`. An index is the place of an element. One place stays empty, so that a full ring differs
    /// from an empty one.
    Rxe,
    /// `struct ferroce_ring`. Indices count elements and wrap around at 2^32.
    Direct,
}

impl RingLayout {
    /// Returns the number of bytes before the first element.
    const fn header_bytes(self) -> usize {
        match self {
            Self::Rxe => size_of::<bindings::rxe_queue_buf>(),
            Self::Direct => size_of::<bindings::ferroce_ring>(),
        }
    }

    /// Returns the offsets of both indices, the producer's first.
    const fn index_offsets(self) -> (usize, usize) {
        match self {
            Self::Rxe => (
                offset_of!(bindings::rxe_queue_buf, producer_index),
                offset_of!(bindings::rxe_queue_buf, consumer_index),
            ),
            Self::Direct => (
                offset_of!(bindings::ferroce_ring, producer),
                offset_of!(bindings::ferroce_ring, consumer),
            ),
        }
    }

    /// Returns the number of elements that fit in a ring that is created for at least `entries`. `None` if a ring
    /// cannot have so many.
    pub fn entries(self, entries: u32) -> Option<u32> {
        let places = self.places(entries)?;
        Some(match self {
            Self::Rxe => places.wrapping_sub(1),
            Self::Direct => places,
        })
    }

    /// Returns the number of places for `entries` elements.
    fn places(self, entries: u32) -> Option<u32> {
        match self {
            Self::Rxe => entries.checked_add(1)?.checked_next_power_of_two(),
            Self::Direct => entries.max(1).checked_next_power_of_two(),
        }
    }
}

/// Minimum size of an element: one cache line, so that neighbours do not share one.
const MIN_ELEMENT_BYTES: usize = 64;

/// Unit in which aligned elements are copied, in bytes.
const WORD_BYTES: usize = size_of::<u64>();

/// Memory of one queue, zeroed, and charged to the memory cgroup of the task that created it.
///
/// Indices are in `0..=index_mask()`.
///
/// May be dropped in process context or in an interrupt.
pub struct Ring {
    base: NonNull<u8>,
    layout: RingLayout,
    /// Number of places, a power of two, minus one.
    mask: u32,
    element_bytes: usize,
    bytes: usize,
}

// SAFETY: The ring owns its memory, which any task may access and free.
unsafe impl Send for Ring {}
// SAFETY: Every access is a volatile access to an aligned word or byte, or an atomic one. Under the LKMM these are
// marked accesses, so two CPUs may make them at once: neither user space nor two kernel callers cause a data race,
// and at worst an element is torn. Two kernel callers do not meet on an element either: the driver accesses a ring
// with the lock or the engine that owns its position in the ring (`push` and `take` need `&mut` to it).
unsafe impl Sync for Ring {}

impl Ring {
    /// Creates a ring for `entries` elements of `element_bytes` each. May sleep.
    ///
    /// The size of an element is rounded up to a power of two of at least 64 bytes, the number of places to a power
    /// of two.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the ring is larger than its length in the ABI can express (4 GiB); `ENOMEM`, also if the memory
    /// cgroup is exhausted.
    pub fn new(layout: RingLayout, element_bytes: usize, entries: u32) -> Result<Self> {
        let element_bytes = element_bytes
            .max(MIN_ELEMENT_BYTES)
            .checked_next_power_of_two()
            .ok_or(EINVAL)?;
        let places = layout.places(entries).ok_or(EINVAL)?;
        let bytes = element_bytes
            .checked_mul(places as usize)
            .and_then(|bytes| bytes.checked_add(layout.header_bytes()))
            .and_then(|bytes| bytes.checked_next_multiple_of(kernel::page::PAGE_SIZE))
            .filter(|bytes| u32::try_from(*bytes).is_ok())
            .ok_or(EINVAL)?;

        // A process chooses the size and may exhaust its memory cgroup, so a failure logs nothing.
        let flags = bindings::GFP_KERNEL_ACCOUNT | bindings::__GFP_ZERO | bindings::__GFP_NOWARN;
        // SAFETY: The caller may sleep, as GFP_KERNEL requires. `bytes` is not 0.
        let base = unsafe { bindings::__vmalloc_noprof(bytes, flags) };
        let ring = Self {
            base: NonNull::new(base.cast()).ok_or(ENOMEM)?,
            layout,
            mask: places.wrapping_sub(1),
            element_bytes,
            bytes,
        };
        ring.write_header();
        Ok(ring)
    }

    /// Writes the shape of the ring for user space. The kernel never reads it back.
    fn write_header(&self) {
        // The two words at the start.
        let shape = match self.layout {
            RingLayout::Rxe => [self.element_bytes.trailing_zeros(), self.mask],
            // CAST: `new` has checked that the size of the ring fits 32 bits.
            RingLayout::Direct => [self.mask.wrapping_add(1), self.element_bytes as u32],
        };
        // SAFETY: The header is inside the memory, which is page-aligned. The ring is not shared yet.
        unsafe { self.base.cast::<[u32; 2]>().write(shape) };
    }

    /// Returns the highest index, which is also the mask of indices.
    #[inline]
    pub fn index_mask(&self) -> u32 {
        match self.layout {
            RingLayout::Rxe => self.mask,
            RingLayout::Direct => u32::MAX,
        }
    }

    /// Returns the number of places for elements, a power of two. An index modulo this is a place.
    #[inline]
    pub fn places(&self) -> u32 {
        // OVERFLOW: `new` has checked that the size of the ring fits 32 bits.
        self.mask.wrapping_add(1)
    }

    /// Returns the size of an element in bytes.
    #[inline]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Returns the number of elements that fit.
    #[inline]
    pub fn entries(&self) -> u32 {
        match self.layout {
            RingLayout::Rxe => self.mask,
            RingLayout::Direct => self.places(),
        }
    }

    #[inline]
    fn producer_index(&self) -> SharedWord<'_> {
        SharedWord {
            ring: self,
            offset: self.layout.index_offsets().0,
        }
    }

    #[inline]
    fn consumer_index(&self) -> SharedWord<'_> {
        SharedWord {
            ring: self,
            offset: self.layout.index_offsets().1,
        }
    }

    /// Returns the word that tells the producer not to ring the doorbell, if the layout has it.
    #[inline]
    fn no_doorbell_word(&self) -> Option<SharedWord<'_>> {
        (self.layout == RingLayout::Direct).then_some(SharedWord {
            ring: self,
            offset: offset_of!(bindings::ferroce_ring, no_doorbell),
        })
    }

    /// Writes `word` to the element at `index`, at byte `offset`, a multiple of 4, after all earlier writes. Nothing,
    /// if that is not inside the element.
    #[inline]
    pub fn publish_word(&self, index: u32, offset: usize, word: u32) {
        let (at, room) = self.locate(index, offset);
        let at = at.cast::<u32>();
        if room >= size_of::<u32>() && at.is_aligned() {
            // SAFETY: The word is inside the element and aligned. The access is atomic, as in `SharedWord::store`.
            unsafe { atomic_store(at.as_ptr(), word, Release) };
        }
    }

    /// Copies from the element at `index`, beginning at byte `offset`. Reads each byte once.
    ///
    /// Bytes beyond the end of the element read as zero.
    #[inline]
    pub fn read(&self, index: u32, offset: usize, into: &mut [u8]) {
        let (from, room) = self.locate(index, offset);
        let (inside, beyond) = into.split_at_mut(into.len().min(room));
        beyond.fill(0);
        let words = if from.cast::<u64>().is_aligned() {
            inside.len() / WORD_BYTES
        } else {
            0
        };
        let mut chunks = inside.chunks_exact_mut(WORD_BYTES);
        let mut at = 0usize;
        for chunk in chunks.by_ref().take(words) {
            // SAFETY: `at + 8 <= inside.len() <= room`, so the word is inside the element; it is aligned because
            // `from` is. Volatile, because user space may write it at the same time.
            let word = unsafe { from.add(at).cast::<u64>().read_volatile() };
            chunk.copy_from_slice(&word.to_ne_bytes());
            at = at.wrapping_add(WORD_BYTES);
        }
        for byte in inside.iter_mut().skip(at) {
            // SAFETY: `at < inside.len() <= room`, so the byte is inside the element. Volatile, as above.
            *byte = unsafe { from.add(at).read_volatile() };
            at = at.wrapping_add(1);
        }
    }

    /// Returns words of 8 bytes of the element at `index`, beginning at byte `offset`, a multiple of 8. Reads each word
    /// once.
    ///
    /// They read as zero if they do not end with the element or before, or if the offset is no multiple of 8.
    #[inline]
    pub fn read_words<const N: usize>(&self, index: u32, offset: usize) -> [u64; N] {
        let (from, room) = self.locate(index, offset);
        let from = from.cast::<u64>();
        if room / WORD_BYTES < N || !from.is_aligned() {
            return [0; N];
        }
        // SAFETY: All `N` words are inside the element, and aligned because `from` is. Volatile, because user space may
        // write them at the same time.
        core::array::from_fn(|at| unsafe { from.add(at).read_volatile() })
    }

    /// Copies `bytes` to the start of the element at `index`. Cuts them to the size of an element.
    #[inline]
    pub fn write(&self, index: u32, bytes: &[u8]) {
        self.write_at(index, 0, bytes);
    }

    /// Copies the element at `index` to element `to_index` of another ring. Copies as many bytes as the smaller
    /// element has.
    pub fn copy_element(&self, index: u32, to: &Self, to_index: u32) {
        for offset in (0..self.element_bytes.min(to.element_bytes)).step_by(MIN_ELEMENT_BYTES) {
            let mut piece = [0; MIN_ELEMENT_BYTES];
            self.read(index, offset, &mut piece);
            to.write_at(to_index, offset, &piece);
        }
    }

    /// Copies `bytes` to the element at `index`, beginning at byte `offset`, rounded down to a multiple of 8. Cuts them
    /// at the end of the element.
    #[inline]
    pub fn write_at(&self, index: u32, offset: usize, bytes: &[u8]) {
        let (to, room) = self.locate(index, offset & !(WORD_BYTES - 1));
        let inside = bytes.get(..room).unwrap_or(bytes);
        let mut at = 0usize;
        for chunk in inside.chunks_exact(WORD_BYTES) {
            let mut word = [0; WORD_BYTES];
            word.copy_from_slice(chunk);
            // SAFETY: `at + 8 <= inside.len() <= room`, so the word is inside the element; it is aligned because
            // elements and `offset` are. Volatile, because user space may access it at the same time.
            unsafe {
                to.add(at)
                    .cast::<u64>()
                    .write_volatile(u64::from_ne_bytes(word));
            }
            at = at.wrapping_add(WORD_BYTES);
        }
        for byte in inside.iter().skip(at) {
            // SAFETY: `at < inside.len() <= room`, so the byte is inside the element. Volatile, as above.
            unsafe { to.add(at).write_volatile(*byte) };
            at = at.wrapping_add(1);
        }
    }

    /// Returns the address of byte `offset` of the element at `index`, and the number of bytes from there to the
    /// end of the element.
    #[inline]
    fn locate(&self, index: u32, offset: usize) -> (NonNull<u8>, usize) {
        let offset = offset.min(self.element_bytes);
        let start = ((index & self.mask) as usize).wrapping_mul(self.element_bytes);
        // OVERFLOW: `new` has checked that the size of the ring fits 32 bits.
        // SAFETY: `index` is masked and `offset` cut, so the result is at most one byte past the end of the memory.
        let at = unsafe {
            self.base.add(
                self.layout
                    .header_bytes()
                    .wrapping_add(start)
                    .wrapping_add(offset),
            )
        };
        (at, self.element_bytes.wrapping_sub(offset))
    }

    /// Returns the memory, for mapping it: its start and length are multiples of the page size.
    pub(crate) fn memory(&self) -> (NonNull<c_void>, usize) {
        (self.base.cast(), self.bytes)
    }
}

/// A word in the header. User space may write it at any time.
struct SharedWord<'a> {
    ring: &'a Ring,
    offset: usize,
}

impl SharedWord<'_> {
    #[inline]
    fn load(&self, order: impl AcquireOrRelaxed) -> u32 {
        let base = self.ring.base.as_ptr();
        // SAFETY: The offset is that of a word of the header, which is aligned. The access is atomic, and user space
        // cannot access the memory in a way that breaks atomicity: the hardware treats it as another CPU.
        unsafe { atomic_load(base.add(self.offset).cast::<u32>(), order) }
    }

    #[inline]
    fn store(&self, index: u32, order: impl ReleaseOrRelaxed) {
        let base = self.ring.base.as_ptr();
        // SAFETY: As in `load`: inside the header, aligned, and atomic.
        unsafe { atomic_store(base.add(self.offset).cast::<u32>(), index, order) };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with vmalloc, and `self` is its only owner. Mappings hold references
        // to the pages, which stay allocated until they are unmapped.
        unsafe { bindings::vfree(self.base.as_ptr().cast()) };
    }
}

const _: () = {
    assert!(RingLayout::Rxe.header_bytes() == 384);
    assert!(RingLayout::Direct.header_bytes() == 192);
    assert!(MIN_ELEMENT_BYTES % WORD_BYTES == 0);
    assert!(offset_of!(bindings::rxe_queue_buf, producer_index) == 128);
    assert!(offset_of!(bindings::rxe_queue_buf, consumer_index) == 256);
    assert!(offset_of!(bindings::ferroce_ring, producer) == 64);
    assert!(offset_of!(bindings::ferroce_ring, consumer) == 128);
};
