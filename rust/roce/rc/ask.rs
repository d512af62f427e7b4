// SPDX-License-Identifier: GPL-2.0

//! When the requester asks for an acknowledgement.
//!
//! Owns the account of what was sent since it last did. Does not know what an acknowledgement does.
//!
//! One that is asked for costs both ends a packet, and is of use only to who waits for it: the consumer for
//! a completion, the window and the send queue for room, a local operation for its turn. So within a stream
//! of requests that are not signaled, there are fewer ([`Asking::Sparingly`]). When such a stream stops, nobody knows
//! that it does: what is not asked for within [`PATIENCE`] is then asked for by a *probe*, a SEND without payload and
//! with the PSN before the oldest in flight. That is a duplicate at any rate, so the peer answers with how far it has
//! come, and does nothing (IBA: C9-105). It needs none of the consumer's memory, which may be gone if the consumer
//! knows from elsewhere that its message has arrived.

use super::{
    attributes::Flow,
    requester::{
        Requester,
        SendState, //
    },
    slot::Slot,
    transmit::Plan, //
};
use crate::{
    segment::{
        Segment,
        Source, //
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
        },
    },
};

/// Until then, more requests may bring an occasion to ask.
const PATIENCE: Duration = Duration::from_micros(1_000);

/// A peer has to answer no sooner than that, or it is always asked.
const LEAST_TIMEOUT: Duration = Duration::from_micros(4_000);

/// Who asks promptly does so at least every so many packets.
const PROMPT: u32 = 16;

/// How often packets ask for an acknowledgement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Asking {
    /// At the end of each message.
    Promptly,
    /// Where one is waited for.
    Sparingly,
}

/// What was sent since an acknowledgement was last asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unasked {
    packets: u32,
    bytes: u32,
    messages: u32,
    /// The time has come to ask for it.
    overdue: bool,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Returns whether the planned packet asks for an acknowledgement: the last of a message for which somebody
    /// waits does, and enough of the others that neither window nor send queue can fill up unanswered.
    pub(super) fn asks(&self, plan: &Plan, asking: Asking) -> bool {
        let asking = self.asking(asking);
        let most = self.most_unasked(asking);
        let unasked = self.unasked.with(plan);
        (plan.is_last() && self.is_awaited(plan, asking))
            || unasked.overdue
            || unasked.packets >= most.packets
            || unasked.bytes >= most.bytes
            || unasked.messages >= most.messages
    }

    /// Returns how many full packets of a message go before one has to ask for an acknowledgement, with that one.
    pub(super) fn until_asked(&self, asking: Asking) -> u32 {
        if self.unasked.overdue {
            return 1;
        }
        let most = self.most_unasked(self.asking(asking));
        let packets = most.packets.saturating_sub(self.unasked.packets);
        let bytes = most.bytes.saturating_sub(self.unasked.bytes);
        packets.min(self.window.mtu().packets(bytes)).max(1)
    }

    /// Notes that an acknowledgement is asked for, or that there is nothing to ask for.
    #[inline]
    pub(super) fn asked(&mut self) {
        self.unasked = Unasked::default();
        self.retry.on_asked();
    }

    /// Notes that the planned packets, which were sent at `now`, asked for nothing.
    #[inline]
    pub(super) fn did_not_ask(&mut self, plan: &Plan, now: Instant) {
        self.unasked = self.unasked.with(plan);
        if plan.is_last() {
            self.retry.ask_by(now.saturating_add(PATIENCE));
        }
    }

    /// Says that the next packet has to ask for what is in flight.
    pub(super) fn ask_next(&mut self) {
        self.unasked.overdue = true;
    }

    /// Says that somebody begins to wait for what is in flight.
    pub(super) fn ask_soon(&mut self) {
        if self.unasked.messages != 0 {
            self.retry.ask_by(Instant::from_nanos(0));
        }
    }

    /// Returns whether there is nothing to send but a question.
    #[inline]
    pub(super) fn probes(&self) -> bool {
        let alive = matches!(self.state, SendState::Ready | SendState::Draining);
        self.unasked.overdue && self.unasked.messages != 0 && alive && self.window.in_flight()
    }

    /// Makes the packet that only asks, once [`probes`](Self::probes) says so.
    pub(super) fn probe(&mut self) -> Option<Segment> {
        let opcode = Opcode::of(Service::Rc, Operation::Send, Position::Only, false)?;
        let known = self.window.una().sub(1);
        self.asked();
        Some(Segment {
            headers: Headers::new(opcode, self.config.pkey, self.config.dest_qpn, known)
                .ack_request(true),
            source: Source::None,
            offset: 0,
            length: 0,
            packets: 1,
        })
    }

    /// Returns how to ask for what is sent now. What is sent again is in doubt, and a peer from which nothing
    /// was heard in a short time counts as dead: these are asked for promptly.
    #[inline]
    fn asking(&self, wish: Asking) -> Asking {
        let again = self.window.psn() != self.window.high();
        match again || !self.retry.waits_for(LEAST_TIMEOUT) {
            true => Asking::Promptly,
            false => wish,
        }
    }

    /// Returns whether anybody waits for the end of the planned message.
    fn is_awaited(&self, plan: &Plan, asking: Asking) -> bool {
        asking == Asking::Promptly
            || plan.slot.wr.signaled
            || plan.slot.awaits_response()
            || self.state == SendState::Draining
            || self.window.is_before_local()
    }

    /// Returns how much may go unasked.
    fn most_unasked(&self, asking: Asking) -> Unasked {
        let Flow { bytes, packets } = self.flow();
        let overdue = false;
        match asking {
            Asking::Promptly => Unasked {
                packets: PROMPT.min(packets.wrapping_shr(1)),
                bytes: bytes.wrapping_shr(1),
                messages: u32::MAX,
                overdue,
            },
            Asking::Sparingly => Unasked {
                packets: packets.wrapping_shr(2),
                bytes: bytes.wrapping_shr(2),
                messages: self.window.capacity().wrapping_shr(2),
                overdue,
            },
        }
    }
}

impl Unasked {
    /// These, and the planned packets.
    #[inline]
    fn with(self, plan: &Plan) -> Self {
        Self {
            packets: self.packets.saturating_add(plan.count),
            bytes: self.bytes.saturating_add(plan.length),
            messages: self.messages.saturating_add(u32::from(plan.is_last())),
            ..self
        }
    }
}
