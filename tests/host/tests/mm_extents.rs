// SPDX-License-Identifier: GPL-2.0

//! Division of ranges into extents and chunks (`rust/rdma/mm/extents.rs`), compared with a
//! computation per byte.

// The file uses this name.
extern crate self as kernel;

use core::ops::Range;
use extents_rs::{
    chunk_addresses,
    chunk_of,
    one_piece,
    ChunkRanges,
    Extent,
    PieceIter,
    ODP_CHUNK_BYTES, //
};
use page::PAGE_SIZE;
use proptest::prelude::*;

#[path = "../../../rust/rdma/mm/extents.rs"]
mod extents_rs;

/// Replaces the kernel's module.
pub mod page {
    /// Length of a page in bytes.
    pub const PAGE_SIZE: usize = 4096;
}

const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// A pointer that is not dereferenced.
fn at(address: u64) -> *mut u8 {
    core::ptr::without_provenance_mut(usize::try_from(address).unwrap())
}

/// Creates a region of extents with these lengths, at separate addresses, with the given offsets
/// from multiples of 4 GiB.
fn extents(lengths: &[u64], page_offsets: &[u64]) -> (Vec<Extent>, u64) {
    let mut offset = 0;
    let extents = lengths
        .iter()
        .zip(page_offsets)
        .enumerate()
        .map(|(number, (len, position))| {
            let extent = Extent {
                offset,
                address: at(((number as u64 + 1) << 32) + position),
            };
            offset += len;
            extent
        });
    let extents = extents.collect();
    (extents, offset)
}

/// Returns the address of a byte by searching the extents.
fn address_of(extents: &[Extent], offset: u64) -> usize {
    let extent = extents
        .iter()
        .rfind(|extent| extent.offset <= offset)
        .unwrap();
    extent.address.addr() + usize::try_from(offset - extent.offset).unwrap()
}

/// Checks that the pieces have the right addresses, are consecutive, end at ends of extents, and
/// cover the range.
fn check_pieces(extents: &[Extent], end: u64, offset: u64, len: usize) {
    let inside = u128::from(offset) + len as u128 <= u128::from(end);
    let one = one_piece(extents, end, offset, len);
    assert!(inside || one.is_none(), "{offset:#x} {len:#x} of {end:#x}");
    let Some(pieces) = PieceIter::new(extents, end, offset, len) else {
        assert!(!inside, "{offset:#x} {len:#x} of {end:#x}");
        return;
    };
    assert!(inside, "{offset:#x} {len:#x} of {end:#x}");
    let mut next = offset;
    for (start, size) in pieces {
        if next == offset {
            let only = (size == len).then_some(start);
            assert_eq!(one, only, "the start of a range of one piece");
        }
        assert!(size > 0);
        let last = next + size as u64 - 1;
        assert_eq!(start.addr(), address_of(extents, next));
        assert_eq!(
            start.addr() + size - 1,
            address_of(extents, last),
            "a piece crosses the end of an extent"
        );
        next = last + 1;
        let ends = next == offset + len as u64;
        assert!(
            ends || extents.iter().any(|extent| extent.offset == next),
            "ends too early"
        );
    }
    assert_eq!(next, offset + len as u64);
}

#[test]
fn every_range_of_small_regions_is_covered() {
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
fn ranges_at_the_ends_of_the_address_space_are_covered_or_rejected() {
    // As for kernel memory: one extent whose offsets are addresses.
    let kernel_memory = [Extent {
        offset: 0,
        address: core::ptr::null_mut(),
    }];
    for offset in [0, 1, 1 << 32, 1 << 63, u64::MAX - 9, u64::MAX - 1, u64::MAX] {
        for len in [0, 1, 2, 9, 1 << 32, usize::MAX - 1, usize::MAX] {
            check_pieces(&kernel_memory, u64::MAX, offset, len);
        }
    }
    assert!(PieceIter::new(&[], 0, 0, 1).is_none());
    assert_eq!(PieceIter::new(&[], 0, 0, 0).unwrap().count(), 0);
}

/// Addresses near chunk boundaries and near the end of the address space.
fn address() -> impl Strategy<Value = u64> {
    let boundary = (0..1_u64 << 43, 0..3 * PAGE_BYTES, any::<bool>());
    prop_oneof![
        boundary.prop_map(|(chunk, distance, up)| {
            let near = chunk * ODP_CHUNK_BYTES;
            match up {
                true => near.saturating_add(distance),
                false => near.saturating_sub(distance),
            }
        }),
        0..4 * ODP_CHUNK_BYTES,
        (0..4 * ODP_CHUNK_BYTES).prop_map(|distance| u64::MAX - distance),
        any::<u64>(),
    ]
}

/// At most a few chunks.
fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3 * PAGE_BYTES,
        0..6 * ODP_CHUNK_BYTES,
        (0..6_u64, 0..3_u64).prop_map(|(count, extra)| count * ODP_CHUNK_BYTES + extra)
    ]
}

/// Whether `inner` lies in `outer`.
fn within(inner: &Range<u64>, outer: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn pieces_have_the_addresses_of_their_bytes(
        lengths in prop::collection::vec(1..20_000_u64, 1..12),
        page_offsets in prop::collection::vec(0..8192_u64, 12),
        position: prop::sample::Index,
        rest: prop::sample::Index,
        beyond in prop_oneof![4 => Just(0_usize), 1 => 0..3_usize],
    ) {
        let (extents, end) = extents(&lengths, &page_offsets);
        let size = usize::try_from(end).unwrap() + 1;
        let offset = position.index(size);
        check_pieces(&extents, end, offset as u64, rest.index(size - offset) + beyond);
    }

    #[test]
    fn parts_do_not_cross_chunks(
        start in address(),
        len in prop_oneof![length(), Just(u64::MAX)],
        offset in prop_oneof![length(), address()],
        count in length(),
    ) {
        // Within the address space, as in `OnDemand::new`.
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
            prop_assert_eq!(part.start / ODP_CHUNK_BYTES, (part.end - 1) / ODP_CHUNK_BYTES, "one chunk");
            next = part.end;
            prop_assert!(next % ODP_CHUNK_BYTES == 0 || next == start + offset + count, "ends too early");
            let chunk = chunk_of(start, part.start);
            prop_assert_eq!(chunk, part.start / ODP_CHUNK_BYTES - start / ODP_CHUNK_BYTES);
            // The end of the last chunk of the address space is not an address.
            let base = part.start / ODP_CHUNK_BYTES * ODP_CHUNK_BYTES;
            let ends = base.checked_add(ODP_CHUNK_BYTES);
            let addresses = chunk_addresses(start, len, chunk);
            prop_assert_eq!(addresses.is_some(), ends.is_some());
            if let (Some(addresses), Some(ends)) = (addresses, ends) {
                prop_assert!(within(&part, &addresses), "{part:x?} in {addresses:x?}");
                prop_assert!(within(&addresses, &(base..ends)));
                prop_assert_eq!((addresses.start % PAGE_BYTES, addresses.end % PAGE_BYTES), (0, 0));
                let needed = start / PAGE_BYTES..(region.end - 1) / PAGE_BYTES + 1;
                let pages = addresses.start / PAGE_BYTES..addresses.end / PAGE_BYTES;
                prop_assert!(within(&pages, &needed), "exceeds the region");
            }
        }
        prop_assert_eq!(next, start + offset + count);
    }
}

#[test]
fn a_region_of_all_addresses_has_chunks_to_its_end() {
    // Five levels of page tables: 57 bits, one of which is the kernel's.
    let len = 1 << 56;
    for address in [0, 1 << 53, 1 << 54, len - PAGE_BYTES] {
        let chunk = chunk_of(0, address);
        let addresses = chunk_addresses(0, len, chunk).expect("a chunk");
        assert!(
            addresses.contains(&address),
            "{address:x} in {addresses:x?}"
        );
        assert_eq!(addresses.end - addresses.start, ODP_CHUNK_BYTES);
    }
    assert_ne!(chunk_of(0, 1 << 53), chunk_of(0, 0));
}
