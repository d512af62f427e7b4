// SPDX-License-Identifier: GPL-2.0

//! Whether a route loses super-packets, which may have a single packet.
//!
//! Some of what a packet may meet drops such a buffer, however often it is sent: MPLS and SRv6 tunnels of a router, and
//! what polices by bytes. A packet with its ICRC, in a buffer of its own, passes there. A peer that does not answer
//! looks the same at first, so one loss proves nothing.

/// Losses in a row after which the route loses all such buffers.
const MAX_LOSSES: u8 = 2;

/// What is known of a route.
#[derive(Clone, Copy, Debug, Default)]
pub struct GsoLoss {
    /// Length of the longest buffer since the last loss.
    longest: u32,
    /// Length of the longest buffer that has reached the peer.
    passed: u32,
    /// Losses of longer ones, and the length of the last one.
    losses: u8,
    lost: u32,
}

impl GsoLoss {
    /// A buffer of `len` bytes is sent.
    #[inline]
    pub fn on_sent(&mut self, len: u32) {
        self.longest = self.longest.max(len);
    }

    /// Returns the length of the longest buffer since the last loss.
    #[inline]
    #[must_use]
    pub fn longest(&self) -> u32 {
        self.longest
    }

    /// A buffer of `len` bytes has reached the peer. From then on losses of such buffers are those of any network.
    #[inline]
    pub fn on_passed(&mut self, len: u32) {
        self.passed = self.passed.max(len);
        if len >= self.lost && !self.is_certain() {
            self.losses = 0;
        }
    }

    /// Nothing came of the buffers that were sent: their packets must be sent one by one.
    #[inline]
    pub fn on_lost(&mut self) {
        let lost = core::mem::take(&mut self.longest);
        if lost > self.passed {
            self.losses = self.losses.saturating_add(1);
            self.lost = lost;
        }
    }

    /// Returns whether the route loses buffers that are sent.
    #[inline]
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.losses >= MAX_LOSSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lose(loss: &mut GsoLoss, len: u32) -> bool {
        loss.on_sent(len);
        loss.on_lost();
        loss.is_certain()
    }

    #[test]
    fn one_loss_proves_nothing_and_two_do() {
        let mut loss = GsoLoss::default();
        assert!(!lose(&mut loss, 3000));
        assert!(lose(&mut loss, 3000));
        loss.on_passed(3000);
        assert!(loss.is_certain(), "until the route changes");
    }

    #[test]
    fn a_route_that_passed_one_buffer_passes_others() {
        let mut loss = GsoLoss::default();
        assert!(!lose(&mut loss, 3000));
        loss.on_passed(3000);
        assert!((0..100).all(|_| !lose(&mut loss, 3000)));
        assert!(!lose(&mut loss, 3001), "a longer one");
        assert!(lose(&mut loss, 3001));
    }

    #[test]
    fn a_loss_is_forgotten_when_such_a_buffer_passes() {
        let mut loss = GsoLoss::default();
        assert!(!lose(&mut loss, 100));
        loss.on_passed(100);
        assert!(!lose(&mut loss, 3000), "the first of this length");
        loss.on_passed(200);
        assert!(lose(&mut loss, 3000), "a shorter one proves nothing");
    }

    #[test]
    fn without_such_a_buffer_nothing_was_lost() {
        let mut loss = GsoLoss::default();
        loss.on_lost();
        loss.on_lost();
        assert!(!loss.is_certain());
    }
}
