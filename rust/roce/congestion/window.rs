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
const MIN_CWND_PACKETS: u32 = 8;

/// Packets that have to be acknowledged for one more in flight, when it grows slowly.
const ACKED_PER_INCREMENT: u32 = 16;

/// How much may be in flight, in packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CongestionWindow {
    cwnd: u32,
    /// From here on it grows slowly.
    ssthresh: u32,
    /// Packets acknowledged since it has grown slowly the last.
    acked: u32,
}

impl CongestionWindow {
    /// Of a requester that sends nothing.
    pub(crate) const NONE: Self = Self::with_initial(0);

    /// Begins with so many.
    pub(crate) const fn with_initial(first: u32) -> Self {
        Self {
            cwnd: first,
            ssthresh: u32::MAX,
            acked: 0,
        }
    }

    /// Returns how many of `limit` packets may be in flight.
    #[inline]
    pub(crate) fn limited_to(self, limit: u32) -> u32 {
        self.cwnd.min(limit)
    }

    /// Everything that is in flight, of `limit` packets at most, has to be sent again.
    pub(crate) fn on_loss(&mut self, limit: u32) {
        self.cwnd = self.limited_to(limit).wrapping_shr(1).max(MIN_CWND_PACKETS);
    }

    /// That was because nobody answered.
    pub(crate) fn on_timeout(&mut self) {
        self.ssthresh = self.cwnd;
    }

    /// Returns whether there was a time when nobody answered.
    #[inline]
    pub(crate) const fn has_timed_out(self) -> bool {
        self.ssthresh != u32::MAX
    }

    /// Another `packets` packets are acknowledged.
    #[inline]
    pub(crate) fn on_ack(&mut self, packets: u32) {
        let quickly = packets.min(self.ssthresh.saturating_sub(self.cwnd));
        let acked = self.acked.saturating_add(packets.wrapping_sub(quickly));
        self.acked = acked % ACKED_PER_INCREMENT;
        let grown = self.cwnd.saturating_add(quickly);
        self.cwnd = grown.saturating_add(acked / ACKED_PER_INCREMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_it_and_what_arrives_lets_it_grow() {
        let mut pace = CongestionWindow::with_initial(100);
        assert_eq!(pace.limited_to(100), 100);
        pace.on_loss(100);
        assert_eq!(pace.limited_to(100), 50);
        pace.on_ack(10);
        assert_eq!(pace.limited_to(100), 60);
        pace.on_ack(1000);
        assert_eq!(pace.limited_to(100), 100, "never beyond the limit");
    }

    #[test]
    fn it_begins_small() {
        let mut pace = CongestionWindow::with_initial(20);
        assert_eq!(pace.limited_to(100), 20);
        pace.on_ack(20);
        assert_eq!(pace.limited_to(100), 40);
    }

    #[test]
    fn after_silence_it_grows_slowly_beyond_what_was_left() {
        let mut pace = CongestionWindow::with_initial(100);
        pace.on_loss(100);
        pace.on_timeout();
        assert_eq!(pace.limited_to(100), 50);
        for _ in 0..31 {
            pace.on_ack(1);
        }
        assert_eq!(pace.limited_to(100), 51);
        pace.on_ack(1);
        assert_eq!(pace.limited_to(100), 52);
        pace.on_loss(100);
        assert_eq!(pace.limited_to(100), 26);
        pace.on_ack(24 + 16);
        assert_eq!(pace.limited_to(100), 51, "quickly to where it was calm");
    }

    #[test]
    fn it_never_stops() {
        let mut pace = CongestionWindow::with_initial(256);
        for _ in 0..40 {
            pace.on_loss(256);
        }
        assert_eq!(pace.limited_to(256), MIN_CWND_PACKETS);
        assert_eq!(pace.limited_to(1), 1);
    }
}
