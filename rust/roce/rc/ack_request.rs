// SPDX-License-Identifier: GPL-2.0

//! When the requester asks for an acknowledgement.
//!
//! Owns the rules; the account of what was asked for is in `questions`. Does not know what an acknowledgement does.
//!
//! One that is asked for costs both ends a packet, and is of use only to who waits for it: the consumer for
//! a completion, the window and the send queue for room, a local operation for its turn. So within a stream
//! of requests that are not signaled, there are fewer ([`AckRequestMode::WhenNeeded`]). When such a stream stops, nobody knows
//! that it does: what is not asked for within [`PATIENCE`] is then asked for by a *probe*, a SEND without payload and
//! with the PSN before the oldest in flight. That is a duplicate at any rate, so the peer answers with how far it has
//! come, and does nothing (IBA: C9-105). It needs none of the consumer's memory, which may be gone if the consumer
//! knows from elsewhere that its message has arrived.
//!
//! Time runs against the peer only from a question on: see [`Requester::is_answer_due`].

use super::{
    ack_policy::{
        AckRequestMode,
        AckRequests,
        SinceRequest, //
    },
    attributes::FlowLimit,
    requester::{
        Requester,
        RequesterState, //
    },
    slot::Slot,
    transmit::Plan, //
};
use crate::{
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
        emit::Headers,
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        }, //
    }, //
};

/// Until then, more requests may bring an occasion to ask. What is further apart is no stream.
const PATIENCE: Duration = Duration::from_micros(1_000);

/// A peer has to answer no sooner than that, or it is always asked.
const LEAST_TIMEOUT: Duration = Duration::from_micros(4_000);

/// Who asks promptly does so at least every so many packets.
const PROMPT: u32 = 16;

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Returns whether the planned packet asks for an acknowledgement: the last of a message for which somebody
    /// waits does, and enough of the others that neither window nor send queue can fill up unanswered.
    pub(super) fn asks(&self, plan: &Plan, asking: AckRequestMode) -> bool {
        let most = self.most_unasked(asking);
        let unasked = self.questions.unasked.with(plan);
        (plan.is_last() && self.is_awaited(plan, asking))
            || self.questions.overdue
            || unasked.packets >= most.packets
            || unasked.bytes >= most.bytes
            || unasked.messages >= most.messages
    }

    /// Returns how many full packets of a message go before one has to ask for an acknowledgement, with that one.
    pub(super) fn until_asked(&self, asking: AckRequestMode) -> u32 {
        if self.questions.overdue {
            return 1;
        }
        let unasked = self.questions.unasked;
        let most = self.most_unasked(asking);
        let packets = most.packets.saturating_sub(unasked.packets);
        let bytes = most.bytes.saturating_sub(unasked.bytes);
        packets.min(self.window.mtu().packets(bytes)).max(1)
    }

    /// Notes that the planned packets were sent at `now`, the last of which asks.
    #[inline]
    pub(super) fn asked(&mut self, now: Instant) {
        self.questions = AckRequests {
            unasked: SinceRequest::default(),
            overdue: false,
            asked: self.window.psn(),
            before: self.questions.asked,
            sent: now,
            ..self.questions
        };
        self.retry.on_asked(now);
    }

    /// Notes that the planned packets were sent at `now`, and ask for nothing.
    #[inline]
    pub(super) fn did_not_ask(&mut self, plan: &Plan, now: Instant) {
        self.questions.unasked = self.questions.unasked.with(plan);
        self.questions.sent = now;
        // Before the end of a message, more is sent when an answer comes.
        if plan.is_last() || !self.is_answer_due() {
            self.retry.ask_by(now.saturating_add(PATIENCE));
        }
    }

    /// Notes that everything in flight went unasked. There may be no room for more that would ask.
    pub(super) fn may_have_stopped(&mut self, now: Instant) {
        if self.questions.unasked.packets != 0 {
            self.retry.ask_by(now.saturating_add(PATIENCE));
        }
    }

    /// Notes that nothing is in flight that was not asked for.
    pub(super) fn nothing_to_ask(&mut self) {
        self.questions = AckRequests {
            unasked: SinceRequest::default(),
            overdue: false,
            asked: self.window.una(),
            before: self.window.una(),
            ..self.questions
        };
        self.retry.nothing_to_ask();
    }

    /// Notes that the packets from `first` on that were planned last were not sent after all. If one of them asked, so
    /// has the next, or a probe, if something else went unasked.
    pub(super) fn did_not_leave(&mut self, first: Psn) {
        self.rtt.cancel_sample();
        let AckRequests { asked, before, .. } = self.questions;
        let sent = first.since(self.window.una());
        if self.known(asked) > sent {
            self.questions.asked = before;
            self.questions.overdue |= self.known(before) < sent;
        }
        if !self.is_answer_due() {
            self.retry.nothing_asked();
        }
    }

    /// Notes that the peer acknowledges what it is asked for.
    #[inline]
    pub(super) fn heard(&mut self) {
        self.questions.heard = true;
    }

    /// Says that what is in flight has to be asked for, now.
    pub(super) fn ask_next(&mut self) {
        self.questions.overdue = true;
    }

    /// Says that somebody begins to wait for what is in flight.
    pub(super) fn is_waited_for(&mut self) {
        if self.questions.unasked.messages != 0 {
            self.ask_next();
        }
    }

    /// Returns whether something in flight was asked for.
    #[inline]
    pub(super) fn is_answer_due(&self) -> bool {
        self.known(self.questions.asked) != 0
    }

    /// Returns how many packets that are not acknowledged are before `psn`, a PSN that was once sent.
    #[inline]
    fn known(&self, psn: Psn) -> u32 {
        let una = self.window.una();
        let packets = psn.since(una);
        match packets <= self.window.high().since(una) {
            true => packets,
            false => 0,
        }
    }

    /// Returns whether a probe has to be sent if nothing else can be. A READ in flight is answered by itself; its PSNs
    /// mean something else to the peer.
    #[inline]
    pub(super) fn probes(&self) -> bool {
        let alive = matches!(self.state, RequesterState::Ready | RequesterState::Draining);
        self.questions.overdue
            && self.questions.heard
            && alive
            && self.window.in_flight()
            && self.window.flight().reads == 0
    }

    /// Makes the packet that only asks, once [`probes`](Self::probes) says so.
    pub(super) fn probe(&mut self, now: Instant) -> Option<TxDesc> {
        let opcode = Opcode::of(Service::Rc, Operation::Send, Position::Only, false)?;
        let known = self.window.una().sub(1);
        self.asked(now);
        Some(TxDesc {
            headers: Headers::new(opcode, self.config.pkey, self.config.dest_qpn, known)
                .ack_request(true),
            source: TxPayload::None,
            offset: 0,
            length: 0,
            packets: 1,
        })
    }

    /// Returns how to ask for what is sent now. What is sent again, and what follows on silence, is in doubt;
    /// a peer from which nothing was heard in a short time counts as dead; and one that has acknowledged
    /// nothing yet may not know where the connection begins: rdma_rxe answers a duplicate with what its queue
    /// pair has last done, even if that was in another connection. These are asked for promptly, and so is
    /// what is no stream.
    pub(super) fn asking(&self, wish: AckRequestMode, now: Instant) -> AckRequestMode {
        let questions = &self.questions;
        let streams = !questions.sent.saturating_add(PATIENCE).is_before(now);
        let new = self.window.psn() == self.window.high();
        let patient = self.retry.waits_for(LEAST_TIMEOUT) && !self.cwnd.has_timed_out();
        match streams && new && patient && questions.heard {
            true => wish,
            false => AckRequestMode::EveryMessage,
        }
    }

    /// Returns whether anybody waits for the end of the planned message.
    fn is_awaited(&self, plan: &Plan, asking: AckRequestMode) -> bool {
        asking == AckRequestMode::EveryMessage
            || plan.slot.wr.signaled
            || plan.slot.awaits_response()
            || self.state == RequesterState::Draining
            || self.window.is_before_waiting()
    }

    /// Returns how much may go unasked.
    fn most_unasked(&self, asking: AckRequestMode) -> SinceRequest {
        let FlowLimit { bytes, packets } = self.flow();
        match asking {
            AckRequestMode::EveryMessage => SinceRequest {
                packets: PROMPT.min(packets.wrapping_shr(1)),
                bytes: bytes.wrapping_shr(1),
                messages: u32::MAX,
            },
            AckRequestMode::WhenNeeded => SinceRequest {
                packets: packets.wrapping_shr(2),
                bytes: bytes.wrapping_shr(2),
                messages: self.window.capacity().wrapping_shr(2),
            },
        }
    }
}

impl SinceRequest {
    /// These, and the planned packets.
    #[inline]
    fn with(self, plan: &Plan) -> Self {
        Self {
            packets: self.packets.saturating_add(plan.count),
            bytes: self.bytes.saturating_add(plan.length),
            messages: self.messages.saturating_add(u32::from(plan.is_last())),
        }
    }
}
