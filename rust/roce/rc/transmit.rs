// SPDX-License-Identifier: GPL-2.0

//! Requests to packets: what the requester sends next, if anything.
//!
//! Owns the rules of what holds a packet back and of when an acknowledgement is asked for.
//! `plan` only looks; `Burst` carries out what it found, packet by packet.
//!
//! IBA: section 9.7.3, generating requests.

use super::{
    attributes::Flow,
    requester::{
        Requester,
        SendState,
        Unasked, //
    },
    slot::Slot, //
};
use crate::{
    segment::{
        BurstLimit,
        Segment,
        SlotIndex,
        Source, //
    },
    time::Instant,
    wire::{
        emit::Headers,
        ext::{
            AtomicEth,
            Feth,
            Ieth,
            ImmDt,
            Reth, //
        },
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        },
    },
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        Placement,
        Remote,
        SendOp,
        SendWr, //
    },
};

/// An acknowledgement is asked for at least every so many packets.
const ASK_EVERY: u32 = 16;

/// The next packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    place: SlotIndex,
    slot: Slot,
    /// Which packet of its message.
    index: u32,
    /// Number of packets of the message.
    packets: u32,
    /// Bytes of payload.
    length: u32,
}

/// Packets to be sent, planned as they are taken. Each counts as sent once it is yielded.
///
/// Made by [`Requester::burst`].
#[derive(Debug)]
pub struct Burst<'a, S> {
    requester: &'a mut Requester<S>,
    now: Instant,
    limit: BurstLimit,
    first: bool,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Plans the packets that can be sent at `now`, consecutive ones by PSN, of as many messages
    /// as fit.
    pub fn burst(&mut self, now: Instant, limit: BurstLimit) -> Burst<'_, S> {
        Burst {
            requester: self,
            now,
            limit,
            first: true,
        }
    }

    /// Returns the next packet if nothing but a pause can hold it back.
    pub(super) fn plan(&self) -> Option<Plan> {
        let (slot, place, done) = self.window.current()?;
        if slot.is_local() {
            return None;
        }
        let begins = match self.state {
            SendState::Ready => true,
            SendState::Draining => done.is_some(),
            SendState::Reset | SendState::Idle | SendState::Error => false,
        };
        if !begins {
            return None;
        }
        let (mtu, index) = (self.window.mtu(), done.unwrap_or(0));
        let packets = mtu.packets(slot.wr.length);
        if done.is_none() && !self.window.has_psns(packets) {
            return None;
        }

        let flight = self.window.flight();
        let reads = slot.awaits_response();
        if reads && flight.reads >= u32::from(self.config.max_rd_atomic) {
            return None;
        }
        if slot.wr.fence && index == 0 && flight.reads != 0 {
            return None;
        }
        let length = match slot.wr.op.sends_payload() {
            true => mtu.payload(index, slot.wr.length),
            false => 0,
        };
        let flow = self.flow();
        let (asked_packets, asked_bytes) = match reads {
            true => (
                packets.saturating_sub(index),
                slot.wr
                    .length
                    .saturating_sub(mtu.offset(index, slot.wr.length)),
            ),
            false => (1, length),
        };
        let fits = flight.packets.saturating_add(asked_packets) <= flow.packets
            && flight.bytes.saturating_add(asked_bytes) <= flow.bytes;
        if !fits && flight.packets != 0 {
            return None;
        }
        Some(Plan {
            place,
            slot: *slot,
            index,
            packets,
            length,
        })
    }

    /// Builds the planned packet and notes that it was sent.
    fn send(&mut self, plan: &Plan) -> Option<Segment> {
        let ask = self.asks(plan);
        let headers = self.headers(plan)?.ack_request(ask);
        self.window.begin();
        let headers = headers.psn(self.window.psn());
        self.unasked = match ask {
            true => Unasked::default(),
            false => Unasked {
                packets: self.unasked.packets.saturating_add(1),
                bytes: self.unasked.bytes.saturating_add(plan.length),
            },
        };
        self.window.sent();
        Some(Segment {
            headers,
            source: match (plan.length, plan.slot.wr.op) {
                (0, _) => Source::None,
                (_, SendOp::AtomicWrite { value, .. }) => Source::Value(value),
                _ => Source::Slot(plan.place),
            },
            offset: match plan.length {
                0 => 0,
                _ => self.window.mtu().offset(plan.index, plan.slot.wr.length),
            },
            length: plan.length,
        })
    }

    /// Returns how much may be in flight at present.
    fn flow(&self) -> Flow {
        let Flow { bytes, packets } = self.config.flow;
        Flow {
            bytes,
            packets: self.pace.of(packets),
        }
    }

    /// Returns whether the planned packet asks for an acknowledgement: the last of each message
    /// does, and enough of the others that the window cannot fill up unanswered.
    fn asks(&self, plan: &Plan) -> bool {
        let flow = self.flow();
        let packets = self.unasked.packets.saturating_add(1);
        let bytes = self.unasked.bytes.saturating_add(plan.length);
        plan.is_last()
            || packets >= ASK_EVERY.min(flow.packets.wrapping_shr(1))
            || bytes >= flow.bytes.wrapping_shr(1)
    }

    /// Returns the headers of the planned packet, but for its PSN.
    fn headers(&self, plan: &Plan) -> Option<Headers> {
        let wr = plan.slot.wr;
        let (operation, imm) = operation(&wr)?;
        let opcode = Opcode::of(Service::Rc, operation, plan.position(), imm.is_some())?;
        let psn = self.window.psn();
        let headers = Headers::new(opcode, self.config.pkey, self.config.dest_qpn, psn)
            .solicited(wr.solicited && plan.is_last() && wr.op.uses_receive());
        Some(
            match wr.op {
                SendOp::Send { .. } | SendOp::Local(_) => headers,
                SendOp::SendInvalidate { rkey } => headers.ieth(Ieth { rkey }),
                SendOp::Write { remote, .. } => headers.reth(reth(remote, wr.length)),
                SendOp::Read { remote } | SendOp::ReadInvalidate { remote, .. } => {
                    // Only what is missing is asked for.
                    let offset = self.window.mtu().offset(plan.index, wr.length);
                    let left = wr.length.saturating_sub(offset);
                    headers.reth(reth(remote.advance(offset), left))
                }
                SendOp::Atomic { remote, op } => headers.atomic(atomic(remote, op)),
                SendOp::AtomicWrite { remote, .. } => headers.reth(reth(remote, wr.length)),
                SendOp::Flush {
                    remote,
                    scope,
                    placement,
                } => flush(headers, remote, scope, placement),
            }
            .imm(ImmDt(imm.map_or([0; 4], |Imm(bytes)| bytes))),
        )
    }
}

/// Returns what the packets of a request say they are part of, and its immediate data.
fn operation(wr: &SendWr) -> Option<(Operation, Option<Imm>)> {
    Some(match wr.op {
        SendOp::Send { imm } => (Operation::Send, imm),
        SendOp::SendInvalidate { .. } => (Operation::SendInvalidate, None),
        SendOp::Write { imm, .. } => (Operation::RdmaWrite, imm),
        SendOp::Read { .. } | SendOp::ReadInvalidate { .. } => (Operation::ReadRequest, None),
        SendOp::Atomic { op, .. } => match op {
            AtomicOp::CompareSwap { .. } => (Operation::CompareSwap, None),
            AtomicOp::FetchAdd { .. } => (Operation::FetchAdd, None),
        },
        SendOp::AtomicWrite { .. } => (Operation::AtomicWrite, None),
        SendOp::Flush { .. } => (Operation::Flush, None),
        SendOp::Local(_) => return None,
    })
}

fn reth(Remote { va, rkey }: Remote, len: u32) -> Reth {
    Reth { va, rkey, len }
}

fn atomic(Remote { va, rkey }: Remote, op: AtomicOp) -> AtomicEth {
    let (compare, swap_or_add) = match op {
        AtomicOp::CompareSwap { compare, swap } => (compare, swap),
        AtomicOp::FetchAdd { add } => (0, add),
    };
    AtomicEth {
        va,
        rkey,
        swap_or_add,
        compare,
    }
}

fn flush(headers: Headers, at: Remote, scope: FlushScope, placement: Placement) -> Headers {
    let (selectivity, len) = match scope {
        FlushScope::Range(len) => (Feth::RANGE, len),
        FlushScope::Region => (Feth::MR, 0),
    };
    let feth = Feth {
        placement: placement.bits(),
        selectivity,
    };
    headers.feth(feth).reth(reth(at, len))
}

impl Plan {
    #[inline]
    fn is_last(&self) -> bool {
        self.slot.awaits_response() || self.index.saturating_add(1) >= self.packets
    }

    #[inline]
    fn position(&self) -> Position {
        match (self.index, self.is_last()) {
            _ if self.slot.awaits_response() => Position::Only,
            (0, true) => Position::Only,
            (0, false) => Position::First,
            (_, false) => Position::Middle,
            (_, true) => Position::Last,
        }
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Iterator for Burst<'_, S> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if !self.requester.retry.may_send(self.now) {
            return None;
        }
        let plan = self.requester.plan()?;
        if !self.limit.take(plan.length, self.first) {
            return None;
        }
        self.first = false;
        let segment = self.requester.send(&plan)?;
        self.requester.retry.on_sent(self.now);
        Some(segment)
    }
}
