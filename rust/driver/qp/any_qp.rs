// SPDX-License-Identifier: GPL-2.0

//! A queue pair of any service: what a number stands for.
//!
//! Owns the closed list of services. What they have in common is said once, in `qp`, and called
//! here for whichever it is.

use crate::{
    qp::{
        engine::Engine,
        modify,
        queue_pair::{
            self,
            Qp, //
        },
        rc::Rc,
        shared::QpShared,
        uc::Uc,
        ud::Ud, //
    },
    queue::rq::PostedRecvs, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::{
        driver::QpQuery,
        qp_attr::{
            QpAttr,
            QpAttrMask, //
        },
        restrack::Details, //
    },
    net::rx::skb::RxSkb, //
};
use roce::{
    segmentation::tx_desc::Mtu,
    wire::opcode::{
        Opcode,
        Service, //
    }, //
};

/// A queue pair, by the service it gives.
pub(crate) enum AnyQp {
    /// Reliable connection.
    Rc(Arc<Qp<Rc>>),
    /// Unreliable connection.
    Uc(Arc<Qp<Uc>>),
    /// Unreliable datagrams, and general services.
    Ud(Arc<Qp<Ud>>),
}

/// Evaluates an expression with the queue pair in an [`AnyQp`], whatever its service.
macro_rules! with_qp {
    ($any:expr, $qp:ident => $what:expr) => {
        match $any {
            AnyQp::Rc($qp) => $what,
            AnyQp::Uc($qp) => $what,
            AnyQp::Ud($qp) => $what,
        }
    };
}

impl AnyQp {
    /// What every queue pair has.
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

    /// What there is to know of it.
    pub(crate) fn query(&self) -> QpQuery {
        with_qp!(self, qp => qp.as_arc_borrow().query())
    }

    /// Tells what the core does not know of it.
    pub(crate) fn describe(&self, details: &mut Details) {
        let query = self.query();
        let (attr, caps) = (query.attr, query.caps);
        details.put(c"max_send_wr", caps.max_send_wr.into());
        details.put(c"max_recv_wr", caps.max_recv_wr.into());
        if let Self::Rc(_) = self {
            details.put(c"path_mtu", path_mtu(attr.path_mtu).into());
            details.put(c"timeout", attr.timeout.into());
            details.put(c"retry_cnt", attr.retry_cnt.into());
            details.put(c"rnr_retry", attr.rnr_retry.into());
            details.put(c"max_rd_atomic", attr.max_rd_atomic.into());
            details.put(c"max_dest_rd_atomic", attr.max_dest_rd_atomic.into());
        }
        for (name, value) in self.shared().traffic().values() {
            details.put(name, value);
        }
    }

    /// Goes to RESET. Packets may still find it.
    pub(crate) fn reset(&self) {
        with_qp!(self, qp => qp.reset());
    }

    /// Ends it. No packet finds it any more; when this returns, nothing of it is on its way.
    pub(crate) fn retire(&self) {
        with_qp!(self, qp => {
            qp.reset();
            qp.as_arc_borrow().quiesce();
            forget_completions(qp);
        });
    }

    /// Lets go of the routes to its peer. The port has no netdev any more.
    pub(crate) fn forget_routes(&self) {
        with_qp!(self, qp => qp.as_arc_borrow().forget_routes());
    }

    /// A process has posted sends.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS.
    #[inline]
    pub(crate) fn doorbell(&self) -> Result {
        with_qp!(self, qp => qp.as_arc_borrow().doorbell())
    }

    /// Where a consumer in the kernel posts receives.
    pub(crate) fn receive_posts(&self) -> Option<&PostedRecvs> {
        with_qp!(self, qp => qp.posts().and_then(|posts| posts.receives.as_deref()))
    }

    /// A consumer in the kernel has posted receives.
    pub(crate) fn receives_posted(&self) {
        with_qp!(self, qp => qp.as_arc_borrow().receives_posted());
    }

    /// Whether packets with this opcode are for queue pairs of this kind.
    #[inline]
    pub(crate) fn serves(&self, opcode: Opcode) -> bool {
        opcode.service()
            == match self {
                Self::Rc(_) => Service::Rc,
                Self::Uc(_) => Service::Uc,
                Self::Ud(_) => Service::Ud,
            }
    }

    /// Packets have come in, the first with an opcode that this queue pair [serves](Self::serves).
    #[inline]
    pub(crate) fn arrived(&self, opcode: Opcode, skb: RxSkb) {
        with_qp!(self, qp => if opcode.is_request() {
            qp.as_arc_borrow().request_arrived(skb);
        } else {
            qp.as_arc_borrow().response_arrived(skb);
        });
    }
}

/// The bytes of a path MTU; 0 if there is none yet.
fn path_mtu(code: u32) -> u32 {
    Mtu::from_code(code).map_or(0, Mtu::bytes)
}

/// Takes back what `qp` has reported to consumers in the kernel and they have not seen. Nothing of it is on its way.
fn forget_completions<T: queue_pair::Transport>(qp: &Qp<T>) {
    if qp.posts().is_some() {
        let token = qp.shared().handle().token();
        let (cq, _) = qp.sender().enter(|engine| engine.cq().clone());
        let (other, _) = qp.receiver().enter(|engine| engine.cq().clone());
        cq.forget(token);
        if !Arc::ptr_eq(&cq, &other) {
            other.forget(token);
        }
    }
}
