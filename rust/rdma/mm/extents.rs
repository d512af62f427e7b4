// SPDX-License-Identifier: GPL-2.0

//! Arithmetic on ranges of a region: pieces between extents, and ranges of addresses between ODP chunks.
//!
//! Depends on the kernel for the page size only; addresses are not dereferenced.
//! `tests/host/tests/mm_extents.rs` compiles this file too, and compares it with a byte-by-byte model.

use core::ops::Range;
use kernel::page::PAGE_SIZE;

/// A part of a region that is contiguous for the kernel, from `offset` in the region up to the next extent.
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) address: *mut u8,
}

/// Returns the extents from the one on that contains `offset`, of a region of `end` bytes with these extents. `None` if
/// `len` bytes at `offset` end beyond the region.
#[inline]
fn extents_at(extents: &[Extent], end: u64, offset: u64, len: usize) -> Option<&[Extent]> {
    // CAST: `usize` has 64 bits.
    if offset.checked_add(len as u64).is_none_or(|last| last > end) {
        return None;
    }
    let first = match extents {
        [_] => 0,
        _ => extents
            .partition_point(|extent| extent.offset <= offset)
            .saturating_sub(1),
    };
    extents.get(first..)
}

/// Returns the start of `len` bytes at `offset` of a region of `end` bytes with these extents, if they are in the
/// region and one piece. Cheaper than [`PieceIter`].
#[inline]
pub(crate) fn one_piece(extents: &[Extent], end: u64, offset: u64, len: usize) -> Option<*mut u8> {
    let (extent, rest) = extents_at(extents, end, offset, len)?.split_first()?;
    let is_one = rest.first().is_none_or(|next| {
        // CAST: `usize` has 64 bits.
        next.offset.wrapping_sub(offset) >= len as u64
    });
    // CAST: `u64` to `usize`, which has 64 bits.
    let inside = offset.wrapping_sub(extent.offset) as usize;
    is_one.then(|| extent.address.wrapping_add(inside))
}

/// Iterator over the contiguous pieces of a range of a region.
pub(crate) struct PieceIter<'a> {
    /// The remaining extents; the first contains the byte at `at`.
    extents: &'a [Extent],
    at: u64,
    left: usize,
}

impl<'a> PieceIter<'a> {
    /// Returns the pieces of `len` bytes at `offset` of a region with these extents and a length of `end`
    /// bytes. `None` if the range ends beyond the region.
    #[inline]
    pub(crate) fn new(extents: &'a [Extent], end: u64, offset: u64, len: usize) -> Option<Self> {
        Some(Self {
            extents: extents_at(extents, end, offset, len)?,
            at: offset,
            left: len,
        })
    }
}

impl Iterator for PieceIter<'_> {
    type Item = (*mut u8, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let (extent, rest) = self.extents.split_first()?;
        // CAST: `u64` to `usize`, which has 64 bits.
        let inside = self.at.wrapping_sub(extent.offset) as usize;
        let len = match rest.first() {
            Some(next) => self.left.min(next.offset.wrapping_sub(self.at) as usize),
            None => self.left,
        };
        self.extents = rest;
        self.at = self.at.wrapping_add(len as u64);
        self.left = self.left.wrapping_sub(len);
        Some((extent.address.wrapping_add(inside), len))
    }
}

/// Size and alignment of an ODP chunk. The first and last chunk of a region may be shorter.
pub(crate) const ODP_CHUNK_BYTES: u64 = 2 << 20;

/// Iterator over a range of addresses, split at the boundaries of ODP chunks.
pub(crate) struct ChunkRanges(Range<u64>);

impl ChunkRanges {
    /// Returns the addresses of `count` bytes at `offset`, in a region of `len` bytes at `start` that does
    /// not wrap around the address space. `None` if the range ends beyond the region.
    pub(crate) fn new(start: u64, len: u64, offset: u64, count: u64) -> Option<Self> {
        let end = offset.checked_add(count).filter(|&end| end <= len)?;
        // Cannot overflow: the region does not wrap around the address space.
        Some(Self(start.wrapping_add(offset)..start.wrapping_add(end)))
    }
}

impl Iterator for ChunkRanges {
    type Item = Range<u64>;

    #[inline]
    fn next(&mut self) -> Option<Range<u64>> {
        let Range { start, end } = self.0;
        if start >= end {
            return None;
        }
        let to = (start / ODP_CHUNK_BYTES)
            .saturating_add(1)
            .saturating_mul(ODP_CHUNK_BYTES);
        self.0.start = to.min(end);
        Some(start..to.min(end))
    }
}

/// Returns the number of the chunk that contains `address`, in a region that begins at `start`. With page tables
/// of five levels, a region of all addresses of a process has more than 2^32 chunks.
pub(crate) fn chunk_of(start: u64, address: u64) -> u64 {
    (address / ODP_CHUNK_BYTES).wrapping_sub(start / ODP_CHUNK_BYTES)
}

/// Returns the addresses of chunk `number`, in a region of `len` bytes at `start`: whole pages, and no more
/// than the region needs. `None` if they exceed the address space.
pub(crate) fn chunk_addresses(start: u64, len: u64, number: u64) -> Option<Range<u64>> {
    let first = (start / ODP_CHUNK_BYTES).wrapping_add(number);
    let from = first.checked_mul(ODP_CHUNK_BYTES)?;
    let to = from.checked_add(ODP_CHUNK_BYTES)?;
    // Only the pages that the region covers.
    let page = PAGE_SIZE as u64;
    let region_end = start.wrapping_add(len);
    let last = region_end.checked_next_multiple_of(page).unwrap_or(to);
    Some(from.max(start & !(page - 1))..to.min(last))
}
