// SPDX-License-Identifier: GPL-2.0

//! The half of a datagram queue pair that sends.
//!
//! Owns where requests come from, and turns each into one packet. A datagram is done with when it
//! has been given to the network, whatever becomes of it there. So of what consumers in the kernel post,
//! one is copied out of their queue at a time.

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
            append_body,
            report,
            Engine,
            SendEngine,
            RX_BATCH_PACKETS, //
        },
        shared::QpShared,
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
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::{
    ib::qp_attr::IbQpState,
    net::rx::queue::SkbQueue,
    sync::exclusive::More, //
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

/// Where requests come from.
pub(crate) enum UdRequests {
    /// A ring of a process.
    Ring(SendQueue),
    /// Posts of a consumer in the kernel.
    Posted(Posted),
}

/// A datagram that a consumer in the kernel has posted.
pub(crate) struct PostedDatagram {
    /// The request.
    pub(crate) wr: DatagramWr,
    /// Where it goes.
    pub(crate) ah: Arc<Ah>,
}

/// Posts of a consumer in the kernel, and room for the scatter list or the data of one.
pub(crate) struct Posted {
    posts: Arc<PostedSends<PostedDatagram>>,
    room: KVVec<WqeSge>,
}

impl Posted {
    /// The consuming end of `posts`, which have up to `max_sge` entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(posts: Arc<PostedSends<PostedDatagram>>, max_sge: u32) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let room = KVVec::from_elem(WqeSge::default(), max_sge as usize, GFP_KERNEL)?;
        Ok(Self { posts, room })
    }
}

/// The half that sends.
pub(crate) struct UdSendEngine {
    requests: UdRequests,
    cq: Arc<Cq>,
    qkey: Qkey,
    psn: Psn,
    /// The consumer wants to know that the queue has drained.
    tell_drained: bool,
    /// A request that waits for memory: with the number of its address handle, and its slot.
    held: Option<(DatagramWr, u32, SlotIndex)>,
    fault_wait: FaultWait,
    tx_limit: TxLimit,
}

impl UdSendEngine {
    /// The half in RESET.
    pub(crate) fn new(requests: UdRequests, cq: Arc<Cq>) -> Self {
        Self {
            requests,
            cq,
            qkey: Qkey::new(0),
            psn: Psn::new(0),
            tell_drained: false,
            held: None,
            fault_wait: FaultWait::default(),
            tx_limit: TxLimit::default(),
        }
    }

    /// Sets the Q_Key that a request for a key of the system sends.
    pub(crate) fn set_qkey(&mut self, qkey: Qkey) {
        self.qkey = qkey;
    }

    /// The PSN of the next datagram.
    pub(crate) fn psn(&self) -> Psn {
        self.psn
    }

    /// Sets the PSN of the next datagram.
    pub(crate) fn set_psn(&mut self, psn: Psn) {
        self.psn = psn;
    }

    /// Sends or flushes the oldest request. `None`: there is none, or it waits for memory.
    fn next(&mut self, qp: &QpShared) -> Option<Result<DatagramWr, (u64, WcStatus)>> {
        let mut way = UdTx {
            qp,
            qkey: self.qkey,
            psn: &mut self.psn,
            fault_wait: &mut self.fault_wait,
            tx_limit: &mut self.tx_limit,
        };
        Some(match &mut self.requests {
            UdRequests::Ring(queue) => {
                let taken = match self.held.take() {
                    Some(held) => Ok(held),
                    None => queue.take_datagram()?,
                };
                // Looked at with the request in hand: it may have been posted because the queue pair had failed.
                let flushes = qp.flushes_sends();
                let sent = match taken {
                    Ok((DatagramWr { wr_id, .. }, ..)) | Err(RejectedWqe { wr_id, .. })
                        if flushes =>
                    {
                        Err((wr_id, WcStatus::WrFlushErr))
                    }
                    Err(refused) => Err((refused.wr_id, refused.status)),
                    Ok((wr, number, slot)) => match way.send_from(queue.body(slot), &wr, number) {
                        Ok(()) => Ok(wr),
                        Err(Obstacle::Refused(status)) => Err((wr.wr_id, status)),
                        Err(Obstacle::Absent) => {
                            self.held = Some((wr, number, slot));
                            return None;
                        }
                    },
                };
                queue.release(1);
                sent
            }
            UdRequests::Posted(posted) => {
                let (PostedDatagram { wr, ah }, shape) = posted.posts.take(&mut posted.room)?;
                if qp.flushes_sends() {
                    return Some(Err((wr.wr_id, WcStatus::WrFlushErr)));
                }
                match way.send(SendBody::new(&shape, &posted.room), &wr, &ah) {
                    Ok(()) => Ok(wr),
                    Err(Obstacle::Refused(status)) => Err((wr.wr_id, status)),
                    // The kernel's memory is always there.
                    Err(Obstacle::Absent) => Err((wr.wr_id, WcStatus::LocProtErr)),
                }
            }
        })
    }

    fn report(
        &self,
        qp: &QpShared,
        sent: Result<DatagramWr, (u64, WcStatus)>,
        actions: &mut Actions,
    ) {
        if sent.is_ok() {
            qp.port().counters().count(Counter::Sends);
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
        report(qp, &self.cq, &done, false, actions);
    }
}

impl Engine for UdSendEngine {
    fn run(&mut self, qp: &QpShared, _inbox: &SkbQueue, actions: &mut Actions) -> More {
        if qp.state() == IbQpState::Sqd && core::mem::take(&mut self.tell_drained) {
            // Nothing is ever in progress between turns.
            actions.drained = true;
        }
        if !qp.sends() {
            return More::No;
        }
        for _ in 0..RX_BATCH_PACKETS {
            if !qp.flushes_sends() && self.tx_limit.holds(qp, actions) {
                return More::No;
            }
            let Some(sent) = self.next(qp) else {
                return More::No;
            };
            self.report(qp, sent, actions);
        }
        More::Yes
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.tell_drained = false;
        self.held = None;
        match &mut self.requests {
            UdRequests::Ring(queue) => queue.clear(),
            UdRequests::Posted(posted) => posted.posts.clear(),
        }
    }

    fn fault_wait(&mut self) -> &mut FaultWait {
        &mut self.fault_wait
    }

    fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }
}

impl SendEngine for UdSendEngine {
    fn init(&mut self) {}

    fn drain(&mut self, notify: bool) {
        self.tell_drained = notify;
    }

    fn resume(&mut self) {
        self.tell_drained = false;
    }
}

/// What one datagram needs on its way.
struct UdTx<'a> {
    qp: &'a QpShared,
    qkey: Qkey,
    psn: &'a mut Psn,
    fault_wait: &'a mut FaultWait,
    tx_limit: &'a mut TxLimit,
}

impl UdTx<'_> {
    /// Sends a datagram of a process, through the address handle with that number.
    fn send_from(
        &mut self,
        body: SendBody<'_>,
        wr: &DatagramWr,
        number: u32,
    ) -> Result<(), Obstacle<WcStatus>> {
        let ah = {
            let guard = rcu::read_lock();
            let ah = self.qp.port().ahs().borrow(number, &guard);
            ah.map(Arc::from)
        };
        let ah = ah.filter(|ah| ah.belongs_to(self.qp.pd()));
        let ah = ah.ok_or(WcStatus::LocQpOpErr)?;
        self.send(body, wr, &ah)
    }

    /// Sends a datagram. Loss is none of our business.
    ///
    /// # Errors
    ///
    /// The status that the request completes with; or that its memory is absent.
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
        let from = ud::UdSender {
            qpn: Qpn::new(self.qp.number()),
            qkey: self.qkey,
            pkey: Pkey::DEFAULT,
        };
        let headers = ud::headers(wr, from, *self.psn).ok_or(WcStatus::LocQpOpErr)?;
        let path = Path::new(&ah.attr(), port, (self.qp.number(), wr.remote_qpn.get()));
        let mut path = path
            .map_err(|_| WcStatus::LocQpOpErr)?
            .counted_in(self.qp.tx_inflight());
        // CAST: At most 4096.
        let len = wr.length as usize;
        let Some(mut tx_packet) = path.tx_packet(&headers.emit(len), len) else {
            port.counters().not_sent(1);
            return Ok(());
        };
        let whole = append_body(&mut tx_packet, self.qp, body, 0, wr.length, self.fault_wait)?;
        *self.psn = self.psn.next();
        if !whole {
            port.counters().not_sent(1);
            return Ok(());
        }
        path.send(self.qp.way(), tx_packet);
        path.flush(self.qp.way());
        self.tx_limit.sent(path.take_refused());
        Ok(())
    }
}
