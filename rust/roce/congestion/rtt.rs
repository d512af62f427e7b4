// SPDX-License-Identifier: GPL-2.0

//! How far the peer is, and how much more may be in flight for that.
//!
//! Owns the shortest round trip that was seen, and a factor. What is in flight has to cover a round trip, or the
//! sender waits for most of it. But what makes round trips longer may as well be a queue on the way, which more in
//! flight would fill: so the factor grows step by step, as long as trips stay as short as the shortest, and falls by
//! half when they do not, or when something gets lost. Does not know what is sent, nor how much may be in flight to
//! a peer that is near.

use crate::{
    psn::Psn,
    segmentation::tx_desc::MAX_PSNS,
    time::Instant, //
};

/// The round trip for which nothing more has to be in flight; for n of them, n times as much. With a megabyte for a
/// peer that is near, that is a gigabyte per second.
const NEAR_RTT_NS: u64 = 1_000_000;

/// The largest factor: what is in flight should have room in the queue of a receiver that pauses.
const MAX_BDP_FACTOR: u32 = 4;

/// How far the peer is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RttEstimator {
    /// What is measured.
    sample: Option<RttSample>,
    /// The shortest round trip, in nanoseconds.
    min_rtt_ns: u64,
    bdp_factor: u32,
}

/// Something that was sent, and that the peer answers at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct RttSample {
    /// What the oldest PSN is when it is answered.
    after: Psn,
    since: Instant,
    /// There was so much in flight that more may be of use.
    full: bool,
}

impl RttEstimator {
    /// Of a peer that has not answered yet.
    pub(crate) const UNKNOWN: Self = Self {
        sample: None,
        min_rtt_ns: u64::MAX,
        bdp_factor: 1,
    };

    /// Returns how many times as much may be in flight as to a peer that is near.
    #[inline]
    pub(crate) const fn bdp_factor(&self) -> u32 {
        self.bdp_factor
    }

    /// Returns whether an answer is awaited already. Only one is at a time.
    #[inline]
    pub(crate) const fn is_measuring(&self) -> bool {
        self.sample.is_some()
    }

    /// Something was sent at `since` for the first time that the peer answers at once; `after` is the oldest PSN then.
    /// `full`: there is so much in flight that more may be of use.
    #[inline]
    pub(crate) fn on_sent(&mut self, after: Psn, since: Instant, full: bool) {
        self.sample.get_or_insert(RttSample { after, since, full });
    }

    /// What was sent is to be sent again, or did not leave: an answer would not say to which of them.
    #[inline]
    pub(crate) fn cancel_sample(&mut self) {
        self.sample = None;
    }

    /// More is acknowledged at `now`: `oldest` is the first that is not.
    #[inline]
    pub(crate) fn on_ack(&mut self, oldest: Psn, now: Instant) {
        if let Some(sample) = self.sample {
            if oldest.since(sample.after) <= MAX_PSNS {
                self.sample = None;
                self.on_sample(now.saturating_since(sample.since).as_nanos(), sample.full);
            }
        }
    }

    fn on_sample(&mut self, rtt_ns: u64, full: bool) {
        self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
        let needed = self.needed();
        if rtt_ns > self.min_rtt_ns.saturating_mul(2) || self.bdp_factor > needed {
            self.on_loss();
        } else if full
            && rtt_ns
                <= self
                    .min_rtt_ns
                    .saturating_add(self.min_rtt_ns.wrapping_shr(2))
        {
            self.bdp_factor = self.bdp_factor.saturating_add(1).min(needed);
        }
    }

    /// As much as covers the shortest trip.
    fn needed(&self) -> u32 {
        let trips = self.min_rtt_ns.checked_div(NEAR_RTT_NS).unwrap_or(0);
        u32::try_from(trips)
            .unwrap_or(MAX_BDP_FACTOR)
            .clamp(1, MAX_BDP_FACTOR)
    }

    /// Something got lost.
    pub(crate) fn on_loss(&mut self) {
        self.bdp_factor = self.bdp_factor.wrapping_shr(1).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_micros(micros))
    }

    impl RttEstimator {
        /// Answers took so many microseconds each.
        fn takes<const N: usize>(&mut self, trips: [u64; N]) -> [u32; N] {
            trips.map(|rtt_ns| {
                self.on_sent(Psn::new(5), at(100), true);
                self.on_ack(Psn::new(5), at(rtt_ns.saturating_add(100)));
                self.bdp_factor()
            })
        }
    }

    fn of<const N: usize>(trips: [u64; N]) -> [u32; N] {
        let mut rtt = RttEstimator::UNKNOWN;
        rtt.takes(trips)
    }

    #[test]
    fn it_grows_step_by_step_to_what_covers_a_trip() {
        assert_eq!(of([3_500; 5]), [2, 3, 3, 3, 3]);
        assert_eq!(of([20_000; 5]), [2, 3, 4, 4, 4]);
        assert_eq!(of([u64::MAX / 2_000; 4])[3], 4);
    }

    #[test]
    fn it_is_1_for_a_peer_that_is_near() {
        let mut rtt = RttEstimator::UNKNOWN;
        assert_eq!(rtt.bdp_factor(), 1);
        assert_eq!(rtt.takes([1_999, 1_999, 0, 5_000]), [1; 4]);
    }

    #[test]
    fn it_grows_only_where_it_is_of_use() {
        let mut rtt = RttEstimator::UNKNOWN;
        rtt.on_sample(9_000_000, false);
        assert_eq!(rtt.bdp_factor(), 1);
    }

    #[test]
    fn a_queue_on_the_way_makes_it_smaller() {
        let mut rtt = RttEstimator::UNKNOWN;
        assert_eq!(rtt.takes([8_000; 3])[2], 4);
        let trips = [10_000, 12_000, 16_000, 16_001, 16_001, 10_000];
        assert_eq!(rtt.takes(trips), [4, 4, 4, 2, 1, 2]);
    }

    #[test]
    fn a_shorter_trip_halves_it_until_it_fits() {
        assert_eq!(
            of([8_000, 8_000, 8_000, 1_000, 1_000, 1_000]),
            [2, 3, 4, 2, 1, 1]
        );
    }

    #[test]
    fn a_loss_halves_it() {
        let mut rtt = RttEstimator::UNKNOWN;
        assert_eq!(rtt.takes([20_000; 3])[2], 4);
        for bdp_factor in [2, 1, 1] {
            rtt.on_loss();
            assert_eq!(rtt.bdp_factor(), bdp_factor);
        }
    }

    #[test]
    fn nothing_is_measured_by_what_was_answered_before() {
        let mut rtt = RttEstimator::UNKNOWN;
        rtt.on_sent(Psn::new(0), at(0), true);
        rtt.on_ack(Psn::new(0xFF_FFFF), at(2_000));
        assert_eq!(rtt.bdp_factor(), 1);
        rtt.on_sent(Psn::new(3), at(3_900), true);
        rtt.on_ack(Psn::new(0), at(4_000));
        assert_eq!(rtt.bdp_factor(), 2, "the first of two that are under way");
    }

    #[test]
    fn nothing_is_measured_by_what_was_sent_twice() {
        let mut rtt = RttEstimator::UNKNOWN;
        rtt.on_sent(Psn::new(1), at(0), true);
        rtt.cancel_sample();
        rtt.on_ack(Psn::new(1), at(9_000));
        assert_eq!(rtt.bdp_factor(), 1);
    }
}
