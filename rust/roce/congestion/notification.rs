// SPDX-License-Identifier: GPL-2.0

//! When the receiver of marked packets sends a CNP: the notification point of DCQCN.

use crate::time::{
    Duration,
    Instant, //
};

/// The time between two CNPs of one QP. Marks in between cause none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CnpInterval(pub Duration);

impl CnpInterval {
    /// The interval that DCQCN and adapters use by default.
    pub const DEFAULT: Self = Self(Duration::from_micros(50));

    /// Congestion was seen at `now`, and the next CNP may leave at `next`. Returns when the one after it may leave if a
    /// CNP is to be sent now.
    #[must_use]
    pub fn on_congestion(self, next: Instant, now: Instant) -> Option<Instant> {
        (!next.is_after(now)).then_some(now.saturating_add(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_cnp_is_sent_in_an_interval() {
        let mut next = Instant::from_nanos(0);
        let sent = (0..200u64)
            .map(|micros| Instant::from_nanos(1_000_000 + 1_000 * micros))
            .filter(|now| {
                let after = CnpInterval::DEFAULT.on_congestion(next, *now);
                next = after.unwrap_or(next);
                after.is_some()
            })
            .count();
        assert_eq!(sent, 4);
    }
}
