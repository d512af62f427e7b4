// SPDX-License-Identifier: GPL-2.0

//! When an engine runs although no event causes it to, and why.

use crate::time::Instant;

/// Why an engine runs at a certain time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wake {
    /// The ACK timer expires.
    AckTimeout,
    /// The delay that an RNR NAK asked for is over.
    RnrDelay,
    /// The peer must be asked for an acknowledgement.
    AckRequest,
    /// The rate of the sender admits the next burst.
    Pace,
    /// The local stack has held packets for long, or refused one.
    LocalStack,
    /// Packets that arrived early have waited long enough for those before them.
    Gap,
    /// A request whose memory is absent gets an RNR NAK.
    FaultNak,
    /// Requests may have been posted without a doorbell.
    RingPoll,
}

impl Wake {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::AckTimeout,
        Self::RnrDelay,
        Self::AckRequest,
        Self::Pace,
        Self::LocalStack,
        Self::Gap,
        Self::FaultNak,
        Self::RingPoll,
    ];

    /// Returns its place in [`Wake::ALL`].
    #[inline]
    const fn number(self) -> u64 {
        match self {
            Self::AckTimeout => 0,
            Self::RnrDelay => 1,
            Self::AckRequest => 2,
            Self::Pace => 3,
            Self::LocalStack => 4,
            Self::Gap => 5,
            Self::FaultNak => 6,
            Self::RingPoll => 7,
        }
    }
}

/// Bits of a [`NextWake`] that hold the reason.
const REASON: u64 = 7;

/// The earliest time at which an engine runs without an event, and its reason, if there is one.
///
/// It is one word, so that another CPU can read it while the engine runs: the time in nanoseconds, rounded up to a
/// multiple of 8, and the number of the reason in the bits that this leaves.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct NextWake(u64);

impl NextWake {
    /// The engine runs only for events.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns a run at `at`, or up to 7 ns later.
    #[inline]
    #[must_use]
    pub const fn new(why: Wake, at: Instant) -> Self {
        let at_ns = at.as_nanos().saturating_add(REASON) & !REASON;
        Self(at_ns | why.number())
    }

    /// Returns the run of this value or of `other`, whichever is earlier.
    #[inline]
    #[must_use]
    pub fn or_earlier(self, other: Self) -> Self {
        self.min(other)
    }

    /// Returns the time of the run.
    #[inline]
    #[must_use]
    pub fn at(self) -> Option<Instant> {
        (self != Self::NEVER).then_some(Instant::from_nanos(self.0 & !REASON))
    }

    /// Returns the reason, if the run is due at `now`.
    #[inline]
    #[must_use]
    pub fn due(self, now: Instant) -> Option<Wake> {
        let at = self.at()?;
        let reason = usize::try_from(self.0 & REASON).ok()?;
        let why = Wake::ALL.get(reason).copied();
        why.filter(|_| !now.is_before(at))
    }

    /// Returns the value as a word.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the value that [`NextWake::to_bits`] has returned.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl Default for NextWake {
    fn default() -> Self {
        Self::NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn time_and_reason_survive_the_word() {
        for why in Wake::ALL {
            for nanos in [0, 1, 8, 1_000_001, u64::MAX / 2] {
                let wake = NextWake::from_bits(NextWake::new(why, at(nanos)).to_bits());
                let time = wake.at().unwrap();
                assert!((nanos..nanos + 8).contains(&time.as_nanos()));
                assert_eq!(wake.due(time), Some(why));
                let before = time.as_nanos().checked_sub(1);
                assert_eq!(before.and_then(|before| wake.due(at(before))), None);
            }
        }
    }

    #[test]
    fn the_earlier_one_counts() {
        let (soon, late) = (
            NextWake::new(Wake::RingPoll, at(800)),
            NextWake::new(Wake::AckTimeout, at(808)),
        );
        assert_eq!(soon.or_earlier(late), soon);
        assert_eq!(late.or_earlier(soon), soon);
        assert_eq!(NextWake::NEVER.or_earlier(late), late);
        assert_eq!(NextWake::default(), NextWake::NEVER);
    }

    #[test]
    fn never_is_never_due() {
        assert_eq!(NextWake::NEVER.at(), None);
        assert_eq!(NextWake::NEVER.due(Instant::MAX), None);
    }
}
