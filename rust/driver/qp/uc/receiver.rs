// SPDX-License-Identifier: GPL-2.0

//! The half of an unreliable connected queue pair that receives.
//!
//! Owns where receives come from, and the address of the peer. What is not for us or cannot be carried
//! out is dropped and counted; nobody is told.

use crate::{
    mem::page_fault::FaultWait,
    packet::path::Path,
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            flush_receives,
            refuse_packets,
            report,
            take_from_peer,
            Engine, //
        },
        recv_context::QpRecvContext,
        shared::QpShared, //
    },
    queue::{
        cq::Cq,
        rq::RecvQueue, //
    }, //
};
use kernel::sync::Arc;
use rdma::{
    net::rx::queue::SkbQueue,
    sync::exclusive::More, //
};
use roce::{
    access::Taken,
    uc::receiver::UcReceiver, //
};

/// The half that receives.
pub(crate) struct UcRecvEngine {
    receiver: UcReceiver,
    receives: RecvQueue,
    cq: Arc<Cq>,
    path: Option<Path>,
    /// A packet of the peer has been taken.
    met: bool,
    fault_wait: FaultWait,
}

impl UcRecvEngine {
    /// The half in RESET.
    pub(crate) fn new(receives: RecvQueue, cq: Arc<Cq>) -> Self {
        Self {
            receiver: UcReceiver::new(),
            receives,
            cq,
            path: None,
            met: false,
            fault_wait: FaultWait::default(),
        }
    }

    /// The protocol machine, for `modify_qp`.
    pub(crate) fn receiver(&mut self) -> &mut UcReceiver {
        &mut self.receiver
    }

    /// Sets who the peer is.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = Some(path);
    }

    /// Completes receives, begun or not, with a flush error. Says whether there may be more.
    fn flush(&mut self, qp: &QpShared, actions: &mut Actions) -> More {
        self.receiver.fail();
        if let Some(done) = self.receiver.abandon() {
            report(qp, &self.cq, &done, true, actions);
        }
        flush_receives(qp, &self.cq, &mut self.receives, actions)
    }
}

impl Engine for UcRecvEngine {
    fn run(&mut self, qp: &QpShared, inbox: &SkbQueue, actions: &mut Actions) -> More {
        if qp.is_failed() {
            let refused = refuse_packets(qp, inbox);
            return refused.or(self.flush(qp, actions));
        }
        let again = take_from_peer(qp, inbox, self.path.as_ref(), |run, packet| {
            let mut host = QpRecvContext {
                qp,
                queue: &mut self.receives,
                cq: &self.cq,
                bytes: &*run,
                actions,
                fault_wait: &mut self.fault_wait,
            };
            let taken = self.receiver.handle(packet, &mut host);
            if taken != Ok(Taken::Paused) {
                self.fault_wait.progress();
            }
            if taken == Ok(Taken::Whole) {
                actions.established |= !self.met && qp.only_receives();
                self.met = true;
            }
            taken
        });
        let receives = self.receiver.take_receives();
        qp.port()
            .counters()
            .count_all(&[(Counter::RecvQueue, receives)]);
        if self.receiver.take_failure() {
            actions.fail(None);
        }
        again
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.receives.clear();
        self.receiver.reset();
        self.path = None;
        self.met = false;
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
