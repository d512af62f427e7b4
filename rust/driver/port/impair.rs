// SPDX-License-Identifier: GPL-2.0

//! Impairments of a port, which `device::impair_file` sets.
//!
//! While there are any, packets are sent one by one, local peers are reached over the network, and
//! [`PortImpairments::fate`] decides on each packet. Otherwise sending a packet costs one load and a branch.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use roce::{
    id::Qpn,
    impair::{
        Fate,
        Impairments, //
    }, //
};

/// The impairments of a port. Each setting is read and written by itself: a packet that is sent meanwhile may see some
/// of the old ones.
pub(crate) struct PortImpairments {
    any: Atomic<bool>,
    fates: [Atomic<u32>; 5],
    rnr: Atomic<u32>,
    nak: Atomic<u32>,
    seed: Atomic<u32>,
    qpn: Atomic<u32>,
    /// Number of the next packet, message or access.
    number: Atomic<u32>,
}

impl PortImpairments {
    /// There are none.
    pub(super) const fn new() -> Self {
        Self {
            any: Atomic::new(false),
            fates: [const { Atomic::new(0) }; 5],
            rnr: Atomic::new(0),
            nak: Atomic::new(0),
            seed: Atomic::new(0),
            qpn: Atomic::new(0),
            number: Atomic::new(0),
        }
    }

    /// Returns whether there are any.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Returns the settings.
    pub(crate) fn get(&self) -> Impairments {
        let [drop, twice, late, mark, damage] = &self.fates;
        Impairments {
            fates: [drop, twice, late, mark, damage].map(|rate| rate.load(Relaxed)),
            rnr: self.rnr.load(Relaxed),
            nak: self.nak.load(Relaxed),
            seed: self.seed.load(Relaxed),
            qpn: self.qpn.load(Relaxed),
        }
    }

    /// Replaces the settings. Packets are counted anew.
    pub(crate) fn set(&self, new: &Impairments) {
        for (rate, value) in self.fates.iter().zip(new.fates) {
            rate.store(value, Relaxed);
        }
        self.rnr.store(new.rnr, Relaxed);
        self.nak.store(new.nak, Relaxed);
        self.seed.store(new.seed, Relaxed);
        self.qpn.store(new.qpn, Relaxed);
        self.number.store(0, Relaxed);
        self.any.store(new.any(), Relaxed);
    }

    /// Returns the settings and a number, if they apply to the QP.
    fn next(&self, qpn: Qpn) -> Option<(Impairments, u32)> {
        let settings = self.get();
        settings
            .applies_to(qpn)
            .then(|| (settings, self.number.fetch_add(1, Relaxed)))
    }

    /// Returns the fate of the next packet of the QP with this number.
    #[cold]
    pub(crate) fn fate(&self, qpn: Qpn) -> Fate {
        self.next(qpn)
            .map_or(Fate::Pass, |(settings, number)| settings.fate(number))
    }

    /// Returns whether the next message to the QP with this number finds no receive.
    #[inline]
    pub(crate) fn hides_receive(&self, qpn: u32) -> bool {
        self.any() && self.happens(qpn, |settings| settings.rnr)
    }

    /// Returns whether the next access by the QP with this number is refused.
    #[inline]
    pub(crate) fn refuses_access(&self, qpn: u32) -> bool {
        self.any() && self.happens(qpn, |settings| settings.nak)
    }

    #[cold]
    fn happens(&self, qpn: u32, rate: impl Fn(&Impairments) -> u32) -> bool {
        if rate(&self.get()) == 0 {
            return false;
        }
        self.next(Qpn::new(qpn))
            .is_some_and(|(settings, number)| settings.happens(rate(&settings), number))
    }
}
