// SPDX-License-Identifier: GPL-2.0

//! Extended reliable connected QPs: one direction of a reliable connection.
//!
//! The initiator has the send engine of an RC QP, and the target its receive engine. The responder of an initiator
//! stays in RESET, where it drops requests; the requester of a target has no requests. A target has no PD, no CQ and
//! no queue: each request names an SRQ of its XRC domain, which has them. Process context.
//!
//! May use `rc`, and what that may use.

use crate::qp::{
    out_of_order::EarlyPackets,
    queue_pair::{
        Direction,
        Qp,
        Transport, //
    },
    rc::{
        self,
        requester::RcSendEngine,
        responder::RcRecvEngine,
        Rc, //
    }, //
};
use kernel::prelude::*;
use rdma::ib::qp_attr::{
    QpAttr,
    QpAttrMask, //
};
use roce::{
    id::Qpn,
    psn::Psn,
    wire::opcode::Service, //
};

/// Extended reliable connection, either end.
pub(crate) struct Xrc;

impl Transport for Xrc {
    type Sender = RcSendEngine;
    type Receiver = RcRecvEngine;

    const SERVICE: Service = Service::Xrc;

    const INBOX_BYTES: i32 = Rc::INBOX_BYTES;

    const TX_LIMITED: Direction = Rc::TX_LIMITED;

    fn ready_to_receive(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        if is_target(qp) {
            return rc::ready_to_receive(qp, attr);
        }
        // For congestion notifications, which the receive engine gets.
        let path = qp.shared().counted_path_to(attr)?;
        qp.shared().set_peer(Qpn::new(attr.dest_qp_num));
        let _ = qp
            .receiver()
            .enter(|engine| engine.start(path, qp.shared(), EarlyPackets::OFF));
        Ok(())
    }

    fn ready_to_send(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        if !is_target(qp) {
            return rc::ready_to_send(qp, attr);
        }
        // It sends nothing, but the event of SQD comes from the send engine.
        let _ = qp.sender().enter(|engine| engine.requester().start());
        Ok(())
    }

    fn modify_in_sqd(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) -> Result {
        rc::modify_in_sqd(qp, attr, mask)
    }

    fn apply_attrs(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) {
        rc::apply_attrs(qp, attr, mask);
    }

    fn send_progress(engine: &mut RcSendEngine) -> (Psn, bool) {
        rc::send_progress(engine)
    }

    fn expected_psn(engine: &mut RcRecvEngine) -> Option<Psn> {
        match engine.is_target() {
            true => rc::expected_psn(engine),
            false => None,
        }
    }
}

/// Returns whether a QP is a target.
fn is_target(qp: &Qp<Xrc>) -> bool {
    let (is_target, _) = qp.receiver().enter(|engine| engine.is_target());
    is_target
}
