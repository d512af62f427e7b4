// SPDX-License-Identifier: GPL-2.0

//! A reliable connection whose two ends are on this machine.
//!
//! Owns what happens when a sending half visits the receiving half of its peer: packets are planned and
//! judged as ever, but handed over as they are, with the payload copied from memory to memory, and answered
//! on the spot. Nothing here is needed for the protocol to work: whoever cannot be visited gets its packets
//! by the wire, and what was handed over before counts all the same.
//!
//! A visitor owns its own half, and only tries to own the other; it visits one only. So visits neither wait
//! for each other nor nest.

use crate::{
    mem::page_fault::{
        AccessFailure,
        FaultWait, //
    },
    packet::{
        path::traced,
        tx_packet::trailer_len, //
    },
    qp::{
        actions::Actions,
        rc::{
            loopback_payload::{
                FetchedPayload,
                GatheredPayload, //
            },
            requester::{
                QpResponseContext,
                RcSendEngine, //
            },
            responder::RcRecvEngine, //
        },
        shared::QpShared, //
    },
    queue::sq::{
        SendBody,
        SendQueue,
        SendSlots, //
    }, //
};
use kernel::sync::rcu;
use rdma::{
    ib::trace,
    net::route::Addresses,
    sync::exclusive::{
        More,
        Pending, //
    }, //
};
use roce::{
    access::{
        AccessError,
        Obstacle,
        Taken, //
    },
    id::Qpn,
    rc::{
        requester::Requester,
        responder::ResponderState, //
    },
    segmentation::tx_desc::{
        BurstLimit,
        TxDesc,
        TxPayload, //
    },
    status::WcStatus,
    time::Instant,
    wire::{
        emit::HeaderBuf,
        packet::Packet, //
    }, //
};

/// What one visit hands over at most, in either direction.
const LIMIT: BurstLimit = BurstLimit {
    bytes: 256 << 10,
    packets: 256,
};

/// What a visit has come to.
struct LoopbackOutcome {
    /// What is left to be sent has to go by the wire.
    wire: bool,
    /// The peer has more to say.
    peer_has_work: bool,
    /// The peer has to do something that only its own turn can.
    kick: bool,
}

impl RcSendEngine {
    /// Hands requests to the peer and takes its responses, if it is on this machine and nobody uses its
    /// receiving half. `None`: they have to go by the wire.
    pub(super) fn exchange(&mut self, qp: &QpShared, now: Instant) -> Option<More> {
        if qp.is_failed() || !(self.peer_has_work || self.requester.can_send()) {
            return Some(More::No);
        }
        let outcome = self.visit(qp, now);
        let dest = self.requester.dest_qpn();
        let expected = core::mem::take(&mut self.peer_has_work);
        match outcome {
            Some(LoopbackOutcome {
                wire,
                peer_has_work,
                kick,
            }) => {
                if kick {
                    self.peers.defer(dest);
                }
                self.on_wire = wire;
                self.peer_has_work = peer_has_work;
                match (wire, peer_has_work) {
                    (true, _) => None,
                    (false, true) => Some(More::Yes),
                    (false, false) => Some(More::No),
                }
            }
            None => {
                // What it has to say does not have to wait for us.
                if expected {
                    self.peers.defer(dest);
                }
                None
            }
        }
    }

    fn visit(&mut self, qp: &QpShared, now: Instant) -> Option<LoopbackOutcome> {
        let port = qp.port();
        let guard = rcu::read_lock();
        let path = self.path.as_mut()?;
        self.is_local = port.uses_loopback() && path.stays_here(port, &guard);
        // While packets are on the wire, others would overtake them.
        if !self.is_local || (self.on_wire && self.requester.in_flight()) {
            return None;
        }
        let addresses = path.addresses();
        let dest = self.requester.dest_qpn();
        let peer = self.peers.find(dest, port.net(), &guard)?;
        // A stranger does not so much as touch its half.
        if !peer.shared.is_connected_to(Qpn::new(qp.number())) {
            return None;
        }
        let mut visit = LoopbackPass {
            qp,
            peer: peer.shared,
            now,
            requester: &mut self.requester,
            queue: &self.queue,
            fault_wait: &mut self.fault_wait,
        };
        let (outcome, left) = peer
            .receiver
            .try_enter(|engine| visit.make(engine, &addresses))?;
        if left == Pending::Work {
            self.peers.defer(dest);
        }
        outcome
    }
}

/// How many packets went one way, and their bytes.
#[derive(Default)]
struct LoopbackCount {
    packets: u16,
    bytes: usize,
}

impl LoopbackCount {
    /// Notes the packets that `segment` stands for.
    fn add(&mut self, segment: &TxDesc, headers: &HeaderBuf) {
        // CAST: At most as many as `LIMIT` has.
        self.packets = self.packets.saturating_add(segment.packets as u16);
        // CAST: `u32` to `usize`, on 64 bits.
        let whole = whole_len(headers, segment.length as usize);
        self.bytes = self.bytes.saturating_add(whole);
    }

    /// Counts them at both ends, `to` of which they have reached.
    fn count(&self, from: &QpShared, to: &QpShared) {
        if self.packets != 0 {
            from.port().counters().handed_over(self.packets, self.bytes);
            from.traffic().sent(self.packets, self.bytes);
            to.received(self.packets, self.bytes);
        }
    }
}

/// Bytes of a packet from the BTH to the ICRC that it would have.
fn whole_len(headers: &HeaderBuf, payload: usize) -> usize {
    headers
        .len()
        .wrapping_add(payload)
        .wrapping_add(trailer_len(payload))
}

/// One visit of a sending half at the receiving half of its peer.
struct LoopbackPass<'a> {
    qp: &'a QpShared,
    peer: &'a QpShared,
    now: Instant,
    requester: &'a mut Requester<SendSlots>,
    queue: &'a SendQueue,
    fault_wait: &'a mut FaultWait,
}

/// What became of a request that was handed over.
enum Delivery {
    /// The peer has dealt with it.
    Taken,
    /// Its payload cannot be had.
    Withheld(AccessFailure<WcStatus>),
    /// The peer waits for memory, and has not seen it.
    Absent,
}

impl LoopbackPass<'_> {
    /// Does all there is to do, as far as the budget goes. `None`: the half is not to be visited.
    fn make(
        &mut self,
        engine: &mut RcRecvEngine,
        addresses: &Addresses,
    ) -> Option<LoopbackOutcome> {
        let ready = engine.responder.state() == ResponderState::Ready
            && engine.is_peer(addresses, self.qp.number())
            && !engine.fault_wait.is_waiting()
            && !self.peer.is_failed();
        // Answers may be on the wire, and others would overtake them.
        let answered = core::mem::take(&mut engine.answered);
        if !ready || (answered && self.requester.in_flight()) {
            return None;
        }
        let mut actions = Actions::default();
        let run = self.catch_up(engine);
        let mut wire = self.requests(engine, run, &mut actions);
        self.responses(engine, run);
        engine.account(self.peer, &mut actions);
        engine.left.merge(&actions);
        if wire {
            self.requester.rewind();
        }
        wire &= !self.fault_wait.is_waiting();
        let waits = engine.fault_wait.is_waiting();
        engine.left.absent |= waits;
        Some(LoopbackOutcome {
            wire,
            peer_has_work: !waits && engine.responder.has_work(),
            kick: engine.left.is_some(),
        })
    }

    /// Learns what the peer has taken before. Returns how many packets may be handed over as one: several only
    /// if both ends cut messages alike, and the next packet is the one that the peer expects.
    fn catch_up(&mut self, engine: &mut RcRecvEngine) -> u32 {
        let expected = engine.responder.expected_psn();
        if self.requester.next_psn().is_before(expected) {
            engine.responder.force_ack();
            self.responses(engine, 1);
        }
        let alike = self.requester.path_mtu() == engine.responder.path_mtu();
        match alike && self.requester.next_psn() == expected {
            true => u32::MAX,
            false => 1,
        }
    }

    /// Hands over requests. Returns whether the last of them has to come again, as the peer has not seen
    /// it.
    fn requests(&mut self, engine: &mut RcRecvEngine, run: u32, actions: &mut Actions) -> bool {
        let before = engine.responder.expected_psn();
        let mut tally = LoopbackCount::default();
        let mut stopped = None;
        for segment in self.requester.burst(self.now, LIMIT).coalescing(run) {
            let ends = ((self.qp, self.queue), (self.peer, &mut *engine));
            match hand_over(&segment, ends, actions, &mut tally) {
                Delivery::Taken if engine.responder.is_in_sync() => {}
                Delivery::Taken => break,
                Delivery::Withheld(failure) => {
                    stopped = Some((segment.source, Some(failure)));
                    break;
                }
                Delivery::Absent => {
                    stopped = Some((segment.source, None));
                    break;
                }
            }
        }
        tally.count(self.qp, self.peer);
        if engine.responder.expected_psn() != before {
            engine.responder.force_ack();
        }
        match stopped {
            None => false,
            Some((_, None)) => true,
            Some((source, Some(failure))) => {
                match (
                    self.fault_wait
                        .resolve(Err::<(), _>(failure), WcStatus::LocProtErr),
                    source,
                ) {
                    (Err(Obstacle::Refused(status)), TxPayload::Slot(slot)) => {
                        self.requester.abort(slot, status);
                        false
                    }
                    _ => true,
                }
            }
        }
    }

    /// Takes what the peer has to say.
    fn responses(&mut self, engine: &mut RcRecvEngine, run: u32) {
        let mut tally = LoopbackCount::default();
        let mut stopped = None;
        for segment in engine.responder.burst(LIMIT).coalescing(run) {
            // CAST: `u32` to `usize`, on 64 bits.
            let headers = segment.headers.emit(segment.length as usize);
            let Some(packet) = packet(&segment, &headers) else {
                break;
            };
            tally.add(&segment, &headers);
            let bytes =
                FetchedPayload::new(self.peer.qp_memory(), segment.source, start_of(&headers));
            let mut host = QpResponseContext {
                qp_memory: self.qp.qp_memory(),
                queue: self.queue,
                bytes: &bytes,
                fault_wait: self.fault_wait,
            };
            match self.requester.handle_response(self.now, &packet, &mut host) {
                Ok(Taken::Whole) => {
                    self.fault_wait.progress();
                    engine.fault_wait.progress();
                }
                Ok(Taken::Paused) => {
                    stopped = Some((segment.packets, bytes.take_failure()));
                    break;
                }
                Err(reason) => self.qp.port().counters().dropped(reason),
            }
        }
        tally.count(self.peer, self.qp);
        match stopped {
            None => {}
            Some((packets, None)) => engine.responder.unsend(packets),
            Some((packets, Some(failure))) => {
                match engine
                    .fault_wait
                    .resolve(Err::<(), _>(failure), AccessError::Fault)
                {
                    Ok(()) => {}
                    Err(Obstacle::Absent) => engine.responder.unsend(packets),
                    Err(Obstacle::Refused(error)) => engine.responder.abort_read(packets, error),
                }
            }
        }
    }
}

/// Hands one request to the peer.
fn hand_over(
    segment: &TxDesc,
    ((qp, queue), (peer, engine)): ((&QpShared, &SendQueue), (&QpShared, &mut RcRecvEngine)),
    actions: &mut Actions,
    tally: &mut LoopbackCount,
) -> Delivery {
    // CAST: `u32` to `usize`, on 64 bits.
    let headers = segment.headers.emit(segment.length as usize);
    let Some(packet) = packet(segment, &headers) else {
        return Delivery::Taken;
    };
    let value;
    let body = match segment.source {
        TxPayload::Slot(slot) => queue.body(slot),
        TxPayload::Value(number) => {
            value = number.to_ne_bytes();
            SendBody::Inline(&value)
        }
        TxPayload::None | TxPayload::Remote(_) => SendBody::Inline(&[]),
    };
    let bytes = GatheredPayload::new(qp.qp_memory(), body, segment.offset, start_of(&headers));
    match engine.take(peer, (&packet, &bytes), actions) {
        Ok(Taken::Whole) => {}
        Ok(Taken::Paused) => {
            return match bytes.take_failure() {
                Some(failure) => Delivery::Withheld(failure),
                None => Delivery::Absent,
            };
        }
        Err(reason) => peer.port().counters().dropped(reason),
    }
    tally.add(segment, &headers);
    Delivery::Taken
}

/// The packet that `segment` describes with these headers, whose payload is elsewhere.
fn packet<'a>(segment: &TxDesc, headers: &'a HeaderBuf) -> Option<Packet<'a>> {
    // CAST: `u32` to `usize`, on 64 bits.
    let payload = segment.length as usize;
    trace::packet_out(|| traced(headers.as_slice(), payload));
    trace::packet_in(|| traced(headers.as_slice(), payload));
    // What was built can be parsed.
    let packet = Packet::parse(headers.as_slice(), whole_len(headers, payload)).ok()?;
    Some(packet.standing_for(segment.packets))
}

/// Where in the packet the payload would begin.
fn start_of(headers: &HeaderBuf) -> u32 {
    // CAST: Below 256.
    headers.len() as u32
}
