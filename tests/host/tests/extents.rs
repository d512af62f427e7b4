// SPDX-License-Identifier: GPL-2.0

//! Ranges of regions, split into pieces and chunks, against a byte-by-byte model. Compiles the module's own
//! `extents.rs`.

// The file imports `kernel::page`.
extern crate self as kernel;

use core::ops::Range;
use extents::{
    chunk_addresses,
    chunk_of,
    ChunkRanges,
    Extent,
    PieceIter,
    ODP_CHUNK_BYTES, //
};
use page::PAGE_SIZE;
use proptest::prelude::*;

#[path = "../../../rust/rdma/mm/extents.rs"]
mod extents;

/// Stands in for `kernel::page`.
pub mod page {
    /// Page size in bytes.
    pub const PAGE_SIZE: usize = 4096;
}

const PAGE: u64 = PAGE_SIZE as u64;

/// An address that is only compared.
fn at(address: u64) -> *mut u8 {
    core::ptr::without_provenance_mut(usize::try_from(address).unwrap())
}

/// Returns a region of extents with the given lengths, each far from the previous one, and its length.
fn region_of(lengths: &[u64], places: &[u64]) -> (Vec<Extent>, u64) {
    let mut offset = 0;
    let found = lengths
        .iter()
        .zip(places)
        .enumerate()
        .map(|(number, (len, place))| {
            let extent = Extent {
                offset,
                address: at(((number as u64 + 1) << 32) + place),
            };
            offset += len;
            extent
        });
    let found = found.collect();
    (found, offset)
}

/// Returns the address of the byte at `offset`, found by a search through all extents.
fn address_of(extents: &[Extent], offset: u64) -> usize {
    let extent = extents
        .iter()
        .rfind(|extent| extent.offset <= offset)
        .unwrap();
    extent.address.addr() + usize::try_from(offset - extent.offset).unwrap()
}

/// Checks that pieces have the right addresses, are consecutive, end where an extent ends, and are complete.
fn check_pieces(extents: &[Extent], end: u64, offset: u64, len: usize) {
    let inside = u128::from(offset) + len as u128 <= u128::from(end);
    let Some(pieces) = PieceIter::new(extents, end, offset, len) else {
        assert!(!inside, "{offset:#x} {len:#x} of {end:#x}");
        return;
    };
    assert!(inside, "{offset:#x} {len:#x} of {end:#x}");
    let mut next = offset;
    for (start, size) in pieces {
        assert!(size > 0);
        let last = next + size as u64 - 1;
        assert_eq!(start.addr(), address_of(extents, next));
        assert_eq!(
            start.addr() + size - 1,
            address_of(extents, last),
            "an extent ended before"
        );
        next = last + 1;
        let ends = next == offset + len as u64;
        assert!(
            ends || extents.iter().any(|extent| extent.offset == next),
            "split too early"
        );
    }
    assert_eq!(next, offset + len as u64);
}

#[test]
fn every_range_of_small_regions_is_whole() {
    for lengths in [
        &[5_u64][..],
        &[1, 1, 1],
        &[3, 1, 4],
        &[1, 7, 2, 1],
        &[2, 2, 2, 2, 2],
    ] {
        let (extents, end) = region_of(lengths, &[0, 4095, 1, 4096, 7]);
        for offset in 0..=end + 2 {
            for len in 0..=end as usize + 2 {
                check_pieces(&extents, end, offset, len);
            }
        }
    }
}

#[test]
fn ranges_at_the_ends_of_all_memory_are_whole_or_refused() {
    // As for all kernel memory: one extent, in which every offset is an address.
    let everything = [Extent {
        offset: 0,
        address: core::ptr::null_mut(),
    }];
    for offset in [0, 1, 1 << 32, 1 << 63, u64::MAX - 9, u64::MAX - 1, u64::MAX] {
        for len in [0, 1, 2, 9, 1 << 32, usize::MAX - 1, usize::MAX] {
            check_pieces(&everything, u64::MAX, offset, len);
        }
    }
    assert!(PieceIter::new(&[], 0, 0, 1).is_none());
    assert_eq!(PieceIter::new(&[], 0, 0, 0).unwrap().count(), 0);
}

/// Addresses around chunk boundaries and the end of the address space, and arbitrary ones.
fn address() -> impl Strategy<Value = u64> {
    let meeting = (0..1_u64 << 43, 0..3 * PAGE, any::<bool>());
    prop_oneof![
        meeting.prop_map(|(chunk, far, up)| {
            let near = chunk * ODP_CHUNK_BYTES;
            match up {
                true => near.saturating_add(far),
                false => near.saturating_sub(far),
            }
        }),
        0..4 * ODP_CHUNK_BYTES,
        (0..4 * ODP_CHUNK_BYTES).prop_map(|far| u64::MAX - far),
        any::<u64>(),
    ]
}

/// A few chunks at most, so that there are few ranges.
fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3 * PAGE,
        0..6 * ODP_CHUNK_BYTES,
        (0..6_u64, 0..3_u64).prop_map(|(count, more)| count * ODP_CHUNK_BYTES + more)
    ]
}

/// Returns whether `inner` lies in `outer`.
fn within(inner: &Range<u64>, outer: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn pieces_are_where_their_bytes_are(
        lengths in prop::collection::vec(1..20_000_u64, 1..12),
        places in prop::collection::vec(0..8192_u64, 12),
        place: prop::sample::Index,
        rest: prop::sample::Index,
        beyond in prop_oneof![4 => Just(0_usize), 1 => 0..3_usize],
    ) {
        let (extents, end) = region_of(&lengths, &places);
        let size = usize::try_from(end).unwrap() + 1;
        let offset = place.index(size);
        check_pieces(&extents, end, offset as u64, rest.index(size - offset) + beyond);
    }

    #[test]
    fn ranges_are_in_their_chunks(
        start in address(),
        len in prop_oneof![length(), Just(u64::MAX)],
        offset in prop_oneof![length(), address()],
        count in length(),
    ) {
        // As `OnDemand::new` ensures: the region does not wrap around the address space.
        prop_assume!(len > 0);
        let len = len.min(u64::MAX - start);
        let region = start..start + len;
        let inside = u128::from(offset) + u128::from(count) <= u128::from(len);
        let Some(ranges) = ChunkRanges::new(start, len, offset, count) else {
            prop_assert!(!inside);
            return Ok(());
        };
        prop_assert!(inside);
        let mut next = start + offset;
        for range in ranges {
            prop_assert_eq!(range.start, next);
            prop_assert!(range.end > range.start && within(&range, &region));
            prop_assert_eq!(range.start / ODP_CHUNK_BYTES, (range.end - 1) / ODP_CHUNK_BYTES, "one chunk");
            next = range.end;
            prop_assert!(next % ODP_CHUNK_BYTES == 0 || next == start + offset + count, "split too early");
            let number = u128::from(range.start / ODP_CHUNK_BYTES - start / ODP_CHUNK_BYTES);
            let chunk = chunk_of(start, range.start);
            prop_assert_eq!(chunk.map(u128::from), (number <= u128::from(u32::MAX)).then_some(number));
            // The last chunk of the address space has no end address.
            let base = range.start / ODP_CHUNK_BYTES * ODP_CHUNK_BYTES;
            let ends = base.checked_add(ODP_CHUNK_BYTES);
            let found = chunk.and_then(|chunk| chunk_addresses(start, len, chunk));
            prop_assert_eq!(found.is_some(), chunk.is_some() && ends.is_some());
            if let (Some(found), Some(ends)) = (found, ends) {
                prop_assert!(within(&range, &found), "{range:x?} in {found:x?}");
                prop_assert!(within(&found, &(base..ends)));
                prop_assert_eq!((found.start % PAGE, found.end % PAGE), (0, 0));
                let needed = start / PAGE..(region.end - 1) / PAGE + 1;
                prop_assert!(within(&(found.start / PAGE..found.end / PAGE), &needed), "more than is needed");
            }
        }
        prop_assert_eq!(next, start + offset + count);
    }
}
