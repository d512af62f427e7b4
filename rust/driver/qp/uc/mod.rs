// SPDX-License-Identifier: GPL-2.0

//! Unreliable connected QPs.
//!
//! - `sender`: the send engine; `receiver`: the receive engine.
//! - This file applies the QP attributes to them, in process context.
//!
//! May use the rest of `qp` except `any_qp`, `post` and the other services, and the folders below `qp`.

pub(crate) mod receiver;
pub(crate) mod sender;

use crate::qp::{
    engine::Engine,
    modify::path_mtu,
    queue_pair::{
        Direction,
        Qp,
        Transport, //
    }, //
};
use kernel::prelude::*;
use rdma::ib::qp_attr::{
    QpAttr,
    QpAttrMask, //
};
use receiver::UcRecvEngine;
use roce::{
    access::Access,
    id::Qpn,
    message::connection::Connection,
    psn::Psn,
    uc::{
        receiver::ReceiverConfig,
        sender::{
            SenderConfig,
            UcSendState, //
        }, //
    },
    wire::opcode::Service, //
};
use sender::UcSendEngine;

/// Unreliable connection.
pub(crate) struct Uc;

impl Transport for Uc {
    type Sender = UcSendEngine;
    type Receiver = UcRecvEngine;

    const SERVICE: Service = Service::Uc;

    /// No flow control limits the peer.
    const INBOX_BYTES: i32 = 4 << 20;

    const TX_LIMITED: Direction = Direction::Send;

    fn ready_to_receive(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        let path = qp.shared().path_to(attr)?;
        let config = ReceiverConfig {
            expected_psn: Psn::new(attr.rq_psn),
            path_mtu: path_mtu(attr),
            access: Access::from_bits(attr.access_flags),
        };
        qp.shared().set_peer(Qpn::new(attr.dest_qp_num));
        let _ = qp.receiver().enter(|engine| {
            engine.core_mut().path = Some(path);
            engine.receiver().configure(&config);
            engine.receiver().start();
        });
        Ok(())
    }

    fn ready_to_send(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        let path = qp.shared().counted_path_to(attr)?;
        let config = SenderConfig {
            connection: Connection::new(Self::SERVICE, Qpn::new(attr.dest_qp_num)),
            first_psn: Psn::new(attr.sq_psn),
            path_mtu: path_mtu(attr),
        };
        let _ = qp
            .sender()
            .enter(|engine| engine.start(path, qp.shared(), &config));
        Ok(())
    }

    fn modify_in_sqd(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) -> Result {
        if mask.contains(QpAttrMask::AV) {
            let send_path = qp.shared().counted_path_to(attr)?;
            let recv_path = qp.shared().path_to(attr)?;
            let _ = qp
                .sender()
                .enter(|engine| engine.core_mut().path = Some(send_path));
            let _ = qp
                .receiver()
                .enter(|engine| engine.core_mut().path = Some(recv_path));
        }
        Ok(())
    }

    fn apply_attrs(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) {
        if mask.contains(QpAttrMask::ACCESS_FLAGS) {
            let access = Access::from_bits(attr.access_flags);
            let _ = qp
                .receiver()
                .enter(|engine| engine.receiver().set_access(access));
        }
    }

    fn send_progress(engine: &mut UcSendEngine) -> (Psn, bool) {
        let sender = engine.sender();
        let is_draining = sender.state() == UcSendState::Draining;
        (sender.psn(), is_draining && !sender.is_drained())
    }

    fn expected_psn(engine: &mut UcRecvEngine) -> Option<Psn> {
        Some(engine.receiver().expected_psn())
    }
}
