// SPDX-License-Identifier: GPL-2.0

//! The half of a datagram queue pair that sends.
//!
//! Owns where requests come from, and turns each into one packet. A datagram is done with when it
//! has been given to the network, whatever becomes of it there.

use crate::{
    ah::Ah,
    common::{
        Aftermath,
        Common, //
    },
    cq::Cq,
    frame::Loan,
    path::Path,
    posted::{
        Posted,
        PostedSend, //
    },
    sq::{
        Body,
        SendQueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::turn::Again;
use roce::{
    id::{
        Pkey,
        Qkey,
        Qpn, //
    },
    psn::Psn,
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

/// Most datagrams that one turn sends.
const BATCH: usize = 64;

/// Where requests come from.
pub(crate) enum Requests {
    /// A ring of a process.
    Ring(SendQueue),
    /// Posts of a consumer in the kernel.
    Posted(Arc<Posted<PostedSend>>),
}

/// The half that sends.
pub(crate) struct SendHalf {
    requests: Requests,
    cq: Arc<Cq>,
    qkey: Qkey,
    psn: Psn,
}

impl SendHalf {
    /// The half in RESET.
    pub(crate) fn new(requests: Requests, cq: Arc<Cq>) -> Self {
        Self {
            requests,
            cq,
            qkey: Qkey::new(0),
            psn: Psn::new(0),
        }
    }

    /// Sets the Q_Key that a request for a key of the system sends.
    pub(crate) fn set_qkey(&mut self, qkey: Qkey) {
        self.qkey = qkey;
    }

    /// Sets the PSN of the next datagram.
    pub(crate) fn set_psn(&mut self, psn: Psn) {
        self.psn = psn;
    }

    /// Goes to RESET: forgets what was posted.
    pub(crate) fn reset(&mut self) {
        match &mut self.requests {
            Requests::Ring(queue) => queue.clear(),
            Requests::Posted(posted) => while posted.pop().is_some() {},
        }
    }

    /// Sends what was posted, or flushes it.
    pub(crate) fn turn(&mut self, qp: &Common, after: &mut Aftermath) -> Again {
        if !qp.sends() {
            return Again::No;
        }
        for _ in 0..BATCH {
            let sent = match &mut self.requests {
                Requests::Ring(queue) => {
                    let Some(taken) = queue.take_datagram() else {
                        return Again::No;
                    };
                    let outcome = match taken {
                        Err(refused) => Err((refused.wr_id, refused.status)),
                        Ok((wr, number, slot)) => {
                            let mut way = Way {
                                qp,
                                qkey: self.qkey,
                                psn: &mut self.psn,
                            };
                            way.send_from(queue.body(slot), &wr, number)
                                .map(|()| wr)
                                .map_err(|status| (wr.wr_id, status))
                        }
                    };
                    queue.release(1);
                    outcome
                }
                Requests::Posted(posted) => {
                    let Some(request) = posted.pop() else {
                        return Again::No;
                    };
                    let mut way = Way {
                        qp,
                        qkey: self.qkey,
                        psn: &mut self.psn,
                    };
                    let body = Body::Scatter(request.list.entries());
                    way.send(body, &request.wr, &request.ah)
                        .map(|()| request.wr)
                        .map_err(|status| (request.wr.wr_id, status))
                }
            };
            self.report(qp, sent, after);
        }
        Again::Yes
    }

    fn report(
        &self,
        qp: &Common,
        sent: Result<DatagramWr, (u64, WcStatus)>,
        after: &mut Aftermath,
    ) {
        let done = match sent {
            Ok(wr) if !wr.signaled => return,
            Ok(wr) => Completion {
                wr_id: wr.wr_id,
                status: WcStatus::Success,
                opcode: WcOpcode::Send,
                byte_len: wr.length,
                imm: None,
            },
            Err((wr_id, status)) => {
                if status != WcStatus::WrFlushErr {
                    after.fail(None);
                }
                Completion::failed(wr_id, WcOpcode::Send, status)
            }
        };
        let urgent = done.status != WcStatus::Success;
        if self.cq.push(&qp.completion(&done), urgent).is_err() {
            after.fail(None);
        }
    }
}

/// What one datagram needs on its way.
struct Way<'a> {
    qp: &'a Common,
    qkey: Qkey,
    psn: &'a mut Psn,
}

impl Way<'_> {
    /// Sends a datagram of a process, through the address handle with that number.
    fn send_from(&mut self, body: Body<'_>, wr: &DatagramWr, number: u32) -> Result<(), WcStatus> {
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
    /// The status that the request completes with.
    fn send(&mut self, body: Body<'_>, wr: &DatagramWr, ah: &Ah) -> Result<(), WcStatus> {
        if self.qp.is_failed() {
            return Err(WcStatus::WrFlushErr);
        }
        let port = self.qp.port();
        if wr.length > port.active_mtu().bytes() {
            return Err(WcStatus::LocLenErr);
        }
        let from = ud::Sender {
            qpn: Qpn::new(self.qp.number()),
            qkey: self.qkey,
            pkey: Pkey::DEFAULT,
        };
        let headers = ud::headers(wr, from, *self.psn).ok_or(WcStatus::LocQpOpErr)?;
        let path = Path::new(ah.attr(), self.qp.number(), wr.remote_qpn.get());
        let mut path = path.map_err(|_| WcStatus::LocQpOpErr)?;
        *self.psn = self.psn.next();
        // CAST: At most 4096.
        let Some(mut frame) = path.frame(&headers, wr.length as usize, Loan::Copy) else {
            return Ok(());
        };
        let whole = match body {
            Body::Inline(bytes) => frame.append_bytes(bytes),
            Body::Scatter(sges) => self.qp.space().gather(sges, 0, wr.length, &mut frame)?,
        };
        if whole {
            path.send(port, frame);
            path.flush(port);
        }
        Ok(())
    }
}
