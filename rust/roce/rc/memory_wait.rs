// SPDX-License-Identifier: GPL-2.0

//! The packet that cannot be sent because its memory is not present.
//!
//! [`Requester`](super::requester::Requester) and [`Responder`](super::responder::Responder) each have one such wait.
//! It holds back this packet and those after it, and nothing else:
//! earlier packets are sent again, ACKs are processed and sent, and timers run.

use crate::psn::Psn;

/// Where sending stops until memory is present.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct MemoryWait {
    stopped_at: Option<Psn>,
}

impl MemoryWait {
    /// The packet `psn` and those after it wait.
    pub(super) fn stop_at(&mut self, psn: Psn) {
        self.stopped_at = Some(psn);
    }

    /// Nothing waits any more.
    #[inline]
    pub(super) fn end(&mut self) {
        self.stopped_at = None;
    }

    /// Returns whether the packet `psn` waits.
    #[inline]
    pub(super) fn holds(&self, psn: Psn) -> bool {
        self.room(psn, 1) == 0
    }

    /// Returns how many of `packets` from `psn` on may be sent.
    #[inline]
    pub(super) fn room(&self, psn: Psn, packets: u32) -> u32 {
        match self.stopped_at {
            Some(at) if !psn.is_after(at) => packets.min(at.since(psn)),
            _ => packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_packet_and_later_ones_wait() {
        let mut wait = MemoryWait::default();
        assert_eq!(wait.room(Psn::new(7), 5), 5);
        wait.stop_at(Psn::new(1));
        let before = Psn::new(0xff_fffe);
        assert_eq!(wait.room(before, 64), 3, "across the end of the PSN space");
        assert_eq!(wait.room(before, 2), 2);
        assert!(!wait.holds(Psn::new(0)));
        assert!(wait.holds(Psn::new(1)));
        wait.end();
        assert!(!wait.holds(Psn::new(1)));
    }
}
