// SPDX-License-Identifier: GPL-2.0

//! Retry policy of the requester: when to retransmit, and when to give up.
//!
//! Holds the two retry counters, the ACK or RNR timer, and the deadline for the next ACK request.
//! The requester reports events (`on_*`) and reads the earliest deadline.
//!
//! Progress, that is, any increase of the oldest unacknowledged PSN, resets both counters. The ACK
//! timeout is T = 4.096 us * 2^code at first, then 2 T, then 4 T, the longest that the
//! specification allows.
//!
//! An RNR NAK requests a minimum delay. A short delay is doubled for each further RNR NAK, up to
//! [`MAX_RNR_BACKOFF`]: the CPU that retransmits in a tight loop may be the CPU on which the peer's
//! consumer has to run.
//!
//! IBA: section 9.7.6.1.3, timeouts. A retry count of 7 means no limit for RNR, but not for loss.

use crate::{
    psn::Psn,
    segmentation::gso_loss::GsoLoss,
    time::{
        ack_timeout,
        rnr_timeout,
        Duration,
        Instant, //
    },
    wake::{
        NextWake,
        Wake, //
    }, //
};

/// The RNR retry count that means no limit.
const RNR_RETRY_FOREVER: u8 = 7;

/// Most times that the ACK timeout is doubled.
const MAX_TIMEOUT_DOUBLINGS: u8 = 2;

/// Upper limit for doubled RNR delays. A longer delay that the peer requests is kept as it is.
const MAX_RNR_BACKOFF: Duration = Duration::from_micros(500);

/// The retries are used up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Exhausted;

/// The event whose deadline has passed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Expired {
    /// No ACK or response arrived in time.
    AckTimeout,
    /// The delay of an RNR NAK is over.
    RnrDelay,
    /// An ACK must be requested now.
    AckRequest,
}

/// The event that the requester waits for, and its deadline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RetryTimer {
    /// Nothing.
    Idle,
    /// An ACK or any other response.
    Ack { deadline: Instant },
    /// The end of the delay that an RNR NAK requested.
    Rnr { until: Instant },
}

/// Retry counters and timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    timer: RetryTimer,
    /// The ACK timeout; `None` means no timeout.
    timeout: Option<Duration>,
    limit: u8,
    rnr_limit: u8,
    used: u8,
    rnr_used: u8,
    doublings: u8,
    /// The last RNR delay; zero after progress.
    rnr_delay: Duration,
    /// A gap in the responses was handled since the last progress.
    gap_handled: bool,
    /// Deadline for the next ACK request.
    ack_request_at: Option<Instant>,
    /// PSN after packets that were sent in super-packets, and the length of the longest.
    gso: Option<(Psn, u32)>,
}

impl Retry {
    /// Returns a policy without timeout and without retries.
    pub(super) const fn new() -> Self {
        Self {
            timer: RetryTimer::Idle,
            timeout: None,
            limit: 0,
            rnr_limit: 0,
            used: 0,
            rnr_used: 0,
            doublings: 0,
            rnr_delay: Duration::ZERO,
            gap_handled: false,
            ack_request_at: None,
            gso: None,
        }
    }

    /// Sets the ACK timeout, a 5-bit code. A running timer is not changed.
    pub(super) fn set_timeout(&mut self, code: u8) {
        self.timeout = ack_timeout(code);
    }

    /// Sets the retry count, 3 bits.
    pub(super) fn set_limit(&mut self, limit: u8) {
        self.limit = limit;
    }

    /// Sets the RNR retry count, 3 bits.
    pub(super) fn set_rnr_limit(&mut self, limit: u8) {
        self.rnr_limit = limit;
    }

    /// Returns whether the ACK timeout is at least `min`.
    #[inline]
    pub(super) fn is_timeout_at_least(&self, min: Duration) -> bool {
        self.timeout.is_none_or(|timeout| timeout >= min)
    }

    /// Resets the state and keeps the attributes.
    pub(super) fn clear(&mut self) {
        *self = Self {
            timeout: self.timeout,
            limit: self.limit,
            rnr_limit: self.rnr_limit,
            ..Self::new()
        };
    }

    /// A packet was sent that requests an ACK or a response.
    #[inline]
    pub(super) fn on_ack_requested(&mut self, now: Instant) {
        self.ack_request_at = None;
        self.start_ack_timer_if_idle(now);
    }

    /// Starts the ACK timer at `now` unless a timer is running. Earlier time does not count.
    #[inline]
    pub(super) fn start_ack_timer_if_idle(&mut self, now: Instant) {
        if matches!(self.timer, RetryTimer::Idle) {
            self.start_ack_timer(now);
        }
    }

    /// Schedules the next ACK request for `time`, unless it is scheduled earlier.
    #[inline]
    pub(super) fn schedule_ack_request(&mut self, time: Instant) {
        self.ack_request_at = match self.ack_request_at {
            Some(sooner) if sooner.is_before(time) => Some(sooner),
            _ => Some(time),
        };
    }

    /// Returns whether an ACK request is scheduled for `time` or earlier.
    #[inline]
    pub(super) fn is_ack_request_due(&self, time: Instant) -> bool {
        self.ack_request_at.is_some_and(|at| !time.is_before(at))
    }

    /// Cancels the scheduled ACK request and stops the ACK timer.
    #[inline]
    pub(super) fn cancel_ack_request(&mut self) {
        self.ack_request_at = None;
        self.stop_ack_timer();
    }

    /// Stops the ACK timer: no ACK is due. An RNR delay continues.
    #[inline]
    pub(super) fn stop_ack_timer(&mut self) {
        if matches!(self.timer, RetryTimer::Ack { .. }) {
            self.timer = RetryTimer::Idle;
        }
    }

    /// New packets were acknowledged. `ack_due`: an ACK for later packets is due.
    #[inline]
    pub(super) fn on_progress(&mut self, now: Instant, ack_due: bool) {
        (self.used, self.rnr_used, self.doublings) = (0, 0, 0);
        self.rnr_delay = Duration::ZERO;
        self.gap_handled = false;
        self.timer = RetryTimer::Idle;
        if ack_due {
            self.start_ack_timer(now);
        }
    }

    /// A packet was lost; the requester must retransmit from there on.
    pub(super) fn on_loss(&mut self) -> Result<(), Exhausted> {
        self.timer = RetryTimer::Idle;
        if self.used >= self.limit {
            return Err(Exhausted);
        }
        self.used = self.used.saturating_add(1);
        Ok(())
    }

    /// The ACK timeout expired.
    pub(super) fn on_timeout(&mut self) -> Result<(), Exhausted> {
        self.doublings = self.doublings.saturating_add(1).min(MAX_TIMEOUT_DOUBLINGS);
        self.on_loss()
    }

    /// Packets up to `end` were sent in super-packets of at most `longest` bytes.
    #[inline]
    pub(super) fn on_gso_sent(&mut self, end: Psn, longest: u32) {
        self.gso.get_or_insert((end, longest));
    }

    /// Reports to `loss`, which is about the route, what became of such buffers; `oldest` is the oldest unacknowledged
    /// PSN. Returns whether each packet must be sent by itself now: the ACK timeout has expired since the last
    /// progress, or a repeat was lost as well, or the route loses such buffers.
    #[inline]
    pub(super) fn must_send_singly(&mut self, oldest: Psn, loss: &mut GsoLoss) -> bool {
        let in_vain = self.doublings != 0 || self.used > 1;
        if in_vain && self.gso.take().is_some() {
            loss.on_lost();
        }
        if let Some((_, longest)) = self.gso.take_if(|(end, _)| !oldest.is_before(*end)) {
            loss.on_passed(longest);
        }
        in_vain || loss.is_certain()
    }

    /// A later response shows that one is missing. Returns whether to act: only once until the next
    /// progress, because every later response shows the same gap.
    pub(super) fn on_gap(&mut self) -> bool {
        !core::mem::replace(&mut self.gap_handled, true)
    }

    /// The peer sent an RNR NAK. The peer is alive, so earlier losses no longer count: in a long
    /// series of RNR delays some packets are lost.
    pub(super) fn on_not_ready(&mut self, now: Instant, code: u8) -> Result<(), Exhausted> {
        if self.rnr_limit != RNR_RETRY_FOREVER {
            if self.rnr_used >= self.rnr_limit {
                return Err(Exhausted);
            }
            self.rnr_used = self.rnr_used.saturating_add(1);
        }
        (self.used, self.doublings) = (0, 0);
        let doubled = self.rnr_delay.saturating_mul(2).min(MAX_RNR_BACKOFF);
        self.rnr_delay = rnr_timeout(code).max(doubled);
        let until = now.saturating_add(self.rnr_delay);
        self.timer = RetryTimer::Rnr { until };
        Ok(())
    }

    /// Clears one deadline that has passed and returns its event.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Expired> {
        let passed = |at: Instant| !now.is_before(at);
        let expired = match self.timer {
            RetryTimer::Ack { deadline } if passed(deadline) => Expired::AckTimeout,
            RetryTimer::Rnr { until } if passed(until) => Expired::RnrDelay,
            _ => {
                self.ack_request_at.take_if(|at| passed(*at))?;
                return Some(Expired::AckRequest);
            }
        };
        self.timer = RetryTimer::Idle;
        Some(expired)
    }

    /// Ends an RNR delay that is over. Returns whether packets may be sent.
    #[inline]
    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        if self.in_rnr_delay() {
            self.expire(now);
        }
        !self.in_rnr_delay()
    }

    /// Returns whether an RNR delay is in progress.
    #[inline]
    pub(super) const fn in_rnr_delay(&self) -> bool {
        matches!(self.timer, RetryTimer::Rnr { .. })
    }

    /// Returns the earliest deadline.
    #[inline]
    pub(super) fn next_wake(&self) -> NextWake {
        let timer = match self.timer {
            RetryTimer::Idle => NextWake::NEVER,
            RetryTimer::Ack { deadline } => NextWake::new(Wake::AckTimeout, deadline),
            RetryTimer::Rnr { until } => NextWake::new(Wake::RnrDelay, until),
        };
        match self.ack_request_at {
            Some(at) => timer.or_earlier(NextWake::new(Wake::AckRequest, at)),
            None => timer,
        }
    }

    /// Starts the ACK timer at `now`.
    #[inline]
    pub(super) fn start_ack_timer(&mut self, now: Instant) {
        self.timer = match self.timeout {
            Some(timeout) => RetryTimer::Ack {
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
    fn only_the_first_ack_request_sets_the_deadline() {
        let mut retry = retry(1, 1);
        assert_eq!(retry.next_wake().at(), None);
        retry.on_ack_requested(START);
        retry.on_ack_requested(after(1));
        assert_eq!(retry.next_wake().at(), Some(after(1)));
    }

    #[test]
    fn deadlines_double_up_to_four_times_the_timeout() {
        let mut retry = retry(7, 7);
        for units in [1, 2, 4, 4, 4] {
            retry.on_ack_requested(START);
            assert_eq!(retry.next_wake().at(), Some(after(units)));
            assert_eq!(retry.expire(after(units - 1)), None);
            assert_eq!(retry.expire(after(units)), Some(Expired::AckTimeout));
            assert_eq!(retry.expire(after(99)), None, "once");
            assert_eq!(retry.on_timeout(), Ok(()));
        }
        retry.on_progress(START, true);
        assert_eq!(retry.next_wake().at(), Some(after(1)));
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
    fn rnr_retries_are_counted_exactly_unless_there_is_no_limit() {
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
    fn an_rnr_delay_holds_packets_back_until_it_ends() {
        let mut retry = retry(1, 1);
        retry.on_not_ready(START, 1).unwrap(); // 10 us
        assert!(!retry.may_send(micros(109)));
        assert_eq!(retry.next_wake().at(), Some(micros(110)));
        assert!(retry.may_send(micros(110)));
        assert!(retry.may_send(START), "it has ended");
    }

    #[test]
    fn short_rnr_delays_grow_until_progress_and_long_ones_do_not() {
        let mut retry = retry(1, 7);
        for delay in [10, 20, 40, 80, 160, 320, 500, 500] {
            retry.on_not_ready(START, 1).unwrap();
            assert_eq!(retry.next_wake().at(), Some(micros(100 + delay)));
            assert_eq!(retry.expire(micros(100 + delay)), Some(Expired::RnrDelay));
        }
        retry.on_not_ready(START, 13).unwrap(); // 960 us
        assert_eq!(retry.next_wake().at(), Some(micros(1060)), "as requested");
        retry.on_not_ready(START, 13).unwrap();
        assert_eq!(retry.next_wake().at(), Some(micros(1060)));
        retry.on_progress(START, false);
        retry.on_not_ready(START, 1).unwrap();
        assert_eq!(retry.next_wake().at(), Some(micros(110)));
    }

    #[test]
    fn clear_resets_the_state_and_keeps_the_attributes() {
        let mut retry = retry(1, 1);
        retry.on_timeout().unwrap();
        retry.on_not_ready(START, 1).unwrap();
        retry.on_gap();
        retry.clear();
        assert_eq!(retry.next_wake().at(), None);
        assert!(retry.on_gap());
        retry.on_ack_requested(START);
        assert_eq!(retry.next_wake().at(), Some(after(1)));
        assert_eq!(retry.on_loss(), Ok(()));
        assert_eq!(retry.on_loss(), Err(Exhausted));
        assert_eq!(retry.on_not_ready(START, 1), Ok(()));
        assert_eq!(retry.on_not_ready(START, 1), Err(Exhausted));
    }

    #[test]
    fn an_rnr_nak_resets_the_loss_retries() {
        let mut retry = retry(1, 7);
        for _ in 0..100 {
            assert_eq!(retry.on_timeout(), Ok(()));
            assert_eq!(retry.on_not_ready(START, 1), Ok(()));
        }
        assert_eq!(retry.on_timeout(), Ok(()));
        retry.on_ack_requested(START);
        assert_eq!(retry.next_wake().at(), Some(after(2)), "doubled once");
        let mut retry = self::retry(1, 1);
        assert_eq!(retry.on_not_ready(START, 1), Ok(()));
        assert_eq!(retry.on_timeout(), Ok(()));
        assert_eq!(
            retry.on_not_ready(START, 1),
            Err(Exhausted),
            "a loss does not reset RNR retries"
        );
    }

    #[test]
    fn after_a_timeout_or_a_second_loss_packets_go_singly() {
        let mut retry = retry(7, 7);
        let mut loss = GsoLoss::default();
        let psn = Psn::new(5);
        let send = |retry: &mut Retry, loss: &mut GsoLoss, end| {
            loss.on_sent(3000);
            retry.on_gso_sent(end, 3000);
        };
        send(&mut retry, &mut loss, psn);
        assert_eq!(retry.on_loss(), Ok(()));
        assert!(!retry.must_send_singly(Psn::new(0), &mut loss));
        assert_eq!(retry.on_loss(), Ok(()));
        assert!(retry.must_send_singly(Psn::new(0), &mut loss));
        retry.on_progress(START, false);
        assert!(!retry.must_send_singly(psn, &mut loss), "one loss");
        send(&mut retry, &mut loss, psn.add(5));
        assert_eq!(retry.on_timeout(), Ok(()));
        assert!(retry.must_send_singly(psn, &mut loss));
        retry.on_progress(START, false);
        assert!(retry.must_send_singly(psn.add(5), &mut loss), "the route");
    }

    #[test]
    fn a_buffer_that_passed_clears_the_route() {
        let mut retry = retry(7, 7);
        let mut loss = GsoLoss::default();
        let end = Psn::new(5);
        retry.on_gso_sent(end, 3000);
        assert!(!retry.must_send_singly(end.sub(1), &mut loss));
        assert!(!retry.must_send_singly(end, &mut loss));
        for _ in 0..3 {
            loss.on_sent(3000);
            retry.on_gso_sent(end, 3000);
            assert_eq!(retry.on_timeout(), Ok(()));
            assert!(retry.must_send_singly(Psn::new(0), &mut loss));
        }
        retry.on_progress(START, false);
        assert!(!retry.must_send_singly(end, &mut loss));
    }

    #[test]
    fn progress_resets_everything() {
        let mut retry = retry(1, 1);
        retry.on_not_ready(START, 1).unwrap();
        assert!(retry.on_gap());
        assert!(!retry.on_gap(), "once");
        retry.on_progress(START, false);
        assert_eq!(retry.next_wake().at(), None);
        assert!(retry.may_send(START));
        assert!(retry.on_gap(), "again after progress");
    }
}
