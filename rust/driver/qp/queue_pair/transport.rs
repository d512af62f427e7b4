// SPDX-License-Identifier: GPL-2.0

//! The interface between a QP and its service: the two engines, and the attributes that they use.
//!
//! [`Rc`](crate::qp::rc::Rc), [`Uc`](crate::qp::uc::Uc) and [`Ud`](crate::qp::ud::Ud) implement it.
//! `modify_qp` (with the QP's attributes locked) and `query_qp` call it in process context.

use crate::qp::engine::{
    Engine,
    SendEngine, //
};
use crate::qp::queue_pair::Qp;
use kernel::prelude::*;
use rdma::ib::qp_attr::{
    QpAttr,
    QpAttrMask, //
};
use roce::{
    psn::Psn,
    wire::opcode::Service, //
};

/// One of the two engines of a QP.
pub(crate) enum Direction {
    /// The send engine: requests of this QP and the responses to them.
    Send,
    /// The receive engine: requests of the peer and the responses to them.
    Receive,
}

/// The service of a QP.
pub(crate) trait Transport: Sized + Send + Sync + 'static {
    /// The engine that sends requests and processes responses.
    type Sender: SendEngine;
    /// The engine that processes requests and sends responses.
    type Receiver: Engine;

    /// The service, as the opcodes of its packets show it.
    const SERVICE: Service;

    /// Limit of one inbox, in bytes of memory (`truesize`) of the buffers.
    const INBOX_BYTES: i32;

    /// The engine that the tx in-flight limit stops. It runs again when the stack frees buffers. RC: the receive
    /// engine, because nothing acknowledges read responses; ACKs limit the requests. UC and UD: the send engine.
    const TX_LIMITED: Direction;

    /// INIT to RTR: gives the receive engine its peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid address; `ENOMEM`. Nothing has changed then.
    fn ready_to_receive(qp: &Qp<Self>, attr: &QpAttr) -> Result;

    /// RTR to RTS: starts the send engine.
    ///
    /// # Errors
    ///
    /// As [`Transport::ready_to_receive`].
    fn ready_to_send(qp: &Qp<Self>, attr: &QpAttr) -> Result;

    /// Sets the attributes that may change in SQD only, as far as `mask` names them: the path, and the number
    /// of outstanding READs and atomics of the peer.
    ///
    /// # Errors
    ///
    /// As [`Transport::ready_to_receive`].
    fn modify_in_sqd(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) -> Result;

    /// Sets the attributes that `mask` names and that may change while the QP works.
    fn apply_attrs(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask);

    /// Returns the next PSN to send, and whether requests from before SQD are in progress.
    fn send_progress(engine: &mut Self::Sender) -> (Psn, bool);

    /// Returns the expected PSN. `None`: any.
    fn expected_psn(engine: &mut Self::Receiver) -> Option<Psn>;
}
