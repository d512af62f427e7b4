// SPDX-License-Identifier: GPL-2.0

//! Callbacks of a message receiver (RC responder, UC receiver): take a receive WR, place payload, check an
//! rkey, complete.
//!
//! Called from a run of the receive engine, or by a local peer that owns it, in process context or softirq.

use crate::{
    mem::{
        flush::Flush,
        page_fault::{
            AccessFailure,
            FaultWaits, //
        },
        payload::PayloadSource, //
    },
    qp::{
        actions::Actions,
        engine::push_completion,
        run::QpRun, //
    },
    queue::{
        cq::Cq,
        rq::RecvQueue, //
    }, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle, //
    },
    id::Rkey,
    rc::responder::RequestContext,
    recv_context::RecvContext,
    segmentation::tx_desc::RxPayload,
    status::WcStatus,
    wr::{
        AtomicOp,
        BadRecv,
        Completion,
        FlushScope,
        Placement,
        RecvWr,
        Remote, //
    }, //
};

/// Context of one packet, whose payload is in `source`.
pub(crate) struct QpRecvContext<'a, 'g, B> {
    pub(crate) qp: &'a QpRun<'g>,
    pub(crate) queue: &'a mut RecvQueue,
    pub(crate) cq: &'a Cq,
    pub(crate) source: &'a B,
    pub(crate) actions: &'a mut Actions,
    pub(crate) waits: &'a mut FaultWaits,
    /// The engine has a response to send, whose memory may be absent as well.
    pub(crate) owes_response: bool,
}

impl<B> QpRecvContext<'_, '_, B> {
    /// Refuses an access to memory if an impairment of the port says so.
    #[inline]
    fn check_impairments(&self) -> Result<(), Obstacle<AccessError>> {
        let impairments = self.qp.port().impairments();
        match impairments.refuses_access(self.qp.number()) {
            true => Err(Obstacle::Refused(AccessError::Fault)),
            false => Ok(()),
        }
    }
}

impl<B: PayloadSource> RecvContext for QpRecvContext<'_, '_, B> {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        if self.qp.port().impairments().hides_receive(self.qp.number()) {
            return None;
        }
        let taken = self.queue.take()?;
        // Check the state after taking the receive: it may have been posted because the QP had failed.
        // Receives of an SRQ are not flushed; other QPs use them.
        let is_own_queue = self.queue.pd().is_none();
        Some(match taken {
            Ok(RecvWr { wr_id, .. }) if is_own_queue && self.qp.is_failed() => Err(BadRecv {
                wr_id,
                status: WcStatus::WrFlushErr,
            }),
            taken => taken,
        })
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        let qp_memory = self.qp.recv_memory(self.queue.pd());
        let result = qp_memory.scatter(self.queue.current(), offset, self.source, payload);
        self.waits.rx.resolve(result, WcStatus::LocProtErr)
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        self.check_impairments()?;
        let fault_around = match access == Access::REMOTE_READ {
            true => self.waits.tx.is_first_try(),
            false => self.waits.rx.is_first_try(),
        };
        let result = match self.qp.memory().check(remote, length, access, fault_around) {
            // The READ is executed; only its data waits.
            Err(AccessFailure::Absent(request)) if access == Access::REMOTE_READ => {
                if !self.owes_response {
                    self.waits.tx.fault_ahead(request);
                }
                Ok(())
            }
            result => result,
        };
        self.waits.rx.resolve(result, AccessError::Fault)
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
        left: u32,
    ) -> Result<(), Obstacle<AccessError>> {
        // A message of one packet is not checked before.
        self.check_impairments()?;
        let result = self
            .qp
            .memory()
            .write_remote(remote, self.source, payload, left);
        self.waits.rx.resolve(result, AccessError::Fault)
    }

    fn complete_receive(&mut self, done: Completion, solicited: bool) {
        if done.status != WcStatus::Success {
            self.actions.fail_now(self.qp);
        }
        push_completion(self.qp, self.cq, &done, solicited, self.actions);
    }
}

impl<B: PayloadSource> RequestContext for QpRecvContext<'_, '_, B> {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        let result = self.qp.memory().atomic(remote, op);
        self.waits.rx.resolve(result, AccessError::Fault)
    }

    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        let result = self.qp.memory().write_atomic(remote, self.source, payload);
        self.waits.rx.resolve(result, AccessError::Fault)
    }

    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), Obstacle<AccessError>> {
        let qp_memory = self.qp.memory();
        let flush = Flush {
            pd: qp_memory.pd.clone(),
            identity: qp_memory.identity,
            remote,
            scope,
            placement,
        };
        let is_flushed = self.waits.rx.take_flushed(&flush);
        let result = match flush.step(qp_memory.keys.table(), 0) {
            Ok(Some(_)) if !is_flushed => Err(AccessFailure::Unflushed(flush)),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        };
        self.waits.rx.resolve(result, AccessError::Fault)
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        self.qp.memory().invalidate(rkey, true)
    }
}
