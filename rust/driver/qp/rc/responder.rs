// SPDX-License-Identifier: GPL-2.0

//! Receive engine of an RC QP: processes requests and sends responses.
//!
//! One run processes received requests, then sends what they call for: read responses, and one
//! acknowledgement for all. Runs in process context or softirq, under the lock of its
//! [`Exclusive`](rdma::sync::exclusive::Exclusive). A local peer may own it for a loopback pass.

use crate::{
    mem::{
        page_fault::FaultWait,
        payload::PayloadSource, //
    },
    packet::path::{
        EntryWriter,
        Path,
        Unsent, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            notify_consumer,
            push_completion,
            push_srq_completion,
            Engine,
            EngineCore,
            TX_BURST_LIMIT, //
        },
        gate::{
            Answer,
            Need,
            Policy,
            TxGate, //
        },
        out_of_order::EarlyPackets,
        rc::delivery::ResponseDelivery,
        recv_context::QpRecvContext,
        run::QpRun,
        rx::flush_receives,
        shared::QpShared, //
    },
    queue::{
        cq::Cq,
        rq::RecvQueue,
        srq::Srq,
        xrcd::Xrcd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::event::QpEvent,
    net::{
        route::Addresses,
        rx::{
            packet::RxPacket,
            queue::SkbQueue, //
        }, //
    },
    sync::exclusive::More,
    util::alloc::gfp_user, //
};
use roce::{
    access::{
        AccessError,
        Obstacle,
        Taken, //
    },
    congestion::Sender,
    id::Qpn,
    psn::Psn,
    rc::{
        replay::ReplayEntry,
        responder::{
            Fatal,
            Responder, //
        }, //
    },
    segmentation::{
        mtu::Mtu,
        super_packet::max_unsplit_packets,
        tx_desc::{
            BurstLimit,
            TxDesc,
            TxPayload, //
        }, //
    },
    status::DropReason,
    wire::packet::Packet, //
};

/// Consecutive runs with work left after which the engine yields the CPU to threads. That is enough to
/// respond to a few READs.
const YIELD_AFTER_RUNS: u32 = 128;

/// A QP that has failed drops the responses that it owes after this time without progress of the stack.
const FAILED_STALL_TIMEOUT_NS: u64 = 800_000_000;

/// Replay storage of the responder: one entry for each READ or atomic that the peer may have outstanding.
pub(crate) struct ReplayStorage(KVVec<ReplayEntry>);

impl ReplayStorage {
    /// Creates storage for `count` responses, rounded up to a power of two: rdma_rxe rounds its own limit up
    /// in that way.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: u8) -> Result<Self> {
        let entries = match count {
            0 => 0,
            _ => usize::from(count).next_power_of_two(),
        };
        let storage = KVVec::from_elem(ReplayEntry::EMPTY, entries, gfp_user())?;
        Ok(Self(storage))
    }
}

impl AsRef<[ReplayEntry]> for ReplayStorage {
    #[inline]
    fn as_ref(&self) -> &[ReplayEntry] {
        &self.0
    }
}

impl AsMut<[ReplayEntry]> for ReplayStorage {
    #[inline]
    fn as_mut(&mut self) -> &mut [ReplayEntry] {
        &mut self.0
    }
}

/// Receive engine of an RC QP.
pub(crate) struct RcRecvEngine {
    pub(super) core: EngineCore,
    pub(super) responder: Responder<ReplayStorage>,
    queue: RecvQueue,
    /// How responses were sent since the last loopback pass.
    pub(super) delivery: ResponseDelivery,
    /// Consecutive runs with work left, since the last yield.
    busy_runs: u32,
    /// The last request came in a super-packet.
    pub(super) answers_unsplit: bool,
    /// The gate of read responses.
    pub(super) gate: TxGate,
    /// Of the target of XRC: its domain.
    pub(super) xrcd: Option<Arc<Xrcd>>,
}

impl RcRecvEngine {
    /// Creates the engine in RESET, as the consumer of `queue`. `xrcd`: the domain of the target of XRC.
    pub(crate) fn new(
        responder: Responder<ReplayStorage>,
        queue: RecvQueue,
        cq: Arc<Cq>,
        xrcd: Option<Arc<Xrcd>>,
    ) -> Self {
        Self {
            core: EngineCore::new(cq),
            responder,
            queue,
            delivery: ResponseDelivery::Loopback,
            busy_runs: 0,
            answers_unsplit: false,
            gate: TxGate::new(&Policy::READ_RESPONSES),
            xrcd,
        }
    }

    /// Returns the protocol state machine, for `modify_qp`.
    pub(crate) fn responder(&mut self) -> &mut Responder<ReplayStorage> {
        &mut self.responder
    }

    /// Returns whether this is the engine of a target of XRC.
    pub(crate) fn is_target(&self) -> bool {
        self.xrcd.is_some()
    }

    /// Replaces the protocol state machine: the new one has replay storage of another size.
    pub(crate) fn replace_responder(
        &mut self,
        responder: Responder<ReplayStorage>,
    ) -> Responder<ReplayStorage> {
        core::mem::replace(&mut self.responder, responder)
    }

    /// Goes to RTR, with `path` to the peer.
    pub(crate) fn start(&mut self, path: KBox<Path>, qp: &QpShared, early: EarlyPackets) {
        self.core.start(path, qp);
        self.core.early = early;
        self.gate.start(qp.port().congestion_algorithm());
    }

    /// Returns whether requests with the addresses `from`, sent by the QP `number`, come from the peer.
    pub(super) fn is_peer(&self, from: &Addresses, number: u32) -> bool {
        let path = self.core.path.as_ref();
        path.is_some_and(|path| path.is_from_peer(from))
            && self.responder.dest_qpn() == Qpn::new(number)
    }

    /// Processes one request of the peer.
    ///
    /// # Errors
    ///
    /// As [`Responder::handle_request`].
    #[inline]
    pub(super) fn handle_request(
        &mut self,
        qp: &QpRun<'_>,
        (packet, source): (&Packet<'_>, &impl PayloadSource),
        actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        let mut context = QpRecvContext {
            qp,
            queue: &mut self.queue,
            cq: &self.core.cq,
            counters: self.core.counters.as_deref(),
            source,
            actions,
            waits: &mut self.core.waits,
            owes_response: self.responder.owes_response(),
            xrc: self.xrcd.as_ref().map(|xrcd| (xrcd, None)),
        };
        let taken = self.responder.handle_request(packet, &mut context)?;
        if taken == Taken::Whole {
            self.core.on_request(qp, actions);
        }
        Ok(taken)
    }

    /// Returns how much may be sent now, of responses that are due. `None`: they must wait, and `actions` holds when to
    /// run again. A QP that has failed finally drops the responses that it owes, so that its receives are flushed.
    fn admitted(&mut self, qp: &QpRun<'_>, actions: &mut Actions) -> Option<BurstLimit> {
        let failed = qp.had_failed();
        let need = match (self.responder.has_work(), self.responder.owes_response()) {
            (false, _) => Need::Nothing,
            // An acknowledgement of a later request waits behind a read response anyway.
            (true, true) => Need::Room,
            (true, false) => Need::Order,
        };
        let max_stall_ns = failed.then_some(FAILED_STALL_TIMEOUT_NS);
        let answer = self.gate.admit(qp, (need, TX_BURST_LIMIT), max_stall_ns);
        if failed && answer == Answer::Stalled(FAILED_STALL_TIMEOUT_NS) {
            self.responder.abort_replies();
        }
        answer.record(actions)
    }

    /// Sends the responses that are due, up to `limit`.
    fn transmit(&mut self, qp: &QpRun<'_>, limit: BurstLimit) {
        let Some(path) = &mut self.core.path else {
            return;
        };
        let mut unsent = None;
        let mut has_reads = false;
        // As in the send engine.
        path.send_singly_if(|loss| self.responder.must_send_singly(loss));
        let mtu = self.responder.path_mtu();
        for desc in self
            .responder
            .burst(limit)
            .coalescing(max_unsplit_packets(mtu))
        {
            self.delivery = ResponseDelivery::Network;
            // Only read responses count as in flight: an acknowledgement is no longer than its request.
            has_reads |= matches!(desc.source, TxPayload::Remote(..));
            path.set_counted(has_reads);
            // A READ that is repeated shows what was lost. An acknowledgement goes as the request came: if it is lost,
            // the requester sends single packets.
            path.set_detects_gso_loss(has_reads || self.answers_unsplit);
            let from = (qp, self.xrcd.as_ref());
            if let Err(error) = send_response((&desc, mtu), path, from, &mut self.core.waits.tx) {
                unsent = Some(error);
                break;
            }
            if has_reads {
                self.gate.on_sent(desc.packets, desc.length);
            }
        }
        path.transmit_pending(qp.tx());
        let Some(Unsent { reason, packets }) = unsent else {
            return;
        };
        match reason {
            // A failed QP does not wait for page faults.
            Obstacle::Absent if qp.had_failed() => {
                self.core.waits.tx.reset();
                self.responder.abort_read(packets, AccessError::Fault);
            }
            Obstacle::Absent => self.responder.await_memory(packets),
            // The NAK leaves with the next burst.
            Obstacle::Refused(error) => self.responder.abort_read(packets, error),
        }
    }

    /// Notifies the consumer, updates the port counters, and records a fatal event of the responder.
    pub(super) fn finish_run(&mut self, qp: &QpRun<'_>, actions: &mut Actions) {
        notify_consumer(&self.core.cq, actions);
        let stats = self.responder.take_stats();
        qp.port().counters().count_all(&[
            (Counter::RecvsCompleted, stats.receives),
            (Counter::Duplicates, stats.duplicates),
            (Counter::OutOfSequence, stats.out_of_sequence),
            (Counter::SentRnrNaks, stats.rnr_naks),
        ]);
        if let Some(fatal) = self.responder.take_event() {
            actions.fail(match fatal {
                Fatal::AccessError => Some(QpEvent::AccessError),
                Fatal::RequestError => Some(QpEvent::RequestError),
                Fatal::LocalError => None,
            });
        }
    }

    /// Completes receives, started or not, with a flush error. Returns whether there may be more.
    fn flush(&mut self, qp: &QpRun<'_>, actions: &mut Actions) -> More {
        if let Some(done) = self.responder.flush_receive() {
            self.core.count_received(done.status, 0);
            match &self.xrcd {
                None => push_completion(qp, &self.core.cq, &done, true, actions),
                Some(xrcd) => {
                    // A consumer that has destroyed the SRQ expects nothing.
                    if let Some(cq) = qp.srq(xrcd, self.responder.srqn()).and_then(Srq::cq) {
                        push_srq_completion(qp, cq, (&done, true), actions);
                    }
                }
            }
        }
        flush_receives(qp, &self.core, &mut self.queue, actions)
    }
}

impl Engine for RcRecvEngine {
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
            self.responder.fail();
        }
        if !self.core.waits.tx.is_waiting() {
            self.responder.memory_present();
        }
    }

    fn congestion(&mut self) -> Option<&mut Sender> {
        // Otherwise the packets that met congestion may be requests.
        self.responder.owes_response().then_some(self.gate.sender())
    }

    #[inline]
    fn sequence(&self) -> Option<(Psn, Mtu)> {
        Some((self.responder.expected_psn(), self.responder.path_mtu()))
    }

    fn is_early(&self, packet: &Packet<'_>) -> bool {
        self.responder.is_early(packet)
    }

    fn is_psn_early(&self, psn: Psn) -> bool {
        psn.is_after(self.responder.expected_psn())
    }

    fn awaits_repetition(&self) -> bool {
        self.responder.awaits_repetition()
    }

    fn report_gap(&mut self) {
        self.responder.report_gap();
    }

    #[inline]
    fn handle(
        &mut self,
        qp: &QpRun<'_>,
        (packet, source): (&Packet<'_>, &RxPacket<'_>),
        actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        self.answers_unsplit = source.skb().is_super_packet();
        self.handle_request(qp, (packet, source), actions)
    }

    fn work(
        &mut self,
        qp: &QpRun<'_>,
        (inbox, arrived): (&SkbQueue, More),
        actions: &mut Actions,
    ) -> More {
        // The consumer wakes up while the responses are sent.
        notify_consumer(&self.core.cq, actions);
        let admitted = self.admitted(qp, actions);
        if let Some(limit) = admitted {
            self.transmit(qp, limit);
        }
        if self.core.waits.any() {
            self.delay_peer(qp, inbox, actions);
        }
        self.finish_run(qp, actions);
        // The last responses precede the flush: a consumer that has seen all flushed receives may reuse the
        // memory.
        if qp.had_failed() && !self.responder.has_work() {
            self.busy_runs = 0;
            return self.flush(qp, actions);
        }
        if arrived == More::No && (admitted.is_none() || !self.responder.has_work()) {
            // An engine that waits for the stack lets others run meanwhile.
            self.busy_runs = 0;
            return More::No;
        }
        self.busy_runs = self.busy_runs.saturating_add(1);
        actions.wants_yield |= self.busy_runs > YIELD_AFTER_RUNS;
        More::Yes
    }

    fn reset(&mut self) {
        self.queue.clear();
        self.responder.reset();
        self.gate.reset();
        (self.delivery, self.busy_runs) = (ResponseDelivery::Loopback, 0);
    }

    fn on_yield(&mut self) {
        self.busy_runs = 0;
    }

    fn abort_replies(&mut self) {
        self.responder.abort_replies();
    }
}

/// Sends the packets of `desc`. The requester recovers from loss. `xrcd`: the domain of a target QP.
///
/// # Errors
///
/// The error of the memory that the peer reads, with the number of packets that were not sent. The memory was
/// checked with the request, but may have been deregistered or paged out since.
pub(super) fn send_response(
    (desc, mtu): (&TxDesc, Mtu),
    path: &mut Path,
    (qp, xrcd): (&QpRun<'_>, Option<&Arc<Xrcd>>),
    fault_wait: &mut FaultWait,
) -> Result<(), Unsent<AccessError>> {
    let mut writer = EntryWriter::new(path, qp.tx(), (desc, mtu));
    let TxPayload::Remote(remote, _) = desc.source else {
        return writer.end(Ok(()));
    };
    let sent = qp.response_memory(xrcd, desc.source).read_remote(
        remote,
        desc.length,
        &mut writer,
        fault_wait,
    );
    if sent.is_ok() || writer.remaining() != desc.packets {
        fault_wait.progress();
    }
    writer.end(sent)
}
