// SPDX-License-Identifier: GPL-2.0

//! How much a requester dares to have in flight.
//!
//! Owns one number, in packets. It halves when everything has to be sent again, and grows by what is
//! acknowledged. After a loss the whole window would be sent again only to be dropped behind the next
//! gap: on a wire that reorders, that is most of what is sent. Does not know why something was lost.

/// The least that may be in flight, in packets: enough that a gap is followed by something that
/// shows it.
const LEAST: u32 = 8;

/// How much may be in flight, in packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pace(u32);

impl Pace {
    /// As much as there is room for.
    pub(super) const FULL: Self = Self(u32::MAX);

    /// Returns how many of `limit` packets may be in flight.
    #[inline]
    pub(super) fn of(self, limit: u32) -> u32 {
        self.0.min(limit)
    }

    /// Everything that is in flight, of `limit` packets at most, has to be sent again.
    pub(super) fn on_loss(&mut self, limit: u32) {
        self.0 = self.of(limit).wrapping_shr(1).max(LEAST);
    }

    /// Another `packets` packets are acknowledged.
    #[inline]
    pub(super) fn on_progress(&mut self, packets: u32) {
        self.0 = self.0.saturating_add(packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_it_and_what_arrives_lets_it_grow() {
        let mut pace = Pace::FULL;
        assert_eq!(pace.of(100), 100);
        pace.on_loss(100);
        assert_eq!(pace.of(100), 50);
        pace.on_progress(10);
        assert_eq!(pace.of(100), 60);
        pace.on_progress(1000);
        assert_eq!(pace.of(100), 100, "never beyond the limit");
    }

    #[test]
    fn it_never_stops() {
        let mut pace = Pace::FULL;
        for _ in 0..40 {
            pace.on_loss(256);
        }
        assert_eq!(pace.of(256), LEAST);
        assert_eq!(pace.of(1), 1);
    }
}
