// SPDX-License-Identifier: GPL-2.0

//! Requests to packets: what the requester sends next, if anything.
//!
//! Owns the rules of what holds a packet back. `plan` only looks; `RequestBurst` carries out what it found,
//! packet by packet. When an acknowledgement is asked for is the subject of `ask`.
//!
//! IBA: section 9.7.3, generating requests.

use super::{
    ack_policy::AckRequestMode,
    attributes::FlowLimit,
    read_split::ReadSplit,
    requester::{
        Requester,
        RequesterState, //
    },
    slot::Slot, //
};
use crate::{
    psn::Psn,
    segmentation::{
        gso::MAX_GSO_PACKETS,
        tx_desc::{
            BurstLimit,
            SlotIndex,
            TxDesc,
            TxPayload, //
        }, //
    },
    status::WcStatus,
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
        }, //
    },
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        Placement,
        Remote,
        SendOp,
        SendWr, //
    }, //
};

/// The next packets of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    place: SlotIndex,
    pub(super) slot: Slot,
    /// Which packet of its message.
    index: u32,
    /// Number of packets of the message.
    packets: u32,
    /// How many of them are sent at a time.
    pub(super) count: u32,
    /// Before which packet of the message the part of a READ ends that is asked for.
    end: u32,
    /// Bytes of their payload.
    pub(super) length: u32,
}

/// Packets to be sent, planned as they are taken. Each counts as sent once it is yielded.
///
/// Made by [`Requester::burst`].
#[derive(Debug)]
pub struct RequestBurst<'a, S> {
    requester: &'a mut Requester<S>,
    now: Instant,
    limit: BurstLimit,
    first: bool,
    /// Most packets of one segment.
    run: u32,
    /// Whether a segment ends where an acknowledgement is to be asked for.
    by_wire: bool,
    asking: AckRequestMode,
}

impl<S> RequestBurst<'_, S> {
    /// Makes each segment a run of up to `run` packets.
    #[must_use]
    pub fn coalescing(self, run: u32) -> Self {
        Self { run, ..self }
    }

    /// Makes each segment a run whose packets go by a network: only the last of them may ask for an
    /// acknowledgement, and so it ends no later than at one that should.
    #[must_use]
    pub fn by_wire(self) -> Self {
        Self {
            run: MAX_GSO_PACKETS,
            by_wire: true,
            ..self
        }
    }

    /// If `sparing`, asks for an acknowledgement only where somebody waits for it, which is not at the end of each
    /// message. One that is not asked for in time is asked for by a packet of its own.
    #[must_use]
    pub fn sparing(self, sparing: bool) -> Self {
        let asking = match sparing {
            true => AckRequestMode::WhenNeeded,
            false => AckRequestMode::EveryMessage,
        };
        Self { asking, ..self }
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Plans the packets that can be sent at `now`, consecutive ones by PSN, of as many messages
    /// as fit.
    pub fn burst(&mut self, now: Instant, limit: BurstLimit) -> RequestBurst<'_, S> {
        RequestBurst {
            requester: self,
            now,
            limit,
            first: true,
            run: 1,
            by_wire: false,
            asking: AckRequestMode::EveryMessage,
        }
    }

    /// Returns whether a [`burst`](Self::burst) would do anything.
    #[inline]
    #[must_use]
    pub fn can_send(&self) -> bool {
        let any = || self.plan(1).is_some() || self.unservable().is_some() || self.probes();
        !self.retry.is_paused() && any()
    }

    /// Returns whether packets were sent that are not acknowledged, since the last time that all of
    /// them were to be sent again.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.window.in_flight()
    }

    /// Says that packets that were planned were not sent, or that nobody has seen them: everything that is
    /// not acknowledged is planned again. No retry is counted.
    pub fn withdraw(&mut self) {
        self.window.rewind();
        self.rtt.cancel_sample();
        self.nothing_to_ask();
    }

    /// Returns the next packets, up to `run`, if nothing but a pause can hold them back.
    pub(super) fn plan(&self, run: u32) -> Option<Plan> {
        let (slot, place, done) = self.window.current()?;
        if slot.is_local() || !self.may_go_on(done) || self.is_unservable(slot, done) {
            return None;
        }
        let (mtu, index) = (self.window.mtu(), done.unwrap_or(0));
        let packets = mtu.packets(slot.wr.length);
        if done.is_none() && !self.window.has_psns(packets) {
            return None;
        }

        let flight = self.window.flight();
        let reads = slot.awaits_response();
        // One that was begun goes on when the depth has become 0 since.
        if reads && flight.reads >= u32::from(self.config.max_rd_atomic).max(1) {
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
        let parts = match (reads, done) {
            (true, None) => ReadSplit::filling(self.widest(), self.config.max_rd_atomic, mtu),
            _ => slot.parts,
        };
        let end = match reads {
            true => parts.end(index, packets),
            false => index.saturating_add(1),
        };
        let asked_packets = end.saturating_sub(index);
        let asked_bytes = mtu.span(index, end, slot.wr.length);
        let fits = flight.packets.saturating_add(asked_packets) <= flow.packets
            && flight.bytes.saturating_add(asked_bytes) <= flow.bytes;
        if !fits && flight.packets != 0 {
            return None;
        }
        // Of more than one, what there is room for.
        let count = match (run, reads) {
            (..=1, _) | (_, true) => 1,
            _ => run.min(packets.saturating_sub(index)).min(self.room()),
        };
        Some(Plan {
            place,
            slot: Slot { parts, ..*slot },
            index,
            packets,
            count,
            end,
            length: match count {
                1 => length,
                _ => mtu.span(index, index.saturating_add(count), slot.wr.length),
            },
        })
    }

    /// Returns how many full packets there is room for in flight; 1 if there is none.
    fn room(&self) -> u32 {
        let (flow, flight) = (self.flow(), self.window.flight());
        let room = BurstLimit {
            bytes: flow.bytes.saturating_sub(flight.bytes),
            packets: flow.packets.saturating_sub(flight.packets),
        };
        room.full_packets(self.window.mtu())
    }

    /// Returns the request whose turn it is if it can never be sent: the peer serves none of its kind.
    pub(super) fn unservable(&self) -> Option<SlotIndex> {
        let (slot, place, done) = self.window.current()?;
        (self.may_go_on(done) && self.is_unservable(slot, done)).then_some(place)
    }

    fn is_unservable(&self, slot: &Slot, done: Option<u32>) -> bool {
        done.is_none() && slot.awaits_response() && self.config.max_rd_atomic == 0
    }

    /// Returns whether the current request, of which so many packets were sent if it was begun, has
    /// packets sent in this state.
    fn may_go_on(&self, done: Option<u32>) -> bool {
        match self.state {
            RequesterState::Ready => true,
            RequesterState::Draining => done.is_some(),
            RequesterState::Reset | RequesterState::Idle | RequesterState::Error => false,
        }
    }

    /// Builds the planned packet and notes that it was sent.
    fn send(&mut self, plan: &Plan, asking: AckRequestMode, now: Instant) -> Option<TxDesc> {
        let ask = self.asks(plan, asking);
        let headers = self.headers(plan)?.ack_request(ask);
        self.window.begin(plan.slot.parts);
        let psn = self.window.psn();
        let headers = headers.psn(psn);
        let new = psn == self.window.high();
        self.window.sent(plan.count);
        if new && (ask || plan.slot.awaits_response()) && !self.rtt.is_measuring() {
            self.watch(plan, psn, now);
        }
        match ask {
            true => self.asked(now),
            false => self.did_not_ask(plan, now),
        }
        Some(TxDesc {
            headers,
            source: match (plan.length, plan.slot.wr.op) {
                (0, _) => TxPayload::None,
                (_, SendOp::AtomicWrite { value, .. }) => TxPayload::Value(value),
                _ => TxPayload::Slot(plan.place),
            },
            offset: match plan.length {
                0 => 0,
                _ => self.window.mtu().offset(plan.index, plan.slot.wr.length),
            },
            length: plan.length,
            packets: plan.count,
        })
    }

    /// Measures how long it takes until the planned packets are answered, the first of which has `psn`.
    #[inline]
    fn watch(&mut self, plan: &Plan, psn: Psn, now: Instant) {
        let after = match plan.slot.awaits_response() {
            // The first of its responses.
            true => psn.next(),
            false => self.window.psn(),
        };
        let (flow, flight) = (self.flow(), self.window.flight());
        let full = flight.bytes >= flow.bytes.wrapping_shr(1)
            || flight.packets >= flow.packets.wrapping_shr(1);
        self.rtt.on_sent(after, now, full);
    }

    /// Returns how much may be in flight at present.
    pub(super) fn flow(&self) -> FlowLimit {
        let FlowLimit { bytes, packets } = self.widest();
        FlowLimit {
            bytes,
            packets: self.cwnd.limited_to(packets),
        }
    }

    /// Returns how much may be in flight to a peer as far as ours.
    pub(super) fn widest(&self) -> FlowLimit {
        let (FlowLimit { bytes, packets }, factor) = (self.config.flow, self.rtt.bdp_factor());
        FlowLimit {
            bytes: bytes.saturating_mul(factor),
            packets: packets.saturating_mul(factor),
        }
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
                    // Only what is missing is asked for, and of that a part.
                    let mtu = self.window.mtu();
                    let offset = mtu.offset(plan.index, wr.length);
                    let length = mtu.span(plan.index, plan.end, wr.length);
                    headers.reth(reth(remote.advance(offset), length))
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
    pub(super) fn is_last(&self) -> bool {
        self.slot.awaits_response() || self.index.saturating_add(self.count) >= self.packets
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

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> RequestBurst<'_, S> {
    /// Makes the packet that only asks for an acknowledgement, if it is time for one.
    fn probe(&mut self) -> Option<TxDesc> {
        if !self.requester.probes() || !self.limit.take(1, 0, self.first) {
            return None;
        }
        self.first = false;
        self.requester.probe(self.now)
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Iterator for RequestBurst<'_, S> {
    type Item = TxDesc;

    fn next(&mut self) -> Option<TxDesc> {
        if !self.requester.retry.may_send(self.now) {
            return None;
        }
        if let Some(place) = self.requester.unservable() {
            self.requester.abort(place, WcStatus::LocQpOpErr);
        }
        let room = self.limit.full_packets(self.requester.window.mtu());
        let asking = self.requester.asking(self.asking, self.now);
        let most = match self.by_wire {
            true => self.run.min(self.requester.until_asked(asking)),
            false => self.run,
        };
        let Some(plan) = self.requester.plan(most.min(room)) else {
            return self.probe();
        };
        if !self.limit.take(plan.count, plan.length, self.first) {
            return None;
        }
        self.first = false;
        self.requester.send(&plan, asking, self.now)
    }
}
