// SPDX-License-Identifier: GPL-2.0

//! The congestion window, in packets.
//!
//! It starts small, grows by the packets acknowledged (slow start), and halves when the requester retransmits:
//! after a loss the whole window would be retransmitted, only to be dropped behind the next gap. A timeout may mean
//! that a queue on the path takes longer than the ACK timeout to drain, and each retransmission makes it longer. From
//! the window at that time on (`ssthresh`), it grows slowly (congestion avoidance).

/// The least window: enough that packets follow a gap and reveal it.
const MIN_CWND_PACKETS: u32 = 8;

/// In congestion avoidance, packets that must be acknowledged before the window grows by one.
const ACKED_PACKETS_PER_INCREMENT: u32 = 16;

/// The congestion window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CongestionWindow {
    /// Packets that may be in flight.
    cwnd: u32,
    /// Above this, the window is in congestion avoidance.
    ssthresh: u32,
    /// Packets acknowledged since the last increment in congestion avoidance.
    acked: u32,
}

impl CongestionWindow {
    /// Starts with `initial` packets.
    pub(crate) const fn with_initial(initial: u32) -> Self {
        Self {
            cwnd: initial,
            ssthresh: u32::MAX,
            acked: 0,
        }
    }

    /// Returns how many of `limit` packets may be in flight.
    #[inline]
    pub(super) fn limited_to(&self, limit: u32) -> u32 {
        self.cwnd.min(limit)
    }

    /// `packets` more packets are acknowledged.
    #[inline]
    pub(super) fn on_ack(&mut self, packets: u32) {
        let slow_start = packets.min(self.ssthresh.saturating_sub(self.cwnd));
        let acked = self.acked.saturating_add(packets.wrapping_sub(slow_start));
        self.acked = acked % ACKED_PACKETS_PER_INCREMENT;
        let grown = self.cwnd.saturating_add(slow_start);
        self.cwnd = grown.saturating_add(acked / ACKED_PACKETS_PER_INCREMENT);
    }

    /// All packets in flight are retransmitted; the window was limited to `limit` packets.
    pub(super) fn on_loss(&mut self, limit: u32) {
        self.cwnd = self.limited_to(limit).wrapping_shr(1).max(MIN_CWND_PACKETS);
    }

    /// The retransmission followed an ACK timeout.
    pub(super) fn on_timeout(&mut self) {
        self.ssthresh = self.cwnd;
    }

    /// Returns whether an ACK timeout has expired since the start.
    #[inline]
    pub(super) fn has_timed_out(&self) -> bool {
        self.ssthresh != u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_the_window_and_acks_grow_it() {
        let mut window = CongestionWindow::with_initial(100);
        assert_eq!(window.limited_to(100), 100);
        window.on_loss(100);
        assert_eq!(window.limited_to(100), 50);
        window.on_ack(10);
        assert_eq!(window.limited_to(100), 60);
        window.on_ack(1000);
        assert_eq!(window.limited_to(100), 100, "never above the limit");
    }

    #[test]
    fn it_starts_small() {
        let mut window = CongestionWindow::with_initial(20);
        assert_eq!(window.limited_to(100), 20);
        window.on_ack(20);
        assert_eq!(window.limited_to(100), 40);
    }

    #[test]
    fn after_a_timeout_it_grows_slowly_above_ssthresh() {
        let mut window = CongestionWindow::with_initial(100);
        window.on_loss(100);
        window.on_timeout();
        assert_eq!(window.limited_to(100), 50);
        for _ in 0..31 {
            window.on_ack(1);
        }
        assert_eq!(window.limited_to(100), 51);
        window.on_ack(1);
        assert_eq!(window.limited_to(100), 52);
        window.on_loss(100);
        assert_eq!(window.limited_to(100), 26);
        window.on_ack(24 + 16);
        assert_eq!(window.limited_to(100), 51, "slow start up to ssthresh");
    }

    #[test]
    fn it_never_falls_below_the_minimum() {
        let mut window = CongestionWindow::with_initial(256);
        for _ in 0..40 {
            window.on_loss(256);
        }
        assert_eq!(window.limited_to(256), MIN_CWND_PACKETS);
        assert_eq!(window.limited_to(1), 1);
    }
}
