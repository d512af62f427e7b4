// SPDX-License-Identifier: GPL-2.0

//! How far the peer is, and how much more may be in flight for that.
//!
//! Owns the shortest round trip that was seen, and the factor that follows from it. What is in flight has to cover
//! a round trip, or the sender waits for most of it; a queue on the way makes trips longer as well, but never the
//! shortest one, as long as it is empty now and then. Where something got lost there may be too little room for so
//! much, and the factor falls until nothing does. Does not know what is sent, nor how much may be in flight of a
//! peer that is near.

use crate::{
    psn::Psn,
    segment::MAX_PSNS,
    time::{
        Duration,
        Instant, //
    },
};

/// The round trip for which nothing more has to be in flight; for n of them, n times as much. With a megabyte for a
/// peer that is near, that is a gigabyte per second.
const NEAR: Duration = Duration::from_micros(1_000);

/// The largest factor.
const MOST: u32 = 16;

/// Packets in a row that must not get lost until the factor may be twice as large again.
const FORGIVEN: u32 = 1 << 16;

/// How far the peer is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Distance {
    /// What is measured: when something was sent, and the PSN that shows that it was answered, once it is the oldest.
    watched: Option<(Psn, Instant)>,
    /// By the shortest round trip.
    needed: u32,
    /// By what got lost.
    allowed: u32,
    /// Packets acknowledged since that has changed.
    arrived: u32,
}

impl Distance {
    /// Of a peer that has not answered yet.
    pub(super) const UNKNOWN: Self = Self {
        watched: None,
        needed: u32::MAX,
        allowed: MOST,
        arrived: 0,
    };

    /// Returns how many times as much may be in flight as to a peer that is near.
    #[inline]
    pub(super) fn factor(&self) -> u32 {
        match self.needed {
            u32::MAX => 1,
            needed => needed.min(self.allowed),
        }
    }

    /// Something was sent at `now` that the peer answers at once; `after` is the oldest PSN then.
    #[inline]
    pub(super) fn sent(&mut self, after: Psn, now: Instant) {
        self.watched.get_or_insert((after, now));
    }

    /// What was sent is to be sent again, or did not leave: an answer would not say to which of them.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.watched = None;
    }

    /// Another `packets` packets are acknowledged at `now`, and `oldest` is the first that is not.
    #[inline]
    pub(super) fn on_progress(&mut self, oldest: Psn, packets: u32, now: Instant) {
        if let Some((after, since)) = self.watched {
            if oldest.since(after) <= MAX_PSNS {
                self.watched = None;
                let trip = now.saturating_since(since).as_nanos();
                let times = trip.checked_div(NEAR.as_nanos()).unwrap_or(0);
                let times = u32::try_from(times).unwrap_or(MOST);
                self.needed = self.needed.min(times.clamp(1, MOST));
            }
        }
        if self.allowed < MOST {
            self.arrived = self.arrived.saturating_add(packets);
            if self.arrived >= FORGIVEN {
                self.allowed = self.allowed.saturating_mul(2).min(MOST);
                self.arrived = 0;
            }
        }
    }

    /// Something got lost.
    pub(super) fn on_loss(&mut self) {
        self.allowed = self.factor().wrapping_shr(1).max(1);
        self.arrived = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_micros(micros))
    }

    /// The peer's answer took so many microseconds.
    fn after(trip: u64) -> Distance {
        let mut distance = Distance::UNKNOWN;
        distance.sent(Psn::new(5), at(100));
        distance.on_progress(Psn::new(5), 1, at(100 + trip));
        distance
    }

    #[test]
    fn the_factor_follows_from_the_round_trip() {
        assert_eq!(Distance::UNKNOWN.factor(), 1);
        for (trip, factor) in [
            (0, 1),
            (999, 1),
            (1_999, 1),
            (2_000, 2),
            (20_000, 16),
            (u64::MAX / 2000, 16),
        ] {
            assert_eq!(after(trip).factor(), factor, "{trip}");
        }
    }

    #[test]
    fn the_shortest_one_counts() {
        let mut distance = after(9_000);
        distance.sent(Psn::new(9), at(0));
        distance.on_progress(Psn::new(9), 1, at(20_000));
        assert_eq!(distance.factor(), 9);
        distance.sent(Psn::new(11), at(0));
        distance.on_progress(Psn::new(12), 1, at(3_000));
        assert_eq!(distance.factor(), 3);
    }

    #[test]
    fn nothing_is_measured_by_what_was_answered_before() {
        let mut distance = Distance::UNKNOWN;
        distance.sent(Psn::new(0), at(0));
        distance.on_progress(Psn::new(0xFF_FFFF), 1, at(2_000));
        assert_eq!(distance.factor(), 1);
        distance.sent(Psn::new(3), at(3_000));
        distance.on_progress(Psn::new(0), 1, at(4_000));
        assert_eq!(distance.factor(), 4, "the first of two that are under way");
    }

    #[test]
    fn nothing_is_measured_by_what_was_sent_twice() {
        let mut distance = Distance::UNKNOWN;
        distance.sent(Psn::new(1), at(0));
        distance.forget();
        distance.on_progress(Psn::new(1), 1, at(9_000));
        assert_eq!(distance.factor(), 1);
    }

    #[test]
    fn losses_take_it_away_and_what_arrives_brings_it_back() {
        let mut distance = after(20_000);
        for factor in [8, 4, 2, 1, 1] {
            distance.on_loss();
            assert_eq!(distance.factor(), factor);
        }
        distance.on_progress(Psn::new(0), FORGIVEN - 1, at(0));
        assert_eq!(distance.factor(), 1);
        distance.on_progress(Psn::new(0), 1, at(0));
        assert_eq!(distance.factor(), 2);
        distance.on_loss();
        for factor in [2, 4, 8, 16, 16] {
            distance.on_progress(Psn::new(0), FORGIVEN, at(0));
            assert_eq!(distance.factor(), factor);
        }
    }
}
