// SPDX-License-Identifier: GPL-2.0

//! Reliable connected QPs.
//!
//! - `requester`: the send engine; `responder`: the receive engine; `loopback`: both ends on this host,
//!   without packets; `delivery`: whether packets went that way last; `fault_nak`: RNR NAKs for absent memory.
//! - This file applies the QP attributes to the two engines, in process context.
//!
//! May use the rest of `qp` except `any_qp` and `post`, and the folders below `qp`.

mod delivery;
mod fault_nak;
mod loopback;
pub(crate) mod loopback_payload;
pub(crate) mod requester;
pub(crate) mod responder;

use crate::{
    qp::{
        engine::Engine,
        modify::path_mtu,
        out_of_order::EarlyPackets,
        queue_pair::{
            Direction,
            Qp,
            Transport, //
        }, //
    },
    queue::sq::{
        SendBodies,
        SendSlots, //
    }, //
};
use kernel::prelude::*;
use rdma::{
    ib::qp_attr::{
        QpAttr,
        QpAttrMask, //
    },
    sync::timer::now, //
};
use requester::RcSendEngine;
use responder::{
    RcRecvEngine,
    ReplayStorage, //
};
use roce::{
    access::Access,
    id::Qpn,
    message::connection::Connection,
    psn::Psn,
    rc::{
        requester::{
            FlowLimit,
            RequesterConfig,
            RequesterState, //
        },
        responder::{
            Responder,
            ResponderConfig, //
        }, //
    },
    time::Instant,
    wire::opcode::Service, //
};

/// Window limit of a QP with a short RTT. More would overrun the backlog of a virtual link
/// (`netdev_max_backlog` is 1000 packets), which several QPs share.
const MAX_WINDOW: FlowLimit = FlowLimit {
    bytes: 1 << 20,
    packets: 256,
};

/// Initial window. Many new QPs must not build up a queue that outlasts the ACK timeout of their peers.
const INITIAL_WINDOW_PACKETS: u32 = 32;

/// Reliable connection.
pub(crate) struct Rc;

/// A service whose engines are those of RC: RC itself, and XRC.
pub(crate) trait RcEngines:
    Transport<Sender = RcSendEngine, Receiver = RcRecvEngine>
{
}

impl<T: Transport<Sender = RcSendEngine, Receiver = RcRecvEngine>> RcEngines for T {}

impl Transport for Rc {
    type Sender = RcSendEngine;
    type Receiver = RcRecvEngine;

    const SERVICE: Service = Service::Rc;

    /// A peer that respects its window stays below, even with a long RTT: 1024 packets of 4096 bytes, each in
    /// a buffer of 8 KiB (the next size of `kmalloc()`), plus the overhead of the kernel.
    const INBOX_BYTES: i32 = 9 << 20;

    const TX_LIMITED: Direction = Direction::Receive;

    fn ready_to_receive(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        ready_to_receive(qp, attr)
    }

    fn ready_to_send(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        ready_to_send(qp, attr)
    }

    fn modify_in_sqd(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) -> Result {
        modify_in_sqd(qp, attr, mask)
    }

    fn apply_attrs(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) {
        apply_attrs(qp, attr, mask);
    }

    fn send_progress(engine: &mut RcSendEngine) -> (Psn, bool) {
        send_progress(engine)
    }

    fn expected_psn(engine: &mut RcRecvEngine) -> Option<Psn> {
        expected_psn(engine)
    }
}

/// See [`Transport::ready_to_receive`].
pub(crate) fn ready_to_receive<T: RcEngines>(qp: &Qp<T>, attr: &QpAttr) -> Result {
    let path = qp.shared().counted_path_to(attr)?;
    let early = EarlyPackets::new(qp.shared().port())?;
    let mut responder = Responder::new(ReplayStorage::new(attr.max_dest_rd_atomic)?);
    responder.configure(&ResponderConfig {
        connection: Connection::new(T::SERVICE, Qpn::new(attr.dest_qp_num)),
        expected_psn: Psn::new(attr.rq_psn),
        path_mtu: path_mtu(attr),
        access: Access::from_bits(attr.access_flags),
        min_rnr_timer: attr.min_rnr_timer,
    });
    responder.start();
    qp.shared().set_peer(Qpn::new(attr.dest_qp_num));
    let (old, _) = qp.receiver().enter(|engine| {
        engine.start(path, qp.shared(), early);
        engine.replace_responder(responder)
    });
    drop(old);
    Ok(())
}

/// See [`Transport::ready_to_send`].
pub(crate) fn ready_to_send<T: RcEngines>(qp: &Qp<T>, attr: &QpAttr) -> Result {
    let path = qp.shared().request_path_to(attr)?;
    let early = EarlyPackets::new(qp.shared().port())?;
    let config = RequesterConfig {
        connection: Connection::new(T::SERVICE, Qpn::new(attr.dest_qp_num)),
        first_psn: Psn::new(attr.sq_psn),
        path_mtu: path_mtu(attr),
        max_rd_atomic: attr.max_rd_atomic,
        ack_timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        flow: MAX_WINDOW,
        initial_window: INITIAL_WINDOW_PACKETS,
        congestion: qp.shared().port().congestion_algorithm(),
    };
    // Not before: many QPs never send.
    let slots = SendSlots::new(qp.send_size().slots)?;
    let bodies = SendBodies::new(qp.send_size())?;
    let (old, _) = qp.sender().enter(|engine| {
        let old = engine.set_storage(slots, bodies);
        engine.core_mut().start(path, qp.shared());
        engine.core_mut().early = early;
        engine.requester().configure(&config);
        engine.requester().start();
        old
    });
    drop(old);
    Ok(())
}

/// See [`Transport::modify_in_sqd`].
pub(crate) fn modify_in_sqd<T: RcEngines>(qp: &Qp<T>, attr: &QpAttr, mask: QpAttrMask) -> Result {
    let storage = match mask.contains(QpAttrMask::MAX_DEST_RD_ATOMIC) {
        true => Some(ReplayStorage::new(attr.max_dest_rd_atomic)?),
        false => None,
    };
    if mask.contains(QpAttrMask::AV) {
        let request_path = qp.shared().request_path_to(attr)?;
        let response_path = qp.shared().counted_path_to(attr)?;
        let _ = qp.sender().enter(|engine| {
            engine.core_mut().path = Some(request_path);
            engine.requester().on_path_change();
        });
        let _ = qp
            .receiver()
            .enter(|engine| engine.core_mut().path = Some(response_path));
    }
    let (old, _) = qp
        .receiver()
        .enter(|engine| storage.map(|storage| engine.responder().replace_storage(storage)));
    drop(old);
    Ok(())
}

/// See [`Transport::apply_attrs`].
pub(crate) fn apply_attrs<T: RcEngines>(qp: &Qp<T>, attr: &QpAttr, mask: QpAttrMask) {
    let _ = qp.sender().enter(|engine| {
        let requester = engine.requester();
        if mask.contains(QpAttrMask::TIMEOUT) {
            requester.set_ack_timeout(Instant::from_nanos(now()), attr.timeout);
        }
        if mask.contains(QpAttrMask::RETRY_CNT) {
            requester.set_retry_cnt(attr.retry_cnt);
        }
        if mask.contains(QpAttrMask::RNR_RETRY) {
            requester.set_rnr_retry(attr.rnr_retry);
        }
        if mask.contains(QpAttrMask::MAX_QP_RD_ATOMIC) {
            requester.set_max_rd_atomic(attr.max_rd_atomic);
        }
    });
    let _ = qp.receiver().enter(|engine| {
        let responder = engine.responder();
        if mask.contains(QpAttrMask::ACCESS_FLAGS) {
            responder.set_access(Access::from_bits(attr.access_flags));
        }
        if mask.contains(QpAttrMask::MIN_RNR_TIMER) {
            responder.set_min_rnr_timer(attr.min_rnr_timer);
        }
    });
}

/// See [`Transport::send_progress`].
pub(crate) fn send_progress(engine: &mut RcSendEngine) -> (Psn, bool) {
    let drained = engine.is_drained();
    let requester = engine.requester();
    let is_draining = requester.state() == RequesterState::Draining;
    (requester.psn(), is_draining && !drained)
}

/// See [`Transport::expected_psn`].
pub(crate) fn expected_psn(engine: &mut RcRecvEngine) -> Option<Psn> {
    Some(engine.responder().expected_psn())
}
