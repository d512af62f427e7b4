// SPDX-License-Identifier: GPL-2.0

//! Time of the protocol: nanoseconds of a monotonic clock, which the caller reads. Also the two
//! 5-bit encodings of a delay, in QP attributes and packets.

/// A point in time: nanoseconds since an origin that the caller chooses.
///
/// The clock must be monotonic. 64 bits last 584 years, so it does not wrap.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Instant(u64);

impl Instant {
    /// The latest point in time.
    pub const MAX: Self = Self(u64::MAX);

    /// Converts from nanoseconds since the caller's origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns nanoseconds since the caller's origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the point in time `delay` later, at most [`Instant::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay.0))
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Returns whether `self` is later than `other`.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.0 > other.0
    }

    /// Returns whether `self` is earlier than `other`.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.0 < other.0
    }
}

/// A time span, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Duration(u64);

impl Duration {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Converts from nanoseconds.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Converts from microseconds, saturating.
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns nanoseconds.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the sum, saturating.
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the product, saturating.
    #[inline]
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

/// Mask of a delay code in a QP attribute or AETH.
const CODE_MASK: u8 = 0x1f;

/// Unit of the ACK timeout.
const ACK_UNIT_NS: u64 = 4_096;

/// Unit of the RNR table.
const RNR_UNIT_US: u64 = 10;

/// RNR NAK delays by timer code, in units of 10 us.
///
/// IBA: encoding of the RNR NAK timer field. C: `enum ib_rnr_timeout`, `rdma/ib_verbs.h`.
const RNR_TABLE: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, //
    256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576,
    32_768, 49_152,
];

/// Returns the ACK timeout of `code`: 4.096 us times 2^`code`. `None` for code 0: no timeout.
///
/// Only the low five bits of `code` are used. IBA: Local ACK Timeout. C: `timeout` of `struct
/// ib_qp_attr`.
#[inline]
#[must_use]
pub const fn ack_timeout(code: u8) -> Option<Duration> {
    match code & CODE_MASK {
        0 => None,
        // The result is at most 2^43.
        exponent => Some(Duration(ACK_UNIT_NS << exponent)),
    }
}

/// Returns the delay before a requester retransmits after an RNR NAK with `code`.
///
/// Only the low five bits of `code` are used. Code 0 is the longest delay, 655.36 ms. IBA: encoding
/// of the RNR NAK timer field. C: `min_rnr_timer` of `struct ib_qp_attr`.
#[must_use]
pub fn rnr_timeout(code: u8) -> Duration {
    let units = RNR_TABLE.get(usize::from(code & CODE_MASK)).copied();
    Duration::from_micros(u64::from(units.unwrap_or(0)).saturating_mul(RNR_UNIT_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ack_timeout_doubles_with_each_code() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(1), Some(Duration::from_nanos(8_192)));
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
        assert_eq!(
            ack_timeout(31),
            Some(Duration::from_nanos(8_796_093_022_208))
        );
        assert_eq!(ack_timeout(32), None, "only five bits are used");
    }

    #[test]
    fn rnr_timeout_follows_the_table() {
        assert_eq!(rnr_timeout(0), Duration::from_micros(655_360));
        assert_eq!(rnr_timeout(1), Duration::from_micros(10));
        assert_eq!(rnr_timeout(2), Duration::from_micros(20));
        assert_eq!(rnr_timeout(3), Duration::from_micros(30));
        assert_eq!(rnr_timeout(12), Duration::from_micros(640));
        assert_eq!(rnr_timeout(31), Duration::from_micros(491_520));
        assert_eq!(rnr_timeout(33), rnr_timeout(1), "only five bits are used");
    }

    #[test]
    fn rnr_timeout_doubles_every_two_codes() {
        for code in 2..30 {
            let doubled = rnr_timeout(code).saturating_mul(2);
            assert_eq!(rnr_timeout(code + 2), doubled, "code {code}");
        }
        assert_eq!(rnr_timeout(0), rnr_timeout(30).saturating_mul(2));
    }

    #[test]
    fn time_saturates_at_both_ends() {
        let now = Instant::from_nanos(100);
        assert_eq!(
            Instant::MAX.saturating_add(Duration::from_nanos(1)),
            Instant::MAX
        );
        assert_eq!(
            now.saturating_since(Instant::from_nanos(101)),
            Duration::ZERO
        );
        assert_eq!(now.saturating_since(Instant::from_nanos(40)).as_nanos(), 60);
        assert!(now.is_after(Instant::default()) && !now.is_before(now) && !now.is_after(now));
    }
}
