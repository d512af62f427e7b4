// SPDX-License-Identifier: GPL-2.0

//! Reliable connected queue pairs.
//!
//! Owns what the attributes of a queue pair mean to the two halves. What these do is in `sender` and
//! `receiver`, who runs them is in `pair`.

mod loopback;
pub(crate) mod loopback_payload;
pub(crate) mod requester;
pub(crate) mod responder;

use crate::{
    packet::path::Path,
    qp::{
        modify::path_mtu,
        queue_pair::{
            Direction,
            Qp,
            Transport, //
        }, //
    },
    queue::posted_sends::PostedSends, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::qp_attr::{
        QpAttr,
        QpAttrMask, //
    },
    sync::timer::now, //
};
use requester::RcSendEngine;
use responder::{
    RcRecvEngine, //
    ReplayStorage,
};
use roce::{
    access::Access,
    id::{
        Pkey,
        Qpn, //
    },
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
    time::Instant, //
};

/// What one queue pair may have in flight to a peer that is near. More would overrun the backlog of a virtual
/// link (`netdev_max_backlog` is 1000 packets), which several queue pairs share.
const MAX_WINDOW: FlowLimit = FlowLimit {
    bytes: 1 << 20,
    packets: 256,
};

/// What one queue pair may have in flight that has just begun, in packets: many of them must not make a queue
/// at once that takes longer than their peers may take to answer.
const INITIAL_WINDOW: u32 = 32;

/// Reliable connection.
pub(crate) struct Rc;

impl Transport for Rc {
    type Sender = RcSendEngine;
    type Receiver = RcRecvEngine;
    type Sends = Arc<PostedSends>;

    /// A peer that keeps to its window stays below, also one that is far away: 1024 packets of 4096 bytes, each in a
    /// buffer of 8 KiB, the next that `kmalloc()` has, with what the kernel needs for itself.
    const INBOX_BYTES: i32 = 9 << 20;

    const RESUMED: Direction = Direction::Receive;

    fn ready_to_receive(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        let path = way_back(qp, attr)?;
        let mut responder = Responder::new(ReplayStorage::new(attr.max_dest_rd_atomic)?);
        responder.configure(&ResponderConfig {
            dest_qpn: Qpn::new(attr.dest_qp_num),
            pkey: Pkey::DEFAULT,
            expected_psn: Psn::new(attr.rq_psn),
            path_mtu: path_mtu(attr),
            access: Access::from_bits(attr.access_flags),
            min_rnr_timer: attr.min_rnr_timer,
        });
        responder.start();
        qp.shared().set_peer(Qpn::new(attr.dest_qp_num));
        let (old, _) = qp.receiver().enter(|engine| {
            engine.set_path(path);
            engine.replace_responder(responder)
        });
        drop(old);
        Ok(())
    }

    fn ready_to_send(qp: &Qp<Self>, attr: &QpAttr) -> Result {
        let path = qp.shared().path_by(attr)?;
        let config = RequesterConfig {
            dest_qpn: Qpn::new(attr.dest_qp_num),
            pkey: Pkey::DEFAULT,
            first_psn: Psn::new(attr.sq_psn),
            path_mtu: path_mtu(attr),
            max_rd_atomic: attr.max_rd_atomic,
            ack_timeout: attr.timeout,
            retry_cnt: attr.retry_cnt,
            rnr_retry: attr.rnr_retry,
            flow: MAX_WINDOW,
            initial_window: INITIAL_WINDOW,
        };
        let _ = qp.sender().enter(|engine| {
            engine.set_path(path);
            engine.requester().configure(&config);
            engine.requester().start();
        });
        Ok(())
    }

    fn redirect(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) -> Result {
        let answers = match mask.contains(QpAttrMask::MAX_DEST_RD_ATOMIC) {
            true => Some(ReplayStorage::new(attr.max_dest_rd_atomic)?),
            false => None,
        };
        if mask.contains(QpAttrMask::AV) {
            let (there, back) = (qp.shared().path_by(attr)?, way_back(qp, attr)?);
            let _ = qp.sender().enter(|engine| {
                engine.set_path(there);
                engine.requester().on_path_change();
            });
            let _ = qp.receiver().enter(|engine| engine.set_path(back));
        }
        let (old, _) = qp
            .receiver()
            .enter(|engine| answers.map(|answers| engine.responder().replace_storage(answers)));
        drop(old);
        Ok(())
    }

    fn adjust(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) {
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

    fn sending(engine: &mut RcSendEngine) -> (Psn, bool) {
        let drained = engine.is_drained();
        let requester = engine.requester();
        let drains = requester.state() == RequesterState::Draining;
        (requester.psn(), drains && !drained)
    }

    fn expecting(engine: &mut RcRecvEngine) -> Option<Psn> {
        Some(engine.responder().expected_psn())
    }
}

/// The way that answers take, where those that are long are counted: they hold back who sends them.
fn way_back(qp: &Qp<Rc>, attr: &QpAttr) -> Result<Path> {
    Ok(qp
        .shared()
        .path_by(attr)?
        .counted_in(qp.shared().tx_inflight()))
}
