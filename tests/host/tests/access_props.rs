// SPDX-License-Identifier: GPL-2.0

//! Properties of the range check, of windows and of the rights that they give, against numbers too wide to wrap.
//!
//! What `rust/driver/mem/mw.rs` does with a request to bind and with a peer's key is done here with the crate's own
//! arithmetic: `is_valid_for` and `offset_in` when it is bound, `rights`, `addresses` and `offset_of` when it is used. A
//! region for fast registration is any range with any rights, as the regions here are.

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
    },
};

/// Where numbers of fewer bits end.
const TURNS: [u64; 5] = [0, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
/// How far from those to look.
const NEAR: u64 = 4;
/// Bits of the rights: `enum ib_access_flags`.
const LOCAL_WRITE: u32 = 1;
const REMOTE_WRITE: u32 = 2;
const REMOTE_READ: u32 = 4;
const REMOTE_ATOMIC: u32 = 8;
const MW_BIND: u32 = 0x10;
const ZERO_BASED: u32 = 0x20;

/// All bytes of a range that are in the address space, as half an open interval.
fn span(start: u64, length: u64) -> (u128, u128) {
    (
        u128::from(start),
        (u128::from(start) + u128::from(length)).min(1 << 64),
    )
}

/// Whether the `len` bytes at `va` lie in a region, none of them beyond the address space.
fn holds(region: Region, va: u64, len: u64) -> bool {
    let (first, end) = span(region.iova, region.length);
    u128::from(va) >= first && u128::from(va) + u128::from(len) <= end
}

fn check(region: Region, va: u64, len: u64) -> bool {
    let inside = holds(region, va, len);
    let wanted = inside.then(|| va - region.iova);
    assert_eq!(
        region.offset_of(va, len),
        wanted,
        "{region:x?} {va:#x} {len:#x}"
    );
    inside
}

#[test]
fn the_range_check_is_exact_around_every_turn() {
    let near: Vec<u64> = TURNS
        .iter()
        .flat_map(|&turn| turn.saturating_sub(NEAR)..=turn.saturating_add(NEAR))
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

/// Any number, with those around the turns and small ones more often.
fn number() -> impl Strategy<Value = u64> {
    let around = (
        prop::sample::select(TURNS.to_vec()),
        0..64_u64,
        any::<bool>(),
    );
    prop_oneof![
        any::<u64>(),
        around.prop_map(|(turn, far, up)| match up {
            true => turn.wrapping_add(far),
            false => turn.wrapping_sub(far),
        }),
        0..0x1_0000_u64,
    ]
}

/// A region, and a range that begins and ends not far from where it does, or anywhere.
fn ranges() -> impl Strategy<Value = (Region, u64, u64)> {
    let region = (number(), number()).prop_map(|(iova, length)| Region { iova, length });
    (region, place(), number()).prop_map(|(region, (scale, step, whole), any_length)| {
        let (va, len) = within(region, scale, step);
        match whole {
            true => (region, va, any_length),
            false => (region, va, len),
        }
    })
}

/// What [`within`] makes a range of.
fn place() -> impl Strategy<Value = ((u64, u64), (i64, i64), bool)> {
    (
        (any::<u64>(), any::<u64>()),
        (-2..3_i64, -2..3_i64),
        prop::bool::weighted(0.1),
    )
}

/// A range in a region, moved and prolonged by a few bytes: inside, just so, or not quite.
fn within(region: Region, scale: (u64, u64), step: (i64, i64)) -> (u64, u64) {
    let skipped = scale.0.checked_rem(region.length).unwrap_or(0);
    let room = region.length - skipped;
    // Every other one ends where the region does.
    let len = match scale.1 % 2 {
        0 => room,
        _ => scale.1.checked_rem(room).unwrap_or(0),
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

/// Tries many values; counts for how many `body` holds, which is neither few nor nearly all.
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
fn the_range_check_is_exact_anywhere() {
    both_ways(&ranges(), |(region, va, len)| check(region, va, len));
}

/// Rights as programs ask for them, and one time in eight any bits.
fn rights() -> impl Strategy<Value = u32> {
    prop_oneof![7 => 0..0x40_u32, 1 => any::<u32>()]
}

fn window_type() -> impl Strategy<Value = WindowType> {
    prop_oneof![Just(WindowType::One), Just(WindowType::TwoB)]
}

/// A request to bind a window, and what it is bound to.
#[derive(Clone, Copy, Debug)]
struct Case {
    region: Region,
    region_rights: u32,
    window: WindowType,
    bound: bool,
    range: Region,
    asked: u32,
}

/// Regions to which windows can be bound more often than chance would make them.
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
            |((region, iova, length), region_rights, window, bound, asked)| Case {
                region,
                region_rights,
                window,
                bound,
                range: Region { iova, length },
                asked,
            },
        )
}

impl Case {
    fn request(&self) -> Bind {
        Bind {
            window: Rkey::new(0x101),
            key: 2,
            region: Lkey::new(0x201),
            access: Access::from_bits(self.asked),
            range: self.range,
        }
    }

    /// Whether the window is bound, and where in the region it starts then; `None`: it is refused.
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

    /// The same, as the standard has it.
    fn allowed(&self) -> bool {
        let has = |bits: u32, right: u32| bits & right == right;
        let nothing = self.range.length == 0;
        let suits = self.asked < 0x40
            && match self.window {
                WindowType::One => !has(self.asked, ZERO_BASED),
                WindowType::TwoB => !self.bound && !nothing,
            };
        let changes = self.asked & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
        let grants = has(self.region_rights, MW_BIND)
            && !has(self.region_rights, ZERO_BASED)
            && (!changes || has(self.region_rights, LOCAL_WRITE));
        suits && (nothing || (grants && holds(self.region, self.range.iova, self.range.length)))
    }
}

#[test]
fn a_window_is_bound_to_what_its_region_holds_and_allows() {
    both_ways(&case(), |case| {
        let bound = case.bind();
        assert_eq!(bound.is_some(), case.allowed(), "{case:x?}");
        if let Some(Some(offset)) = bound {
            let first = u128::from(case.region.iova) + u128::from(offset);
            assert_eq!(first, u128::from(case.range.iova), "{case:x?}");
        }
        bound.is_some()
    });
}

#[test]
fn a_peer_reaches_the_bytes_of_the_window_with_its_rights_and_no_others() {
    let wish = prop::sample::select(vec![
        REMOTE_WRITE,
        REMOTE_READ,
        REMOTE_ATOMIC,
        LOCAL_WRITE,
        MW_BIND,
    ]);
    both_ways(
        &(case(), wish, place(), number()),
        |(case, wish, (scale, step, anywhere), any_va)| {
            let Some(Some(place)) = case.bind() else {
                return false;
            };
            let request = case.request();
            let addresses = request.addresses();
            let (va, len) = match within(addresses, scale, step) {
                (_, len) if anywhere => (any_va, len),
                found => found,
            };
            // A packet's length has 32 bits; nothing is asked for by one of none.
            let len = len.clamp(1, u32::MAX.into());
            let found = request
                .rights()
                .contains(Access::from_bits(wish))
                .then(|| addresses.offset_of(va, len))
                .flatten();

            let remote = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
            let base = match case.asked & ZERO_BASED {
                0 => 0,
                _ => u128::from(case.range.iova),
            };
            let (first, end) = span(case.range.iova, case.range.length);
            let (start, stop) = (
                base + u128::from(va),
                base + u128::from(va) + u128::from(len),
            );
            let inside = start >= first && stop <= end;
            let wanted = wish & remote & case.asked != 0 && inside;
            assert_eq!(
                found.is_some(),
                wanted,
                "{case:x?} {wish:#x} {va:#x} {len:#x}"
            );
            if let Some(at) = found {
                // The very bytes, all of which the region has.
                let there = u128::from(case.region.iova) + u128::from(place.wrapping_add(at));
                assert_eq!(there, start, "{case:x?} {va:#x} {len:#x}");
                let (first, end) = span(case.region.iova, case.region.length);
                assert!(
                    there >= first && there + u128::from(len) <= end,
                    "{case:x?} {va:#x} {len:#x}"
                );
            }
            found.is_some()
        },
    );
}
