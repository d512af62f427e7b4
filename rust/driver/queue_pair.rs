// SPDX-License-Identifier: GPL-2.0

//! A queue pair of any service: what a number stands for.

use crate::{
    common::Common,
    datagram::Datagram,
    qp::Qp, //
};
use kernel::sync::Arc;
use rdma::net::rx::RxSkb;
use roce::wire::opcode::{
    Opcode,
    Service, //
};

/// A queue pair, by the service it gives.
pub(crate) enum QueuePair {
    /// Reliable connection.
    Rc(Arc<Qp>),
    /// Unreliable datagrams, and general services.
    Datagram(Arc<Datagram>),
}

impl QueuePair {
    /// What every queue pair has.
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Rc(qp) => qp.common(),
            Self::Datagram(qp) => qp.common(),
        }
    }

    /// Whether packets with this opcode are for queue pairs of this kind.
    pub(crate) fn serves(&self, opcode: Opcode) -> bool {
        match self {
            Self::Rc(_) => opcode.service() == Service::Rc,
            Self::Datagram(_) => opcode.service() == Service::Ud,
        }
    }

    /// A packet has come in, `bytes` long.
    pub(crate) fn arrived(&self, opcode: Opcode, skb: RxSkb, bytes: usize) {
        match self {
            Self::Rc(qp) if opcode.is_request() => {
                qp.as_arc_borrow().request_arrived(skb, bytes);
            }
            Self::Rc(qp) => qp.as_arc_borrow().response_arrived(skb, bytes),
            Self::Datagram(qp) => qp.as_arc_borrow().arrived(skb, bytes),
        }
    }
}
