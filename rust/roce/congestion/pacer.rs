// SPDX-License-Identifier: GPL-2.0

//! Pacing: spreads packets over time, so that they leave at a given rate.

use crate::{
    segmentation::tx_desc::BurstLimit,
    time::{
        Duration,
        Instant, //
    }, //
};

/// What a burst may hold at most, as time at the rate. A shorter burst would cost more timer interrupts, a longer one
/// would fill the queue that the rate is to keep short.
const BURST_TIME: Duration = Duration::from_micros(100);

/// Time without packets that a sender makes up for, at most. Timers come late, by a scheduling tick of the host in a
/// virtual machine.
const CATCH_UP_TIME: Duration = Duration::from_micros(1_000);

/// Bytes of a packet on the wire besides its payload: Ethernet with preamble and gap (38), IPv4 (20), UDP (8), BTH (12)
/// and ICRC (4).
pub(super) const OVERHEAD_BYTES: u32 = 82;

/// A rate in bytes per second, at least 1.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Rate(u64);

impl Rate {
    /// The highest rate: 1 Tbit/s. Sums of rates do not overflow.
    pub const MAX: Self = Self(125_000_000_000);

    /// Converts from Mbit/s. 0 gives the lowest rate.
    #[must_use]
    pub fn from_mbit_s(mbit_s: u32) -> Self {
        Self::from_bytes_s(u64::from(mbit_s).saturating_mul(125_000))
    }

    /// Converts from bytes per second, limited to [`Rate::MAX`].
    #[must_use]
    pub const fn from_bytes_s(bytes_s: u64) -> Self {
        match bytes_s {
            0 => Self(1),
            _ if bytes_s > Self::MAX.0 => Self::MAX,
            _ => Self(bytes_s),
        }
    }

    /// Returns bytes per second.
    #[must_use]
    pub const fn bytes_s(self) -> u64 {
        self.0
    }

    /// Converts to megabits per second, rounded down.
    #[must_use]
    pub const fn mbit_s(self) -> u64 {
        self.0.wrapping_div(125_000)
    }

    /// Returns how long `bytes` bytes take.
    #[must_use]
    pub fn time_of(self, bytes: u32) -> Duration {
        let nanos = u64::from(bytes).saturating_mul(1_000_000_000);
        Duration::from_nanos(nanos.checked_div(self.0).unwrap_or(u64::MAX))
    }

    /// Returns how many bytes leave in `time`, which is less than a second.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> u32 {
        let bytes = self.0.saturating_mul(time.as_nanos());
        u32::try_from(bytes.wrapping_div(1_000_000_000)).unwrap_or(u32::MAX)
    }
}

/// When the next packet may leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pacer {
    /// The packets sent before have left by then, at the rate.
    next: Instant,
    /// Packets wait for that time.
    paused: bool,
}

impl Pacer {
    /// A pacer that has sent nothing.
    pub(super) const IDLE: Self = Self {
        next: Instant::from_nanos(0),
        paused: false,
    };

    /// Returns how much of `limit` may be sent at `now`: no packets, or as much as leaves in [`BURST_TIME`]. The first
    /// packet of a burst may exceed the bytes.
    pub(super) fn burst_limit(
        &mut self,
        now: Instant,
        rate: Rate,
        limit: BurstLimit,
    ) -> BurstLimit {
        if self.next.is_after(now) {
            self.paused = true;
            return BurstLimit {
                packets: 0,
                ..limit
            };
        }
        BurstLimit {
            bytes: limit.bytes.min(rate.bytes_in(BURST_TIME)),
            ..limit
        }
    }

    /// Packets with `bytes` bytes on the wire were sent at `now`. What was not sent before is made up for, as
    /// far as [`CATCH_UP_TIME`] goes.
    pub(super) fn on_sent(&mut self, now: Instant, rate: Rate, bytes: u32) {
        let earliest = now.as_nanos().saturating_sub(CATCH_UP_TIME.as_nanos());
        let earliest = Instant::from_nanos(earliest);
        let from = self.next.max(earliest);
        self.next = from.saturating_add(rate.time_of(bytes));
        self.paused = self.next.is_after(now);
    }

    /// Takes the last [`on_sent`](Self::on_sent) back for `bytes` bytes.
    pub(super) fn on_unsent(&mut self, rate: Rate, bytes: u32) {
        let time = rate.time_of(bytes).as_nanos();
        self.next = Instant::from_nanos(self.next.as_nanos().saturating_sub(time));
    }

    /// Returns when packets may be sent again, if they must wait.
    #[inline]
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.paused.then_some(self.next)
    }

    /// Ends the pause that is over at `now`. Returns whether there was one.
    #[inline]
    pub(super) fn on_time(&mut self, now: Instant) -> bool {
        let ends = self.paused && !self.next.is_after(now);
        self.paused &= !ends;
        ends
    }

    /// Ends the pause: there is no rate any more.
    pub(super) fn stop(&mut self) {
        *self = Self::IDLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: BurstLimit = BurstLimit {
        bytes: 1 << 20,
        packets: 64,
    };

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_micros(micros))
    }

    #[test]
    fn rates_convert_both_ways() {
        let gigabit = Rate::from_mbit_s(1_000);
        assert_eq!(gigabit.bytes_s(), 125_000_000);
        assert_eq!(gigabit.time_of(125), Duration::from_nanos(1_000));
        assert_eq!(gigabit.bytes_in(Duration::from_micros(100)), 12_500);
        assert_eq!(Rate::from_mbit_s(0).bytes_s(), 1);
        assert_eq!(Rate::from_mbit_s(u32::MAX), Rate::MAX);
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let (rate, mut pacer, mut sent, mut now) =
            (Rate::from_mbit_s(1_000), Pacer::IDLE, 0, at(1_000));
        while now < at(101_000) {
            pacer.on_time(now);
            if pacer.burst_limit(now, rate, LIMIT).packets != 0 {
                pacer.on_sent(now, rate, 4_178);
                sent += 1;
            }
            now = pacer.paused_until().unwrap_or(now).max(now);
        }
        // 100 ms at 125 bytes per microsecond, and a millisecond before.
        assert_eq!(sent, (101_000 * 125u32).div_ceil(4_178));
    }

    #[test]
    fn idle_time_is_made_up_for_up_to_a_limit() {
        let (rate, mut pacer) = (Rate::from_mbit_s(1_000), Pacer::IDLE);
        pacer.on_sent(at(1_000_000), rate, 125_000);
        assert_eq!(pacer.paused_until(), None);
        pacer.on_sent(at(1_000_000), rate, 12_500);
        assert_eq!(pacer.paused_until(), Some(at(1_000_100)));
        assert_eq!(pacer.burst_limit(at(1_000_050), rate, LIMIT).packets, 0);
        pacer.on_time(at(1_000_100));
        assert_eq!(pacer.paused_until(), None);
        assert_eq!(pacer.burst_limit(at(1_000_100), rate, LIMIT).bytes, 12_500);
    }
}
