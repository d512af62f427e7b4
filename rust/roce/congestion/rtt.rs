// SPDX-License-Identifier: GPL-2.0

//! The minimum RTT of a connection, and how much more may be in flight to a distant peer.
//!
//! The data in flight must cover a round trip, or the requester idles for most of it. But a longer RTT may also be a
//! queue on the path, which more data in flight would fill. So the factor grows step by step while the RTT stays near
//! its minimum, and halves when the RTT rises or a packet is lost.

use crate::{
    psn::Psn,
    segmentation::mtu::MAX_PSNS,
    time::Instant, //
};

/// An RTT up to this needs no more than the window of a nearby peer, n times as long an RTT n times as much. With a
/// window of one megabyte that is a gigabyte per second.
const NEAR_RTT_NS: u64 = 1_000_000;

/// The largest factor: the data in flight should fit into the inbox of a receiver that pauses.
const MAX_BDP_FACTOR: u32 = 4;

/// The RTT estimator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RttEstimator {
    /// The measurement in progress.
    sample: Option<RttSample>,
    /// The minimum RTT, in nanoseconds.
    min_rtt_ns: u64,
    /// How many times the window of a nearby peer may be in flight.
    bdp_factor: u32,
}

/// A packet that the peer answers at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct RttSample {
    /// The oldest unacknowledged PSN once it is answered.
    after: Psn,
    /// When it was sent.
    since: Instant,
    /// The window was full, so that a larger one may help.
    full: bool,
}

impl RttEstimator {
    /// The estimate before the first response.
    pub(crate) const UNKNOWN: Self = Self {
        sample: None,
        min_rtt_ns: u64::MAX,
        bdp_factor: 1,
    };

    /// Returns how many times the window of a nearby peer may be in flight.
    #[inline]
    pub(crate) const fn bdp_factor(&self) -> u32 {
        self.bdp_factor
    }

    /// Returns whether a measurement is in progress. There is one at a time.
    #[inline]
    pub(crate) const fn is_measuring(&self) -> bool {
        self.sample.is_some()
    }

    /// A packet that the peer answers at once was sent for the first time, at `since`; once it is answered, `after` is
    /// the oldest unacknowledged PSN. `full`: the window was full, so that a larger one may help.
    #[inline]
    pub(crate) fn on_sent(&mut self, after: Psn, since: Instant, full: bool) {
        self.sample.get_or_insert(RttSample { after, since, full });
    }

    /// Ends the measurement: its packet was retransmitted or did not leave, so a response is ambiguous.
    #[inline]
    pub(crate) fn cancel_sample(&mut self) {
        self.sample = None;
    }

    /// An ACK came at `now`; `oldest` is the oldest PSN that is still unacknowledged.
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

    /// The factor that covers the minimum RTT.
    fn needed(&self) -> u32 {
        let trips = self.min_rtt_ns.checked_div(NEAR_RTT_NS).unwrap_or(0);
        u32::try_from(trips)
            .unwrap_or(MAX_BDP_FACTOR)
            .clamp(1, MAX_BDP_FACTOR)
    }

    /// A packet was lost.
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
        /// Returns the factors after RTTs of so many microseconds.
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
    fn it_grows_step_by_step_to_cover_the_rtt() {
        assert_eq!(of([3_500; 5]), [2, 3, 3, 3, 3]);
        assert_eq!(of([20_000; 5]), [2, 3, 4, 4, 4]);
        assert_eq!(of([u64::MAX / 2_000; 4])[3], 4);
    }

    #[test]
    fn it_is_1_for_a_nearby_peer() {
        let mut rtt = RttEstimator::UNKNOWN;
        assert_eq!(rtt.bdp_factor(), 1);
        assert_eq!(rtt.takes([1_999, 1_999, 0, 5_000]), [1; 4]);
    }

    #[test]
    fn it_grows_only_if_the_window_is_full() {
        let mut rtt = RttEstimator::UNKNOWN;
        rtt.on_sample(9_000_000, false);
        assert_eq!(rtt.bdp_factor(), 1);
    }

    #[test]
    fn a_queue_on_the_path_reduces_it() {
        let mut rtt = RttEstimator::UNKNOWN;
        assert_eq!(rtt.takes([8_000; 3])[2], 4);
        let trips = [10_000, 12_000, 16_000, 16_001, 16_001, 10_000];
        assert_eq!(rtt.takes(trips), [4, 4, 4, 2, 1, 2]);
    }

    #[test]
    fn a_shorter_rtt_halves_it_until_it_fits() {
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
    fn an_ack_of_earlier_packets_is_no_sample() {
        let mut rtt = RttEstimator::UNKNOWN;
        rtt.on_sent(Psn::new(0), at(0), true);
        rtt.on_ack(Psn::new(0xFF_FFFF), at(2_000));
        assert_eq!(rtt.bdp_factor(), 1);
        rtt.on_sent(Psn::new(3), at(3_900), true);
        rtt.on_ack(Psn::new(0), at(4_000));
        assert_eq!(rtt.bdp_factor(), 2, "the first of two in flight");
    }

    #[test]
    fn a_retransmitted_packet_is_no_sample() {
        let mut rtt = RttEstimator::UNKNOWN;
        rtt.on_sent(Psn::new(1), at(0), true);
        rtt.cancel_sample();
        rtt.on_ack(Psn::new(1), at(9_000));
        assert_eq!(rtt.bdp_factor(), 1);
    }
}
