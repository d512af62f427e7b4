// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagram QPs: UD, and the general services QP (QP 1), which behaves like one.
//!
//! - `sender`: the send engine; `receiver`: the receive engine.
//! - This file applies the QP attributes to them, in process context.
//!
//! May use the rest of `qp` except `any_qp`, `post` and the other services, and the folders below `qp`.

pub(crate) mod receiver;
pub(crate) mod sender;

use crate::qp::queue_pair::{
    Direction,
    Qp,
    Transport, //
};
use kernel::prelude::*;
use rdma::ib::qp_attr::{
    QpAttr,
    QpAttrMask, //
};
use receiver::UdRecvEngine;
use roce::{
    id::Qkey,
    psn::Psn,
    wire::opcode::Service, //
};
use sender::UdSendEngine;

/// Unreliable datagrams.
pub(crate) struct Ud;

impl Transport for Ud {
    type Sender = UdSendEngine;
    type Receiver = UdRecvEngine;

    const SERVICE: Service = Service::Ud;

    const INBOX_BYTES: i32 = 2 << 20;

    const TX_LIMITED: Direction = Direction::Send;

    fn ready_to_receive(_qp: &Qp<Self>, _attr: &QpAttr) -> Result {
        Ok(())
    }

    fn ready_to_send(_qp: &Qp<Self>, _attr: &QpAttr) -> Result {
        Ok(())
    }

    fn modify_in_sqd(_qp: &Qp<Self>, _attr: &QpAttr, _mask: QpAttrMask) -> Result {
        Ok(())
    }

    fn apply_attrs(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) {
        if mask.contains(QpAttrMask::QKEY) {
            let qkey = Qkey::new(attr.qkey);
            let _ = qp.sender().enter(|engine| engine.set_qkey(qkey));
            let _ = qp.receiver().enter(|engine| engine.set_qkey(qkey));
        }
        if mask.contains(QpAttrMask::SQ_PSN) {
            let psn = Psn::new(attr.sq_psn);
            let _ = qp.sender().enter(|engine| engine.set_psn(psn));
        }
    }

    fn send_progress(engine: &mut UdSendEngine) -> (Psn, bool) {
        // No request stays in progress between runs.
        (engine.psn(), false)
    }

    fn expected_psn(_engine: &mut UdRecvEngine) -> Option<Psn> {
        None
    }
}
