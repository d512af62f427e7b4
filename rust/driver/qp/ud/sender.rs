// SPDX-License-Identifier: GPL-2.0

//! Send engine of a UD QP: sends each request as one packet.
//!
//! A request is complete once its packet has been given to the stack, even if the stack drops it. So requests
//! of ULPs are copied out of their queue one at a time. Runs in process context or softirq, under the lock of
//! its [`Exclusive`](rdma::sync::exclusive::Exclusive).

use crate::{
    abi::wqe::{
        RejectedWqe,
        WqeSge, //
    },
    mem::page_fault::FaultWait,
    packet::path::Path,
    port::{
        ah::Ah,
        counters::Counter, //
    },
    qp::{
        actions::Actions,
        engine::{
            push_completion,
            Engine,
            EngineCore,
            SendEngine,
            RUN_BUDGET, //
        },
        run::QpRun,
        tx::append_body,
        tx_limit::TxLimit, //
    },
    queue::{
        cq::Cq,
        posted_sends::PostedSends,
        sq::{
            SendBody,
            SendQueue, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::rx::queue::SkbQueue,
    sync::{
        exclusive::More,
        read_section::ReadSection, //
    }, //
};
use roce::{
    access::Obstacle,
    id::{
        Pkey,
        Qkey,
        Qpn, //
    },
    psn::Psn,
    segmentation::tx_desc::SlotIndex,
    status::WcStatus,
    ud::{
        self,
        DatagramWr, //
    },
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// Source of requests.
pub(crate) enum UdRequests {
    /// The ring of a process.
    Ring(SendQueue),
    /// Requests posted by a ULP.
    Posted(UdPostedSends),
}

/// A datagram that a ULP has posted.
pub(crate) struct PostedDatagram {
    /// The work request.
    pub(crate) wr: DatagramWr,
    /// The address handle. `None`: this is no datagram, and was posted in ERR to be flushed.
    pub(crate) ah: Option<Arc<Ah>>,
}

/// Requests posted by a ULP, with a buffer for the scatter list or inline data of one.
pub(crate) struct UdPostedSends {
    posted: Arc<PostedSends<PostedDatagram>>,
    buffer: KVVec<WqeSge>,
}

impl UdPostedSends {
    /// Creates the consumer of `posted`, whose requests have up to `max_sge` entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(posted: Arc<PostedSends<PostedDatagram>>, max_sge: u32) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let buffer = KVVec::from_elem(WqeSge::default(), max_sge as usize, GFP_KERNEL)?;
        Ok(Self { posted, buffer })
    }
}

/// Send engine of a UD QP.
pub(crate) struct UdSendEngine {
    core: EngineCore,
    requests: UdRequests,
    qkey: Qkey,
    psn: Psn,
    /// Request that waits for a page fault, with the number of its address handle and its slot.
    waiting: Option<(DatagramWr, u32, SlotIndex)>,
    tx_limit: TxLimit,
}

impl UdSendEngine {
    /// Creates the engine in RESET.
    pub(crate) fn new(requests: UdRequests, cq: Arc<Cq>) -> Self {
        Self {
            core: EngineCore::new(cq),
            requests,
            qkey: Qkey::new(0),
            psn: Psn::new(0),
            waiting: None,
            tx_limit: TxLimit::default(),
        }
    }

    /// Sets the Q_Key of the QP, which replaces a Q_Key of a request that has the most significant bit set.
    pub(crate) fn set_qkey(&mut self, qkey: Qkey) {
        self.qkey = qkey;
    }

    /// Returns the PSN of the next datagram.
    pub(crate) fn psn(&self) -> Psn {
        self.psn
    }

    /// Sets the PSN of the next datagram.
    pub(crate) fn set_psn(&mut self, psn: Psn) {
        self.psn = psn;
    }

    /// Sends or flushes the oldest request. `None`: there is none, or it waits for a page fault.
    fn send_next(&mut self, qp: &QpRun<'_>) -> Option<Result<DatagramWr, (u64, WcStatus)>> {
        let mut tx = UdTx {
            qp,
            qkey: self.qkey,
            psn: &mut self.psn,
            fault_wait: &mut self.core.waits.tx,
            tx_limit: &mut self.tx_limit,
        };
        Some(match &mut self.requests {
            UdRequests::Ring(queue) => {
                let taken = match self.waiting.take() {
                    Some(waiting) => Ok(waiting),
                    None => queue.take_datagram()?,
                };
                // Check the state after taking the request: it may have been posted because the QP had
                // failed.
                let flushes = qp.flushes_sends();
                let sent = match taken {
                    Ok((DatagramWr { wr_id, .. }, ..)) | Err(RejectedWqe { wr_id, .. })
                        if flushes =>
                    {
                        Err((wr_id, WcStatus::WrFlushErr))
                    }
                    Err(rejected) => Err((rejected.wr_id, rejected.status)),
                    Ok((wr, ah_number, slot)) => {
                        match tx.send_from(queue.body(slot), &wr, ah_number) {
                            Ok(()) => Ok(wr),
                            Err(Obstacle::Refused(status)) => Err((wr.wr_id, status)),
                            Err(Obstacle::Absent) => {
                                self.waiting = Some((wr, ah_number, slot));
                                return None;
                            }
                        }
                    }
                };
                queue.release(1);
                sent
            }
            UdRequests::Posted(posted) => {
                let (PostedDatagram { wr, ah }, body) = posted.posted.take(&mut posted.buffer)?;
                let ah = match ah {
                    Some(ah) if !qp.flushes_sends() => ah,
                    _ => return Some(Err((wr.wr_id, WcStatus::WrFlushErr))),
                };
                match tx.send(SendBody::new(&body, &posted.buffer), &wr, &ah) {
                    Ok(()) => Ok(wr),
                    Err(Obstacle::Refused(status)) => Err((wr.wr_id, status)),
                    // Kernel memory is never absent.
                    Err(Obstacle::Absent) => Err((wr.wr_id, WcStatus::LocProtErr)),
                }
            }
        })
    }

    fn report(
        &self,
        qp: &QpRun<'_>,
        sent: Result<DatagramWr, (u64, WcStatus)>,
        actions: &mut Actions,
    ) {
        if sent.is_ok() {
            qp.port().counters().count(Counter::SendsCompleted);
        }
        let done = match sent {
            Ok(wr) if !wr.signaled => return,
            Ok(wr) => Completion {
                wr_id: wr.wr_id,
                status: WcStatus::Success,
                opcode: WcOpcode::Send,
                byte_len: wr.length,
                imm: None,
                invalidated: None,
            },
            Err((wr_id, status)) => {
                if status != WcStatus::WrFlushErr {
                    qp.fail_sends();
                }
                Completion::failed(wr_id, WcOpcode::Send, status)
            }
        };
        push_completion(qp, &self.core.cq, &done, false, actions);
    }
}

impl Engine for UdSendEngine {
    const HAS_PEER: bool = false;

    #[inline]
    fn core(&self) -> &EngineCore {
        &self.core
    }

    #[inline]
    fn core_mut(&mut self) -> &mut EngineCore {
        &mut self.core
    }

    fn work(&mut self, qp: &QpRun<'_>, _: (&SkbQueue, More), actions: &mut Actions) -> More {
        if !qp.processes_sends() || self.core.waits.tx.is_waiting() {
            return More::No;
        }
        for _ in 0..RUN_BUDGET {
            if !qp.flushes_sends() && self.tx_limit.must_wait(qp, actions) {
                return More::No;
            }
            let Some(sent) = self.send_next(qp) else {
                return More::No;
            };
            self.report(qp, sent, actions);
        }
        More::Yes
    }

    fn reset(&mut self) {
        self.waiting = None;
        match &mut self.requests {
            UdRequests::Ring(queue) => queue.clear(),
            UdRequests::Posted(posted) => posted.posted.clear(),
        }
    }
}

impl SendEngine for UdSendEngine {}

/// State needed to send one datagram.
struct UdTx<'a, 'g> {
    qp: &'a QpRun<'g>,
    qkey: Qkey,
    psn: &'a mut Psn,
    fault_wait: &'a mut FaultWait,
    tx_limit: &'a mut TxLimit,
}

impl UdTx<'_, '_> {
    /// Sends a datagram of a process, with the address handle of this number.
    fn send_from(
        &mut self,
        body: SendBody<'_>,
        wr: &DatagramWr,
        ah_number: u32,
    ) -> Result<(), Obstacle<WcStatus>> {
        let ah = {
            let guard = ReadSection::enter();
            let ah = self.qp.port().ahs().borrow(ah_number, &guard);
            ah.map(Arc::from)
        };
        let ah = ah.filter(|ah| ah.belongs_to(self.qp.pd()));
        let ah = ah.ok_or(WcStatus::LocQpOpErr)?;
        self.send(body, wr, &ah)
    }

    /// Sends a datagram. The service does not recover from loss.
    ///
    /// # Errors
    ///
    /// The status that completes the request, or [`Obstacle::Absent`] if its memory is absent.
    fn send(
        &mut self,
        body: SendBody<'_>,
        wr: &DatagramWr,
        ah: &Ah,
    ) -> Result<(), Obstacle<WcStatus>> {
        let port = self.qp.port();
        if wr.length > port.active_mtu().bytes() {
            return Err(WcStatus::LocLenErr.into());
        }
        let source = ud::UdSender {
            qpn: Qpn::new(self.qp.number()),
            qkey: self.qkey,
            pkey: Pkey::DEFAULT,
        };
        let headers = ud::headers(wr, source, *self.psn).ok_or(WcStatus::LocQpOpErr)?;
        let path = Path::new(&ah.attr(), port, (self.qp.number(), wr.remote_qpn.get()));
        let mut path = path.map_err(|_| WcStatus::LocQpOpErr)?;
        path.count_in(self.qp.tx_inflight());
        // CAST: At most 4096.
        let len = wr.length as usize;
        let Some(mut tx_packet) = path.tx_packet(&headers.emit(len), len) else {
            port.counters().not_sent(1);
            return Ok(());
        };
        let appended = append_body(&mut tx_packet, self.qp, body, 0, wr.length, self.fault_wait)?;
        *self.psn = self.psn.next();
        if !appended {
            port.counters().not_sent(1);
            return Ok(());
        }
        path.send(self.qp.tx(), tx_packet);
        path.transmit_pending(self.qp.tx());
        self.tx_limit.on_transmit(path.take_congested());
        Ok(())
    }
}
