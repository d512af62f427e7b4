// SPDX-License-Identifier: GPL-2.0

//! Receive engine of a UC QP.
//!
//! Drops and counts packets that are not from the peer or cannot be processed; nothing is reported to the
//! peer. Runs in process context or softirq, under the lock of its
//! [`Exclusive`](rdma::sync::exclusive::Exclusive).

use crate::{
    mem::page_fault::FaultWaits,
    packet::path::Path,
    port::counters::Counter,
    qp::{
        actions::Actions,
        congestion::{
            notify_peer,
            on_cnp, //
        },
        engine::{
            push_completion,
            Engine, //
        },
        recv_context::QpRecvContext,
        run::QpRun, //
        rx::{
            drop_packets,
            flush_receives,
            process_from_peer,
            Handled, //
        },
    },
    queue::{
        cq::Cq,
        rq::RecvQueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::rx::{
        coalesced::CoalescedPackets,
        queue::SkbQueue, //
    },
    sync::exclusive::More, //
};
use roce::{
    access::Taken,
    uc::receiver::UcReceiver,
    wire::{
        opcode::Opcode,
        packet::Packet, //
    }, //
};

/// Receive engine of a UC QP.
pub(crate) struct UcRecvEngine {
    receiver: UcReceiver,
    queue: RecvQueue,
    cq: Arc<Cq>,
    path: Option<KBox<Path>>,
    /// A packet of the peer was processed.
    peer_seen: bool,
    waits: FaultWaits,
}

impl UcRecvEngine {
    /// Creates the engine in RESET.
    pub(crate) fn new(queue: RecvQueue, cq: Arc<Cq>) -> Self {
        Self {
            receiver: UcReceiver::new(),
            queue,
            cq,
            path: None,
            peer_seen: false,
            waits: FaultWaits::default(),
        }
    }

    /// Returns the protocol state machine, for `modify_qp`.
    pub(crate) fn receiver(&mut self) -> &mut UcReceiver {
        &mut self.receiver
    }

    /// Sets the path to the peer, whose address received packets must have.
    pub(crate) fn set_path(&mut self, path: KBox<Path>) {
        self.path = Some(path);
    }

    /// Completes receives, started or not, with a flush error. Returns whether there may be more.
    fn flush(&mut self, qp: &QpRun<'_>, actions: &mut Actions) -> More {
        self.receiver.fail();
        if let Some(done) = self.receiver.flush_receive() {
            push_completion(qp, &self.cq, &done, true, actions);
        }
        flush_receives(qp, &self.cq, &mut self.queue, actions)
    }
}

impl Engine for UcRecvEngine {
    fn run(&mut self, qp: &QpRun<'_>, inbox: &SkbQueue, actions: &mut Actions) -> More {
        if qp.is_failed() {
            let dropped = drop_packets(qp, inbox);
            return dropped.or(self.flush(qp, actions));
        }
        let is_waiting = self.waits.rx.is_waiting();
        let handler = |coalesced: &mut CoalescedPackets<'_>, packet: &Packet<'_>| {
            if packet.opcode() == Opcode::CNP {
                return Ok(on_cnp(qp));
            }
            if packet.packets() > 1 {
                return Ok(Handled::MustSplit);
            }
            let mut context = QpRecvContext {
                qp,
                queue: &mut self.queue,
                cq: &self.cq,
                source: &*coalesced,
                actions,
                waits: &mut self.waits,
                owes_response: false,
            };
            let taken = self.receiver.handle_request(packet, &mut context);
            if taken != Ok(Taken::Paused) {
                self.waits.rx.progress();
            }
            if taken == Ok(Taken::Whole) {
                actions.established |= !self.peer_seen && qp.is_before_rts();
                self.peer_seen = true;
            }
            taken.map(Handled::from)
        };
        let more = match is_waiting {
            true => More::No,
            false => process_from_peer(qp, inbox, self.path.as_deref(), handler),
        };
        notify_peer(qp, self.path.as_deref_mut());
        let receives = self.receiver.take_receives();
        qp.port()
            .counters()
            .count_all(&[(Counter::RecvsCompleted, receives)]);
        if self.receiver.take_failure() {
            actions.fail(None);
        }
        more
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.queue.clear();
        self.receiver.reset();
        self.path = None;
        self.peer_seen = false;
    }

    fn path(&mut self) -> Option<&mut Path> {
        self.path.as_deref_mut()
    }

    fn waits(&mut self) -> &mut FaultWaits {
        &mut self.waits
    }

    fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }
}
