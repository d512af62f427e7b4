// SPDX-License-Identifier: GPL-2.0

//! RC loopback: both ends of the connection are on this host.
//!
//! The requester plans packets as usual, but passes their headers to the responder directly. Payload is
//! copied from memory to memory, and responses are processed at once. The protocol does not depend on it: if
//! the peer cannot be owned, packets go over the network, and earlier loopback packets still count.
//!
//! Called from a run of the send engine, in process context or softirq. That context owns the send engine and
//! tries to own one other engine, the peer's receive engine. It never waits, so it cannot deadlock. A pass never
//! starts another pass.

use crate::{
    mem::page_fault::{
        FaultWait,
        FaultWaits, //
    },
    packet::path::trace_fields,
    qp::{
        actions::Actions,
        rc::{
            delivery::{
                RequestDelivery,
                ResponseDelivery, //
            },
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
        run::QpRun, //
    },
    queue::sq::{
        SendBody,
        SendQueue,
        SendSlots, //
    }, //
};
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
        Obstacle,
        Taken, //
    },
    id::Qpn,
    rc::{
        requester::Requester,
        responder::ResponderState, //
    },
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            BurstLimit,
            TxDesc,
            TxPayload, //
        }, //
    },
    status::WcStatus,
    time::Instant,
    wire::{
        emit::HeaderBuf,
        packet::Packet, //
    }, //
};

/// Limit of one loopback pass, in each direction.
const LOOPBACK_PASS_LIMIT: BurstLimit = BurstLimit {
    bytes: 256 << 10,
    packets: 256,
};

/// Result of an attempt to send by loopback.
#[derive(Clone, Copy)]
enum LoopbackOutcome {
    /// Nothing was sent: the peer is on another host.
    Remote,
    /// Nothing was sent: loopback is not possible now.
    Unavailable,
    /// The last request must be sent again, over the network: the peer waits for its memory.
    PeerWaits,
    /// All was sent, up to the limit.
    Sent {
        /// The peer has more responses.
        peer_has_work: bool,
        /// The peer waits for memory, or has actions that only its own run can apply.
        wake_peer: bool,
    },
}

impl RcSendEngine {
    /// Sends requests to the peer and processes its responses by loopback. `None`: they must go over the
    /// network, because the peer is on another host or its receive engine is owned by another context.
    pub(super) fn transmit_loopback(&mut self, qp: &QpRun<'_>, now: Instant) -> Option<More> {
        let peer_had_work = matches!(
            self.delivery,
            RequestDelivery::Loopback {
                peer_has_work: true
            }
        );
        if qp.is_failed() || !(peer_had_work || self.requester.may_have_packets()) {
            return Some(More::No);
        }
        let (delivery, wake_peer) = match self.try_loopback(qp, now) {
            // The peer's responses need not wait for this engine.
            LoopbackOutcome::Remote => (RequestDelivery::Network, peer_had_work),
            LoopbackOutcome::Unavailable => (RequestDelivery::LocalNetwork, peer_had_work),
            LoopbackOutcome::PeerWaits => (RequestDelivery::LocalNetwork, true),
            LoopbackOutcome::Sent {
                peer_has_work,
                wake_peer,
            } => (RequestDelivery::Loopback { peer_has_work }, wake_peer),
        };
        self.delivery = delivery;
        if wake_peer {
            self.peer_lookup.defer(self.requester.dest_qpn());
        }
        let RequestDelivery::Loopback { peer_has_work } = delivery else {
            return None;
        };
        // The peer's responses wait with the one that waits for memory.
        Some(match peer_has_work && !self.core.waits.rx.is_waiting() {
            true => More::Yes,
            false => More::No,
        })
    }

    fn try_loopback(&mut self, qp: &QpRun<'_>, now: Instant) -> LoopbackOutcome {
        let (port, guard) = (qp.port(), qp.guard());
        let Some(path) = &mut self.core.path else {
            return LoopbackOutcome::Remote;
        };
        if !(port.uses_loopback() && path.is_local(port, guard)) {
            return LoopbackOutcome::Remote;
        }
        // Loopback packets would overtake those in flight in the network.
        let is_loopback = matches!(self.delivery, RequestDelivery::Loopback { .. });
        if !is_loopback && self.requester.in_flight() {
            return LoopbackOutcome::Unavailable;
        }
        let addresses = path.addresses();
        let dest = self.requester.dest_qpn();
        let peer = self.peer_lookup.find(dest, port.net(), guard);
        // Only the connected QP may own the engine.
        let number = Qpn::new(qp.number());
        let Some(peer) = peer.filter(|peer| peer.shared.is_connected_to(number)) else {
            return LoopbackOutcome::Unavailable;
        };
        let mut pass = LoopbackPass {
            qp,
            peer: QpRun::of_receiver(peer.shared, guard),
            now,
            requester: &mut self.requester,
            queue: &self.queue,
            waits: &mut self.core.waits,
        };
        let entered = peer
            .receiver
            .try_enter(|engine| pass.run(engine, &addresses));
        let Some((outcome, pending)) = entered else {
            return LoopbackOutcome::Unavailable;
        };
        if pending == Pending::Work {
            self.peer_lookup.defer(dest);
        }
        outcome
    }
}

/// Packets and bytes of one direction.
#[derive(Default)]
struct LoopbackCount {
    packets: u16,
    bytes: usize,
}

impl LoopbackCount {
    /// Adds the packets of `desc`, as a network would carry them with a path MTU of `mtu`.
    fn add(&mut self, desc: &TxDesc, mtu: Mtu) {
        // CAST: At most `LOOPBACK_PASS_LIMIT.packets`.
        self.packets = self.packets.saturating_add(desc.packets as u16);
        self.bytes = self.bytes.saturating_add(desc.wire_len(mtu));
    }

    /// Counts them as sent by `from` and received by `to`.
    fn count(&self, from: &QpRun<'_>, to: &QpRun<'_>) {
        if self.packets != 0 {
            let tx = from.tx();
            tx.port.counters().sent_loopback(self.packets, self.bytes);
            tx.traffic.sent(self.packets, self.bytes);
            to.count_received(self.packets, self.bytes);
        }
    }
}

/// One loopback pass: the send engine of `qp` works on the receive engine of `peer`.
struct LoopbackPass<'a, 'g> {
    qp: &'a QpRun<'g>,
    peer: QpRun<'a>,
    now: Instant,
    requester: &'a mut Requester<SendSlots>,
    queue: &'a SendQueue,
    waits: &'a mut FaultWaits,
}

impl LoopbackPass<'_, '_> {
    /// Delivers requests and responses, up to the limit. Not inlined: a run that sends over the network would save
    /// registers and reserve stack for it, too.
    #[inline(never)]
    fn run(&mut self, engine: &mut RcRecvEngine, addresses: &Addresses) -> LoopbackOutcome {
        let ready = engine.responder.state() == ResponderState::Ready
            && engine.is_peer(addresses, self.qp.number())
            && !engine.core.waits.any()
            && !self.peer.is_failed();
        // Loopback responses would overtake those in flight in the network.
        let last = core::mem::replace(&mut engine.delivery, ResponseDelivery::Loopback);
        if !ready || (last == ResponseDelivery::Network && self.requester.in_flight()) {
            return LoopbackOutcome::Unavailable;
        }
        let mut actions = Actions::default();
        let max_packets = self.sync_psn(engine);
        let peer_waits = self.deliver_requests(engine, max_packets, &mut actions);
        self.deliver_responses(engine, max_packets);
        engine.finish_run(&self.peer, &mut actions);
        engine.core.deferred.merge(&actions);
        if peer_waits {
            self.requester.rewind();
            return LoopbackOutcome::PeerWaits;
        }
        let is_waiting = engine.core.waits.any();
        LoopbackOutcome::Sent {
            peer_has_work: !is_waiting && engine.responder.has_work(),
            wake_peer: is_waiting || engine.core.deferred.has_any(),
        }
    }

    /// Learns which packets the peer has received before. Returns the maximum length of a super-packet: more
    /// than one packet only if both ends have the same path MTU and the next PSN is the one that the peer
    /// expects.
    fn sync_psn(&mut self, engine: &mut RcRecvEngine) -> u32 {
        let expected_psn = engine.responder.expected_psn();
        if self.requester.next_psn().is_before(expected_psn) {
            engine.responder.force_ack();
            self.deliver_responses(engine, 1);
        }
        let same_mtu = self.requester.path_mtu() == engine.responder.path_mtu();
        match same_mtu && self.requester.next_psn() == expected_psn {
            true => u32::MAX,
            false => 1,
        }
    }

    /// Delivers requests. Returns whether the last one must be sent again, over the network, because the peer waits for
    /// memory.
    fn deliver_requests(
        &mut self,
        engine: &mut RcRecvEngine,
        max_packets: u32,
        actions: &mut Actions,
    ) -> bool {
        let before = engine.responder.expected_psn();
        let mut count = LoopbackCount::default();
        let mut failed = None;
        let mut peer_faults = false;
        for desc in self
            .requester
            .burst(self.now, LOOPBACK_PASS_LIMIT)
            .coalescing(max_packets)
        {
            let sender = (self.qp, self.queue, &mut self.waits.tx);
            let ends = (sender, (&self.peer, &mut *engine));
            match deliver_request(&desc, ends, actions, &mut count) {
                Ok(Taken::Whole) => {
                    self.waits.tx.progress();
                    if !engine.responder.is_in_sync() {
                        break;
                    }
                }
                Ok(Taken::Paused) => {
                    peer_faults = true;
                    break;
                }
                Err(obstacle) => {
                    failed = Some((desc.source, desc.packets, obstacle));
                    break;
                }
            }
        }
        count.count(self.qp, &self.peer);
        if engine.responder.expected_psn() != before {
            engine.responder.force_ack();
        }
        match failed {
            None => {}
            Some((TxPayload::Slot(slot), _, Obstacle::Refused(status))) => {
                self.requester.abort(slot, status);
            }
            Some((_, packets, _)) => self.requester.await_memory(packets),
        }
        peer_faults
    }

    /// Processes the responses of the peer, unless one waits for memory.
    fn deliver_responses(&mut self, engine: &mut RcRecvEngine, max_packets: u32) {
        if self.waits.rx.is_waiting() {
            return;
        }
        let mtu = engine.responder.path_mtu();
        let mut count = LoopbackCount::default();
        let mut stopped_at = None;
        for desc in engine
            .responder
            .burst(LOOPBACK_PASS_LIMIT)
            .coalescing(max_packets)
        {
            // CAST: `u32` to `usize`, on 64 bits.
            let headers = desc.headers.emit(desc.length as usize);
            let packet = build_packet(&desc, &headers);
            count.add(&desc, mtu);
            let memory = self.peer.response_memory(engine.xrcd.as_ref(), desc.source);
            let memory = (memory, &mut engine.core.waits.tx);
            let payload = FetchedPayload::new(memory, desc.source, payload_start(&headers));
            let mut context = QpResponseContext {
                qp_memory: self.qp.memory(),
                queue: self.queue,
                source: &payload,
                fault_wait: &mut self.waits.rx,
            };
            let taken = self
                .requester
                .handle_response(self.now, &packet, &mut context);
            let failure = payload.take_failure();
            match taken {
                Ok(Taken::Whole) => {
                    self.waits.rx.progress();
                    engine.core.waits.tx.progress();
                }
                Ok(Taken::Paused) => {
                    stopped_at = Some((desc.packets, failure));
                    break;
                }
                Err(reason) => self.qp.port().counters().dropped(reason),
            }
        }
        count.count(&self.peer, self.qp);
        match stopped_at {
            None => {}
            Some((packets, None)) => engine.responder.unsend(packets),
            Some((packets, Some(Obstacle::Absent))) => engine.responder.await_memory(packets),
            Some((packets, Some(Obstacle::Refused(error)))) => {
                engine.responder.abort_read(packets, error);
            }
        }
    }
}

/// The end that sends: its QP, its queue, and what waits for the memory of its requests.
type SendEnd<'a, 'g> = (&'a QpRun<'g>, &'a SendQueue, &'a mut FaultWait);

/// Delivers one request to the peer. `Paused`: the peer waits for memory, and has not processed it.
///
/// # Errors
///
/// Why its payload cannot be read.
fn deliver_request(
    desc: &TxDesc,
    ((qp, queue, wait), (peer, engine)): (SendEnd<'_, '_>, (&QpRun<'_>, &mut RcRecvEngine)),
    actions: &mut Actions,
    count: &mut LoopbackCount,
) -> Result<Taken, Obstacle<WcStatus>> {
    // CAST: `u32` to `usize`, on 64 bits.
    let headers = desc.headers.emit(desc.length as usize);
    let packet = build_packet(desc, &headers);
    let value;
    let body = match desc.source {
        TxPayload::Slot(slot) => queue.body(slot),
        TxPayload::Value(number) => {
            value = number.to_ne_bytes();
            SendBody::Inline(&value)
        }
        TxPayload::None | TxPayload::Remote(..) => SendBody::Inline(&[]),
    };
    let memory = (qp.memory(), wait);
    let payload = GatheredPayload::new(memory, body, desc.offset, payload_start(&headers));
    match engine.handle_request(peer, (&packet, &payload), actions) {
        Ok(Taken::Whole) => engine.core.waits.rx.progress(),
        Ok(Taken::Paused) => return payload.take_failure().map_or(Ok(Taken::Paused), Err),
        Err(reason) => peer.port().counters().dropped(reason),
    }
    count.add(desc, engine.responder.path_mtu());
    Ok(Taken::Whole)
}

/// Returns the packet of `desc` with these headers. Its payload is elsewhere.
#[inline]
fn build_packet<'a>(desc: &TxDesc, headers: &'a HeaderBuf) -> Packet<'a> {
    // CAST: `u32` to `usize`, on 64 bits.
    let payload = desc.length as usize;
    trace::packet_out(|| trace_fields(headers.as_slice(), payload));
    trace::packet_in(|| trace_fields(headers.as_slice(), payload));
    desc.packet(headers)
}

/// Returns the offset that the payload would have in the packet.
fn payload_start(headers: &HeaderBuf) -> u32 {
    // CAST: Below 256.
    headers.len() as u32
}
