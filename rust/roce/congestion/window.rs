// SPDX-License-Identifier: GPL-2.0

//! How much a requester dares to have in flight.
//!
//! Owns one number, in packets. It begins small, grows by what is acknowledged, and halves when everything
//! has to be sent again. After a loss the whole window would be sent again only to be dropped behind the
//! next gap: on a wire that reorders, that is most of what is sent. When the peer did not answer in time,
//! there may be a queue on the way that takes longer than that to get through, and whatever is sent again
//! makes it longer; from there on it grows slowly. Does not know why something was lost.

/// The least that may be in flight, in packets: enough that a gap is followed by something that
/// shows it.
const LEAST: u32 = 8;

/// Packets that have to be acknowledged for one more in flight, when it grows slowly.
const SLOWLY: u32 = 16;

/// How much may be in flight, in packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CongestionWindow {
    most: u32,
    /// From here on it grows slowly.
    calm: u32,
    /// Packets acknowledged since it has grown slowly the last.
    earned: u32,
}

impl CongestionWindow {
    /// Of a requester that sends nothing.
    pub(crate) const NONE: Self = Self::starting(0);

    /// Begins with so many.
    pub(crate) const fn starting(first: u32) -> Self {
        Self {
            most: first,
            calm: u32::MAX,
            earned: 0,
        }
    }

    /// Returns how many of `limit` packets may be in flight.
    #[inline]
    pub(crate) fn of(self, limit: u32) -> u32 {
        self.most.min(limit)
    }

    /// Everything that is in flight, of `limit` packets at most, has to be sent again.
    pub(crate) fn on_loss(&mut self, limit: u32) {
        self.most = self.of(limit).wrapping_shr(1).max(LEAST);
    }

    /// That was because nobody answered.
    pub(crate) fn on_silence(&mut self) {
        self.calm = self.most;
    }

    /// Returns whether there was a time when nobody answered.
    #[inline]
    pub(crate) const fn was_silent(self) -> bool {
        self.calm != u32::MAX
    }

    /// Another `packets` packets are acknowledged.
    #[inline]
    pub(crate) fn on_progress(&mut self, packets: u32) {
        let quickly = packets.min(self.calm.saturating_sub(self.most));
        let earned = self.earned.saturating_add(packets.wrapping_sub(quickly));
        self.earned = earned % SLOWLY;
        let grown = self.most.saturating_add(quickly);
        self.most = grown.saturating_add(earned / SLOWLY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_it_and_what_arrives_lets_it_grow() {
        let mut pace = CongestionWindow::starting(100);
        assert_eq!(pace.of(100), 100);
        pace.on_loss(100);
        assert_eq!(pace.of(100), 50);
        pace.on_progress(10);
        assert_eq!(pace.of(100), 60);
        pace.on_progress(1000);
        assert_eq!(pace.of(100), 100, "never beyond the limit");
    }

    #[test]
    fn it_begins_small() {
        let mut pace = CongestionWindow::starting(20);
        assert_eq!(pace.of(100), 20);
        pace.on_progress(20);
        assert_eq!(pace.of(100), 40);
    }

    #[test]
    fn after_silence_it_grows_slowly_beyond_what_was_left() {
        let mut pace = CongestionWindow::starting(100);
        pace.on_loss(100);
        pace.on_silence();
        assert_eq!(pace.of(100), 50);
        for _ in 0..31 {
            pace.on_progress(1);
        }
        assert_eq!(pace.of(100), 51);
        pace.on_progress(1);
        assert_eq!(pace.of(100), 52);
        pace.on_loss(100);
        assert_eq!(pace.of(100), 26);
        pace.on_progress(24 + 16);
        assert_eq!(pace.of(100), 51, "quickly to where it was calm");
    }

    #[test]
    fn it_never_stops() {
        let mut pace = CongestionWindow::starting(256);
        for _ in 0..40 {
            pace.on_loss(256);
        }
        assert_eq!(pace.of(256), LEAST);
        assert_eq!(pace.of(1), 1);
    }
}
