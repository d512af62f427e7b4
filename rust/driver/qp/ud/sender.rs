// SPDX-License-Identifier: GPL-2.0

//! Send engine of a UD QP: sends each request as one packet.
//!
//! A request is complete once its packet has been given to the stack, even if the stack drops it. Runs in process
//! context or softirq, under the lock of its [`Exclusive`](rdma::sync::exclusive::Exclusive).

use crate::{
    abi::request::RejectedWqe,
    mem::page_fault::FaultWait,
    packet::path::{
        EntryWriter,
        Path, //
    },
    port::{
        ah::{
            Ah,
            PostedAhs, //
        },
        counters::Counter, //
    },
    qp::{
        actions::Actions,
        engine::{
            push_completion,
            Engine,
            EngineCore,
            SendEngine,
            RUN_BUDGET,
            TX_LIST_LIMIT, //
        },
        gate::{
            Need,
            Policy,
            TxGate, //
        },
        run::QpRun,
        tx::append_body,
    },
    queue::{
        cq::Cq,
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
    segmentation::tx_desc::{
        SlotIndex,
        TxDesc,
        TxPayload, //
    },
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

/// Send engine of a UD QP.
pub(crate) struct UdSendEngine {
    core: EngineCore,
    queue: SendQueue,
    /// AHs of posted datagrams, for a kernel consumer.
    posted_ahs: Option<Arc<PostedAhs>>,
    qkey: Qkey,
    psn: Psn,
    /// Request that waits for a page fault, with its AH and its slot.
    waiting: Option<(DatagramWr, Option<Arc<Ah>>, SlotIndex)>,
    gate: TxGate,
}

impl UdSendEngine {
    /// Creates the engine in RESET.
    pub(crate) fn new(queue: SendQueue, posted_ahs: Option<Arc<PostedAhs>>, cq: Arc<Cq>) -> Self {
        Self {
            core: EngineCore::new(cq),
            queue,
            posted_ahs,
            qkey: Qkey::new(0),
            psn: Psn::new(0),
            waiting: None,
            gate: TxGate::new(&Policy::DATAGRAMS),
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
    fn send_next(&mut self, qp: &QpRun<'_>) -> Option<Result<DatagramWr, RejectedWqe>> {
        let taken = match self.waiting.take() {
            Some(waiting) => Ok(waiting),
            None => {
                let (slot, taken) = self.queue.take_datagram()?;
                taken.map(|(wr, ah_number)| (wr, self.take_ah(qp, ah_number), slot))
            }
        };
        let mut tx = UdTx {
            qp,
            qkey: self.qkey,
            psn: &mut self.psn,
            fault_wait: &mut self.core.waits.tx,
            gate: &mut self.gate,
        };
        // Check the state after taking the request: it may have been posted because the QP had failed.
        let flushes = qp.flushes_sends();
        let unsent = |wr: &DatagramWr, status| RejectedWqe::of_send(wr.wr_id, status);
        let sent = match taken {
            Ok((wr, ..)) if flushes => Err(unsent(&wr, WcStatus::WrFlushErr)),
            Err(mut rejected) => {
                if flushes {
                    rejected.status = WcStatus::WrFlushErr;
                }
                Err(rejected)
            }
            Ok((wr, ah, slot)) => match tx.send(self.queue.body(slot), &wr, ah.as_deref()) {
                Ok(()) => Ok(wr),
                Err(Obstacle::Refused(status)) => Err(unsent(&wr, status)),
                Err(Obstacle::Absent) => {
                    self.waiting = Some((wr, ah, slot));
                    return None;
                }
            },
        };
        self.queue.release(1);
        Some(sent)
    }

    /// Returns the AH that a request names, if the QP may use it.
    fn take_ah(&self, qp: &QpRun<'_>, number: u32) -> Option<Arc<Ah>> {
        let ah = match &self.posted_ahs {
            Some(posted) => return posted.take(number),
            None => {
                let guard = ReadSection::enter();
                let ah = qp.port().ahs().borrow(number, &guard);
                ah.map(Arc::from)
            }
        };
        ah.filter(|ah| ah.belongs_to(qp.pd()))
    }

    fn report(&self, qp: &QpRun<'_>, sent: Result<DatagramWr, RejectedWqe>, actions: &mut Actions) {
        match sent {
            Ok(wr) => {
                qp.port().counters().count(Counter::SendsCompleted);
                self.core
                    .count_sent(WcOpcode::Send, WcStatus::Success, wr.length);
            }
            Err(failed) => self.core.count_sent(failed.opcode(), failed.status, 0),
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
            Err(failed) => {
                if failed.status != WcStatus::WrFlushErr {
                    qp.fail_sends();
                }
                Completion::failed(failed.wr_id, failed.opcode(), failed.status)
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
            // Without a datagram to send, the gate must not have the engine woken.
            if self.waiting.is_none() && !self.queue.has_next() {
                return More::No;
            }
            if !qp.flushes_sends() {
                let answer = self.gate.admit(qp, (Need::Room, TX_LIST_LIMIT), None);
                if answer.record(actions).is_none() {
                    return More::No;
                }
            }
            let Some(sent) = self.send_next(qp) else {
                return More::No;
            };
            self.report(qp, sent, actions);
        }
        More::Yes
    }

    fn send_queue(&mut self) -> Option<&mut SendQueue> {
        Some(&mut self.queue)
    }

    fn reset(&mut self) {
        self.waiting = None;
        self.queue.clear();
        self.gate.reset();
        if let Some(posted_ahs) = &self.posted_ahs {
            posted_ahs.clear();
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
    gate: &'a mut TxGate,
}

impl UdTx<'_, '_> {
    /// Sends a datagram. The service does not recover from loss.
    ///
    /// # Errors
    ///
    /// The status that completes the request, or [`Obstacle::Absent`] if its memory is absent.
    fn send(
        &mut self,
        body: SendBody<'_>,
        wr: &DatagramWr,
        ah: Option<&Ah>,
    ) -> Result<(), Obstacle<WcStatus>> {
        let port = self.qp.port();
        let ah = ah.ok_or(WcStatus::LocQpOpErr)?;
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
        let desc = TxDesc {
            headers,
            source: TxPayload::None,
            offset: 0,
            length: wr.length,
            packets: 1,
        };
        let desc_and_mtu = (&desc, port.active_mtu());
        let mut writer = EntryWriter::new(&mut path, self.qp.tx(), desc_and_mtu);
        let read = append_body(&mut writer, self.qp, body, 0, wr.length, self.fault_wait);
        writer.end(read).map_err(|unsent| unsent.reason)?;
        *self.psn = self.psn.next();
        path.transmit_pending(self.qp.tx());
        self.gate.on_transmit(path.take_congested());
        Ok(())
    }
}
