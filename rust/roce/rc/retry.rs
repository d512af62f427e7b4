// SPDX-License-Identifier: GPL-2.0

//! Retry policy of the requester: when to send again, and when to give up.
//!
//! Owns two counters, what is waited for, and until when an acknowledgement may go unasked. Does not know packets; the
//! requester tells it what happened (`on_*`) and asks it when to wake up (`deadline`).
//!
//! Anything that moves the oldest unacknowledged PSN is progress and fills both counters again.
//! The peer is given the time T = 4.096 us * 2^code for the first answer, then 2 T, then 4 T,
//! the longest that the specification allows, for each further one.
//!
//! A peer that is not ready asks for a pause of some length at least. A short one is doubled each time that the peer is
//! still not ready, up to [`LONGEST_SHORT_PAUSE`]: a processor that spends all of its time on asking again
//! might be the one on which the peer would become ready.
//!
//! IBA: section 9.7.6.1.3, timeouts. Unlike a retry count of 7 for RNR, one for loss does end.

use crate::time::{
    ack_timeout,
    rnr_timeout,
    Duration,
    Instant, //
};

/// The RNR retry count that stands for no limit.
const RNR_RETRY_FOREVER: u8 = 7;

/// How often the timeout is doubled at most.
const MAX_DOUBLINGS: u8 = 2;

/// How far pauses grow. Longer ones stay as the peer has asked for them.
const LONGEST_SHORT_PAUSE: Duration = Duration::from_micros(500);

/// The retries are used up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Exhausted;

/// What a deadline that has passed was for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Expired {
    /// The peer did not answer.
    ReplayEntry,
    /// The peer had asked for a pause.
    Pause,
    /// An acknowledgement was not asked for until then.
    Patience,
}

/// What the requester waits for, with the time until which it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RetryTimer {
    /// Nothing.
    Idle,
    /// An answer of any kind.
    ReplayEntry { deadline: Instant },
    /// The end of the pause that a peer asked for that was not ready to receive.
    Pause { until: Instant },
}

/// The counters and the timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    timer: RetryTimer,
    /// `None` waits for ever.
    timeout: Option<Duration>,
    limit: u8,
    rnr_limit: u8,
    used: u8,
    rnr_used: u8,
    doublings: u8,
    /// The last pause, if there was no progress since.
    pause: Duration,
    gap_answered: bool,
    /// When to ask for an acknowledgement, if nothing is sent by then that does.
    ask_by: Option<Instant>,
}

impl Retry {
    /// Waits for ever and never tries again.
    pub(super) const fn new() -> Self {
        Self {
            timer: RetryTimer::Idle,
            timeout: None,
            limit: 0,
            rnr_limit: 0,
            used: 0,
            rnr_used: 0,
            doublings: 0,
            pause: Duration::ZERO,
            gap_answered: false,
            ask_by: None,
        }
    }

    /// Sets the timeout, as a code of five bits. One that runs goes on as it is.
    pub(super) fn set_timeout(&mut self, code: u8) {
        self.timeout = ack_timeout(code);
    }

    /// Sets how often to send again, three bits.
    pub(super) fn set_limit(&mut self, limit: u8) {
        self.limit = limit;
    }

    /// Sets how often to send again to a peer that is not ready, three bits.
    pub(super) fn set_rnr_limit(&mut self, limit: u8) {
        self.rnr_limit = limit;
    }

    /// Returns whether the peer has at least so long to answer.
    #[inline]
    pub(super) fn waits_for(&self, least: Duration) -> bool {
        self.timeout.is_none_or(|timeout| timeout >= least)
    }

    /// Forgets what happened. The attributes stay.
    pub(super) fn clear(&mut self) {
        *self = Self {
            timeout: self.timeout,
            limit: self.limit,
            rnr_limit: self.rnr_limit,
            ..Self::new()
        };
    }

    /// A packet was sent that asks for an answer.
    #[inline]
    pub(super) fn on_asked(&mut self, now: Instant) {
        self.ask_by = None;
        self.is_due(now);
    }

    /// An answer is due. That it is since before `now`, if nobody has waited for it so far, does not count.
    #[inline]
    pub(super) fn is_due(&mut self, now: Instant) {
        if matches!(self.timer, RetryTimer::Idle) {
            self.expect_answer(now);
        }
    }

    /// An acknowledgement has to be asked for at this time, unless that was to be sooner.
    #[inline]
    pub(super) fn ask_by(&mut self, time: Instant) {
        self.ask_by = match self.ask_by {
            Some(sooner) if sooner.is_before(time) => Some(sooner),
            _ => Some(time),
        };
    }

    /// There is nothing to ask for.
    #[inline]
    pub(super) fn nothing_to_ask(&mut self) {
        self.ask_by = None;
        self.nothing_asked();
    }

    /// The peer was asked for nothing that it has not answered.
    #[inline]
    pub(super) fn nothing_asked(&mut self) {
        if matches!(self.timer, RetryTimer::ReplayEntry { .. }) {
            self.timer = RetryTimer::Idle;
        }
    }

    /// A new part of the requests is acknowledged; `awaited` says whether the peer was asked for more.
    #[inline]
    pub(super) fn on_progress(&mut self, now: Instant, awaited: bool) {
        (self.used, self.rnr_used, self.doublings) = (0, 0, 0);
        self.pause = Duration::ZERO;
        self.gap_answered = false;
        self.timer = RetryTimer::Idle;
        if awaited {
            self.expect_answer(now);
        }
    }

    /// Something got lost, and everything from it on is to be sent again.
    pub(super) fn on_loss(&mut self) -> Result<(), Exhausted> {
        self.timer = RetryTimer::Idle;
        if self.used >= self.limit {
            return Err(Exhausted);
        }
        self.used = self.used.saturating_add(1);
        Ok(())
    }

    /// The peer did not answer in time.
    pub(super) fn on_timeout(&mut self) -> Result<(), Exhausted> {
        self.doublings = self.doublings.saturating_add(1).min(MAX_DOUBLINGS);
        self.on_loss()
    }

    /// A later answer shows that one is missing. Returns whether to act on it: once only until
    /// there is progress, as all that follow the missing one show the same.
    pub(super) fn on_gap(&mut self) -> bool {
        !core::mem::replace(&mut self.gap_answered, true)
    }

    /// The peer is not ready to receive, and asks for a pause. It is alive, so what was lost
    /// before counts no more: between two pauses of many, something will get lost.
    pub(super) fn on_not_ready(&mut self, now: Instant, code: u8) -> Result<(), Exhausted> {
        if self.rnr_limit != RNR_RETRY_FOREVER {
            if self.rnr_used >= self.rnr_limit {
                return Err(Exhausted);
            }
            self.rnr_used = self.rnr_used.saturating_add(1);
        }
        (self.used, self.doublings) = (0, 0);
        let longer = self.pause.saturating_mul(2).min(LONGEST_SHORT_PAUSE);
        self.pause = rnr_timeout(code).max(longer);
        let until = now.saturating_add(self.pause);
        self.timer = RetryTimer::Pause { until };
        Ok(())
    }

    /// Takes a deadline that has passed.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Expired> {
        let passed = |at: Instant| !now.is_before(at);
        let what = match self.timer {
            RetryTimer::ReplayEntry { deadline } if passed(deadline) => Expired::ReplayEntry,
            RetryTimer::Pause { until } if passed(until) => Expired::Pause,
            _ => {
                self.ask_by.take_if(|at| passed(*at))?;
                return Some(Expired::Patience);
            }
        };
        self.timer = RetryTimer::Idle;
        Some(what)
    }

    /// Ends a pause whose time has come. Returns whether there is none.
    #[inline]
    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        if self.is_paused() {
            self.expire(now);
        }
        !self.is_paused()
    }

    /// Returns whether the peer asked for a pause that nobody has ended.
    #[inline]
    pub(super) const fn is_paused(&self) -> bool {
        matches!(self.timer, RetryTimer::Pause { .. })
    }

    /// Returns when to look again at the latest.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        let awaited = match self.timer {
            RetryTimer::Idle => return self.ask_by,
            RetryTimer::ReplayEntry { deadline } => deadline,
            RetryTimer::Pause { until } => until,
        };
        match self.ask_by {
            Some(sooner) if sooner.is_before(awaited) => Some(sooner),
            _ => Some(awaited),
        }
    }

    /// The peer has its time to answer from `now` on.
    #[inline]
    pub(super) fn expect_answer(&mut self, now: Instant) {
        self.timer = match self.timeout {
            Some(timeout) => RetryTimer::ReplayEntry {
                deadline: now.saturating_add(
                    timeout.saturating_mul(1_u64.wrapping_shl(self.doublings.into())),
                ),
            },
            None => RetryTimer::Idle,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rc::testing::micros;

    /// T of code 1, in nanoseconds.
    const T: u64 = 8_192;

    const START: Instant = micros(100);

    fn retry(limit: u8, rnr_limit: u8) -> Retry {
        let mut retry = Retry::new();
        retry.set_timeout(1);
        retry.set_limit(limit);
        retry.set_rnr_limit(rnr_limit);
        retry
    }

    fn after(units: u64) -> Instant {
        START.saturating_add(Duration::from_nanos(units * T))
    }

    #[test]
    fn the_first_question_sets_the_deadline_and_no_other() {
        let mut retry = retry(1, 1);
        assert_eq!(retry.deadline(), None);
        retry.on_asked(START);
        retry.on_asked(after(1));
        assert_eq!(retry.deadline(), Some(after(1)));
    }

    #[test]
    fn deadlines_double_up_to_four_times_the_timeout() {
        let mut retry = retry(7, 7);
        for units in [1, 2, 4, 4, 4] {
            retry.on_asked(START);
            assert_eq!(retry.deadline(), Some(after(units)));
            assert_eq!(retry.expire(after(units - 1)), None);
            assert_eq!(retry.expire(after(units)), Some(Expired::ReplayEntry));
            assert_eq!(retry.expire(after(99)), None, "once");
            assert_eq!(retry.on_timeout(), Ok(()));
        }
        retry.on_progress(START, true);
        assert_eq!(retry.deadline(), Some(after(1)));
    }

    #[test]
    fn retries_are_counted_exactly() {
        for limit in 0..=7 {
            let mut retry = retry(limit, 0);
            for _ in 0..limit {
                assert_eq!(retry.on_loss(), Ok(()));
            }
            assert_eq!(retry.on_loss(), Err(Exhausted));
            retry.on_progress(START, false);
            assert_eq!(retry.on_loss().is_ok(), limit != 0);
        }
    }

    #[test]
    fn pauses_are_counted_exactly_unless_there_is_no_limit() {
        for limit in 0..7 {
            let mut retry = retry(0, limit);
            for _ in 0..limit {
                assert_eq!(retry.on_not_ready(START, 1), Ok(()));
            }
            assert_eq!(retry.on_not_ready(START, 1), Err(Exhausted));
        }
        let mut retry = retry(0, 7);
        for _ in 0..1000 {
            assert_eq!(retry.on_not_ready(START, 1), Ok(()));
        }
    }

    #[test]
    fn a_pause_holds_packets_back_until_it_ends() {
        let mut retry = retry(1, 1);
        retry.on_not_ready(START, 1).unwrap(); // 10 us
        assert!(!retry.may_send(micros(109)));
        assert_eq!(retry.deadline(), Some(micros(110)));
        assert!(retry.may_send(micros(110)));
        assert!(retry.may_send(START), "it has ended");
    }

    #[test]
    fn short_pauses_grow_until_there_is_progress_and_long_ones_do_not() {
        let mut retry = retry(1, 7);
        for pause in [10, 20, 40, 80, 160, 320, 500, 500] {
            retry.on_not_ready(START, 1).unwrap();
            assert_eq!(retry.deadline(), Some(micros(100 + pause)));
            assert_eq!(retry.expire(micros(100 + pause)), Some(Expired::Pause));
        }
        retry.on_not_ready(START, 13).unwrap(); // 960 us
        assert_eq!(retry.deadline(), Some(micros(1060)), "as long as asked for");
        retry.on_not_ready(START, 13).unwrap();
        assert_eq!(retry.deadline(), Some(micros(1060)));
        retry.on_progress(START, false);
        retry.on_not_ready(START, 1).unwrap();
        assert_eq!(retry.deadline(), Some(micros(110)));
    }

    #[test]
    fn what_happened_is_forgotten_and_the_attributes_are_not() {
        let mut retry = retry(1, 1);
        retry.on_timeout().unwrap();
        retry.on_not_ready(START, 1).unwrap();
        retry.on_gap();
        retry.clear();
        assert_eq!(retry.deadline(), None);
        assert!(retry.on_gap());
        retry.on_asked(START);
        assert_eq!(retry.deadline(), Some(after(1)));
        assert_eq!(retry.on_loss(), Ok(()));
        assert_eq!(retry.on_loss(), Err(Exhausted));
        assert_eq!(retry.on_not_ready(START, 1), Ok(()));
        assert_eq!(retry.on_not_ready(START, 1), Err(Exhausted));
    }

    #[test]
    fn a_pause_shows_that_the_peer_is_alive() {
        let mut retry = retry(1, 7);
        for _ in 0..100 {
            assert_eq!(retry.on_timeout(), Ok(()));
            assert_eq!(retry.on_not_ready(START, 1), Ok(()));
        }
        assert_eq!(retry.on_timeout(), Ok(()));
        retry.on_asked(START);
        assert_eq!(retry.deadline(), Some(after(2)), "doubled once");
        let mut retry = self::retry(1, 1);
        assert_eq!(retry.on_not_ready(START, 1), Ok(()));
        assert_eq!(retry.on_timeout(), Ok(()));
        assert_eq!(retry.on_not_ready(START, 1), Err(Exhausted), "not so here");
    }

    #[test]
    fn progress_ends_everything() {
        let mut retry = retry(1, 1);
        retry.on_not_ready(START, 1).unwrap();
        assert!(retry.on_gap());
        assert!(!retry.on_gap(), "once");
        retry.on_progress(START, false);
        assert_eq!(retry.deadline(), None);
        assert!(retry.may_send(START));
        assert!(retry.on_gap(), "anew");
    }
}
