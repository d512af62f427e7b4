// SPDX-License-Identifier: GPL-2.0

//! How ranges of regions are cut, against what each byte says: the very file that the module is built from.

// The file calls it by this name.
extern crate self as kernel;

use core::ops::Range;
use page::PAGE_SIZE;
use proptest::prelude::*;
use split::{
    chunk_addresses,
    chunk_of,
    ChunkRanges,
    Extent,
    Pieces,
    CHUNK, //
};

#[path = "../../../rust/rdma/mm/extents.rs"]
mod split;

/// Stands in for the kernel's.
pub mod page {
    /// Bytes of a page.
    pub const PAGE_SIZE: usize = 4096;
}

const PAGE: u64 = PAGE_SIZE as u64;

/// An address, of which only the number counts.
fn at(address: u64) -> *mut u8 {
    core::ptr::without_provenance_mut(usize::try_from(address).unwrap())
}

/// A region of extents with these lengths, each far from the one before, at any distance from a page's start.
fn extents(lengths: &[u64], places: &[u64]) -> (Vec<Extent>, u64) {
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

/// Where a byte is, by looking at each extent.
fn address_of(extents: &[Extent], offset: u64) -> usize {
    let extent = extents
        .iter()
        .rfind(|extent| extent.offset <= offset)
        .unwrap();
    extent.address.addr() + usize::try_from(offset - extent.offset).unwrap()
}

/// Pieces are where their bytes are, follow each other, end where an extent ends, and have all bytes.
fn check_pieces(extents: &[Extent], end: u64, offset: u64, len: usize) {
    let inside = u128::from(offset) + len as u128 <= u128::from(end);
    let Some(pieces) = Pieces::new(extents, end, offset, len) else {
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
            "cut too early"
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
        let (extents, end) = extents(lengths, &[0, 4095, 1, 4096, 7]);
        for offset in 0..=end + 2 {
            for len in 0..=end as usize + 2 {
                check_pieces(&extents, end, offset, len);
            }
        }
    }
}

#[test]
fn ranges_at_the_ends_of_all_memory_are_whole_or_refused() {
    // As the kernel's own: one extent, in which every offset is an address.
    let everything = [Extent {
        offset: 0,
        address: core::ptr::null_mut(),
    }];
    for offset in [0, 1, 1 << 32, 1 << 63, u64::MAX - 9, u64::MAX - 1, u64::MAX] {
        for len in [0, 1, 2, 9, 1 << 32, usize::MAX - 1, usize::MAX] {
            check_pieces(&everything, u64::MAX, offset, len);
        }
    }
    assert!(Pieces::new(&[], 0, 0, 1).is_none());
    assert_eq!(Pieces::new(&[], 0, 0, 0).unwrap().count(), 0);
}

/// Addresses where chunks meet or where the address space ends, and around.
fn address() -> impl Strategy<Value = u64> {
    let meeting = (0..1_u64 << 43, 0..3 * PAGE, any::<bool>());
    prop_oneof![
        meeting.prop_map(|(chunk, far, up)| {
            let near = chunk * CHUNK;
            match up {
                true => near.saturating_add(far),
                false => near.saturating_sub(far),
            }
        }),
        0..4 * CHUNK,
        (0..4 * CHUNK).prop_map(|far| u64::MAX - far),
        any::<u64>(),
    ]
}

/// Some chunks at most, so that there are not too many parts.
fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3 * PAGE,
        0..6 * CHUNK,
        (0..6_u64, 0..3_u64).prop_map(|(count, more)| count * CHUNK + more)
    ]
}

/// Whether `inner` lies in `outer`.
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
        let (extents, end) = extents(&lengths, &places);
        let size = usize::try_from(end).unwrap() + 1;
        let offset = place.index(size);
        check_pieces(&extents, end, offset as u64, rest.index(size - offset) + beyond);
    }

    #[test]
    fn parts_are_in_their_chunks(
        start in address(),
        len in prop_oneof![length(), Just(u64::MAX)],
        offset in prop_oneof![length(), address()],
        count in length(),
    ) {
        // As `OnDemand::new` has it: in the address space.
        prop_assume!(len > 0);
        let len = len.min(u64::MAX - start);
        let region = start..start + len;
        let inside = u128::from(offset) + u128::from(count) <= u128::from(len);
        let Some(parts) = ChunkRanges::new(start, len, offset, count) else {
            prop_assert!(!inside);
            return Ok(());
        };
        prop_assert!(inside);
        let mut next = start + offset;
        for part in parts {
            prop_assert_eq!(part.start, next);
            prop_assert!(part.end > part.start && within(&part, &region));
            prop_assert_eq!(part.start / CHUNK, (part.end - 1) / CHUNK, "one chunk");
            next = part.end;
            prop_assert!(next % CHUNK == 0 || next == start + offset + count, "cut too early");
            let number = u128::from(part.start / CHUNK - start / CHUNK);
            let chunk = chunk_of(start, part.start);
            prop_assert_eq!(chunk.map(u128::from), (number <= u128::from(u32::MAX)).then_some(number));
            // The last two mebibytes of all addresses have no end that is an address.
            let base = part.start / CHUNK * CHUNK;
            let ends = base.checked_add(CHUNK);
            let found = chunk.and_then(|chunk| chunk_addresses(start, len, chunk));
            prop_assert_eq!(found.is_some(), chunk.is_some() && ends.is_some());
            if let (Some(found), Some(ends)) = (found, ends) {
                prop_assert!(within(&part, &found), "{part:x?} in {found:x?}");
                prop_assert!(within(&found, &(base..ends)));
                prop_assert_eq!((found.start % PAGE, found.end % PAGE), (0, 0));
                let needed = start / PAGE..(region.end - 1) / PAGE + 1;
                prop_assert!(within(&(found.start / PAGE..found.end / PAGE), &needed), "more than is needed");
            }
        }
        prop_assert_eq!(next, start + offset + count);
    }
}
