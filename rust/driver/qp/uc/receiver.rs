// SPDX-License-Identifier: GPL-2.0

//! Receive engine of a UC QP.
//!
//! Drops and counts packets that are not from the peer or cannot be processed; nothing is reported to the
//! peer. Runs in process context or softirq, under the lock of its
//! [`Exclusive`](rdma::sync::exclusive::Exclusive).

use crate::{
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            push_completion,
            Engine,
            EngineCore, //
        },
        recv_context::QpRecvContext,
        run::QpRun,
        rx::flush_receives, //
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
        packet::RxPacket,
        queue::SkbQueue, //
    },
    sync::exclusive::More, //
};
use roce::{
    access::Taken,
    status::DropReason,
    uc::receiver::UcReceiver,
    wire::packet::Packet, //
};

/// Receive engine of a UC QP.
pub(crate) struct UcRecvEngine {
    core: EngineCore,
    receiver: UcReceiver,
    queue: RecvQueue,
}

impl UcRecvEngine {
    /// Creates the engine in RESET.
    pub(crate) fn new(queue: RecvQueue, cq: Arc<Cq>) -> Self {
        Self {
            core: EngineCore::new(cq),
            receiver: UcReceiver::new(),
            queue,
        }
    }

    /// Returns the protocol state machine, for `modify_qp`.
    pub(crate) fn receiver(&mut self) -> &mut UcReceiver {
        &mut self.receiver
    }

    /// Completes receives, started or not, with a flush error. Returns whether there may be more.
    fn flush(&mut self, qp: &QpRun<'_>, actions: &mut Actions) -> More {
        self.receiver.fail();
        if let Some(done) = self.receiver.flush_receive() {
            self.core.count_received(done.status, 0);
            push_completion(qp, &self.core.cq, &done, true, actions);
        }
        flush_receives(qp, &self.core, &mut self.queue, actions)
    }
}

impl Engine for UcRecvEngine {
    const HAS_PEER: bool = true;

    #[inline]
    fn core(&self) -> &EngineCore {
        &self.core
    }

    #[inline]
    fn core_mut(&mut self) -> &mut EngineCore {
        &mut self.core
    }

    fn handle(
        &mut self,
        qp: &QpRun<'_>,
        (packet, source): (&Packet<'_>, &RxPacket<'_>),
        actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        if qp.had_failed() {
            return Err(DropReason::WrongQpState);
        }
        let mut context = QpRecvContext {
            qp,
            queue: &mut self.queue,
            cq: &self.core.cq,
            counters: self.core.counters.as_deref(),
            source,
            actions,
            waits: &mut self.core.waits,
            owes_response: false,
            xrc: None,
        };
        let taken = self.receiver.handle_request(packet, &mut context);
        match taken {
            Ok(Taken::Whole) => self.core.on_request(qp, actions),
            Ok(Taken::Paused) => {}
            // Another packet takes its place.
            Err(_) => self.core.waits.rx.progress(),
        }
        taken
    }

    fn work(&mut self, qp: &QpRun<'_>, _: (&SkbQueue, More), actions: &mut Actions) -> More {
        if qp.had_failed() {
            return self.flush(qp, actions);
        }
        let receives = self.receiver.take_receives();
        qp.port()
            .counters()
            .count_all(&[(Counter::RecvsCompleted, receives)]);
        if self.receiver.take_failure() {
            actions.fail(None);
        }
        More::No
    }

    fn reset(&mut self) {
        self.queue.clear();
        self.receiver.reset();
    }
}
