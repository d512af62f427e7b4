// SPDX-License-Identifier: GPL-2.0

//! Callbacks of a message receiver (RC responder, UC receiver): take a receive WR, place payload, check an
//! rkey, complete.
//!
//! Called from a run of the receive engine, or by a local peer that owns it, in process context or softirq.

use crate::{
    mem::{
        flush::Flush,
        page_fault::FaultWaits,
        payload::PayloadSource,
        sg_access::QpMemory, //
    },
    qp::{
        actions::Actions,
        engine::{
            push_completion,
            push_srq_completion, //
        },
        run::QpRun, //
    },
    queue::{
        comp_cntr::AttachedCntrs,
        cq::Cq,
        rq::RecvQueue,
        srq::Srq,
        xrcd::Xrcd, //
    }, //
};
use kernel::sync::Arc;
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle, //
    },
    id::{
        Rkey,
        Srqn, //
    },
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
    /// The completion counters of the QP.
    pub(crate) counters: Option<&'a AttachedCntrs>,
    pub(crate) source: &'a B,
    pub(crate) actions: &'a mut Actions,
    pub(crate) waits: &'a mut FaultWaits,
    /// The engine has a response to send, whose memory may be absent as well.
    pub(crate) owes_response: bool,
    /// XRC: the domain of the QP, and the SRQ that the packet is for.
    pub(crate) xrc: Option<(&'a Arc<Xrcd>, Option<&'a Srq>)>,
}

impl<'a, 'g, B> QpRecvContext<'a, 'g, B> {
    /// Returns the SRQ that the packet names.
    #[inline]
    fn named_srq(&self) -> Option<&'a Srq> {
        self.xrc.and_then(|(_, srq)| srq)
    }

    /// Returns the memory that the peer can access.
    #[inline]
    fn remote_memory(&self) -> QpMemory<'a, 'g> {
        self.qp.recv_memory(self.named_srq().map(Srq::pd))
    }

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
        let taken = match self.named_srq() {
            Some(srq) => return self.queue.take_from(srq),
            None => self.queue.take()?,
        };
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
        let (sges, payload) = (self.queue.current(), (self.source, payload));
        let pd = self.named_srq().map(Srq::pd).or(self.queue.pd());
        self.qp
            .recv_memory(pd)
            .scatter(sges, offset, payload, &mut self.waits.rx)
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        self.check_impairments()?;
        let is_read = access == Access::REMOTE_READ;
        let fault_around = match is_read {
            true => self.waits.tx.is_first_try(),
            false => self.waits.rx.is_first_try(),
        };
        let qp_memory = self.remote_memory();
        match qp_memory.check(remote, length, access, fault_around)? {
            None => {}
            // The READ is executed; only its data waits.
            Some(request) if is_read => {
                if !self.owes_response {
                    self.waits.tx.fault_ahead(request);
                }
            }
            Some(request) => return Err(self.waits.rx.absent(request, AccessError::Fault)),
        }
        Ok(())
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
        left: u32,
    ) -> Result<(), Obstacle<AccessError>> {
        // A message of one packet is not checked before.
        self.check_impairments()?;
        self.remote_memory().write_remote(
            (remote, left),
            (self.source, payload),
            &mut self.waits.rx,
        )
    }

    fn on_written(&mut self, length: u32) {
        if let Some(counters) = self.counters {
            counters.on_written(length);
        }
    }

    fn complete_receive(&mut self, done: Completion, solicited: bool) {
        if done.status != WcStatus::Success {
            self.actions.fail_now(self.qp);
        }
        if let Some(counters) = self.counters {
            counters.on_received(done.status, done.byte_len);
        }
        match self.named_srq().and_then(Srq::cq) {
            Some(cq) => push_srq_completion(self.qp, cq, (&done, solicited), self.actions),
            None => push_completion(self.qp, self.cq, &done, solicited, self.actions),
        }
    }
}

impl<B: PayloadSource> RequestContext for QpRecvContext<'_, '_, B> {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        self.remote_memory().atomic(remote, op, &mut self.waits.rx)
    }

    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        let payload = (self.source, payload);
        self.remote_memory()
            .write_atomic(remote, payload, &mut self.waits.rx)
    }

    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), Obstacle<AccessError>> {
        let qp_memory = self.remote_memory();
        let flush = Flush {
            pd: qp_memory.pd.clone(),
            identity: qp_memory.identity,
            remote,
            scope,
            placement,
        };
        let is_flushed = self.waits.rx.take_flushed(&flush);
        match flush.step(qp_memory.keys.table(), 0)? {
            Some(_) if !is_flushed => Err(self.waits.rx.unflushed(flush, AccessError::Fault)),
            _ => Ok(()),
        }
    }

    fn select_srq(&mut self, srqn: Srqn) -> bool {
        let Some((xrcd, srq)) = &mut self.xrc else {
            return false;
        };
        *srq = self.qp.srq(xrcd, srqn);
        srq.is_some()
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        self.remote_memory().invalidate(rkey, true)
    }
}
