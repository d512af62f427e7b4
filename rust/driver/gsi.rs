// SPDX-License-Identifier: GPL-2.0

//! The general services queue pair (QP 1), as far as the RDMA core needs it to register a device.
//!
//! Owns the work requests that the MAD layer posts, and their completion in order. A management
//! datagram that is sent gets lost on its way, and none arrives: datagrams are not carried yet, so
//! connections are made without the connection manager.

use crate::cq::Cq;
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    attr::{
        QpAttr,
        QpAttrMask,
        QpCaps,
        QpState, //
    },
    driver::QpQuery,
    event::QpHandle,
    wc::Wc, //
};
use roce::{
    status::WcStatus,
    wr::WcOpcode, //
};

/// Number of the queue pair on its port.
pub(crate) const NUMBER: u32 = 1;

/// A general services queue pair.
#[pin_data]
pub(crate) struct Gsi {
    handle: QpHandle,
    caps: QpCaps,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    #[pin]
    inner: SpinLockIrq<Inner>,
}

struct Inner {
    attr: QpAttr,
    /// Receives that are posted, oldest first. Room for all of them is reserved.
    receives: KVVec<u64>,
}

impl Gsi {
    /// A queue pair in RESET.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        handle: QpHandle,
        caps: QpCaps,
        send_cq: Arc<Cq>,
        recv_cq: Arc<Cq>,
    ) -> Result<Arc<Self>> {
        // CAST: Bounded by the capabilities of the device.
        let receives = KVVec::with_capacity(caps.max_recv_wr as usize, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                handle,
                caps,
                send_cq,
                recv_cq,
                inner <- new_spinlock_irq!(Inner {
                    attr: QpAttr::default(),
                    receives,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// State of the queue pair.
    pub(crate) fn state(&self) -> QpState {
        self.inner.lock().attr.qp_state
    }

    /// What the consumer has set, and what it was created with.
    pub(crate) fn query(&self) -> QpQuery {
        let mut attr = self.inner.lock().attr;
        attr.cur_qp_state = attr.qp_state;
        QpQuery {
            attr,
            caps: self.caps,
            sq_sig_all: true,
        }
    }

    /// Sets the state; the other attributes mean nothing here but to a query.
    pub(crate) fn modify(&self, new: &QpAttr, mask: QpAttrMask) {
        let mut inner = self.inner.lock();
        if mask.contains(QpAttrMask::QKEY) {
            inner.attr.qkey = new.qkey;
        }
        if mask.contains(QpAttrMask::SQ_PSN) {
            inner.attr.sq_psn = new.sq_psn;
        }
        if mask.contains(QpAttrMask::STATE) {
            inner.attr.qp_state = new.qp_state;
        }
        let state = inner.attr.qp_state;
        if state == QpState::Reset {
            inner.receives.clear();
        }
        drop(inner);
        if state == QpState::Err {
            self.flush();
        }
    }

    /// Takes a send.
    pub(crate) fn post_send(&self, wr_id: u64) {
        let status = match self.state() {
            QpState::Rts => WcStatus::Success,
            _ => WcStatus::WrFlushErr,
        };
        self.complete(&self.send_cq, wr_id, WcOpcode::Send, status);
    }

    /// Takes a receive.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when more are posted than the queue pair was created for.
    pub(crate) fn post_recv(&self, wr_id: u64) -> Result {
        let mut inner = self.inner.lock();
        if inner.receives.len() == inner.receives.capacity() {
            return Err(ENOMEM);
        }
        // Nothing is allocated: there is room.
        inner.receives.push(wr_id, GFP_ATOMIC)?;
        let state = inner.attr.qp_state;
        drop(inner);
        if state == QpState::Err {
            self.flush();
        }
        Ok(())
    }

    /// Completes every receive with a flush error.
    fn flush(&self) {
        loop {
            let oldest = self.inner.lock().receives.remove(0);
            let Ok(wr_id) = oldest else { return };
            self.complete(&self.recv_cq, wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
        }
    }

    fn complete(&self, cq: &Cq, wr_id: u64, opcode: WcOpcode, status: WcStatus) {
        let wc = Wc {
            wr_id,
            status: status.code(),
            opcode: opcode.code(),
            qp_num: NUMBER,
            qp: self.handle.token(),
            ..Wc::default()
        };
        // A full queue has told its consumer.
        let _ = cq.push(&wc, status != WcStatus::Success);
    }
}
