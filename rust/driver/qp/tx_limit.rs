// SPDX-License-Identifier: GPL-2.0

//! Local transmit limit for unacknowledged services (UC, UD).
//!
//! Limits the bytes that a QP has in flight in the local stack, backs off after the stack refused packets,
//! and prevents reordering across CPUs. A slow peer on another host does not limit the sender: these services
//! lose packets.
//!
//! Used by the send engine while it is owned. Takes no lock.

use crate::qp::{
    actions::Actions,
    shared::QpShared, //
};
use kernel::cpu::CpuId;
use rdma::sync::timer::now;
use roce::wake::Wake;

/// Upper limit of the memory of packets in flight in the local stack: about ten bursts.
const MAX_INFLIGHT_BYTES: i64 = 1 << 20;

/// Limit of a QP that has just started.
const INITIAL_INFLIGHT_BYTES: i64 = MAX_INFLIGHT_BYTES / 16;

/// Lower limit, on the slowest link; also the step by which the limit grows. A run may exceed the limit by
/// one burst.
const MIN_INFLIGHT_BYTES: i64 = 16 << 10;

/// Delay in the local stack above which the limit shrinks. Interface queues (fq_codel) begin to drop packets
/// that wait for 5 ms, without notice.
const MAX_DELAY_NS: u64 = 2_000_000;

/// Pause after the stack refused a burst.
const REFUSED_BACKOFF_NS: u64 = 100_000;

/// Longest wait for the stack to free buffers. They may be stuck there, or in the inbox of a receiver that
/// waits for a page fault, and the consumer needs its completions.
const TX_STALL_TIMEOUT_NS: u64 = 20_000_000;

/// Local transmit limit of one sender.
pub(crate) struct TxLimit {
    /// Limit of bytes in flight. It shrinks while delays are long.
    limit_bytes: i64,
    /// The limit does not shrink again before this time: packets freed until then were sent before it shrank.
    no_decrease_before_ns: u64,
    /// End of the pause after a refused burst.
    backoff_until_ns: Option<u64>,
    /// End of the wait for the stack to free buffers.
    stall_deadline_ns: Option<u64>,
    /// CPU that sent the packets in flight, for an ordered sender.
    tx_cpu: Option<u32>,
}

impl Default for TxLimit {
    fn default() -> Self {
        Self {
            limit_bytes: INITIAL_INFLIGHT_BYTES,
            no_decrease_before_ns: 0,
            backoff_until_ns: None,
            stall_deadline_ns: None,
            tx_cpu: None,
        }
    }
}

impl TxLimit {
    /// Creates the limit of a sender whose packets must stay in order. A link within the host preserves the
    /// order of packets sent from one CPU only: each CPU has its own backlog.
    pub(crate) fn in_order() -> Self {
        Self {
            tx_cpu: Some(CpuId::current().as_u32()),
            ..Self::default()
        }
    }

    /// Returns whether the sender must wait. If so, `actions` holds when it runs again.
    pub(crate) fn must_wait(&mut self, qp: &QpShared, actions: &mut Actions) -> bool {
        let inflight = qp.tx_inflight().bytes();
        self.adapt(qp, inflight);
        let cpu = CpuId::current().as_u32();
        let would_reorder = inflight > 0 && self.tx_cpu.is_some_and(|tx_cpu| tx_cpu != cpu);
        let full = would_reorder || inflight >= self.limit_bytes;
        if !full && self.backoff_until_ns.is_none() {
            self.start_on(cpu);
            return false;
        }
        let now = now();
        if let Some(until) = self.backoff_until_ns.filter(|&until| now < until) {
            actions.wake_at(Wake::LocalStack, until);
            return true;
        }
        self.backoff_until_ns = None;
        let stall_deadline_ns = match full {
            true => *self
                .stall_deadline_ns
                .get_or_insert(now.saturating_add(TX_STALL_TIMEOUT_NS)),
            false => now,
        };
        if now >= stall_deadline_ns {
            self.start_on(cpu);
            return false;
        }
        actions.wake_at(Wake::LocalStack, stall_deadline_ns);
        actions.resume_below_bytes = Some(if would_reorder {
            1
        } else {
            self.limit_bytes / 2
        });
        true
    }

    /// Adapts the limit to the delay in the stack. A limit above what keeps the link busy only adds to the
    /// queue that builds up when the link stops.
    fn adapt(&mut self, qp: &QpShared, inflight: i64) {
        let Some(delay_ns) = qp.tx_inflight().take_delay() else {
            return;
        };
        let idle = inflight == 0 && delay_ns < MAX_DELAY_NS / 2;
        if idle || delay_ns < MAX_DELAY_NS / 8 {
            self.limit_bytes = self
                .limit_bytes
                .saturating_add(MIN_INFLIGHT_BYTES)
                .min(MAX_INFLIGHT_BYTES);
        } else if delay_ns > MAX_DELAY_NS {
            let now = now();
            if now >= self.no_decrease_before_ns {
                self.limit_bytes = (self.limit_bytes / 2).max(MIN_INFLIGHT_BYTES);
                self.no_decrease_before_ns = now.saturating_add(delay_ns);
            }
        }
    }

    /// Ends the wait: packets are sent from `cpu`.
    fn start_on(&mut self, cpu: u32) {
        self.stall_deadline_ns = None;
        self.tx_cpu = self.tx_cpu.map(|_| cpu);
    }

    /// Records the result of a transmission: `refused` if the stack refused part of it.
    pub(crate) fn on_transmit(&mut self, refused: bool) {
        if refused {
            self.backoff_until_ns = Some(now().saturating_add(REFUSED_BACKOFF_NS));
        }
    }
}
