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
    packet::{
        path::Path,
        segmenter::{
            Segmenter,
            Unsent, //
        }, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        congestion::{
            admitted,
            on_sent, //
        },
        early::EarlyPackets,
        engine::{
            notify_consumer,
            push_completion,
            Engine,
            EngineCore,
            TX_BURST_LIMIT,
            TX_LIST_LIMIT, //
        },
        recv_context::QpRecvContext,
        run::QpRun,
        rx::flush_receives,
        shared::QpShared, //
    },
    queue::{
        cq::Cq,
        rq::RecvQueue, //
    }, //
};
use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::event::QpEvent,
    net::{
        route::Addresses,
        rx::{
            coalesced::CoalescedPackets,
            queue::SkbQueue, //
        }, //
    },
    sync::{
        exclusive::More,
        timer::now, //
    },
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
    wake::Wake,
    wire::packet::Packet, //
};

/// Consecutive runs with work left after which the engine yields the CPU to threads. That is enough to
/// respond to a few READs.
const YIELD_AFTER_RUNS: u32 = 128;

/// Limit of the memory of read responses in flight in the local stack: about four bursts. One more burst may
/// exceed it, and a list for each stall timeout.
const MAX_INFLIGHT_BYTES: i64 = 512 << 10;

/// Time without freed buffers after which they may be stuck. A burst leaves an otherwise idle interface of 10
/// Mbit/s in this time.
const STALL_TIMEOUT_NS: u64 = 100_000_000;

/// Upper limit of the timeout of a failed QP, which then drops the responses that it owes.
const FAILED_STALL_TIMEOUT_NS: u64 = 8 * STALL_TIMEOUT_NS;

/// Upper limit of the timeout, which doubles while no buffer is freed.
const MAX_STALL_TIMEOUT_NS: u64 = 64 * STALL_TIMEOUT_NS;

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
    /// Responses were sent over the network since the last loopback pass.
    pub(super) responded_on_wire: bool,
    /// Consecutive runs with work left, since the last yield.
    busy_runs: u32,
    /// CPU that sent the responses in flight.
    pub(super) tx_cpu: u32,
    /// Time of the last progress of the stack that was observed, in nanoseconds, while responses wait for it.
    /// `None`: they do not wait.
    stalled_since_ns: Option<u64>,
    /// Time without freed buffers after which a list is sent anyway.
    stall_timeout_ns: u64,
    /// Bytes in flight that seem to be stuck.
    pub(super) stuck_bytes: i64,
    /// Congestion control of read responses.
    congestion: Sender,
}

impl RcRecvEngine {
    /// Creates the engine in RESET, as the consumer of `queue`.
    pub(crate) fn new(responder: Responder<ReplayStorage>, queue: RecvQueue, cq: Arc<Cq>) -> Self {
        Self {
            core: EngineCore::new(cq),
            responder,
            queue,
            responded_on_wire: false,
            busy_runs: 0,
            tx_cpu: CpuId::current().as_u32(),
            stalled_since_ns: None,
            stall_timeout_ns: STALL_TIMEOUT_NS,
            stuck_bytes: 0,
            congestion: Sender::NONE,
        }
    }

    /// Returns the protocol state machine, for `modify_qp`.
    pub(crate) fn responder(&mut self) -> &mut Responder<ReplayStorage> {
        &mut self.responder
    }

    /// Replaces the protocol state machine: the new one has replay storage of another size.
    pub(crate) fn replace_responder(
        &mut self,
        responder: Responder<ReplayStorage>,
    ) -> Responder<ReplayStorage> {
        core::mem::replace(&mut self.responder, responder)
    }

    /// Goes to RTR, with `path` to the peer.
    pub(super) fn start(&mut self, path: KBox<Path>, qp: &QpShared, early: EarlyPackets) {
        self.core.start(path, qp);
        self.core.early = early;
        self.congestion = Sender::new(qp.port().congestion_algorithm(), 0);
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
            source,
            actions,
            waits: &mut self.core.waits,
            owes_response: self.responder.owes_response(),
        };
        let taken = self.responder.handle_request(packet, &mut context)?;
        if taken == Taken::Whole {
            self.core.on_request(qp, actions);
        }
        Ok(taken)
    }

    /// Returns how much may be sent now, of responses that are due. `None`: they must wait, and `actions` holds when to
    /// run again.
    fn admitted(&mut self, qp: &QpRun<'_>, actions: &mut Actions) -> Option<BurstLimit> {
        let limit = self.admitted_by_stack(qp, actions)?;
        if qp.had_failed() || !self.responder.owes_response() {
            return Some(limit);
        }
        // Acknowledgements of later requests wait behind a read response anyway.
        admitted(&mut self.congestion, limit, actions)
    }

    /// As [`admitted`](Self::admitted), as far as the local stack is concerned. Nothing acknowledges read responses, so
    /// the bytes in flight there are limited. Responses also stay on one CPU, because per-CPU backlogs do not preserve
    /// order across CPUs.
    ///
    /// Stuck buffers do not block the engine forever. After the timeout one list is sent anyway, and another CPU does
    /// not wait for the stuck bytes again. A slow interface may look stuck: each timeout adds one list and doubles the
    /// next timeout. A QP that has failed finally drops the responses that it owes, so that its receives are flushed.
    fn admitted_by_stack(&mut self, qp: &QpRun<'_>, actions: &mut Actions) -> Option<BurstLimit> {
        if !self.responder.has_work() {
            self.stalled_since_ns = None;
            return Some(TX_BURST_LIMIT);
        }
        let (inflight, cpu) = (qp.tx_inflight().bytes(), CpuId::current().as_u32());
        // An ACK needs no room, only its place behind the responses in flight.
        if self.tx_cpu == cpu && !self.responder.owes_response() {
            self.stalled_since_ns = None;
            return Some(TX_BURST_LIMIT);
        }
        self.stuck_bytes = self.stuck_bytes.min(inflight);
        let stuck_limit = self.stuck_bytes.saturating_add(1).min(MAX_INFLIGHT_BYTES);
        let (start_below, resume_below_bytes) = match self.tx_cpu == cpu {
            true => (MAX_INFLIGHT_BYTES, MAX_INFLIGHT_BYTES / 2),
            false => (stuck_limit, stuck_limit),
        };
        if inflight
            < self
                .stalled_since_ns
                .map_or(start_below, |_| resume_below_bytes)
        {
            (self.stalled_since_ns, self.stall_timeout_ns, self.tx_cpu) =
                (None, STALL_TIMEOUT_NS, cpu);
            return Some(TX_BURST_LIMIT);
        }
        let now = now();
        let is_moving = qp.tx_inflight().take_delay().is_some();
        let since_ns = self.stalled_since_ns.filter(|_| !is_moving).unwrap_or(now);
        self.stalled_since_ns = Some(since_ns);
        let failed = qp.had_failed();
        let timeout_ns = match failed {
            true => self.stall_timeout_ns.min(FAILED_STALL_TIMEOUT_NS),
            false => self.stall_timeout_ns,
        };
        if now.saturating_sub(since_ns) >= timeout_ns {
            (self.stalled_since_ns, self.stuck_bytes, self.tx_cpu) = (Some(now), inflight, cpu);
            if failed && timeout_ns >= FAILED_STALL_TIMEOUT_NS {
                self.responder.abort_replies();
            }
            if inflight >= MAX_INFLIGHT_BYTES {
                self.stall_timeout_ns = self
                    .stall_timeout_ns
                    .saturating_mul(2)
                    .min(MAX_STALL_TIMEOUT_NS);
            }
            return Some(TX_LIST_LIMIT);
        }
        actions.resume_below_bytes = Some(resume_below_bytes);
        actions.wake_at(Wake::LocalStack, since_ns.saturating_add(timeout_ns));
        None
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
            self.responded_on_wire = true;
            // Only read responses count as in flight: an acknowledgement is no longer than its request.
            has_reads |= matches!(desc.source, TxPayload::Remote(_));
            path.set_counted(has_reads);
            if let Err(error) = send_response((&desc, mtu), path, qp, &mut self.core.waits.tx) {
                unsent = Some(error);
                break;
            }
            if has_reads {
                on_sent(&mut self.congestion, desc.packets, desc.length);
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
            push_completion(qp, &self.core.cq, &done, true, actions);
        }
        flush_receives(qp, &self.core.cq, &mut self.queue, actions)
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
        self.responder
            .owes_response()
            .then_some(&mut self.congestion)
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
        packet_and_source: (&Packet<'_>, &CoalescedPackets<'_>),
        actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        self.handle_request(qp, packet_and_source, actions)
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
        (self.stalled_since_ns, self.stall_timeout_ns) = (None, STALL_TIMEOUT_NS);
        (self.responded_on_wire, self.busy_runs) = (false, 0);
    }

    fn on_yield(&mut self) {
        self.busy_runs = 0;
    }

    fn abort_replies(&mut self) {
        self.responder.abort_replies();
    }
}

/// Sends the packets of `desc`. The requester recovers from loss.
///
/// # Errors
///
/// The error of the memory that the peer reads, with the number of packets that were not sent. The memory was
/// checked with the request, but may have been deregistered or paged out since.
pub(super) fn send_response(
    (desc, mtu): (&TxDesc, Mtu),
    path: &mut Path,
    qp: &QpRun<'_>,
    fault_wait: &mut FaultWait,
) -> Result<(), Unsent<AccessError>> {
    let mut segmenter = Segmenter::new(path, qp.tx(), (desc, mtu));
    let TxPayload::Remote(remote) = desc.source else {
        let _ = segmenter.send_empty();
        return segmenter.end(Ok(()));
    };
    let sent = qp
        .memory()
        .read_remote(remote, desc.length, &mut segmenter, fault_wait);
    if sent.is_ok() || segmenter.remaining() != desc.packets {
        fault_wait.progress();
    }
    segmenter.end(sent)
}
