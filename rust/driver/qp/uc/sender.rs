// SPDX-License-Identifier: GPL-2.0

//! Send engine of a UC QP.
//!
//! Passes one request at a time to the protocol state machine. A request is complete once its last packet has
//! been given to the stack, even if the stack drops it. The payload is copied, so the consumer may reuse its
//! memory then. Runs in process context or softirq, under the lock of its
//! [`Exclusive`](rdma::sync::exclusive::Exclusive).

use crate::{
    packet::path::Path,
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            push_completion,
            Engine,
            EngineCore,
            SendEngine,
            RUN_BUDGET,
            TX_LIST_LIMIT, //
        },
        gate::{
            Need,
            Policy,
            TxGate, //
        },
        run::QpRun,
        shared::QpShared,
        tx::{
            perform_local_request,
            send_request, //
        },
    },
    queue::{
        cq::Cq,
        sq::SendQueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::rx::queue::SkbQueue,
    sync::exclusive::More, //
};
use roce::{
    access::Obstacle,
    congestion::Sender,
    segmentation::tx_desc::BurstLimit,
    status::WcStatus,
    uc::sender::{
        SenderConfig,
        UcSender, //
    },
    wr::Completion, //
};

/// Send engine of a UC QP.
pub(crate) struct UcSendEngine {
    core: EngineCore,
    sender: UcSender,
    queue: SendQueue,
    gate: TxGate,
}

impl UcSendEngine {
    /// Creates the engine in RESET, as the consumer of `queue`.
    pub(crate) fn new(queue: SendQueue, cq: Arc<Cq>) -> Self {
        Self {
            core: EngineCore::new(cq),
            sender: UcSender::new(),
            queue,
            gate: TxGate::new(&Policy::IN_ORDER),
        }
    }

    /// Returns the protocol state machine, for `query_qp`.
    pub(crate) fn sender(&self) -> &UcSender {
        &self.sender
    }

    /// Goes to RTS, with `path` to the peer.
    pub(crate) fn start(&mut self, path: KBox<Path>, qp: &QpShared, config: &SenderConfig) {
        self.core.start(path, qp);
        self.gate.start(qp.port().congestion_algorithm());
        self.sender.configure(config);
        self.sender.start();
    }

    /// Sends or flushes posted requests, up to the budget and `limit`. Returns whether there may be more.
    fn process(&mut self, qp: &QpRun<'_>, limit: BurstLimit, actions: &mut Actions) -> More {
        let mut limit = limit;
        for _ in 0..RUN_BUDGET {
            if !self.sender.is_busy() && !self.fetch(qp) {
                return More::No;
            }
            self.sender
                .perform_local(|slot| perform_local_request(qp, self.queue.body(slot)));
            match self.transmit(qp, &mut limit) {
                Ok(()) => {}
                Err(Obstacle::Absent) => {
                    self.sender.unsend();
                    return More::No;
                }
                Err(Obstacle::Refused(status)) => self.sender.abort(status),
            }
            let Some(retired) = self.sender.poll_completion() else {
                // The request exceeds the budget.
                return More::Yes;
            };
            // Before the completion is visible: the consumer that sees it may post into this entry at once.
            self.queue.release(1);
            self.core
                .count_sent(retired.opcode, retired.status, retired.length());
            if let Some(done) = retired.completion() {
                self.report(qp, &done, actions);
            }
        }
        More::Yes
    }

    /// Passes the next request to the protocol state machine. Returns false if there is none, or the state
    /// machine accepts none.
    fn fetch(&mut self, qp: &QpRun<'_>) -> bool {
        if !self.sender.accepts_requests() {
            return false;
        }
        match self.queue.take_request() {
            None => return false,
            Some((slot, Ok(wr))) => self.sender.post(slot, wr),
            Some((slot, Err(rejected))) => {
                self.sender
                    .reject(slot, rejected.wr_id, rejected.opcode(), rejected.status);
            }
        }
        // Check the state after taking the request: it may have been posted because the QP had failed.
        if qp.flushes_sends() {
            self.sender.fail();
        }
        true
    }

    /// Sends packets of the current request, up to `limit`.
    fn transmit(
        &mut self,
        qp: &QpRun<'_>,
        limit: &mut BurstLimit,
    ) -> Result<(), Obstacle<WcStatus>> {
        let EngineCore { path, waits, .. } = &mut self.core;
        let Some(path) = path else {
            return Ok(());
        };
        let mtu = self.sender.path_mtu();
        let (queue, gate) = (&self.queue, &mut self.gate);
        self.sender.burst(limit).try_for_each(|desc| {
            gate.on_sent(desc.packets, desc.length);
            let desc_and_mtu = (&desc, mtu);
            send_request(desc_and_mtu, queue, path, qp, &mut waits.tx)
                .map_err(|unsent| unsent.reason)
        })
    }

    fn report(&self, qp: &QpRun<'_>, done: &Completion, actions: &mut Actions) {
        if !matches!(done.status, WcStatus::Success | WcStatus::WrFlushErr) {
            qp.fail_sends();
        }
        push_completion(qp, &self.core.cq, done, false, actions);
    }
}

impl Engine for UcSendEngine {
    const HAS_PEER: bool = true;

    #[inline]
    fn core(&self) -> &EngineCore {
        &self.core
    }

    #[inline]
    fn core_mut(&mut self) -> &mut EngineCore {
        &mut self.core
    }

    fn work(&mut self, qp: &QpRun<'_>, _: (&SkbQueue, More), actions: &mut Actions) -> More {
        // An engine that sends nothing must not arm the timer either: in RESET, nothing would cancel it again.
        if self.core.waits.tx.is_waiting() || !(qp.flushes_sends() || qp.accepts_sends()) {
            return More::No;
        }
        let limit = if qp.flushes_sends() {
            self.sender.fail();
            // It sends nothing, so it does not wait.
            Some(TX_LIST_LIMIT)
        } else if !self.sender.is_busy() && !self.queue.has_next() {
            // Without a request to send, the gate must not have the engine woken.
            None
        } else {
            let answer = self.gate.admit(qp, (Need::Room, TX_LIST_LIMIT), None);
            answer.record(actions)
        };
        let Some(limit) = limit else {
            return More::No;
        };
        let more = self.process(qp, limit, actions);
        let sends = self.sender.take_sends();
        qp.port()
            .counters()
            .count_all(&[(Counter::SendsCompleted, sends)]);
        if let Some(path) = &mut self.core.path {
            path.transmit_pending(qp.tx());
            self.gate.on_transmit(path.take_congested());
        }
        more
    }

    fn congestion(&mut self) -> Option<&mut Sender> {
        Some(self.gate.sender())
    }

    fn is_drained(&self) -> bool {
        self.sender.is_drained()
    }

    fn send_queue(&mut self) -> Option<&mut SendQueue> {
        Some(&mut self.queue)
    }

    fn reset(&mut self) {
        self.queue.clear();
        self.sender.reset();
        self.gate.reset();
    }
}

impl SendEngine for UcSendEngine {
    fn drain(&mut self) {
        self.sender.drain();
    }

    fn resume(&mut self) {
        self.sender.resume();
    }
}
