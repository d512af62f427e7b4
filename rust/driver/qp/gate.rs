// SPDX-License-Identifier: GPL-2.0

//! Whether an engine may send now, and how much: the gate of UC and UD requests and of RC read responses. (RC requests
//! have the window of the requester.)
//!
//! Nothing acknowledges these packets, so the gate looks at three things, in this order:
//!
//! 1. the local stack refused packets a moment ago;
//! 2. bytes are in flight there: too many, or any from another CPU if the packets must stay in order. A link within the
//!    host preserves the order of packets sent from one CPU only, as each CPU has its own backlog;
//! 3. the rate of the congestion control.
//!
//! A slow peer on another host does not limit the sender. Used by an engine while it is owned; takes no lock.

use crate::qp::{
    actions::Actions,
    engine::TX_LIST_LIMIT,
    shared::QpShared, //
};
use kernel::cpu::CpuId;
use rdma::sync::timer::now;
use roce::{
    congestion::{
        Algorithm,
        Sender, //
    },
    segmentation::tx_desc::BurstLimit,
    time::Instant,
    wake::Wake, //
};

/// Limits of the bytes that a sender has in flight in the local stack.
pub(crate) struct Policy {
    /// Whether packets must stay in order.
    in_order: bool,
    /// Limit of a sender that has just started.
    initial_bytes: i64,
    /// Upper limit. One more burst may exceed it.
    max_bytes: i64,
    /// Whether the limit follows the delay in the stack.
    adapts: bool,
    /// Time without freed buffers after which they may be stuck: in the stack, or in the inbox of a receiver that waits
    /// for a page fault. One burst is sent then.
    stall_timeout_ns: u64,
    /// Upper limit of that time, which doubles while no buffer is freed.
    max_stall_timeout_ns: u64,
}

impl Policy {
    /// UC requests.
    pub(crate) const IN_ORDER: Self = Self {
        in_order: true,
        ..Self::DATAGRAMS
    };

    /// UD requests. The limit is about ten bursts at most.
    pub(crate) const DATAGRAMS: Self = Self {
        in_order: false,
        initial_bytes: 64 << 10,
        max_bytes: 1 << 20,
        adapts: true,
        stall_timeout_ns: 20_000_000,
        max_stall_timeout_ns: 20_000_000,
    };

    /// RC read responses. The limit is about four bursts. One of them leaves an otherwise idle interface of 10 Mbit/s
    /// within the timeout.
    pub(crate) const READ_RESPONSES: Self = Self {
        in_order: true,
        initial_bytes: 512 << 10,
        max_bytes: 512 << 10,
        adapts: false,
        stall_timeout_ns: 100_000_000,
        max_stall_timeout_ns: 6_400_000_000,
    };
}

/// Lower limit of bytes in flight, on the slowest link; also the step by which the limit grows.
const MIN_BYTES: i64 = 16 << 10;

/// Delay in the local stack above which the limit shrinks. Interface queues (fq_codel) begin to drop packets
/// that wait for 5 ms, without notice.
const MAX_DELAY_NS: u64 = 2_000_000;

/// Pause after the stack refused a burst.
const REFUSED_BACKOFF_NS: u64 = 100_000;

/// What a sender wants to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// A packet that needs no room, only its place behind those in flight: an acknowledgement.
    Order,
    /// Packets.
    Room,
}

/// The answer of a gate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// So much may be sent now.
    Now(BurstLimit),
    /// As before, one burst: nothing was freed for this time, in nanoseconds.
    Stalled(u64),
    /// Nothing, until this time, in nanoseconds.
    At(Wake, u64),
    /// Nothing, until fewer bytes than this are in flight, or until this time, in nanoseconds.
    Below(i64, u64),
}

impl Answer {
    /// Returns how much may be sent now. `None`: nothing, and `actions` holds when to run again.
    #[inline]
    pub(crate) fn record(self, actions: &mut Actions) -> Option<BurstLimit> {
        match self {
            Self::Now(limit) => return Some(limit),
            Self::Stalled(_) => return Some(TX_LIST_LIMIT),
            Self::At(why, at_ns) => actions.wake_at(why, at_ns),
            Self::Below(bytes, until_ns) => {
                actions.resume_below_bytes = Some(bytes);
                actions.wake_at(Wake::LocalStack, until_ns);
            }
        }
        None
    }
}

/// The gate of one sender.
pub(crate) struct TxGate {
    policy: &'static Policy,
    sender: Sender,
    /// Limit of bytes in flight.
    limit_bytes: i64,
    /// The limit does not shrink again before this time: packets freed until then were sent before it shrank.
    no_decrease_before_ns: u64,
    /// End of the pause after a refused burst.
    backoff_until_ns: Option<u64>,
    /// CPU that sent the packets in flight.
    tx_cpu: u32,
    /// Time of the last progress of the stack that was observed, in nanoseconds, while the sender waits for it.
    /// `None`: it does not wait.
    stalled_since_ns: Option<u64>,
    /// Time without freed buffers after which a burst is sent anyway.
    stall_timeout_ns: u64,
    /// Bytes in flight that seem to be stuck, for example in a packet socket that is not read. The sender does not wait
    /// for them again.
    stuck_bytes: i64,
}

impl TxGate {
    /// Creates the gate of a sender with unlimited rate.
    pub(crate) fn new(policy: &'static Policy) -> Self {
        Self {
            policy,
            sender: Sender::NONE,
            limit_bytes: policy.initial_bytes,
            no_decrease_before_ns: 0,
            backoff_until_ns: None,
            tx_cpu: CpuId::current().as_u32(),
            stalled_since_ns: None,
            stall_timeout_ns: policy.stall_timeout_ns,
            stuck_bytes: 0,
        }
    }

    /// Starts with the rate of `algorithm`.
    pub(crate) fn start(&mut self, algorithm: Algorithm) {
        self.sender = Sender::new(algorithm, 0);
    }

    /// Returns the congestion control.
    #[inline]
    pub(crate) fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// Forgets a wait: the QP goes to RESET.
    pub(crate) fn reset(&mut self) {
        (self.stalled_since_ns, self.stall_timeout_ns) = (None, self.policy.stall_timeout_ns);
    }

    /// Returns how much of `limit` may be sent now. `failed`: the QP has failed; its packets wait at most for so many
    /// nanoseconds, and not for the rate.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        qp: &QpShared,
        (need, limit): (Need, BurstLimit),
        failed: Option<u64>,
    ) -> Answer {
        let is_paced = need == Need::Room && failed.is_none();
        match self.admit_to_stack(qp, need, failed.unwrap_or(u64::MAX)) {
            Some(Answer::Stalled(_)) if is_paced => self.admit_at_rate(TX_LIST_LIMIT),
            Some(answer) => answer,
            None if is_paced => self.admit_at_rate(limit),
            None => Answer::Now(limit),
        }
    }

    /// Packets with `bytes` bytes of payload in all were sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, packets: u32, bytes: u32) {
        if self.sender.is_limited() {
            let now = Instant::from_nanos(now());
            self.sender.on_sent(now, packets, bytes);
        }
    }

    /// Records the result of a transmission: `refused` if the stack refused part of it.
    #[inline]
    pub(crate) fn on_transmit(&mut self, refused: bool) {
        if refused {
            self.backoff_until_ns = Some(now().saturating_add(REFUSED_BACKOFF_NS));
        }
    }

    /// Returns whether a packet from this CPU cannot overtake one that another CPU has sent.
    pub(crate) fn is_ordered_here(&self, qp: &QpShared) -> bool {
        self.tx_cpu == CpuId::current().as_u32() || qp.tx_inflight().bytes() <= self.stuck_bytes
    }

    /// Returns how much the rate admits now. The clock is read only if it matters.
    #[inline]
    fn admit_at_rate(&mut self, limit: BurstLimit) -> Answer {
        match self.sender.is_limited() {
            true => self.admit_at_limited_rate(limit),
            false => Answer::Now(limit),
        }
    }

    #[cold]
    fn admit_at_limited_rate(&mut self, limit: BurstLimit) -> Answer {
        let now = Instant::from_nanos(now());
        self.sender.on_time(now);
        let limit = self.sender.burst_limit(now, limit);
        match (limit.packets, self.sender.paused_until()) {
            (0, Some(until)) => Answer::At(Wake::Pace, until.as_nanos()),
            _ => Answer::Now(limit),
        }
    }

    /// Returns why the stack admits nothing, or only one burst. `None`: it does not limit the sender.
    fn admit_to_stack(&mut self, qp: &QpShared, need: Need, max_stall_ns: u64) -> Option<Answer> {
        let (inflight, cpu) = (qp.tx_inflight().bytes(), CpuId::current().as_u32());
        let in_order = !self.policy.in_order || self.tx_cpu == cpu;
        if need == Need::Nothing || (need == Need::Order && in_order) {
            self.stalled_since_ns = None;
            return None;
        }
        let mut freed = false;
        if self.policy.adapts {
            if let Some(delay_ns) = qp.tx_inflight().take_delay() {
                freed = true;
                self.adapt(inflight, delay_ns);
            }
        }
        if let Some(until_ns) = self.backoff_until_ns {
            if now() < until_ns {
                return Some(Answer::At(Wake::LocalStack, until_ns));
            }
            self.backoff_until_ns = None;
        }
        self.stuck_bytes = self.stuck_bytes.min(inflight);
        let stuck_limit = self.stuck_bytes.saturating_add(1).min(self.limit_bytes);
        let (start_below, resume_below) = match in_order {
            // What is stuck does not leave, so the sender waits for half of the rest.
            true => (
                self.limit_bytes,
                self.limit_bytes.saturating_add(stuck_limit) / 2,
            ),
            false => (stuck_limit, stuck_limit),
        };
        let below = self.stalled_since_ns.map_or(start_below, |_| resume_below);
        if inflight < below {
            self.reset();
            self.tx_cpu = cpu;
            return None;
        }
        let is_moving = freed || qp.tx_inflight().take_delay().is_some();
        let timeout_ns = self.stall_timeout_ns.min(max_stall_ns);
        Some(match self.wait_until(is_moving, timeout_ns) {
            Some(until_ns) => Answer::Below(resume_below, until_ns),
            None => {
                (self.stuck_bytes, self.tx_cpu) = (inflight, cpu);
                if inflight >= self.limit_bytes {
                    let longer_ns = self.stall_timeout_ns.saturating_mul(2);
                    self.stall_timeout_ns = longer_ns.min(self.policy.max_stall_timeout_ns);
                }
                Answer::Stalled(timeout_ns)
            }
        })
    }

    /// Returns until when to wait for the stack, which has freed buffers since the last call if `is_moving`. `None`: it
    /// has freed none for `timeout_ns`. Stuck buffers do not block the sender forever. A slow interface may look stuck:
    /// each timeout adds one burst and may double the next timeout.
    fn wait_until(&mut self, is_moving: bool, timeout_ns: u64) -> Option<u64> {
        let now = now();
        let since_ns = self.stalled_since_ns.filter(|_| !is_moving).unwrap_or(now);
        let is_over = now.saturating_sub(since_ns) >= timeout_ns;
        self.stalled_since_ns = Some(if is_over { now } else { since_ns });
        (!is_over).then_some(since_ns.saturating_add(timeout_ns))
    }

    /// Adapts the limit to the delay in the stack. A limit above what keeps the link busy only adds to the
    /// queue that builds up when the link stops.
    fn adapt(&mut self, inflight: i64, delay_ns: u64) {
        let idle = inflight == 0 && delay_ns < MAX_DELAY_NS / 2;
        if idle || delay_ns < MAX_DELAY_NS / 8 {
            self.limit_bytes = self
                .limit_bytes
                .saturating_add(MIN_BYTES)
                .min(self.policy.max_bytes);
        } else if delay_ns > MAX_DELAY_NS {
            let now = now();
            if now >= self.no_decrease_before_ns {
                self.limit_bytes = (self.limit_bytes / 2).max(MIN_BYTES);
                self.no_decrease_before_ns = now.saturating_add(delay_ns);
            }
        }
    }
}
