// SPDX-License-Identifier: GPL-2.0

//! A QP of any service: the object behind a QP number.
//!
//! The list of services is closed, so dispatch is a `match`, not a call through a function pointer.

use crate::{
    qp::{
        comp_cntr,
        engine::Engine,
        modify,
        queue_pair::{
            KernelPosts,
            Qp,
            Transport, //
        },
        rc::{
            Rc,
            RcEngines, //
        },
        shared::QpShared,
        uc::Uc,
        ud::Ud,
        xrc::Xrc, //
    },
    queue::comp_cntr::CompCntr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::{
        comp_cntr::CompCntrOps,
        driver::QpQuery,
        qp_attr::{
            QpAttr,
            QpAttrMask, //
        },
        restrack::RestrackEntry, //
    },
    net::rx::skb::RxSkb,
    sync::read_section::ReadSection, //
};
use roce::{
    segmentation::mtu::Mtu,
    wire::opcode::{
        Opcode,
        Service, //
    }, //
};

/// A QP, by service.
pub(crate) enum AnyQp {
    /// Reliable connection.
    Rc(Arc<Qp<Rc>>),
    /// Unreliable connection.
    Uc(Arc<Qp<Uc>>),
    /// Unreliable datagrams, and the general services QP.
    Ud(Arc<Qp<Ud>>),
    /// Extended reliable connection.
    Xrc(Arc<Qp<Xrc>>),
}

/// Evaluates `$body` with `$qp` bound to the [`Qp`] in an [`AnyQp`].
macro_rules! with_qp {
    ($any:expr, $qp:ident => $body:expr) => {
        match $any {
            AnyQp::Rc($qp) => $body,
            AnyQp::Uc($qp) => $body,
            AnyQp::Ud($qp) => $body,
            AnyQp::Xrc($qp) => $body,
        }
    };
}

impl AnyQp {
    /// Returns the state that both engines use.
    #[inline]
    pub(crate) fn shared(&self) -> &QpShared {
        with_qp!(self, qp => qp.shared())
    }

    /// Sets the attributes that `mask` names.
    ///
    /// # Errors
    ///
    /// See [`modify`](modify::modify).
    pub(crate) fn modify(&self, attr: &QpAttr, mask: QpAttrMask) -> Result {
        with_qp!(self, qp => modify::modify(qp.as_arc_borrow(), attr, mask))
    }

    /// Returns the current attributes.
    pub(crate) fn query(&self) -> QpQuery {
        with_qp!(self, qp => qp.as_arc_borrow().query())
    }

    /// Adds the driver's details for `rdma resource show qp`.
    pub(crate) fn describe(&self, details: &mut RestrackEntry) {
        let query = self.query();
        let (attr, caps) = (query.attr, query.caps);
        details.put(c"max_send_wr", caps.max_send_wr.into());
        details.put(c"max_recv_wr", caps.max_recv_wr.into());
        match self {
            Self::Rc(qp) => describe_connection(qp, &attr, details),
            Self::Xrc(qp) => describe_connection(qp, &attr, details),
            _ => {}
        }
        for (name, value) in self.shared().traffic().values() {
            details.put(name, value);
        }
    }

    /// Counts the operations `ops` in `counter`.
    ///
    /// # Errors
    ///
    /// See [`attach`](comp_cntr::attach).
    pub(crate) fn attach(&self, counter: &Arc<CompCntr>, ops: CompCntrOps) -> Result {
        with_qp!(self, qp => comp_cntr::attach(qp.as_arc_borrow(), counter, ops))
    }

    /// Goes to RESET. Packets may still find the QP.
    pub(crate) fn reset(&self) {
        with_qp!(self, qp => qp.reset());
    }

    /// Shuts the QP down, after it was removed from the demux. On return nothing uses it, except page faults
    /// in progress. Sleeps.
    pub(crate) fn retire(&self) {
        with_qp!(self, qp => {
            qp.reset();
            qp.as_arc_borrow().quiesce();
            purge_completions(qp);
        });
    }

    /// Drops cached routes: the port has lost its netdev.
    pub(crate) fn forget_routes(&self) {
        with_qp!(self, qp => qp.as_arc_borrow().forget_routes());
    }

    /// Handles a doorbell of a process: it has posted sends.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS.
    #[inline]
    pub(crate) fn doorbell(&self) -> Result {
        with_qp!(self, qp => qp.as_arc_borrow().doorbell())
    }

    /// Returns where a kernel consumer posts.
    pub(crate) fn posts(&self) -> Option<&KernelPosts> {
        with_qp!(self, qp => qp.posts())
    }

    /// Handles sends that a ULP has posted. For any context.
    pub(crate) fn sends_posted(&self) {
        with_qp!(self, qp => qp.as_arc_borrow().sends_posted());
    }

    /// Handles receives that a ULP has posted. For any context.
    pub(crate) fn receives_posted(&self) {
        with_qp!(self, qp => qp.as_arc_borrow().receives_posted());
    }

    /// Returns whether packets with this opcode belong to QPs of this service.
    #[inline]
    pub(crate) fn serves(&self, opcode: Opcode) -> bool {
        opcode.service() == with_qp!(self, qp => service(qp))
    }

    /// Returns whether CNPs reduce the rate of this QP: it has a peer to send to, and congestion control is on.
    pub(crate) fn handles_cnps(&self) -> bool {
        !matches!(self, Self::Ud(_)) && self.shared().port().congestion().dcqcn
    }

    /// Receives packets, the first with an opcode that this QP [serves](Self::serves), or a CNP. Softirq.
    #[inline]
    pub(crate) fn arrived(&self, (opcode, skb): (Opcode, RxSkb), section: &ReadSection) {
        // A CNP goes to the receive engine, which knows the peer first.
        with_qp!(self, qp => if opcode.is_response() {
            qp.as_arc_borrow().response_arrived(skb, section);
        } else {
            qp.as_arc_borrow().request_arrived(skb, section);
        });
    }
}

/// Adds the details of a reliable connection.
fn describe_connection<T: RcEngines>(qp: &Arc<Qp<T>>, attr: &QpAttr, details: &mut RestrackEntry) {
    details.put(c"path_mtu", path_mtu(attr.path_mtu).into());
    details.put(c"timeout", attr.timeout.into());
    details.put(c"retry_cnt", attr.retry_cnt.into());
    details.put(c"rnr_retry", attr.rnr_retry.into());
    details.put(c"max_rd_atomic", attr.max_rd_atomic.into());
    details.put(c"max_dest_rd_atomic", attr.max_dest_rd_atomic.into());
    let ((window, rate), _) = qp.sender().enter(|engine| {
        let requester = engine.requester();
        (requester.congestion_window(), requester.rate())
    });
    // An event that arrived meanwhile was left to us.
    qp.as_arc_borrow().run_sender();
    details.put(c"cwnd", window.into());
    if let Some(rate) = rate {
        details.put(c"rate_mbit_s", rate.mbit_s());
    }
}

/// Returns the service of a QP.
#[inline]
fn service<T: Transport>(_qp: &Qp<T>) -> Service {
    T::SERVICE
}

/// Returns the bytes of a path MTU code; 0 if it is not set.
fn path_mtu(code: u32) -> u32 {
    Mtu::from_code(code).map_or(0, Mtu::bytes)
}

/// Removes completions that a ULP has not polled yet. The QP is quiesced.
fn purge_completions<T: Transport>(qp: &Qp<T>) {
    if qp.posts().is_some() {
        let token = qp.shared().handle().token();
        let (send_cq, _) = qp.sender().enter(|engine| engine.core().cq.clone());
        let (recv_cq, _) = qp.receiver().enter(|engine| engine.core().cq.clone());
        send_cq.remove_completions(token);
        if !Arc::ptr_eq(&send_cq, &recv_cq) {
            recv_cq.remove_completions(token);
        }
    }
}
