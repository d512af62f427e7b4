// SPDX-License-Identifier: GPL-2.0

//! End-to-end credits: how many receives the peer has posted, as far as it says.
//!
//! A peer with a receive queue of its own reports in each ACK how many receives were posted when it had executed the
//! request with that PSN. A message that needs one more waits for an ACK with further credits, because the peer would
//! answer it with an RNR NAK. One message may exceed the credits, so that an ACK comes at all; it requests that ACK.
//!
//! The specification numbers the messages (SSN) and compares with the MSN of the ACK. Only some messages use a receive,
//! so their number would hold back more than it must. The credits are therefore counted from the PSN of the ACK, in
//! messages that use a receive. The result does not depend on the MSN, which some peers count from an arbitrary value,
//! and the parts of a split READ need no number.
//!
//! A peer with a shared receive queue, `rdma_rxe` and this driver report no credits: nothing waits.
//!
//! IBA: section 9.7.7.2.5, end-to-end flow control of messages.

use crate::wire::aeth::credit_count;

/// The receives that the peer has posted for messages that are not acknowledged, as far as it says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Credits(Option<u32>);

impl Credits {
    /// The peer reports no credits, or has sent no ACK yet.
    pub(super) const UNLIMITED: Self = Self(None);

    /// Returns the credits of an ACK. `code`: five bits of its syndrome.
    #[inline]
    pub(super) fn of_code(code: u8) -> Self {
        Self(credit_count(code))
    }

    /// Counts `receives` that acknowledged messages used.
    #[inline]
    pub(super) fn use_up(&mut self, receives: u32) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_sub(receives);
        }
    }

    /// Records that the peer had no receive.
    pub(super) fn use_up_all(&mut self) {
        self.use_up(u32::MAX);
    }

    /// Takes the credits of a later report. The peer does not take receives back, and its count is rounded down, so the
    /// highest one counts. Returns whether they admit more than before.
    #[inline]
    pub(super) fn update(&mut self, report: Self) -> bool {
        let admits_more = match (self.0, report.0) {
            (Some(left), Some(new)) => new > left,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if admits_more || self.0.is_none() {
            *self = report;
        }
        admits_more
    }

    /// Returns whether `receives` messages that are not acknowledged exceed the credits.
    #[inline]
    pub(super) const fn are_exceeded_by(self, receives: u32) -> bool {
        match self.0 {
            Some(left) => receives > left,
            None => false,
        }
    }
}
