// SPDX-License-Identifier: GPL-2.0

//! DCQCN: the rate of one sender, which CNPs reduce: the reaction point.
//!
//! A CNP reduces the current rate by up to a half: by `alpha`, an estimate of how often packets are marked. Without
//! CNPs the rate returns in three stages. Each step, after some time or a number of bytes, takes it half way to the
//! target rate (fast recovery). Further steps raise the target slowly (additive increase), and fast once both time and
//! bytes call for it (hyper increase). At line rate there is no limit until the next CNP.
//!
//! There is no timer: the steps that are due are taken when the rate is used.
//!
//! Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015. The figures that it leaves
//! to the implementation are the defaults of ConnectX adapters.

use super::pacer::{
    Pacer,
    Rate,
    OVERHEAD_BYTES, //
};
use crate::{
    segmentation::tx_desc::BurstLimit,
    time::{
        Duration,
        Instant, //
    }, //
};

/// Bits of `alpha` behind the point.
const ALPHA_BITS: u32 = 24;

/// `alpha` of 1.
const ALPHA_ONE: u32 = 1 << ALPHA_BITS;

/// Weight of a new observation in `alpha`, as a shift: 1/16.
const ALPHA_SHIFT: u32 = 8;

/// Period of `alpha`, at least: it rises if there is a CNP, and falls otherwise.
const ALPHA_PERIOD: Duration = Duration::from_micros(55);

/// Two packets: CNPs do not come more often. At a low rate a step of `alpha` takes as long as these bytes, or `alpha`
/// would fall between two CNPs of a steady congestion.
const MARKED_BYTES: u32 = 8 << 10;

/// Shortest time over which the rate that a sender uses is measured.
const MEASURE_TIME: Duration = Duration::from_micros(2_000);

/// Steps after which `alpha` counts as 0: it is below a thousandth.
const MAX_ALPHA_STEPS: u64 = 2_048;

/// The rate falls at most once in this time: about how long a cut takes to show at the receiver, through the queue.
/// Adapters have 4 to 50 us, as their round trips are shorter.
const CUT_INTERVAL: Duration = Duration::from_micros(250);

/// The same at a low rate, as bytes.
const CUT_BYTES: u32 = 8 << 10;

/// Growth of the target in a step of additive and of hyper increase, at most, as a part of it. The steps for a fast
/// link would overrun a slow one.
const MAX_ADDITIVE_PART: u64 = 128;
const MAX_HYPER_PART: u64 = 32;

/// Shortest time between two steps.
const MIN_STEP_TIME: Duration = Duration::from_micros(1);

/// Steps of each kind in fast recovery.
const FAST_RECOVERY_STEPS: u32 = 5;

/// Steps that are taken at once at most. From the lowest rate, as many reach 100 Gbit/s.
const MAX_STEPS: u32 = 4_096;

/// Parameters of [`Dcqcn`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DcqcnConfig {
    /// The rate of the port. The rate is unlimited from here on.
    pub line_rate: Rate,
    /// The rate does not fall below.
    pub min_rate: Rate,
    /// Growth of the target in a step of additive increase.
    pub additive_increase: Rate,
    /// Growth of the target in a step of hyper increase.
    pub hyper_increase: Rate,
    /// Time between two steps.
    pub step_time: Duration,
    /// Bytes between two steps.
    pub step_bytes: u32,
}

impl DcqcnConfig {
    /// The defaults for a port with this rate.
    #[must_use]
    pub fn new(line_rate: Rate) -> Self {
        Self {
            line_rate,
            min_rate: Rate::from_mbit_s(10),
            additive_increase: Rate::from_mbit_s(5),
            hyper_increase: Rate::from_mbit_s(50),
            step_time: Duration::from_micros(300),
            step_bytes: 32 << 10,
        }
    }
}

/// What a sender has used of its rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Usage {
    /// Less than any rate would limit it to: it had next to nothing to send.
    Idle,
    /// More.
    Sending,
}

/// The rate of one sender.
#[derive(Clone, Copy, Debug)]
pub struct Dcqcn {
    config: DcqcnConfig,
    /// The current rate is below the line rate.
    limited: bool,
    current: Rate,
    target: Rate,
    /// Estimate of how often packets are marked, in units of 1 / [`ALPHA_ONE`].
    alpha: u32,
    /// `alpha` has risen last. `None`: there was no CNP yet, and `alpha` has not begun to fall.
    alpha_raised: Option<Instant>,
    /// The last CNP that reduced the rate.
    cut: Instant,
    /// Last step by time.
    step: Instant,
    /// Steps by time and by bytes since the last CNP.
    time_steps: u32,
    byte_steps: u32,
    /// Bytes since the last step by bytes.
    bytes: u32,
    /// Bytes on the wire since the start of the measurement, and its start.
    measured_bytes: u64,
    measured_since: Instant,
    pacer: Pacer,
}

impl Dcqcn {
    /// Creates a sender at line rate.
    #[must_use]
    pub const fn new(config: DcqcnConfig) -> Self {
        Self {
            config,
            limited: false,
            current: config.line_rate,
            target: config.line_rate,
            alpha: ALPHA_ONE,
            alpha_raised: None,
            cut: Instant::from_nanos(0),
            step: Instant::from_nanos(0),
            time_steps: 0,
            byte_steps: 0,
            bytes: 0,
            measured_bytes: 0,
            measured_since: Instant::from_nanos(0),
            pacer: Pacer::IDLE,
        }
    }

    /// Returns the current rate. `None`: it is unlimited.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.limited.then_some(self.current)
    }

    /// Returns whether the rate is limited.
    #[inline]
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.limited
    }

    /// The peer has sent a CNP.
    pub fn on_cnp(&mut self, now: Instant) {
        self.advance(now);
        self.raise_alpha(now);
        let interval = self.current.time_of(CUT_BYTES).max(CUT_INTERVAL);
        if self.limited && now.saturating_since(self.cut) < interval {
            return;
        }
        let before = self.current;
        // A sender that was idle must not need long to return when it has more to send. For another one, whose window
        // limits it, the target is what it used: otherwise it would go on as before after each CNP.
        self.target = match self.validate(now) {
            Usage::Idle => before,
            Usage::Sending => self.current,
        };
        // A rate has 37 bits, and `alpha` has 25.
        let cut = self.current.bytes_s().wrapping_mul(self.alpha.into());
        let cut = cut.wrapping_shr(ALPHA_BITS).wrapping_shr(1);
        let reduced = self.current.bytes_s().saturating_sub(cut);
        self.current = Rate::from_bytes_s(reduced).max(self.config.min_rate);
        (self.cut, self.step) = (now, now);
        (self.time_steps, self.byte_steps, self.bytes) = (0, 0, 0);
        self.limited = self.current < self.config.line_rate;
    }

    /// Lowers the rate to what the sender has used of it. A sender whose window or consumer limits it would go on as
    /// before otherwise, until many CNPs have reduced a rate that says nothing.
    fn validate(&mut self, now: Instant) -> Usage {
        let elapsed = now.saturating_since(self.measured_since);
        if self.limited && elapsed < MEASURE_TIME {
            return Usage::Sending;
        }
        let mut usage = Usage::Sending;
        if self.limited {
            let micros = elapsed.as_nanos().wrapping_div(1_000);
            let scaled = self.measured_bytes.saturating_mul(1_000_000);
            let used = Rate::from_bytes_s(scaled.checked_div(micros).unwrap_or(u64::MAX));
            if used < self.config.min_rate {
                usage = Usage::Idle;
            }
            self.current = self.current.min(used.max(self.config.min_rate));
        }
        (self.measured_bytes, self.measured_since) = (0, now);
        usage
    }

    /// Returns how much of `limit` may be sent at `now`. No packets: see [`Dcqcn::paused_until`].
    #[inline]
    pub fn burst_limit(&mut self, now: Instant, limit: BurstLimit) -> BurstLimit {
        match self.limited {
            true => self.limited_burst(now, limit),
            false => limit,
        }
    }

    #[cold]
    fn limited_burst(&mut self, now: Instant, limit: BurstLimit) -> BurstLimit {
        self.advance(now);
        match self.limited {
            true => self.pacer.burst_limit(now, self.current, limit),
            false => limit,
        }
    }

    /// Packets with `bytes` bytes of payload in all were sent at `now`.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, packets: u32, bytes: u32) {
        if self.limited {
            self.on_limited_sent(now, packets, bytes);
        }
    }

    #[cold]
    fn on_limited_sent(&mut self, now: Instant, packets: u32, bytes: u32) {
        let on_wire = bytes.saturating_add(packets.saturating_mul(OVERHEAD_BYTES));
        self.measured_bytes = self.measured_bytes.saturating_add(on_wire.into());
        self.pacer.on_sent(now, self.current, on_wire);
        self.bytes = self.bytes.saturating_add(bytes);
        // Terminates: `step_bytes` counts as 1 at least, and `bytes` shrinks.
        let step_bytes = self.config.step_bytes.max(1);
        while self.limited && self.bytes >= step_bytes {
            self.bytes = self.bytes.saturating_sub(step_bytes);
            self.byte_steps = self.byte_steps.saturating_add(1);
            self.increase();
        }
    }

    /// The packets of the last [`on_sent`](Self::on_sent), `packets` with `bytes` bytes of payload, were not sent after
    /// all.
    pub fn on_unsent(&mut self, packets: u32, bytes: u32) {
        if self.limited {
            let on_wire = bytes.saturating_add(packets.saturating_mul(OVERHEAD_BYTES));
            self.measured_bytes = self.measured_bytes.saturating_sub(on_wire.into());
            self.pacer.on_unsent(self.current, on_wire);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Returns when packets may be sent again, if the rate holds them back.
    #[inline]
    #[must_use]
    pub fn paused_until(&self) -> Option<Instant> {
        self.pacer.paused_until()
    }

    /// Ends the pause that is over at `now`. Returns whether there was one.
    #[inline]
    pub fn on_time(&mut self, now: Instant) -> bool {
        self.pacer.on_time(now)
    }

    /// Takes the steps that time calls for.
    fn advance(&mut self, now: Instant) {
        let step_time = self.config.step_time.max(MIN_STEP_TIME);
        for _ in 0..MAX_STEPS {
            let next = self.step.saturating_add(step_time);
            if !self.limited || next.is_after(now) {
                return;
            }
            self.step = next;
            self.time_steps = self.time_steps.saturating_add(1);
            self.increase();
        }
        self.step = now;
    }

    /// Lets `alpha` fall for the time without a CNP, and rise for a CNP at `now`: once in a period.
    fn raise_alpha(&mut self, now: Instant) {
        let Some(alpha_raised) = self.alpha_raised else {
            self.alpha_raised = Some(now);
            return;
        };
        let period = self.current.time_of(MARKED_BYTES).max(ALPHA_PERIOD);
        let elapsed = now.saturating_since(alpha_raised).as_nanos();
        let periods = elapsed.checked_div(period.as_nanos()).unwrap_or(0);
        if periods == 0 {
            return;
        }
        match periods <= MAX_ALPHA_STEPS {
            true => (1..=periods).for_each(|_| self.fade_alpha()),
            false => self.alpha = 0,
        }
        let raised = self
            .alpha
            .saturating_add(ALPHA_ONE.wrapping_shr(ALPHA_SHIFT));
        (self.alpha, self.alpha_raised) = (raised.min(ALPHA_ONE), Some(now));
    }

    fn fade_alpha(&mut self) {
        let fall = self.alpha.wrapping_shr(ALPHA_SHIFT);
        self.alpha = self.alpha.saturating_sub(fall);
    }

    /// Takes one step up.
    fn increase(&mut self) {
        let (most, least) = (
            self.time_steps.max(self.byte_steps),
            self.time_steps.min(self.byte_steps),
        );
        let growth = if most <= FAST_RECOVERY_STEPS {
            0
        } else if least > FAST_RECOVERY_STEPS {
            let most = self.target.bytes_s().wrapping_div(MAX_HYPER_PART);
            self.config.hyper_increase.bytes_s().min(most)
        } else {
            let most = self.target.bytes_s().wrapping_div(MAX_ADDITIVE_PART);
            self.config.additive_increase.bytes_s().min(most)
        };
        let target = Rate::from_bytes_s(self.target.bytes_s().saturating_add(growth));
        self.target = target.min(self.config.line_rate);
        let sum = self.current.bytes_s().saturating_add(self.target.bytes_s());
        // Rounded up, so that the rate reaches the target.
        self.current = Rate::from_bytes_s(sum.saturating_add(1).wrapping_shr(1));
        if self.current >= self.config.line_rate {
            self.limited = false;
            self.pacer.stop();
        }
    }
}

#[cfg(test)]
mod tests;
