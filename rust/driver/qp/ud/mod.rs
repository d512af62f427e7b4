// SPDX-License-Identifier: GPL-2.0

//! Datagram queue pairs: UD, and the general services queue pair (QP 1), which is one.
//!
//! Owns what the attributes of a queue pair mean to the two halves. Does not know address handles nor
//! packets.

pub(crate) mod receiver;
pub(crate) mod sender;

use crate::{
    qp::queue_pair::{
        Direction,
        Qp,
        Transport, //
    },
    queue::posted_sends::PostedSends, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::qp_attr::{
    QpAttr,
    QpAttrMask, //
};
use receiver::UdRecvEngine;
use roce::{
    id::Qkey,
    psn::Psn, //
};
use sender::{
    PostedDatagram,
    UdSendEngine, //
};

/// Unreliable datagrams.
pub(crate) struct Ud;

impl Transport for Ud {
    type Sender = UdSendEngine;
    type Receiver = UdRecvEngine;
    type Sends = Arc<PostedSends<PostedDatagram>>;

    const INBOX_BYTES: i32 = 2 << 20;

    const RESUMED: Direction = Direction::Send;

    fn ready_to_receive(_qp: &Qp<Self>, _attr: &QpAttr) -> Result {
        Ok(())
    }

    fn ready_to_send(_qp: &Qp<Self>, _attr: &QpAttr) -> Result {
        Ok(())
    }

    fn redirect(_qp: &Qp<Self>, _attr: &QpAttr, _mask: QpAttrMask) -> Result {
        Ok(())
    }

    fn adjust(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) {
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

    fn sending(engine: &mut UdSendEngine) -> (Psn, bool) {
        // Nothing is ever in progress between turns.
        (engine.psn(), false)
    }

    fn expecting(_half: &mut UdRecvEngine) -> Option<Psn> {
        None
    }
}
