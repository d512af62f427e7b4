// SPDX-License-Identifier: GPL-2.0

//! Properties of the range check, of memory windows and of their rights, compared with arithmetic
//! in integers too wide to overflow.
//!
//! The tests follow `rust/driver/mem/mw.rs`: `is_valid_for` and `offset_in` when a window is bound,
//! `rights`, `addresses` and `offset_of` when a peer uses its key. A region for fast registration
//! is a range with rights, like any region here.

use core::cell::Cell;
use proptest::{
    prelude::*,
    test_runner::TestRunner, //
};
use roce::{
    access::{
        Access,
        Region, //
    },
    bind::{
        Bind,
        WindowType, //
    },
    id::{
        Lkey,
        Rkey, //
    }, //
};

/// Boundaries of narrower integers.
const BOUNDARIES: [u64; 5] = [0, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
/// Distance from the boundaries to test.
const BOUNDARY_DISTANCE: u64 = 4;
/// Access rights: `enum ib_access_flags`.
const LOCAL_WRITE: u32 = 1;
const REMOTE_WRITE: u32 = 2;
const REMOTE_READ: u32 = 4;
const REMOTE_ATOMIC: u32 = 8;
const MW_BIND: u32 = 0x10;
const ZERO_BASED: u32 = 0x20;
/// All that a bind may request: these ten, from `IB_ACCESS_LOCAL_WRITE` to `IB_ACCESS_FLUSH_PERSISTENT`, and
/// `IB_ACCESS_OPTIONAL`.
const REQUESTABLE: u32 = 0x3ff | 0x3ff0_0000;

/// Returns start and end of a range, limited to the address space.
fn span(start: u64, length: u64) -> (u128, u128) {
    (
        u128::from(start),
        (u128::from(start) + u128::from(length)).min(1 << 64),
    )
}

/// Returns whether the region contains the `len` bytes at `va`, within the address space.
fn contains_range(region: Region, va: u64, len: u64) -> bool {
    let (first, end) = span(region.iova, region.length);
    u128::from(va) >= first && u128::from(va) + u128::from(len) <= end
}

fn check(region: Region, va: u64, len: u64) -> bool {
    let inside = contains_range(region, va, len);
    let expected = inside.then(|| va - region.iova);
    assert_eq!(
        region.offset_of(va, len),
        expected,
        "{region:x?} {va:#x} {len:#x}"
    );
    inside
}

#[test]
fn the_range_check_is_exact_around_every_boundary() {
    let near: Vec<u64> = BOUNDARIES
        .iter()
        .flat_map(|&boundary| {
            boundary.saturating_sub(BOUNDARY_DISTANCE)..=boundary.saturating_add(BOUNDARY_DISTANCE)
        })
        .collect();
    assert_eq!(near.len(), 37);
    let (mut inside, mut outside) = (0, 0);
    for &iova in &near {
        for &length in &near {
            let region = Region { iova, length };
            for (&va, &len) in near
                .iter()
                .flat_map(|va| near.iter().map(move |len| (va, len)))
            {
                match check(region, va, len) {
                    true => inside += 1,
                    false => outside += 1,
                }
            }
        }
    }
    assert!(inside > 100_000 && outside > 100_000, "{inside} {outside}");
}

/// Any number; numbers near boundaries and small numbers are more frequent.
fn number() -> impl Strategy<Value = u64> {
    let around = (
        prop::sample::select(BOUNDARIES.to_vec()),
        0..64_u64,
        any::<bool>(),
    );
    prop_oneof![
        any::<u64>(),
        around.prop_map(|(boundary, distance, up)| match up {
            true => boundary.wrapping_add(distance),
            false => boundary.wrapping_sub(distance),
        }),
        0..0x1_0000_u64,
    ]
}

/// A region and a range, often near the region's start and end.
fn ranges() -> impl Strategy<Value = (Region, u64, u64)> {
    let region = (number(), number()).prop_map(|(iova, length)| Region { iova, length });
    (region, position(), number()).prop_map(|(region, (scale, step, any_len), random_len)| {
        let (va, len) = within(region, scale, step);
        match any_len {
            true => (region, va, random_len),
            false => (region, va, len),
        }
    })
}

/// Arguments of [`within`].
fn position() -> impl Strategy<Value = ((u64, u64), (i64, i64), bool)> {
    (
        (any::<u64>(), any::<u64>()),
        (-2..3_i64, -2..3_i64),
        prop::bool::weighted(0.1),
    )
}

/// Returns a range in a region, moved and extended by a few bytes: inside, at the limit, or
/// slightly outside.
fn within(region: Region, scale: (u64, u64), step: (i64, i64)) -> (u64, u64) {
    let skipped = scale.0.checked_rem(region.length).unwrap_or(0);
    let available = region.length - skipped;
    // Half of the ranges end at the end of the region.
    let len = match scale.1 % 2 {
        0 => available,
        _ => scale.1.checked_rem(available).unwrap_or(0),
    };
    let skipped = if scale.1 % 4 < 2 { skipped } else { 0 };
    (
        region
            .iova
            .wrapping_add(skipped)
            .wrapping_add_signed(step.0),
        len.saturating_add_signed(step.1),
    )
}

/// Calls `body` with many values. Checks that both results occur often.
fn both_ways<S: Strategy>(strategy: &S, body: impl Fn(S::Value) -> bool) {
    const CASES: u32 = 50_000;
    let (yes, count) = (Cell::new(0), Cell::new(0));
    let config = ProptestConfig {
        cases: CASES,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(strategy, |value| {
            yes.set(yes.get() + u32::from(body(value)));
            count.set(count.get() + 1);
            Ok(())
        })
        .unwrap();
    assert!(
        (CASES / 50..CASES - CASES / 50).contains(&yes.get()),
        "{} of {}",
        yes.get(),
        count.get()
    );
}

#[test]
fn the_range_check_is_exact_for_random_ranges() {
    both_ways(&ranges(), |(region, va, len)| check(region, va, len));
}

/// Access rights that consumers request, with optional ones or not, and sometimes arbitrary bits.
fn rights() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0..0x40_u32,
        1 => any::<u32>().prop_map(|bits| bits & REQUESTABLE),
        1 => any::<u32>(),
    ]
}

fn window_type() -> impl Strategy<Value = WindowType> {
    prop_oneof![Just(WindowType::One), Just(WindowType::TwoB)]
}

/// A bind request and its region.
#[derive(Clone, Copy, Debug)]
struct Case {
    region: Region,
    region_rights: u32,
    window: WindowType,
    bound: bool,
    range: Region,
    requested: u32,
}

/// Cases whose regions often permit windows.
fn case() -> impl Strategy<Value = Case> {
    let bindable = prop_oneof![
        3 => (0..0x10_u32).prop_map(|bits| bits | MW_BIND),
        1 => rights(),
    ];
    (
        ranges(),
        bindable,
        window_type(),
        prop::bool::weighted(0.1),
        rights(),
    )
        .prop_map(
            |((region, iova, length), region_rights, window, bound, requested)| Case {
                region,
                region_rights,
                window,
                bound,
                range: Region { iova, length },
                requested,
            },
        )
}

impl Case {
    fn request(&self) -> Bind {
        Bind {
            window: Rkey::new(0x101),
            key: 2,
            region: Lkey::new(0x201),
            access: Access::from_bits(self.requested),
            range: self.range,
        }
    }

    /// Returns `None` if the request is rejected; otherwise the offset in the region, or
    /// `Some(None)` if it unbinds the window.
    fn bind(&self) -> Option<Option<u64>> {
        let request = self.request();
        if !request.is_valid_for(self.window, self.bound) {
            return None;
        }
        if request.unbinds() {
            return Some(None);
        }
        let place = request.offset_in(Access::from_bits(self.region_rights), self.region);
        place.map(Some)
    }

    /// Returns whether the specification permits the request.
    fn is_permitted(&self) -> bool {
        let has = |bits: u32, right: u32| bits & right == right;
        let nothing = self.range.length == 0;
        let suits = self.requested & !REQUESTABLE == 0
            && match self.window {
                WindowType::One => !has(self.requested, ZERO_BASED),
                WindowType::TwoB => !self.bound && !nothing,
            };
        let modifies = self.requested & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
        let grants = has(self.region_rights, MW_BIND)
            && !has(self.region_rights, ZERO_BASED)
            && (!modifies || has(self.region_rights, LOCAL_WRITE));
        suits
            && (nothing
                || (grants && contains_range(self.region, self.range.iova, self.range.length)))
    }
}

#[test]
fn a_window_is_bound_only_as_its_region_permits() {
    both_ways(&case(), |case| {
        let bound = case.bind();
        assert_eq!(bound.is_some(), case.is_permitted(), "{case:x?}");
        if let Some(Some(offset)) = bound {
            let first = u128::from(case.region.iova) + u128::from(offset);
            assert_eq!(first, u128::from(case.range.iova), "{case:x?}");
        }
        bound.is_some()
    });
}

#[test]
fn a_peer_accesses_only_the_window_with_its_rights() {
    let right = prop::sample::select(vec![
        REMOTE_WRITE,
        REMOTE_READ,
        REMOTE_ATOMIC,
        LOCAL_WRITE,
        MW_BIND,
    ]);
    both_ways(
        &(case(), right, position(), number()),
        |(case, right, (scale, step, any_address), any_va)| {
            let Some(Some(place)) = case.bind() else {
                return false;
            };
            let request = case.request();
            let addresses = request.addresses();
            let (va, len) = match within(addresses, scale, step) {
                (_, len) if any_address => (any_va, len),
                found => found,
            };
            // The length in a packet has 32 bits. A request of length 0 is not checked.
            let len = len.clamp(1, u32::MAX.into());
            let found = request
                .rights()
                .contains(Access::from_bits(right))
                .then(|| addresses.offset_of(va, len))
                .flatten();

            let remote = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
            let base = match case.requested & ZERO_BASED {
                0 => 0,
                _ => u128::from(case.range.iova),
            };
            let (first, end) = span(case.range.iova, case.range.length);
            let (start, stop) = (
                base + u128::from(va),
                base + u128::from(va) + u128::from(len),
            );
            let inside = start >= first && stop <= end;
            let expected = right & remote & case.requested != 0 && inside;
            assert_eq!(
                found.is_some(),
                expected,
                "{case:x?} {right:#x} {va:#x} {len:#x}"
            );
            if let Some(at) = found {
                // The same bytes, all of them in the region.
                let target = u128::from(case.region.iova) + u128::from(place.wrapping_add(at));
                assert_eq!(target, start, "{case:x?} {va:#x} {len:#x}");
                let (first, end) = span(case.region.iova, case.region.length);
                assert!(
                    target >= first && target + u128::from(len) <= end,
                    "{case:x?} {va:#x} {len:#x}"
                );
            }
            found.is_some()
        },
    );
}
