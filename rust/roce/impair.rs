// SPDX-License-Identifier: GPL-2.0

//! Impairments for tests of consumers: which packets a device loses, repeats, reorders, marks or damages, and which
//! requests it refuses, as a function of a seed and the number of the packet.

use crate::id::Qpn;
use core::fmt;

/// Rates are in packets per million.
const PER_MILLION: u32 = 1_000_000;

/// The most packets that overtake a late one.
const MAX_OVERTAKING: u32 = 8;

/// What happens to a packet that is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// Nothing.
    Pass,
    /// It is lost.
    Drop,
    /// It is sent twice.
    Twice,
    /// It is sent after so many others, 1 at least.
    Late(u32),
    /// It is marked: congestion experienced.
    Mark,
    /// Its ICRC is wrong.
    Damage,
}

/// Names of the settings, in the order of [`Impairments::values`].
const NAMES: [&str; 9] = [
    "loss",
    "duplicate",
    "reorder",
    "mark",
    "corrupt",
    "rnr",
    "nak",
    "seed",
    "qpn",
];

/// The impairments of a device. All 0: none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Impairments {
    /// Rates of [`Fate::Drop`], [`Fate::Twice`], [`Fate::Late`], [`Fate::Mark`] and [`Fate::Damage`], per million
    /// packets sent.
    pub fates: [u32; 5],
    /// Rate of messages that find no receive although there is one, per million.
    pub rnr: u32,
    /// Rate of accesses to memory that are refused although they are permitted, per million.
    pub nak: u32,
    /// The seed.
    pub seed: u32,
    /// The only QP that is impaired. 0: all.
    pub qpn: u32,
}

impl Impairments {
    /// Parses pairs of a name and a number, separated by white space. What is not named is 0; so no text, or `off`,
    /// means no impairment. `None` for an unknown name, a missing number, or rates of more than a million in all.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut values = [0; NAMES.len()];
        let mut words = text.split_ascii_whitespace();
        while let Some(name) = words.next() {
            if name == "off" {
                continue;
            }
            let index = NAMES.iter().position(|known| *known == name)?;
            *values.get_mut(index)? = number(words.next()?)?;
        }
        let [drop, twice, late, mark, damage, rnr, nak, seed, qpn] = values;
        let fates = [drop, twice, late, mark, damage];
        let sum = fates
            .iter()
            .fold(0, |sum: u32, rate| sum.saturating_add(*rate));
        let valid = sum.max(rnr).max(nak) <= PER_MILLION;
        valid.then_some(Self {
            fates,
            rnr,
            nak,
            seed,
            qpn,
        })
    }

    /// Returns the numbers, in the order of [`NAMES`].
    fn values(&self) -> [u32; NAMES.len()] {
        let [drop, twice, late, mark, damage] = self.fates;
        [
            drop, twice, late, mark, damage, self.rnr, self.nak, self.seed, self.qpn,
        ]
    }

    /// Returns whether anything is impaired.
    #[must_use]
    pub fn any(&self) -> bool {
        let [impairments @ .., _seed, _qpn] = self.values();
        impairments.iter().any(|value| *value != 0)
    }

    /// Returns whether the QP with this number is impaired.
    #[must_use]
    pub fn applies_to(&self, qpn: Qpn) -> bool {
        self.qpn == 0 || self.qpn == qpn.get()
    }

    /// Returns the fate of the packet with this number.
    #[must_use]
    pub fn fate(&self, number: u32) -> Fate {
        let random = self.random(number);
        let [drop, twice, late, mark, damage] = self.fates;
        let overtaking = random.wrapping_shr(24) % MAX_OVERTAKING;
        let fates = [
            (drop, Fate::Drop),
            (twice, Fate::Twice),
            (late, Fate::Late(overtaking.saturating_add(1))),
            (mark, Fate::Mark),
            (damage, Fate::Damage),
        ];
        let mut roll = random % PER_MILLION;
        for (rate, fate) in fates {
            match roll.checked_sub(rate) {
                None => return fate,
                Some(rest) => roll = rest,
            }
        }
        Fate::Pass
    }

    /// Returns whether the event with this number happens, which has that rate.
    #[must_use]
    pub fn happens(&self, rate: u32, number: u32) -> bool {
        rate != 0 && self.random(number) % PER_MILLION < rate
    }

    /// Mixes seed and number, so that neighbours differ in all bits (the finalizer of MurmurHash3).
    fn random(&self, number: u32) -> u32 {
        let mut bits = self.seed.wrapping_mul(0x9e37_79b9) ^ number;
        for factor in [0x85eb_ca6b, 0xc2b2_ae35] {
            bits = (bits ^ bits.wrapping_shr(16)).wrapping_mul(factor);
        }
        bits ^ bits.wrapping_shr(16)
    }
}

/// Parses a decimal number. The parser of `core` has overflow checks that panic.
fn number(text: &str) -> Option<u32> {
    text.bytes().try_fold(0u32, |sum, byte| {
        let digit = char::from(byte).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

impl fmt::Display for Impairments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (name, value) in NAMES.iter().zip(self.values()) {
            write!(f, "{space}{name} {value}")?;
            space = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn what_is_written_can_be_read() {
        let text =
            "loss 10 duplicate 20 reorder 30 mark 40 corrupt 50 rnr 60 nak 70 seed 80 qpn 90";
        let parsed = Impairments::parse(text);
        assert_eq!(
            parsed.map(|parsed| parsed.to_string()).as_deref(),
            Some(text)
        );
        assert_eq!(
            Impairments::parse(" seed 7\tloss 1000000\n").map(|parsed| parsed.fates[0]),
            Some(1_000_000)
        );
        for none in ["", "off\n", "seed 9 qpn 3"] {
            assert_eq!(
                Impairments::parse(none).map(|parsed| parsed.any()),
                Some(false),
                "{none}"
            );
        }
        for wrong in [
            "loss",
            "loss x",
            "loss -1",
            "loss 4294967297",
            "gain 1",
            "loss 600000 mark 600000",
            "rnr 1000001",
        ] {
            assert_eq!(Impairments::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rates_are_met_and_a_seed_repeats() {
        let impairments = Impairments::parse(
            "loss 10000 duplicate 20000 reorder 30000 mark 40000 corrupt 50000 seed 4",
        )
        .unwrap();
        let count = |fates: &dyn Fn(Fate) -> bool| {
            (0..100_000).filter(|n| fates(impairments.fate(*n))).count()
        };
        let counts = [
            count(&|fate| fate == Fate::Drop),
            count(&|fate| fate == Fate::Twice),
            count(&|fate| matches!(fate, Fate::Late(1..=8))),
            count(&|fate| fate == Fate::Mark),
            count(&|fate| fate == Fate::Damage),
        ];
        for (count, wanted) in counts
            .into_iter()
            .zip([1_000usize, 2_000, 3_000, 4_000, 5_000])
        {
            assert!(count.abs_diff(wanted) < wanted / 10 + 50, "{counts:?}");
        }
        let other = Impairments {
            seed: 5,
            ..impairments
        };
        assert!((0..1_000).any(|n| impairments.fate(n) != other.fate(n)));
        assert!((0..1_000).all(|n| impairments.fate(n) == impairments.fate(n)));
    }

    #[test]
    fn all_or_nothing() {
        let all = Impairments::parse("loss 1000000 rnr 1000000").unwrap();
        assert!((0..1_000).all(|n| all.fate(n) == Fate::Drop && all.happens(all.rnr, n)));
        let none = Impairments::default();
        assert!((0..1_000).all(|n| none.fate(n) == Fate::Pass && !none.happens(0, n)));
    }

    #[test]
    fn one_qp_can_be_chosen() {
        let one = Impairments {
            qpn: 17,
            ..Impairments::default()
        };
        assert!(one.applies_to(Qpn::new(17)) && !one.applies_to(Qpn::new(18)));
        assert!(Impairments::default().applies_to(Qpn::new(18)));
    }
}
