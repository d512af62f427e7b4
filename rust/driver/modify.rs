// SPDX-License-Identifier: GPL-2.0

//! `modify_qp`: from the attributes that a consumer sets to the configuration of the two halves.
//!
//! Owns the checks of values and what each transition does. Which transitions are legal, and which
//! attributes they need, the RDMA core has checked before (`ib_modify_qp_is_ok`).

use crate::{
    path::Path,
    qp::Qp,
    receiver::Answers, //
};
use kernel::{
    prelude::*,
    sync::ArcBorrow, //
};
use rdma::attr::{
    QpAttr,
    QpAttrMask,
    QpState, //
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
            Flow,
            RequesterConfig, //
        },
        responder::{
            Responder,
            ResponderConfig, //
        }, //
    },
    segment::Mtu, //
};

/// Most READs and atomics in flight, in either direction.
pub(crate) const MAX_RD_ATOMIC: u8 = 128;

/// What one queue pair may have in flight. More would overrun the backlog of a virtual link
/// (`netdev_max_backlog` is 1000 packets), which several queue pairs share.
const FLOW: Flow = Flow {
    bytes: 1 << 20,
    packets: 256,
};

/// Sets the attributes of `qp` that `mask` names.
///
/// # Errors
///
/// `EINVAL` for a value out of range; `EOPNOTSUPP` for attributes that no queue pair here has.
/// The queue pair is as it was.
pub(crate) fn modify(qp: ArcBorrow<'_, Qp>, new: &QpAttr, mask: QpAttrMask) -> Result {
    if mask.intersects(QpAttrMask::OTHERS) {
        return Err(EOPNOTSUPP);
    }
    check(new, mask)?;

    // Held throughout: modifications of one queue pair come one after another.
    let mut attr = qp.attr().lock();
    let mut merged = *attr;
    merge(&mut merged, new, mask);
    if mask.contains(QpAttrMask::STATE) {
        transit(qp, &mut merged, new.qp_state)?;
    }
    adjust(&qp, &merged, mask);
    *attr = merged;
    drop(attr);

    // A half may have found its state only now.
    qp.run_sender();
    qp.run_receiver();
    Ok(())
}

/// Checks the values that have a range.
fn check(new: &QpAttr, mask: QpAttrMask) -> Result {
    let in_range = [
        (QpAttrMask::PATH_MTU, Mtu::from_code(new.path_mtu).is_some()),
        (QpAttrMask::PORT, new.port_num == 1),
        (QpAttrMask::PKEY_INDEX, new.pkey_index == 0),
        (QpAttrMask::PATH_MIG_STATE, new.path_mig_state == 0),
        (
            QpAttrMask::MAX_QP_RD_ATOMIC,
            new.max_rd_atomic <= MAX_RD_ATOMIC,
        ),
        (
            QpAttrMask::MAX_DEST_RD_ATOMIC,
            new.max_dest_rd_atomic <= MAX_RD_ATOMIC,
        ),
        (QpAttrMask::MIN_RNR_TIMER, new.min_rnr_timer < 32),
        (QpAttrMask::TIMEOUT, new.timeout < 32),
        (QpAttrMask::RETRY_CNT, new.retry_cnt < 8),
        (QpAttrMask::RNR_RETRY, new.rnr_retry < 8),
    ];
    if in_range.iter().all(|&(bit, ok)| ok || !mask.contains(bit)) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Copies the attributes that `mask` names.
fn merge(attr: &mut QpAttr, new: &QpAttr, mask: QpAttrMask) {
    macro_rules! take {
        ($($bit:ident => $field:ident,)+) => {
            $(if mask.contains(QpAttrMask::$bit) {
                attr.$field = new.$field;
            })+
        };
    }
    take! {
        EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify,
        ACCESS_FLAGS => access_flags,
        PKEY_INDEX => pkey_index,
        PORT => port_num,
        QKEY => qkey,
        AV => ah,
        PATH_MTU => path_mtu,
        TIMEOUT => timeout,
        RETRY_CNT => retry_cnt,
        RNR_RETRY => rnr_retry,
        RQ_PSN => rq_psn,
        MAX_QP_RD_ATOMIC => max_rd_atomic,
        MIN_RNR_TIMER => min_rnr_timer,
        SQ_PSN => sq_psn,
        MAX_DEST_RD_ATOMIC => max_dest_rd_atomic,
        PATH_MIG_STATE => path_mig_state,
        DEST_QPN => dest_qp_num,
    }
}

/// Goes to state `to`.
fn transit(qp: ArcBorrow<'_, Qp>, attr: &mut QpAttr, to: QpState) -> Result {
    let from = qp.common().state();
    match (from, to) {
        (_, QpState::Reset) => reset(&qp),
        (_, QpState::Err) => {}
        (QpState::Reset, QpState::Init) => {
            let _ = qp.sender().control(|half| half.requester().init());
        }
        (QpState::Init, QpState::Rtr) => ready_to_receive(&qp, attr)?,
        (QpState::Rtr, QpState::Rts) => ready_to_send(&qp, attr)?,
        (QpState::Rts, QpState::Sqd) => {
            let notify = attr.en_sqd_async_notify;
            let _ = qp.sender().control(|half| half.drain(notify));
        }
        (QpState::Sqd, QpState::Rts) => {
            let _ = qp.sender().control(|half| half.requester().resume());
        }
        _ => {}
    }
    attr.qp_state = to;
    if to == QpState::Err {
        let _ = qp.common().fail();
    } else {
        qp.common().change_state(from, to);
    }
    Ok(())
}

/// Forgets everything: what was posted, sent, received, and the peer.
pub(crate) fn reset(qp: &Qp) {
    // First, so that a turn that begins now finds nothing to do.
    qp.common()
        .change_state(qp.common().state(), QpState::Reset);
    let _ = qp.sender().control(|half| half.reset(qp.responses()));
    let _ = qp.receiver().control(|half| half.reset(qp.requests()));
}

/// INIT to RTR: the receiver learns who its peer is, and answers it.
fn ready_to_receive(qp: &Qp, attr: &QpAttr) -> Result {
    let path = Path::new(&attr.ah, qp.common().number(), attr.dest_qp_num)?;
    let mut responder = Responder::new(Answers::new(attr.max_dest_rd_atomic)?);
    responder.configure(&ResponderConfig {
        dest_qpn: Qpn::new(attr.dest_qp_num),
        pkey: Pkey::DEFAULT,
        expected_psn: Psn::new(attr.rq_psn),
        path_mtu: path_mtu(attr),
        access: Access::from_bits(attr.access_flags),
        min_rnr_timer: attr.min_rnr_timer,
    });
    responder.start();
    let (old, _) = qp.receiver().control(|half| {
        half.set_path(path);
        half.replace_responder(responder)
    });
    drop(old);
    Ok(())
}

/// RTR to RTS: the sender may start.
fn ready_to_send(qp: &Qp, attr: &QpAttr) -> Result {
    let path = Path::new(&attr.ah, qp.common().number(), attr.dest_qp_num)?;
    let config = RequesterConfig {
        dest_qpn: Qpn::new(attr.dest_qp_num),
        pkey: Pkey::DEFAULT,
        first_psn: Psn::new(attr.sq_psn),
        path_mtu: path_mtu(attr),
        max_rd_atomic: attr.max_rd_atomic,
        ack_timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        flow: FLOW,
    };
    let _ = qp.sender().control(|half| {
        half.set_path(path);
        half.requester().configure(&config);
        half.requester().start();
    });
    Ok(())
}

/// Sets what may change while the queue pair works.
fn adjust(qp: &Qp, attr: &QpAttr, mask: QpAttrMask) {
    let _ = qp.sender().control(|half| {
        let requester = half.requester();
        if mask.contains(QpAttrMask::TIMEOUT) {
            requester.set_ack_timeout(attr.timeout);
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
    let _ = qp.receiver().control(|half| {
        let responder = half.responder();
        if mask.contains(QpAttrMask::ACCESS_FLAGS) {
            responder.set_access(Access::from_bits(attr.access_flags));
        }
        if mask.contains(QpAttrMask::MIN_RNR_TIMER) {
            responder.set_min_rnr_timer(attr.min_rnr_timer);
        }
    });
}

/// The path MTU, which was checked when it was set.
fn path_mtu(attr: &QpAttr) -> Mtu {
    Mtu::from_code(attr.path_mtu).unwrap_or_default()
}
