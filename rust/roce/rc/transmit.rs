// SPDX-License-Identifier: GPL-2.0

//! Planning of request packets: which packets the requester sends next.
//!
//! [`Requester::plan`] applies the rules that hold packets back and changes nothing.
//! [`RequestBurst`] executes the plans. `ack_request` decides which packets request an ACK.
//!
//! IBA: section 9.7.3, generating requests.

use super::{
    config::FlowLimit,
    read_split::ReadSplit,
    requester::{
        Requester,
        RequesterState, //
    },
    slot::Slot, //
};
use crate::{
    congestion::pacer::Rate,
    message::request::RequestPart,
    psn::Psn,
    segmentation::{
        gso_loss::GsoLoss,
        mtu::Mtu,
        super_packet::max_unsplit_packets,
        tx_desc::{
            BurstLimit,
            SlotIndex,
            TxDesc, //
        }, //
    },
    status::WcStatus,
    time::Instant, //
};

/// How often packets request an ACK.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AckRequestMode {
    /// At the end of each message.
    EveryMessage,
    /// Where something waits for the ACK.
    WhenNeeded,
}

/// What decides which packets of a burst request an ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRequestLimits {
    pub(super) mode: AckRequestMode,
    /// What may be in flight.
    pub(super) flow: FlowLimit,
    /// What the burst may still send after the planned packets.
    pub(super) left: BurstLimit,
}

/// The next packets of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    slot_index: SlotIndex,
    /// How a READ is split.
    split: ReadSplit,
    part: RequestPart,
    /// Whether the part ends the message.
    pub(super) is_last: bool,
    pub(super) awaits_response: bool,
    /// Planned packets.
    pub(super) count: u32,
    /// Payload of the planned packets, in bytes.
    pub(super) length: u32,
}

/// An iterator that plans and yields the packets to send. A packet counts as sent once it is
/// yielded.
///
/// Created by [`Requester::burst`].
#[derive(Debug)]
pub struct RequestBurst<'a, S> {
    requester: &'a mut Requester<S>,
    now: Instant,
    /// The flow limit does not change while packets are sent.
    flow: FlowLimit,
    mtu: Mtu,
    limit: BurstLimit,
    first: bool,
    /// Most packets in one super-packet.
    max_packets: u32,
    /// Whether a super-packet ends at the packet that must request an ACK.
    ends_at_ack_request: bool,
    mode: AckRequestMode,
}

impl<S> RequestBurst<'_, S> {
    /// Combines up to `max_packets` packets into one super-packet.
    #[must_use]
    pub fn coalescing(self, max_packets: u32) -> Self {
        Self {
            max_packets,
            ..self
        }
    }

    /// Combines packets into super-packets, which the caller splits before sending. Only the last packet of a
    /// super-packet can request an ACK, so the super-packet ends at the first packet that must.
    #[must_use]
    pub fn for_super_packets(self) -> Self {
        Self {
            max_packets: max_unsplit_packets(self.mtu),
            ends_at_ack_request: true,
            ..self
        }
    }

    /// If `sparse`, requests an ACK only where something waits for it, instead of at the end of each
    /// message. If an ACK is not requested in time, a separate probe requests it.
    #[must_use]
    pub fn sparse_ack_requests(self, sparse: bool) -> Self {
        let mode = match sparse {
            true => AckRequestMode::WhenNeeded,
            false => AckRequestMode::EveryMessage,
        };
        Self { mode, ..self }
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Returns the packets that can be sent at `now`: consecutive PSNs, of as many messages as fit
    /// in `limit`.
    pub fn burst(&mut self, now: Instant, limit: BurstLimit) -> RequestBurst<'_, S> {
        let limit = self.congestion.burst_limit(now, limit);
        RequestBurst {
            flow: self.flow(),
            mtu: self.window.mtu(),
            requester: self,
            now,
            limit,
            first: true,
            max_packets: 1,
            ends_at_ack_request: false,
            mode: AckRequestMode::EveryMessage,
        }
    }

    /// Undoes the last `packets` planned packets, which were not sent. They are planned next.
    pub fn unsend(&mut self, packets: u32) {
        for _ in 0..packets.min(self.window.flight().packets) {
            if let Some(payload) = self.window.unsend() {
                self.congestion.on_unsent(1, payload);
            }
        }
        self.on_unsent(self.window.psn());
    }

    /// As [`unsend`](Self::unsend): the memory of the packets is not present. They wait until
    /// [`memory_present`](Self::memory_present). Earlier packets are still sent again, and ACKs and timers are
    /// handled.
    pub fn await_memory(&mut self, packets: u32) {
        self.unsend(packets);
        self.memory_wait.stop_at(self.window.psn());
    }

    /// No packet waits for memory any more.
    #[inline]
    pub fn memory_present(&mut self) {
        self.memory_wait.end();
    }

    /// Stops the ACK timer: a response has arrived, and waits for memory.
    pub fn pause_ack_timeout(&mut self) {
        self.retry.stop_ack_timer();
    }

    /// Starts the ACK timer again after [`pause_ack_timeout`](Self::pause_ack_timeout), if an ACK is due.
    pub fn resume_ack_timeout(&mut self, now: Instant) {
        if self.is_ack_due() {
            self.retry.start_ack_timer_if_idle(now);
        }
    }

    /// Returns whether a request waits to be sent, or an ACK probe is needed.
    /// [`burst`](Self::burst) may have to wait all the same. Cheaper than [`can_send`](Self::can_send).
    #[inline]
    #[must_use]
    pub fn may_have_packets(&self) -> bool {
        self.window.current().is_some() || self.needs_ack_probe()
    }

    /// Returns whether [`burst`](Self::burst) would send a packet or abort a request.
    #[inline]
    #[must_use]
    pub fn can_send(&self) -> bool {
        let any = || {
            self.plan(1, self.flow()).is_some()
                || self.unsupported_slot().is_some()
                || self.needs_ack_probe()
        };
        !self.retry.in_rnr_delay() && self.congestion.paused_until().is_none() && any()
    }

    /// Returns whether a packet is in flight, that is, sent and unacknowledged since the last rewind.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.window.in_flight()
    }

    /// Reports to `loss`, which is about the route, what became of super-packets. Returns whether each
    /// packet must be sent by itself now: since the peer last acknowledged new packets, the ACK timeout has expired or
    /// packets were lost twice; or the route loses such buffers.
    #[inline]
    pub fn must_send_singly(&mut self, loss: &mut GsoLoss) -> bool {
        self.retry.must_send_singly(self.window.una(), loss)
    }

    /// Some packets of the burst that has just ended were sent in super-packets of at most `longest` bytes.
    #[inline]
    pub fn on_gso_sent(&mut self, longest: u32) {
        self.retry.on_gso_sent(self.window.psn(), longest);
    }

    /// Goes back to the oldest unacknowledged packet and plans all packets from there again, without
    /// counting a retry. For planned packets that were not sent or did not reach the peer.
    pub fn rewind(&mut self) {
        self.window.rewind();
        self.rtt.cancel_sample();
        self.clear_ack_requests();
    }

    /// Returns whether the current request is a message of one packet.
    #[inline]
    fn is_single_packet(&self) -> bool {
        let current = self.window.current();
        current.is_some_and(|(slot, ..)| slot.wr.length <= self.window.mtu().bytes())
    }

    /// Returns the next packets, at most `max_packets`. `None` if they must wait. Does not check for
    /// an RNR delay.
    pub(super) fn plan(&self, max_packets: u32, flow: FlowLimit) -> Option<Plan> {
        let (slot, slot_index, sent) = self.window.current()?;
        if slot.is_local() || !self.may_send(sent) || self.is_unsupported(slot, sent) {
            return None;
        }
        let max_packets = self.memory_wait.room(self.window.psn(), max_packets);
        let (mtu, index) = (self.window.mtu(), sent.unwrap_or(0));
        let packets = mtu.packets(slot.wr.length);
        if sent.is_none() && !self.window.has_psns(packets) {
            return None;
        }

        let flight = self.window.flight();
        let awaits_response = slot.awaits_response();
        if self.awaits_earlier(slot, index) {
            return None;
        }
        let length = match slot.wr.op.sends_payload() {
            true => mtu.payload(index, slot.wr.length),
            false => 0,
        };
        let split = match (awaits_response, sent) {
            (true, None) => ReadSplit::for_window(self.max_flow(), self.config.max_rd_atomic, mtu),
            _ => slot.split,
        };
        let end = match awaits_response {
            true => split.part_end(index, packets),
            false => index.saturating_add(1),
        };
        let added_packets = end.saturating_sub(index);
        let added_bytes = mtu.payload_between(index, end, slot.wr.length);
        let fits = flight.packets.saturating_add(added_packets) <= flow.packets
            && flight.bytes.saturating_add(added_bytes) <= flow.bytes;
        if !fits && flight.packets != 0 {
            return None;
        }
        // One packet may be sent, as checked above. Further packets are limited to the room left.
        let count = match (max_packets, awaits_response) {
            (..=1, _) | (_, true) => 1,
            _ => max_packets
                .min(packets.saturating_sub(index))
                .min(self.flow_room_packets(flow)),
        };
        let to = index.saturating_add(count);
        let part = RequestPart::new(index, end.max(to), packets);
        Some(Plan {
            slot_index,
            split,
            is_last: part.is_last(awaits_response),
            awaits_response,
            part,
            count,
            length: match count {
                1 => length,
                _ => mtu.payload_between(index, to, slot.wr.length),
            },
        })
    }

    /// Returns the last packet in flight again: it requests an ACK, which is overdue. If that packet must
    /// wait or belongs to an aborted request, goes further back.
    fn plan_again(&mut self, flow: FlowLimit) -> Option<Plan> {
        // Bounded by the packets in flight.
        while self.needs_ack_probe() {
            let next = self.window.psn();
            // It was sent: pacing still counts it.
            let _ = self.window.unsend();
            self.on_unsent(self.window.psn());
            let plan = self.plan(1, flow);
            if plan.is_some() || self.window.psn() == next {
                return plan;
            }
        }
        None
    }

    /// Returns whether packet `index` of the request must wait until the peer has responded to earlier requests.
    #[inline]
    fn awaits_earlier(&self, slot: &Slot, index: u32) -> bool {
        let reads = self.window.flight().reads;
        // `max(1)`: a request already begun continues even if `max_rd_atomic` was set to 0 since.
        let max_reads = u32::from(self.config.max_rd_atomic).max(1);
        (slot.awaits_response() && reads >= max_reads)
            || (index == 0 && ((slot.wr.fence && reads != 0) || self.awaits_credits(slot)))
    }

    /// Returns whether a request must wait for credits. It has not begun, or is sent again from its start.
    #[inline]
    fn awaits_credits(&self, slot: &Slot) -> bool {
        let before = self.window.flight().receives;
        self.window.credits.are_exceeded_by(before) && slot.wr.op.uses_receive()
    }

    /// Returns the number of full packets that the flow limit still admits, at least 1.
    #[inline]
    fn flow_room_packets(&self, flow: FlowLimit) -> u32 {
        let flight = self.window.flight();
        let room = BurstLimit {
            bytes: flow.bytes.saturating_sub(flight.bytes),
            packets: flow.packets.saturating_sub(flight.packets),
        };
        room.full_packets(self.window.mtu())
    }

    /// Returns the current request if the peer does not support it: it awaits a response and
    /// `max_rd_atomic` is 0.
    pub(super) fn unsupported_slot(&self) -> Option<SlotIndex> {
        let (slot, slot_index, sent) = self.window.current()?;
        (self.may_send(sent) && self.is_unsupported(slot, sent)).then_some(slot_index)
    }

    fn is_unsupported(&self, slot: &Slot, sent: Option<u32>) -> bool {
        sent.is_none() && slot.awaits_response() && self.config.max_rd_atomic == 0
    }

    /// Returns whether this state permits sending the current request, and its memory is present. `sent`: its packets
    /// already sent, if it was begun.
    fn may_send(&self, sent: Option<u32>) -> bool {
        match self.state {
            _ if self.memory_wait.holds(self.window.psn()) => false,
            RequesterState::Ready => true,
            RequesterState::Draining => sent.is_some(),
            RequesterState::Reset | RequesterState::Idle | RequesterState::Error => false,
        }
    }

    /// Builds the descriptor of the planned packets and records them as sent.
    fn send(&mut self, plan: &Plan, limits: &AckRequestLimits, now: Instant) -> Option<TxDesc> {
        let (slot, ..) = self.window.current()?;
        let ack_request = self.needs_ack_request(plan, slot, limits, now);
        let (mtu, psn) = (self.window.mtu(), self.window.psn());
        let headers = plan
            .part
            .headers(&self.config.connection, &slot.wr, mtu, psn)?
            .ack_request(ack_request);
        let desc = plan.part.describe(
            headers,
            (plan.slot_index, &slot.wr),
            mtu,
            (plan.count, plan.length),
        );
        let new = psn == self.window.high();
        self.window.sent(plan.split, plan.count);
        self.congestion.on_sent(now, plan.count, plan.length);
        if new && (ack_request || plan.awaits_response) && !self.rtt.is_measuring() {
            self.start_rtt_sample(plan, psn, now);
        }
        match ack_request {
            true => self.on_ack_requested(now),
            false => self.on_sent_without_request(plan, now),
        }
        Some(desc)
    }

    /// Starts an RTT sample for the planned packets, the first of which has `psn`.
    #[inline]
    fn start_rtt_sample(&mut self, plan: &Plan, psn: Psn, now: Instant) {
        let after = match plan.awaits_response {
            // The first response packet ends the sample.
            true => psn.next(),
            false => self.window.psn(),
        };
        let (flow, flight) = (self.flow(), self.window.flight());
        let full = flight.bytes >= flow.bytes.wrapping_shr(1)
            || flight.packets >= flow.packets.wrapping_shr(1);
        self.rtt.on_sent(after, now, full);
    }

    /// Returns the current flow limit: the congestion window applied to [`max_flow`](Self::max_flow).
    pub(super) fn flow(&self) -> FlowLimit {
        let FlowLimit { bytes, packets } = self.max_flow();
        FlowLimit {
            bytes,
            packets: self.congestion.limited_to(packets),
        }
    }

    /// Returns the congestion window, in packets.
    #[must_use]
    pub fn congestion_window(&self) -> u32 {
        self.congestion.limited_to(self.max_flow().packets)
    }

    /// Returns the rate at which packets are sent. `None`: it is unlimited.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.congestion.rate()
    }

    /// Returns the configured flow limit, scaled to the round-trip time.
    pub(super) fn max_flow(&self) -> FlowLimit {
        let (FlowLimit { bytes, packets }, factor) = (self.config.flow, self.rtt.bdp_factor());
        FlowLimit {
            bytes: bytes.saturating_mul(factor),
            packets: packets.saturating_mul(factor),
        }
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> RequestBurst<'_, S> {
    /// Returns the most packets that may be planned at once.
    fn max_packets(&self, mode: AckRequestMode) -> u32 {
        let room = self.limit.full_packets(self.mtu).min(self.max_packets);
        match self.ends_at_ack_request {
            true => room.min(self.requester.packets_to_ack_request(mode, self.flow)),
            false => room,
        }
    }

    /// Returns an ACK probe with this PSN.
    fn ack_probe(&mut self, duplicate: Psn) -> Option<TxDesc> {
        if !self.limit.take(1, 0, self.first) {
            return None;
        }
        self.first = false;
        self.requester.ack_probe(duplicate, self.now)
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Iterator for RequestBurst<'_, S> {
    type Item = TxDesc;

    fn next(&mut self) -> Option<TxDesc> {
        if !self.requester.may_have_packets() || !self.requester.retry.may_send(self.now) {
            return None;
        }
        let mode = self.requester.ack_request_mode(self.mode, self.now);
        let max_packets = match self.requester.is_single_packet() {
            true => 1,
            false => self.max_packets(mode),
        };
        let plan = match self.requester.plan(max_packets, self.flow) {
            Some(plan) => plan,
            None => {
                if let Some(slot_index) = self.requester.unsupported_slot() {
                    self.requester.abort(slot_index, WcStatus::LocQpOpErr);
                }
                if !self.requester.needs_ack_probe() {
                    return None;
                }
                match self.requester.window.acknowledged_payload() {
                    Some(duplicate) => return self.ack_probe(duplicate),
                    None => self.requester.plan_again(self.flow)?,
                }
            }
        };
        if !self.limit.take(plan.count, plan.length, self.first) {
            return None;
        }
        self.first = false;
        let limits = AckRequestLimits {
            mode,
            flow: self.flow,
            left: self.limit,
        };
        self.requester.send(&plan, &limits, self.now)
    }
}
