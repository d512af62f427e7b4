// SPDX-License-Identifier: GPL-2.0

//! How a range of a region is cut: where extents end, where chunks meet.
//!
//! Owns the arithmetic, and nothing else. Of the kernel it knows the size of a page: `tests/host` compiles this file
//! as well, and compares it with what single bytes say. Addresses are numbers here; nobody reads what is there.

use core::ops::Range;
use kernel::page::PAGE_SIZE;

/// Where a run of bytes is, from `offset` in the region up to the next extent.
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) address: *mut u8,
}

/// The contiguous pieces of a range that lies in its region.
pub(crate) struct Pieces<'a> {
    /// Those that are left; the first has the byte at `at`.
    extents: &'a [Extent],
    at: u64,
    left: usize,
}

impl<'a> Pieces<'a> {
    /// The pieces of `len` bytes at `offset`, of a region that consists of these extents and has `end` bytes.
    /// `None`: it ends before.
    pub(crate) fn new(extents: &'a [Extent], end: u64, offset: u64, len: usize) -> Option<Self> {
        if offset.checked_add(len as u64).is_none_or(|last| last > end) {
            return None;
        }
        let first = match extents {
            [_] => 0,
            _ => extents
                .partition_point(|extent| extent.offset <= offset)
                .saturating_sub(1),
        };
        Some(Self {
            extents: extents.get(first..).unwrap_or_default(),
            at: offset,
            left: len,
        })
    }
}

impl Iterator for Pieces<'_> {
    type Item = (*mut u8, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let (extent, rest) = self.extents.split_first()?;
        // CAST: `u64` to `usize`, on 64 bits.
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

/// Addresses of a chunk, at most. It begins at a multiple of this.
pub(crate) const CHUNK: u64 = 2 << 20;

/// Addresses, cut where chunks meet.
pub(crate) struct ChunkRanges(Range<u64>);

impl ChunkRanges {
    /// The addresses of `count` bytes at `offset`, of a region of `len` bytes at `start`, which ends inside of the
    /// address space. `None`: it ends before.
    pub(crate) fn new(start: u64, len: u64, offset: u64, count: u64) -> Option<Self> {
        let end = offset.checked_add(count).filter(|&end| end <= len)?;
        // Cannot overflow: the region ends inside of the address space.
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
        let to = (start / CHUNK).saturating_add(1).saturating_mul(CHUNK);
        self.0.start = to.min(end);
        Some(start..to.min(end))
    }
}

/// The number of the chunk that has `address`, in a region that begins at `start`. `None`: there are not so many.
pub(crate) fn chunk_of(start: u64, address: u64) -> Option<u32> {
    let distance = (address / CHUNK).wrapping_sub(start / CHUNK);
    u32::try_from(distance).ok()
}

/// The addresses of the chunk with that number, of a region of `len` bytes at `start`: whole pages, no more than
/// the region needs. `None`: they are not in the address space.
pub(crate) fn chunk_addresses(start: u64, len: u64, number: u32) -> Option<Range<u64>> {
    let first = (start / CHUNK).wrapping_add(u64::from(number));
    let from = first.checked_mul(CHUNK)?;
    let to = from.checked_add(CHUNK)?;
    // A small region needs no more.
    let page = PAGE_SIZE as u64;
    let region_end = start.wrapping_add(len);
    let last = region_end.checked_next_multiple_of(page).unwrap_or(to);
    Some(from.max(start & !(page - 1))..to.min(last))
}
