// SPDX-License-Identifier: GPL-2.0

//! What a machine that receives asks while it handles one packet.
//!
//! Owns how memory, receives and completions of a connected queue pair are reached, whatever its service.
//! Does not know what a packet is for.

use crate::{
    mem::{
        flush::Flush,
        page_fault::{
            AccessFailure,
            FaultWait, //
        },
        payload::PayloadSource, //
    },
    qp::{
        actions::Actions,
        engine::report,
        shared::QpShared, //
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

/// What the machine that receives needs while it handles the packet in `bytes`.
pub(crate) struct QpRecvContext<'a, B> {
    pub(crate) qp: &'a QpShared,
    pub(crate) queue: &'a mut RecvQueue,
    pub(crate) cq: &'a Cq,
    pub(crate) bytes: &'a B,
    pub(crate) actions: &'a mut Actions,
    pub(crate) fault_wait: &'a mut FaultWait,
}

impl<B: PayloadSource> RecvContext for QpRecvContext<'_, B> {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        let taken = self.queue.take()?;
        // Looked at with the receive in hand: it may have been posted because the queue pair had failed. Those of a
        // shared queue are for others, too.
        let own = self.queue.pd().is_none();
        Some(match taken {
            Ok(RecvWr { wr_id, .. }) if own && self.qp.is_failed() => Err(BadRecv {
                wr_id,
                status: WcStatus::WrFlushErr,
            }),
            taken => taken,
        })
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        let qp_memory = self.qp.qp_memory_of(self.queue.pd());
        let placed = qp_memory.scatter(self.queue.current(), offset, self.bytes, payload);
        self.fault_wait.resolve(placed, WcStatus::LocProtErr)
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        let ahead = self.fault_wait.is_first_try();
        let checked = self.qp.qp_memory().check(remote, length, access, ahead);
        self.fault_wait.resolve(checked, AccessError::Fault)
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        let placed = self
            .qp
            .qp_memory()
            .write_remote(remote, self.bytes, payload);
        self.fault_wait.resolve(placed, AccessError::Fault)
    }

    fn complete_receive(&mut self, done: Completion, solicited: bool) {
        if done.status != WcStatus::Success {
            self.actions.fail_now(self.qp);
        }
        report(self.qp, self.cq, &done, solicited, self.actions);
    }
}

impl<B: PayloadSource> RequestContext for QpRecvContext<'_, B> {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        let found = self.qp.qp_memory().atomic(remote, op);
        self.fault_wait.resolve(found, AccessError::Fault)
    }

    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        let placed = self.qp.qp_memory().write_whole(remote, self.bytes, payload);
        self.fault_wait.resolve(placed, AccessError::Fault)
    }

    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), Obstacle<AccessError>> {
        let qp_memory = self.qp.qp_memory();
        let flush = Flush {
            pd: qp_memory.pd.clone(),
            identity: qp_memory.identity,
            remote,
            scope,
            placement,
        };
        let finished = self.fault_wait.take_flushed(&flush);
        let flushed = match flush.step(qp_memory.keys, 0) {
            Ok(Some(_)) if !finished => Err(AccessFailure::Unflushed(flush)),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        };
        self.fault_wait.resolve(flushed, AccessError::Fault)
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        self.qp.qp_memory().invalidate(rkey, true)
    }
}
