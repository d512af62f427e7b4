// SPDX-License-Identifier: GPL-2.0

//! The half of an unreliable connected queue pair that sends.
//!
//! Owns the send queue and the way to the peer, and hands one request after the other to the protocol
//! machine. A request is done with when its last packet has been given to the network, whatever
//! becomes of it there; so payload is copied, and its owner may change it at once.

use crate::{
    mem::page_fault::FaultWait,
    packet::path::Path,
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            perform,
            report,
            send_request,
            Engine,
            SendEngine,
            RX_BATCH_PACKETS,
            TX_BURST, //
        },
        shared::QpShared,
        tx_limit::TxLimit, //
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
    ib::qp_attr::IbQpState,
    net::rx::queue::SkbQueue,
    sync::exclusive::More, //
};
use roce::{
    access::Obstacle,
    segmentation::tx_desc::BurstLimit,
    status::WcStatus,
    uc::sender::{
        SenderConfig, //
        UcSender,
    },
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// The half that sends.
pub(crate) struct UcSendEngine {
    sender: UcSender,
    queue: SendQueue,
    cq: Arc<Cq>,
    path: Option<Path>,
    /// The consumer wants to know when the queue has drained.
    tell_drained: bool,
    fault_wait: FaultWait,
    tx_limit: TxLimit,
}

impl UcSendEngine {
    /// The half in RESET, consuming `queue`.
    pub(crate) fn new(queue: SendQueue, cq: Arc<Cq>) -> Self {
        Self {
            sender: UcSender::new(),
            queue,
            cq,
            path: None,
            tell_drained: false,
            fault_wait: FaultWait::default(),
            tx_limit: TxLimit::in_order(),
        }
    }

    /// The protocol machine, for `query_qp`.
    pub(crate) fn sender(&self) -> &UcSender {
        &self.sender
    }

    /// Sets the way to the peer.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = Some(path);
    }

    /// Goes to RTS, over `path`.
    pub(crate) fn start(&mut self, path: Path, config: &SenderConfig) {
        self.set_path(path);
        self.sender.configure(config);
        self.sender.start();
    }

    /// Sends or flushes what was posted, as far as the budget goes. Says whether there may be more.
    fn work(&mut self, qp: &QpShared, actions: &mut Actions) -> More {
        let mut limit = TX_BURST;
        for _ in 0..RX_BATCH_PACKETS {
            if !self.sender.is_busy() && !self.fetch(qp) {
                return More::No;
            }
            self.sender
                .perform_local(|slot| perform(qp, self.queue.body(slot)));
            match self.transmit(qp, &mut limit) {
                Ok(()) => {}
                Err(Obstacle::Absent) => {
                    self.sender.unsend();
                    return More::No;
                }
                Err(Obstacle::Refused(status)) => self.sender.abort(status),
            }
            let Some(done) = self.sender.poll_completion() else {
                // There was more of it than the budget allows.
                return More::Yes;
            };
            // Before the completion is visible: who sees it may post at once, into this element.
            self.queue.release(1);
            if let Some(done) = done {
                self.report(qp, &done, actions);
            }
        }
        More::Yes
    }

    /// Hands the next request to the protocol machine. `false`: there is none, or it takes none.
    fn fetch(&mut self, qp: &QpShared) -> bool {
        if !self.sender.takes() {
            return false;
        }
        match self.queue.take_request() {
            None => return false,
            Some((slot, Ok(wr))) => self.sender.post(slot, wr),
            Some((slot, Err(refused))) => {
                self.sender
                    .reject(slot, refused.wr_id, WcOpcode::Send, refused.status);
            }
        }
        // Looked at with the request in hand: it may have been posted because the queue pair had failed.
        if qp.flushes_sends() {
            self.sender.fail();
        }
        true
    }

    /// Sends packets of the request at hand, as far as `limit` goes.
    fn transmit(
        &mut self,
        qp: &QpShared,
        limit: &mut BurstLimit,
    ) -> Result<(), Obstacle<WcStatus>> {
        let Some(path) = &mut self.path else {
            return Ok(());
        };
        let mtu = self.sender.path_mtu();
        let Self {
            queue, fault_wait, ..
        } = self;
        self.sender.burst(limit).try_for_each(|segment| {
            let single = (&segment, mtu);
            send_request(single, queue, path, qp, fault_wait).map_err(|unsent| unsent.why)
        })
    }

    fn report(&self, qp: &QpShared, done: &Completion, actions: &mut Actions) {
        if !matches!(done.status, WcStatus::Success | WcStatus::WrFlushErr) {
            qp.fail_sends();
        }
        report(qp, &self.cq, done, false, actions);
    }
}

impl Engine for UcSendEngine {
    fn run(&mut self, qp: &QpShared, _inbox: &SkbQueue, actions: &mut Actions) -> More {
        if qp.flushes_sends() {
            self.sender.fail();
        } else if !qp.takes_sends() || self.tx_limit.holds(qp, actions) {
            // Who sends nothing must not wait for anything, either: in RESET, nobody stops the timer again.
            return More::No;
        }
        let again = self.work(qp, actions);
        let sends = self.sender.take_sends();
        qp.port().counters().count_all(&[(Counter::Sends, sends)]);
        if let Some(path) = &mut self.path {
            path.flush(qp.way());
            self.tx_limit.sent(path.take_refused());
        }
        // Not before the state says so, which it does soon.
        if self.tell_drained && qp.state() == IbQpState::Sqd && self.sender.is_drained() {
            self.tell_drained = false;
            actions.drained = true;
        }
        again
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.queue.clear();
        self.sender.reset();
        self.path = None;
        self.tell_drained = false;
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

impl SendEngine for UcSendEngine {
    fn init(&mut self) {}

    fn drain(&mut self, notify: bool) {
        self.sender.drain();
        self.tell_drained = notify;
    }

    fn resume(&mut self) {
        self.sender.resume();
        self.tell_drained = false;
    }
}
