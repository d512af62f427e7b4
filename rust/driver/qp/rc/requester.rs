// SPDX-License-Identifier: GPL-2.0

//! Send engine of an RC QP: sends requests and processes responses.
//!
//! One run processes received responses, handles timeouts, fetches posted requests, sends as much as the
//! window allows, and reports completions. Runs in process context or softirq, under the lock of its
//! [`Exclusive`](rdma::sync::exclusive::Exclusive).

use crate::{
    abi::request::RejectedWqe,
    mem::{
        page_fault::FaultWait,
        payload::PayloadSource,
        sg_access::QpMemory, //
    },
    packet::path::Unsent,
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            push_completion,
            Engine,
            EngineCore,
            SendEngine,
            RUN_BUDGET,
            TX_BURST_LIMIT, //
        },
        rc::{
            delivery::RequestDelivery,
            loopback_payload::PeerLookup,
            responder::RcRecvEngine, //
        },
        run::QpRun,
        tx::{
            perform_local_request,
            send_request, //
        }, //
    },
    queue::{
        cq::Cq,
        sq::{
            SendBodies,
            SendBody,
            SendQueue,
            SendSlots, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::rx::{
        packet::RxPacket,
        queue::SkbQueue, //
    },
    sync::{
        exclusive::More,
        timer::now, //
    }, //
};
use roce::{
    access::{
        Obstacle,
        Taken, //
    },
    bind::LocalRequest,
    congestion::Sender,
    id::Rkey,
    psn::Psn,
    rc::requester::{
        Requester,
        ResponseContext, //
    },
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            RxPayload,
            SlotIndex,
            TxPayload, //
        }, //
    },
    status::{
        DropReason,
        WcStatus, //
    },
    time::Instant,
    wire::packet::Packet,
    wr::Completion, //
};

/// Send engine of an RC QP.
pub(crate) struct RcSendEngine {
    pub(super) core: EngineCore,
    pub(super) requester: Requester<SendSlots>,
    pub(super) queue: SendQueue,
    /// Finds the peer if it is on this host.
    pub(super) peer_lookup: Arc<dyn PeerLookup<RcRecvEngine>>,
    /// How requests were sent last.
    pub(super) delivery: RequestDelivery,
    /// A response waits for memory, and the ACK timer is stopped.
    response_waits: bool,
    /// When this run began.
    now: Instant,
}

impl RcSendEngine {
    /// Creates the engine in RESET, as the consumer of `queue`.
    pub(crate) fn new(
        requester: Requester<SendSlots>,
        queue: SendQueue,
        cq: Arc<Cq>,
        peer_lookup: Arc<dyn PeerLookup<RcRecvEngine>>,
    ) -> Self {
        Self {
            core: EngineCore::new(cq),
            requester,
            queue,
            peer_lookup,
            delivery: RequestDelivery::INITIAL,
            response_waits: false,
            now: Instant::default(),
        }
    }

    /// Sets the storage of requests in progress, before the first is sent. Returns the old one.
    pub(crate) fn set_storage(
        &mut self,
        slots: SendSlots,
        bodies: SendBodies,
    ) -> (SendSlots, SendBodies) {
        let old = (
            self.requester.set_slots(slots),
            self.queue.set_bodies(bodies),
        );
        self.requester.align(self.queue.next_slot());
        old
    }

    /// Flushes posted requests of a QP that never went to RTS, up to the budget. Returns whether there may be more.
    fn flush_unsent(&mut self, qp: &QpRun<'_>, actions: &mut Actions) -> More {
        for _ in 0..RUN_BUDGET {
            let Some(flushed) = self.queue.take_to_flush() else {
                return More::No;
            };
            let RejectedWqe { wr_id, status, .. } = flushed;
            let opcode = flushed.opcode();
            // Before the completion is visible, as in `report_completions`.
            self.queue.release(1);
            self.core.count_sent(opcode, status, 0);
            let done = Completion::failed(wr_id, opcode, status);
            push_completion(qp, &self.core.cq, &done, false, actions);
        }
        More::Yes
    }

    /// Returns the protocol state machine, for `modify_qp`.
    pub(crate) fn requester(&mut self) -> &mut Requester<SendSlots> {
        &mut self.requester
    }

    /// Performs local requests and sends packets, as far as the window and the budget allow: by loopback, or else
    /// over the network. Returns whether a local peer has more responses. Requests that are left are found by
    /// `has_work`, in `run`.
    fn transmit(&mut self, qp: &QpRun<'_>, now: Instant) -> More {
        if self.core.path.is_none() {
            return More::No;
        }
        let (requester, queue) = (&mut self.requester, &self.queue);
        for _ in 0..RUN_BUDGET {
            if !requester.perform_local(|slot, _| perform_local_request(qp, queue.body(slot))) {
                break;
            }
        }
        self.transmit_loopback(qp, now).unwrap_or_else(|| {
            self.transmit_on_wire(qp, now);
            More::No
        })
    }

    /// Sends one burst over the network. Packets that are left are found by `has_work`, in `run`.
    fn transmit_on_wire(&mut self, qp: &QpRun<'_>, now: Instant) {
        let Some(path) = &mut self.core.path else {
            return;
        };
        // Something on the way may drop buffers of several packets, such as an MPLS or SRv6 tunnel of a router.
        path.send_singly_if(|loss| self.requester.must_send_singly(loss));
        let mut unsent_request = None;
        let mtu = self.requester.path_mtu();
        let sparse = self.delivery == RequestDelivery::Network;
        // Each item counts as sent; `await_memory` takes it back.
        let burst = self.requester.burst(now, TX_BURST_LIMIT);
        for desc in burst.for_super_packets().sparse_ack_requests(sparse) {
            let sent = send_request((&desc, mtu), &self.queue, path, qp, &mut self.core.waits.tx);
            if let Err(unsent) = sent {
                unsent_request = Some((desc.source, unsent));
                break;
            }
        }
        path.transmit_pending(qp.tx());
        if let Some(longest) = path.take_gso_sent() {
            self.requester.on_gso_sent(longest);
        }
        let Some((source, Unsent { reason, packets })) = unsent_request else {
            return;
        };
        match (source, reason) {
            // All sources: the packets were not sent, and are planned again after the fault.
            (_, Obstacle::Absent) => self.requester.await_memory(packets),
            // `abort` stops sending at this request, so its packets need not be taken back.
            (TxPayload::Slot(slot), Obstacle::Refused(status)) => {
                self.requester.abort(slot, status)
            }
            // Does not occur: only the payload of a slot is in memory that can be refused.
            _ => {}
        }
    }

    /// Reports completions, up to the budget, and releases their SQ entries.
    fn report_completions(&mut self, qp: &QpRun<'_>, actions: &mut Actions) {
        let mut released = 0u32;
        for _ in 0..RUN_BUDGET {
            let Some(retired) = self.requester.poll_completion() else {
                break;
            };
            released = released.wrapping_add(1);
            if self.core.counters.is_some() {
                // Before the count is visible: the consumer that reads it may post into these entries at once.
                self.queue.release(core::mem::take(&mut released));
            }
            self.core
                .count_sent(retired.opcode, retired.status, retired.length());
            let Some(done) = retired.completion() else {
                continue;
            };
            // Before the completion is visible: the consumer that sees it may post into this entry at once.
            self.queue.release(released);
            released = 0;
            match done.status {
                WcStatus::RetryExcErr => qp.port().counters().count(Counter::RetryExceeded),
                WcStatus::RnrRetryExcErr => qp.port().counters().count(Counter::RnrRetryExceeded),
                _ => {}
            }
            if done.status != WcStatus::Success {
                actions.fail_now(qp);
            }
            push_completion(qp, &self.core.cq, &done, false, actions);
        }
        self.queue.release(released);
    }

    /// Adds the events of this run to the port counters.
    fn count_stats(&mut self, qp: &QpRun<'_>) {
        let stats = self.requester.take_stats();
        qp.port().counters().count_all(&[
            (Counter::SendsCompleted, stats.sends),
            (Counter::Responses, stats.responses),
            (Counter::Retries, stats.retries),
            (Counter::Timeouts, stats.timeouts),
            (Counter::ReceivedRnrNaks, stats.rnr_naks),
            (Counter::ReceivedSequenceNaks, stats.sequence_naks),
        ]);
    }
}

impl Engine for RcSendEngine {
    const HAS_PEER: bool = true;

    #[inline]
    fn core(&self) -> &EngineCore {
        &self.core
    }

    #[inline]
    fn core_mut(&mut self) -> &mut EngineCore {
        &mut self.core
    }

    fn begin(&mut self, qp: &QpRun<'_>) {
        if qp.had_failed() {
            self.requester.fail();
        }
        self.now = Instant::from_nanos(now());
        if !self.core.waits.tx.is_waiting() {
            self.requester.memory_present();
        }
    }

    fn congestion(&mut self) -> Option<&mut Sender> {
        Some(self.requester.congestion())
    }

    #[inline]
    fn sequence(&self) -> Option<(Psn, Mtu)> {
        Some((self.requester.oldest_psn(), self.requester.path_mtu()))
    }

    fn is_early(&self, packet: &Packet<'_>) -> bool {
        self.requester.is_early(packet)
    }

    fn is_psn_early(&self, psn: Psn) -> bool {
        self.requester.awaits_response_before(psn)
    }

    fn report_gap(&mut self) {
        self.requester.report_gap();
    }

    #[inline]
    fn handle(
        &mut self,
        qp: &QpRun<'_>,
        (packet, source): (&Packet<'_>, &RxPacket<'_>),
        _actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        let mut context = QpResponseContext {
            qp_memory: qp.memory(),
            queue: &self.queue,
            source,
            fault_wait: &mut self.core.waits.rx,
        };
        self.requester
            .handle_response(self.now, packet, &mut context)
    }

    fn work(
        &mut self,
        qp: &QpRun<'_>,
        _inbox_and_arrived: (&SkbQueue, More),
        actions: &mut Actions,
    ) -> More {
        let now = self.now;
        // The response has arrived, or may be behind one that has.
        let is_waiting = self.core.waits.rx.is_waiting();
        let was_paused = core::mem::replace(&mut self.response_waits, is_waiting);
        match (was_paused, self.response_waits) {
            (_, true) => self.requester.pause_ack_timeout(),
            (true, false) => self.requester.resume_ack_timeout(now),
            (false, false) => {}
        }
        self.requester.handle_timeout(now);
        let fetched = self.queue.fetch(&mut self.requester, RUN_BUDGET);
        // Check the state again, after fetching: requests may have been posted because the QP had failed.
        if qp.is_failed() {
            self.requester.fail();
            if !self.queue.has_bodies() {
                return self.flush_unsent(qp, actions);
            }
        }
        let more = self.transmit(qp, now);
        let was_full = self.requester.free_slots() == 0;
        self.report_completions(qp, actions);
        self.count_stats(qp);
        actions.wake(self.requester.next_wake());
        // A ULP may have more requests posted than there are slots. The fetch stopped when all slots were in use;
        // run again if completions have freed some.
        let has_free_slots = was_full && self.requester.free_slots() != 0;
        if has_free_slots || self.requester.has_work() {
            return More::Yes;
        }
        fetched.or(more)
    }

    fn is_drained(&self) -> bool {
        // Every completion is reported as well.
        self.requester.is_drained() && !self.requester.has_work()
    }

    fn send_queue(&mut self) -> Option<&mut SendQueue> {
        Some(&mut self.queue)
    }

    fn reset(&mut self) {
        self.queue.clear();
        self.requester.reset();
        self.requester.align(self.queue.next_slot());
        self.delivery = RequestDelivery::INITIAL;
    }
}

impl SendEngine for RcSendEngine {
    fn init(&mut self) {
        self.requester.init();
    }

    fn drain(&mut self) {
        self.requester.drain();
    }

    fn resume(&mut self) {
        self.requester.resume();
    }
}

/// Context of one response, whose payload is in `source`.
pub(super) struct QpResponseContext<'a, 'g, B> {
    pub(super) qp_memory: QpMemory<'a, 'g>,
    pub(super) queue: &'a SendQueue,
    pub(super) source: &'a B,
    pub(super) fault_wait: &'a mut FaultWait,
}

impl<B: PayloadSource> ResponseContext for QpResponseContext<'_, '_, B> {
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>> {
        let SendBody::Scatter(sges) = self.queue.body(slot) else {
            return Err(WcStatus::LocQpOpErr.into());
        };
        let payload = (self.source, payload);
        self.qp_memory
            .scatter(sges, offset, payload, self.fault_wait)
    }

    fn place_value(&mut self, slot: SlotIndex, value: u64) -> Result<(), Obstacle<WcStatus>> {
        let SendBody::Scatter(sges) = self.queue.body(slot) else {
            return Err(WcStatus::LocQpOpErr.into());
        };
        let bytes = value.to_ne_bytes();
        self.qp_memory
            .scatter_bytes(sges, 0, &bytes, self.fault_wait)
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus> {
        self.qp_memory.perform(&LocalRequest::Invalidate(rkey))
    }
}
