// SPDX-License-Identifier: GPL-2.0

//! When the requester sets the AckReq bit.
//!
//! A requested ACK costs each end one packet. It is useful only if something depends on it: the
//! consumer waits for a completion, the window or the send queue fills up, or a local operation
//! waits for its predecessors. In a stream of unsignaled requests, ACK requests are therefore
//! sparse ([`AckRequestMode::WhenNeeded`]), and of the signaled requests of a burst only the last one has one.
//!
//! The requester cannot detect the end of such a stream. If the last packets carry no ACK request
//! and nothing follows within [`MAX_ACK_REQUEST_DELAY`], an *ACK probe* requests it: a SEND
//! without payload whose PSN precedes the oldest packet in flight. The peer treats it as a
//! duplicate, executes nothing and returns an ACK for all it has received (IBA: C9-105). The probe
//! reads no memory of the consumer, which may be freed by now if the consumer learned in another
//! way that its message arrived.
//!
//! The PSN of a READ or atomic operation is no PSN for a probe: some peers look a duplicate up among
//! their responses and would repeat one of those. Where it precedes the oldest packet in flight, the
//! last packet in flight is sent again and requests the ACK.
//!
//! The ACK timeout runs only while a requested ACK is outstanding, see [`Requester::is_ack_due`].

use super::{
    config::FlowLimit,
    requester::{
        AckRequests,
        Requester,
        RequesterState,
        SinceAckRequest, //
    },
    slot::Slot,
    transmit::{
        AckRequestLimits,
        AckRequestMode,
        Plan, //
    }, //
};
use crate::{
    id::Srqn,
    psn::Psn,
    segmentation::tx_desc::{
        TxDesc,
        TxPayload, //
    },
    time::{
        Duration,
        Instant, //
    },
    wire::{
        ext::Xrceth,
        opcode::{
            Operation,
            Position, //
        }, //
    }, //
};

/// Longest time that packets stay in flight without an ACK request. Requests that are further
/// apart do not form a stream.
const MAX_ACK_REQUEST_DELAY: Duration = Duration::from_micros(1_000);

/// A message requests the ACK this long before a probe would.
const EARLY_ACK_REQUEST: Duration = Duration::from_micros(500);

/// With a shorter ACK timeout, every message requests an ACK.
const MIN_SPARSE_ACK_TIMEOUT: Duration = Duration::from_micros(4_000);

/// With fewer credits left after a message, it requests an ACK: a later message might have to wait for it.
const FEW_CREDITS: u32 = 16;

/// In [`AckRequestMode::EveryMessage`], one packet in this many requests an ACK.
const MAX_PACKETS_PER_ACK_REQUEST: u32 = 16;

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Returns whether the planned packet must request an ACK. The last packet of a message does
    /// if something waits for the message. Other packets do often enough that neither the window
    /// nor the send queue fills up without an ACK request.
    pub(super) fn needs_ack_request(
        &self,
        plan: &Plan,
        slot: &Slot,
        limits: &AckRequestLimits,
        now: Instant,
    ) -> bool {
        let max = self.max_since_request(limits.mode, limits.flow);
        let since = self.ack_requests.since.with(plan);
        (plan.is_last && self.needs_ack_at_end(plan, slot, limits, now))
            || self.ack_requests.overdue
            || since.packets >= max.packets
            || since.bytes >= max.bytes
            || since.messages >= max.messages
    }

    /// Returns the number of full packets of a message up to and including the next one that must
    /// request an ACK.
    pub(super) fn packets_to_ack_request(&self, mode: AckRequestMode, flow: FlowLimit) -> u32 {
        if self.ack_requests.overdue {
            return 1;
        }
        let since = self.ack_requests.since;
        let max = self.max_since_request(mode, flow);
        let packets = max.packets.saturating_sub(since.packets);
        let bytes = max.bytes.saturating_sub(since.bytes);
        packets.min(self.window.mtu().packets(bytes)).max(1)
    }

    /// Records that the planned packets were sent at `now`, the last one with an ACK request.
    #[inline]
    pub(super) fn on_ack_requested(&mut self, now: Instant) {
        self.ack_requests = AckRequests {
            since: SinceAckRequest::default(),
            overdue: false,
            end: self.window.psn(),
            prev_end: self.ack_requests.end,
            last_sent: now,
            ..self.ack_requests
        };
        self.retry.on_ack_requested(now);
    }

    /// Records that the planned packets were sent at `now` without an ACK request.
    #[inline]
    pub(super) fn on_sent_without_request(&mut self, plan: &Plan, now: Instant) {
        self.ack_requests.since = self.ack_requests.since.with(plan);
        self.ack_requests.last_sent = now;
        // In the middle of a message with an ACK due, no deadline is needed: that ACK lets the engine
        // send the rest of the message, which ends with an ACK request or gets a deadline.
        if plan.is_last || !self.is_ack_due() {
            let deadline = now.saturating_add(MAX_ACK_REQUEST_DELAY);
            self.retry.schedule_ack_request(deadline);
        }
    }

    /// Records that no packet in flight requested an ACK. Schedules an ACK request, because the window
    /// may be too full for another packet that would carry one.
    pub(super) fn on_no_ack_due(&mut self, now: Instant) {
        if self.ack_requests.since.packets != 0 {
            let deadline = now.saturating_add(MAX_ACK_REQUEST_DELAY);
            self.retry.schedule_ack_request(deadline);
        }
    }

    /// Forgets all ACK requests: no packet is in flight.
    pub(super) fn clear_ack_requests(&mut self) {
        self.ack_requests = AckRequests {
            since: SinceAckRequest::default(),
            overdue: false,
            end: self.window.una(),
            prev_end: self.window.una(),
            ..self.ack_requests
        };
        self.retry.cancel_ack_request();
    }

    /// Records that the packets planned last, from `first` on, were not sent after all. If one of
    /// them requested an ACK, the previous ACK request counts as the last one again. If packets that
    /// were sent after that one are in flight, the next packet or a probe must request an ACK.
    pub(super) fn on_unsent(&mut self, first: Psn) {
        self.rtt.cancel_sample();
        let AckRequests { end, prev_end, .. } = self.ack_requests;
        let sent = first.since(self.window.una());
        if self.unacked_before(end) > sent {
            self.ack_requests.end = prev_end;
            self.ack_requests.overdue |= self.unacked_before(prev_end) < sent;
        }
        if !self.is_ack_due() {
            self.retry.stop_ack_timer();
        }
    }

    /// Records that the peer has sent an ACK.
    #[inline]
    pub(super) fn on_ack_received(&mut self) {
        self.ack_requests.peer_has_acked = true;
    }

    /// Makes the next packet, or a probe, request an ACK.
    pub(super) fn require_ack_request(&mut self) {
        self.ack_requests.overdue = true;
    }

    /// Requests an ACK now if messages were sent without a request, because an operation waits for
    /// their completion.
    pub(super) fn require_ack_for_waiter(&mut self) {
        if self.ack_requests.since.messages != 0 {
            self.require_ack_request();
        }
    }

    /// Returns whether an unacknowledged packet requested an ACK. A READ in flight does, by itself: it gets a response
    /// although packets behind it, which requested the last ACK, were taken back.
    #[inline]
    pub(super) fn is_ack_due(&self) -> bool {
        self.unacked_before(self.ack_requests.end) != 0 || self.window.flight().reads != 0
    }

    /// Returns the number of unacknowledged packets before `psn`. 0 if `psn` is already
    /// acknowledged.
    #[inline]
    fn unacked_before(&self, psn: Psn) -> u32 {
        let una = self.window.una();
        let packets = psn.since(una);
        match packets <= self.window.high().since(una) {
            true => packets,
            false => 0,
        }
    }

    /// Returns whether an ACK probe, or the last packet again, is needed if no other packet can be
    /// sent. A READ in flight needs none: it gets a response anyway, and the peer would take the probe's PSN for one of
    /// the READ's response PSNs.
    #[inline]
    pub(super) fn needs_ack_probe(&self) -> bool {
        let may_send = matches!(self.state, RequesterState::Ready | RequesterState::Draining);
        self.ack_requests.overdue
            && self.ack_requests.peer_has_acked
            && may_send
            && self.window.in_flight()
            && self.window.flight().reads == 0
    }

    /// Builds the ACK probe. The caller has checked [`needs_ack_probe`](Self::needs_ack_probe). `duplicate` is the PSN
    /// before the oldest one in flight.
    pub(super) fn ack_probe(&mut self, duplicate: Psn, now: Instant) -> Option<TxDesc> {
        let connection = &self.config.connection;
        let headers = connection.headers(Operation::Send, Position::Only, false, duplicate)?;
        // A duplicate uses no receive, but the peer may look at the SRQ all the same.
        let oldest = self.window.oldest();
        let srqn = oldest.map_or(Srqn::default(), |(slot, _)| slot.wr.srqn);
        let headers = headers.xrceth(Xrceth { srqn });
        self.on_ack_requested(now);
        Some(TxDesc {
            headers: headers.ack_request(true),
            source: TxPayload::None,
            offset: 0,
            length: 0,
            packets: 1,
        })
    }

    /// Returns the mode for packets sent now: `preferred`, or every message in these cases:
    ///
    /// - the packets are retransmitted or follow a timeout;
    /// - the ACK timeout is so short that the peer would soon count as dead;
    /// - the peer has acknowledged nothing yet. It may not know where the connection begins:
    ///   rdma_rxe responds to a duplicate with the last PSN its QP executed, even if that was in an
    ///   earlier connection;
    /// - the packets are not part of a stream.
    pub(super) fn ack_request_mode(
        &self,
        preferred: AckRequestMode,
        now: Instant,
    ) -> AckRequestMode {
        let requests = &self.ack_requests;
        let is_stream = !requests
            .last_sent
            .saturating_add(MAX_ACK_REQUEST_DELAY)
            .is_before(now);
        let is_new = self.window.psn() == self.window.high();
        let may_defer = self.retry.is_timeout_at_least(MIN_SPARSE_ACK_TIMEOUT)
            && !self.congestion.has_timed_out();
        match is_stream && is_new && may_defer && requests.peer_has_acked {
            true => preferred,
            false => AckRequestMode::EveryMessage,
        }
    }

    /// Returns whether something waits for the end of the planned message, or a probe would soon be due.
    fn needs_ack_at_end(
        &self,
        plan: &Plan,
        slot: &Slot,
        limits: &AckRequestLimits,
        now: Instant,
    ) -> bool {
        limits.mode == AckRequestMode::EveryMessage
            || (slot.wr.signaled && !self.is_followed(plan, limits))
            || plan.awaits_response
            || self.state == RequesterState::Draining
            || self.window.next_awaits_current()
            || self.uses_last_credits(slot)
            || self
                .retry
                .is_ack_request_due(now.saturating_add(EARLY_ACK_REQUEST))
    }

    /// Returns whether a signaled message without a response follows the planned one, in this burst or right after
    /// local operations: it can request the ACK for both. If something holds it back after all, a probe requests the
    /// ACK.
    fn is_followed(&self, plan: &Plan, limits: &AckRequestLimits) -> bool {
        let next = self.window.next_request();
        let Some(next) = next.filter(|next| next.status.is_none()) else {
            return false;
        };
        let (length, flight) = (next.wr.length, self.window.flight());
        let packets = self.window.mtu().packets(length);
        let (both_packets, both_bytes) = (
            plan.count.saturating_add(packets),
            plan.length.saturating_add(length),
        );
        next.wr.signaled
            && !next.wr.fence
            // Behind a local operation a rate may hold it back for long.
            && self.congestion.rate().is_none()
            && !next.awaits_response()
            && self.memory_wait.room(self.window.psn(), both_packets) == both_packets
            && packets <= limits.left.packets
            && length <= limits.left.bytes
            && flight.packets.saturating_add(both_packets) <= limits.flow.packets
            && flight.bytes.saturating_add(both_bytes) <= limits.flow.bytes
    }

    /// Returns whether few credits are left after the request.
    #[inline]
    fn uses_last_credits(&self, slot: &Slot) -> bool {
        let with_few_more = self.window.flight().receives.saturating_add(FEW_CREDITS);
        self.window.credits.are_exceeded_by(with_few_more) && slot.wr.op.uses_receive()
    }

    /// Returns how much may be sent between two ACK requests.
    fn max_since_request(&self, mode: AckRequestMode, flow: FlowLimit) -> SinceAckRequest {
        let FlowLimit { bytes, packets } = flow;
        match mode {
            AckRequestMode::EveryMessage => SinceAckRequest {
                packets: MAX_PACKETS_PER_ACK_REQUEST.min(packets.wrapping_shr(1)),
                bytes: bytes.wrapping_shr(1),
                messages: u32::MAX,
            },
            AckRequestMode::WhenNeeded => SinceAckRequest {
                packets: packets.wrapping_shr(2),
                bytes: bytes.wrapping_shr(2),
                messages: self.window.capacity().wrapping_shr(2),
            },
        }
    }
}

impl SinceAckRequest {
    /// Returns the counts after the planned packets.
    #[inline]
    fn with(self, plan: &Plan) -> Self {
        Self {
            packets: self.packets.saturating_add(plan.count),
            bytes: self.bytes.saturating_add(plan.length),
            messages: self.messages.saturating_add(u32::from(plan.is_last)),
        }
    }
}
