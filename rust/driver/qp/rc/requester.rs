// SPDX-License-Identifier: GPL-2.0

//! The half of a queue pair that sends requests and takes responses.
//!
//! Owns the requester, the send queue and the way to the peer, and does in one turn whatever
//! there is to do: take what has arrived, look at the clock, fetch what was posted, send as much
//! as the window allows, report what is complete. Does not decide when it gets a turn.

use crate::{
    abi::send_op::LocalRequest,
    mem::{
        page_fault::FaultWait,
        payload::PayloadSource,
        sg_access::QpMemory, //
    },
    packet::{
        path::Path,
        rx_parse::coalesce,
        segmenter::Unsent, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            perform,
            report,
            send_request,
            take_from_peer,
            Engine,
            SendEngine,
            RX_BATCH_PACKETS,
            TX_BURST, //
        },
        rc::{
            loopback_payload::PeerLookup,
            responder::RcRecvEngine, //
        },
        shared::QpShared, //
    },
    queue::{
        cq::Cq,
        sq::{
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
    ib::qp_attr::IbQpState,
    net::rx::queue::SkbQueue,
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
    id::Rkey,
    rc::requester::{
        Requester,
        ResponseContext, //
    },
    segmentation::tx_desc::{
        RxPayload,
        SlotIndex,
        TxPayload, //
    },
    status::WcStatus,
    time::Instant, //
};

/// The half that sends requests.
pub(crate) struct RcSendEngine {
    pub(super) requester: Requester<SendSlots>,
    pub(super) queue: SendQueue,
    cq: Arc<Cq>,
    pub(super) path: Option<Path>,
    /// The consumer wants to know when the queue has drained.
    tell_drained: bool,
    pub(super) fault_wait: FaultWait,
    /// Who finds the peer if it is on this machine.
    pub(super) peers: Arc<dyn PeerLookup<RcRecvEngine>>,
    /// Packets went by the wire that may not be answered yet.
    pub(super) on_wire: bool,
    /// The peer was on this machine when that was last looked at. What goes by the wire all the same, goes back to
    /// the short way when it is acknowledged.
    pub(super) is_local: bool,
    /// The peer had more to say when it was visited.
    pub(super) peer_has_work: bool,
}

impl RcSendEngine {
    /// The half in RESET, consuming `queue`.
    pub(crate) fn new(
        requester: Requester<SendSlots>,
        queue: SendQueue,
        cq: Arc<Cq>,
        peers: Arc<dyn PeerLookup<RcRecvEngine>>,
    ) -> Self {
        Self {
            requester,
            queue,
            cq,
            path: None,
            tell_drained: false,
            fault_wait: FaultWait::default(),
            peers,
            on_wire: false,
            is_local: true,
            peer_has_work: false,
        }
    }

    /// The protocol machine, for `modify_qp`.
    pub(crate) fn requester(&mut self) -> &mut Requester<SendSlots> {
        &mut self.requester
    }

    /// Whether the send queue is drained, and all that was begun is reported.
    pub(crate) fn is_drained(&self) -> bool {
        self.requester.is_drained() && !self.requester.has_work()
    }

    /// Sets the way to the peer.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = Some(path);
    }

    /// Takes the responses that have arrived. Says whether there may be more.
    fn take_responses(&mut self, qp: &QpShared, inbox: &SkbQueue, now: Instant) -> More {
        take_from_peer(qp, inbox, self.path.as_ref(), |run, packet| {
            let (due, mtu) = (self.requester.oldest_psn(), self.requester.path_mtu());
            let packet = coalesce(run, packet, due, mtu);
            let mut host = QpResponseContext {
                qp_memory: qp.qp_memory(),
                queue: &self.queue,
                bytes: &*run,
                fault_wait: &mut self.fault_wait,
            };
            let taken = self.requester.handle_response(now, &packet, &mut host)?;
            if taken == Taken::Whole {
                self.fault_wait.progress();
            }
            Ok(taken)
        })
    }

    /// Sends what the window allows, as far as the budget goes: to the peer itself, or by the wire. Says
    /// whether the peer has more to say.
    fn transmit(&mut self, qp: &QpShared, now: Instant) -> More {
        if self.path.is_none() {
            return More::No;
        }
        let (requester, queue) = (&mut self.requester, &self.queue);
        for _ in 0..RX_BATCH_PACKETS {
            if !requester.perform_local(|slot, _| perform(qp, queue.body(slot))) {
                break;
            }
        }
        self.exchange(qp, now).unwrap_or_else(|| {
            self.transmit_by_wire(qp, now);
            More::No
        })
    }

    fn transmit_by_wire(&mut self, qp: &QpShared, now: Instant) {
        let Some(path) = &mut self.path else {
            return;
        };
        self.on_wire = true;
        let mut refused = None;
        let mtu = self.requester.path_mtu();
        let burst = self.requester.burst(now, TX_BURST);
        for segment in burst.for_gso().sparse_ack_requests(!self.is_local) {
            let sent = send_request((&segment, mtu), &self.queue, path, qp, &mut self.fault_wait);
            if let Err(unsent) = sent {
                refused = Some((segment.source, unsent));
                break;
            }
        }
        path.flush(qp.way());
        let Some((source, Unsent { why, packets })) = refused else {
            return;
        };
        match (source, why) {
            (_, Obstacle::Absent) => self.requester.unsend(packets),
            (TxPayload::Slot(slot), Obstacle::Refused(status)) => {
                self.requester.abort(slot, status)
            }
            _ => {}
        }
    }

    /// Reports what is complete, as far as the budget goes, and gives its elements of the ring back.
    fn report(&mut self, qp: &QpShared, actions: &mut Actions) {
        // Who waits for memory gets no other turn, and the memory may wait for what is reported.
        let most = match self.fault_wait.is_waiting() {
            true => self.queue.slots(),
            false => RX_BATCH_PACKETS.into(),
        };
        let mut released = 0u32;
        for _ in 0..most {
            let Some(retired) = self.requester.poll_completion() else {
                break;
            };
            released = released.wrapping_add(1);
            let Some(done) = retired.completion else {
                continue;
            };
            // Before the completion is visible: who sees it may post at once, into this element.
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
            report(qp, &self.cq, &done, false, actions);
        }
        self.queue.release(released);
    }

    /// Adds what happened in this turn to the counters of the port.
    fn count(&mut self, qp: &QpShared) {
        let stats = self.requester.take_stats();
        qp.port().counters().count_all(&[
            (Counter::Sends, stats.sends),
            (Counter::Responses, stats.responses),
            (Counter::Retries, stats.retries),
            (Counter::Timeouts, stats.timeouts),
            (Counter::ReceivedRnr, stats.rnr_naks),
            (Counter::ReceivedSequence, stats.sequence_naks),
        ]);
    }
}

impl Engine for RcSendEngine {
    fn run(&mut self, qp: &QpShared, inbox: &SkbQueue, actions: &mut Actions) -> More {
        if qp.is_failed() {
            self.requester.fail();
        }
        let now = Instant::from_nanos(now());
        let arrived = self.take_responses(qp, inbox, now);
        let (mut fetches, mut more) = (More::No, More::No);
        if !self.fault_wait.is_waiting() {
            // While we wait, it is not the peer's fault that time passes.
            self.requester.handle_timeout(now);
            fetches = self.queue.fetch(&mut self.requester, RX_BATCH_PACKETS);
            // Once more, with the requests in hand: they may have been posted because the queue pair had failed.
            if qp.is_failed() {
                self.requester.fail();
            }
            more = self.transmit(qp, now);
        }
        let was_full = self.requester.free_slots() == 0;
        self.report(qp, actions);
        self.count(qp);
        // Not before the state says so, which it does soon.
        if self.tell_drained && qp.state() == IbQpState::Sqd && self.is_drained() {
            self.tell_drained = false;
            actions.drained = true;
        }
        if self.fault_wait.is_waiting() {
            return More::No;
        }
        if let Some(at) = self.requester.poll_timeout() {
            actions.wake_at = Some(at.as_nanos());
        }
        // A consumer in the kernel may have posted more than there were slots for.
        let has_room = was_full && self.requester.free_slots() != 0;
        if has_room || self.requester.has_work() {
            return More::Yes;
        }
        arrived.or(fetches).or(more)
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.queue.clear();
        self.requester.reset();
        self.requester.align(self.queue.next_slot());
        self.path = None;
        (self.on_wire, self.is_local, self.peer_has_work) = (false, true, false);
    }

    fn path(&mut self) -> Option<&mut Path> {
        self.path.as_mut()
    }

    fn fault_wait(&mut self) -> &mut FaultWait {
        &mut self.fault_wait
    }

    fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }
}

impl SendEngine for RcSendEngine {
    fn init(&mut self) {
        self.requester.init();
    }

    fn drain(&mut self, notify: bool) {
        self.requester.drain();
        self.tell_drained = notify;
    }

    fn resume(&mut self) {
        self.requester.resume();
    }
}

/// What the requester needs while it handles one response.
pub(super) struct QpResponseContext<'a, B> {
    pub(super) qp_memory: QpMemory<'a>,
    pub(super) queue: &'a SendQueue,
    pub(super) bytes: &'a B,
    pub(super) fault_wait: &'a mut FaultWait,
}

impl<B: PayloadSource> ResponseContext for QpResponseContext<'_, B> {
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>> {
        let SendBody::Scatter(sges) = self.queue.body(slot) else {
            return Err(WcStatus::LocQpOpErr.into());
        };
        let placed = self.qp_memory.scatter(sges, offset, self.bytes, payload);
        self.fault_wait.resolve(placed, WcStatus::LocProtErr)
    }

    fn place_value(&mut self, slot: SlotIndex, found: u64) -> Result<(), Obstacle<WcStatus>> {
        let SendBody::Scatter(sges) = self.queue.body(slot) else {
            return Err(WcStatus::LocQpOpErr.into());
        };
        let placed = self.qp_memory.scatter_bytes(sges, 0, &found.to_ne_bytes());
        self.fault_wait.resolve(placed, WcStatus::LocProtErr)
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus> {
        self.qp_memory.perform(&LocalRequest::Invalidate(rkey))
    }
}
