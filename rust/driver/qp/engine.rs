// SPDX-License-Identifier: GPL-2.0

//! The engine interface, what the engines of all services have, and how they report completions.
//!
//! An engine is one direction of a QP. Its owner polls it, in process context or softirq, under the lock of
//! its [`Exclusive`].

use crate::{
    mem::page_fault::FaultWaits,
    packet::path::Path,
    qp::{
        actions::Actions,
        out_of_order::EarlyPackets,
        run::QpRun,
        shared::QpShared, //
    },
    queue::{
        comp_cntr::AttachedCntrs,
        cq::{
            Cq,
            Overflow, //
        },
        cq_moderation::CqEvent,
        sq::SendQueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::{
        event::QpEvent,
        wc::Wc, //
    },
    net::rx::{
        packet::RxPacket,
        queue::SkbQueue, //
    },
    sync::exclusive::More, //
};
use roce::{
    access::Taken,
    congestion::Sender,
    psn::Psn,
    segmentation::{
        mtu::Mtu,
        tx_desc::BurstLimit, //
    },
    status::{
        DropReason,
        WcStatus, //
    },
    wire::packet::Packet,
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// Budget of one run of an RC engine for transmission: two super-packets, or as many packets.
pub(crate) const TX_BURST_LIMIT: BurstLimit = BurstLimit {
    bytes: 128 << 10,
    packets: 128,
};

/// Budget of one run of another engine for transmission. The packets fit in one super-packet: it has at most 64 packets
/// and 64 KiB, and the 4 KiB above `bytes` leave room for headers.
pub(crate) const TX_LIST_LIMIT: BurstLimit = BurstLimit {
    bytes: 60 << 10,
    packets: 64,
};

/// Budget of one engine run, for each of these by itself: received packets, posted and local requests, completions,
/// flushed receives.
pub(crate) const RUN_BUDGET: u16 = 64;

/// What the engines of all services have.
pub(crate) struct EngineCore {
    /// The CQ of this direction.
    pub(crate) cq: Arc<Cq>,
    /// The completion counters of the QP, if it has any. They stay in RESET.
    pub(crate) counters: Option<KBox<AttachedCntrs>>,
    /// The path to the peer, if the service has a fixed one.
    pub(crate) path: Option<KBox<Path>>,
    /// The page faults that the engine waits for. In the error state it waits for none.
    pub(crate) waits: FaultWaits,
    /// Received packets that wait for earlier ones.
    pub(crate) early: EarlyPackets,
    /// Actions that loopback passes of the peer left for the next run.
    pub(crate) deferred: Actions,
    /// The consumer asked for an event when the send queue has drained.
    pub(crate) notify_drained: bool,
    /// The CNPs of the QP that the engine has reacted to.
    pub(crate) handled_cnps: u32,
    /// A request of the peer was processed.
    peer_seen: bool,
}

impl EngineCore {
    /// Creates the part of an engine in RESET.
    pub(crate) fn new(cq: Arc<Cq>) -> Self {
        Self {
            cq,
            counters: None,
            path: None,
            waits: FaultWaits::default(),
            early: EarlyPackets::OFF,
            deferred: Actions::default(),
            notify_drained: false,
            handled_cnps: 0,
            peer_seen: false,
        }
    }

    /// Begins to send along `path`. CNPs that the QP has received before are of another connection.
    pub(crate) fn start(&mut self, path: KBox<Path>, qp: &QpShared) {
        self.path = Some(path);
        self.handled_cnps = qp.cnps();
    }

    /// Records that a request of the peer was processed. The first one before RTS is an event.
    #[inline]
    pub(crate) fn on_request(&mut self, qp: &QpRun<'_>, actions: &mut Actions) {
        actions.established |= !self.peer_seen && qp.is_before_rts();
        self.peer_seen = true;
        qp.count_request();
    }

    /// Counts a send work request that has ended. Called before its completion is visible.
    #[inline]
    pub(crate) fn count_sent(&self, opcode: WcOpcode, status: WcStatus, length: u32) {
        if let Some(counters) = &self.counters {
            counters.on_sent(opcode, status, length);
        }
    }

    /// As [`count_sent`](Self::count_sent), for a receive.
    #[inline]
    pub(crate) fn count_received(&self, status: WcStatus, length: u32) {
        if let Some(counters) = &self.counters {
            counters.on_received(status, length);
        }
    }

    /// Goes to RESET.
    pub(crate) fn reset(&mut self) {
        self.path = None;
        self.waits.reset();
        self.early = EarlyPackets::OFF;
        self.deferred = Actions::default();
        (self.notify_drained, self.peer_seen) = (false, false);
    }
}

/// One direction of a QP. One context at a time owns it.
///
/// A service says how it handles a packet and what it does then;
/// [`poll_engine`](crate::qp::poll::poll_engine) does the rest.
pub(crate) trait Engine: Send + Unpin + 'static {
    /// Whether packets must come from the other end of the path. False for datagrams.
    const HAS_PEER: bool;

    /// Returns what the engines of all services have.
    fn core(&self) -> &EngineCore;

    /// As [`Engine::core`], to change it.
    fn core_mut(&mut self) -> &mut EngineCore;

    /// Begins a run, before received packets are handled.
    fn begin(&mut self, _qp: &QpRun<'_>) {}

    /// The congestion control of what the engine sends, if it has any to send. CNPs reduce its rate.
    fn congestion(&mut self) -> Option<&mut Sender> {
        None
    }

    /// Returns the PSN of the next packet and the path MTU. Packets that follow it are then handled together. `None`:
    /// each packet is handled by itself.
    fn sequence(&self) -> Option<(Psn, Mtu)> {
        None
    }

    /// Returns whether earlier packets than this one are missing.
    fn is_early(&self, _packet: &Packet<'_>) -> bool {
        false
    }

    /// Returns whether earlier packets than a kept one with this PSN are missing.
    fn is_psn_early(&self, _psn: Psn) -> bool {
        false
    }

    /// Returns whether the peer sends all missing packets, and those behind them, again: none need be kept.
    fn awaits_repetition(&self) -> bool {
        false
    }

    /// Packets were kept for so long that those before them are lost.
    fn report_gap(&mut self) {}

    /// Handles a valid packet, whose payload is in `source`. `Paused`: it waits for a page fault, and is handled again.
    ///
    /// # Errors
    ///
    /// The reason to drop it.
    fn handle(
        &mut self,
        _qp: &QpRun<'_>,
        _packet_and_source: (&Packet<'_>, &RxPacket<'_>),
        _actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        Err(DropReason::WrongService)
    }

    /// Does what is left after received packets were handled, up to the budget: posted requests, responses, timers,
    /// completions, and flushing in the error state. Leaves in `actions` the side effects that must wait until the
    /// engine is released. Returns whether there is more of that; `arrived`: whether there are more packets.
    fn work(
        &mut self,
        qp: &QpRun<'_>,
        inbox_and_arrived: (&SkbQueue, More),
        actions: &mut Actions,
    ) -> More;

    /// Returns whether the requests that were in progress before SQD are complete.
    fn is_drained(&self) -> bool {
        true
    }

    /// The send queue that it consumes.
    fn send_queue(&mut self) -> Option<&mut SendQueue> {
        None
    }

    /// Goes to RESET: discards posted requests and replies.
    fn reset(&mut self);

    /// Discards the replies that are still owed: the consumer moves the QP to ERR.
    fn abort_replies(&mut self) {}

    /// Called after the yield that [`Actions::wants_yield`] asked for.
    fn on_yield(&mut self) {}
}

/// The engine that sends requests.
pub(crate) trait SendEngine: Engine {
    /// Goes to INIT: accepts posted requests, but does not process them.
    fn init(&mut self) {}

    /// Goes to SQD: starts no further request.
    fn drain(&mut self) {}

    /// Returns to RTS, from SQD or SQE.
    fn resume(&mut self) {}
}

/// Pushes a completion to the CQ. `solicited`: it wakes a consumer that waits for solicited completions only.
/// A failure always does.
#[inline]
pub(crate) fn push_completion(
    qp: &QpShared,
    cq: &Cq,
    done: &Completion,
    solicited: bool,
    actions: &mut Actions,
) {
    let urgent = solicited || done.status != WcStatus::Success;
    push_wc(cq, &qp.completion(done), urgent, actions);
}

/// As [`push_completion`], for a complete work completion.
#[inline]
pub(crate) fn push_wc(cq: &Cq, wc: &Wc, urgent: bool, actions: &mut Actions) {
    match cq.push(wc, urgent) {
        Ok(event) => actions.cq_event_due |= event == CqEvent::Due,
        Err(Overflow) => actions.fail(Some(QpEvent::Fatal)),
    }
}

/// As [`push_completion`], for a CQ that is not that of the engine: that of an SRQ of XRC. Notifies the consumer at
/// once.
pub(crate) fn push_srq_completion(
    qp: &QpShared,
    cq: &Cq,
    (done, solicited): (&Completion, bool),
    actions: &mut Actions,
) {
    let own_is_due = core::mem::take(&mut actions.cq_event_due);
    push_completion(qp, cq, done, solicited, actions);
    notify_consumer(cq, actions);
    actions.cq_event_due = own_is_due;
}

/// Notifies the consumer of `cq`, the CQ of the engine that runs, if completions of this run call for it. Called when
/// the run adds no more of them: one event then reports all.
#[inline]
pub(crate) fn notify_consumer(cq: &Cq, actions: &mut Actions) {
    if core::mem::take(&mut actions.cq_event_due) {
        cq.notify();
    }
}
