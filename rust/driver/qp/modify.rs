// SPDX-License-Identifier: GPL-2.0

//! `modify_qp`: value checks, the steps of each state transition, and their order.
//!
//! Called in process context. Holds the mutex of the QP's attributes throughout. `rdma::ib::ops` has
//! checked that the transition is legal and has the required attributes (`ib_modify_qp_is_ok`). [`Transport`]
//! applies the attributes to the engines.

use crate::{
    limits::MAX_RD_ATOMIC,
    port::{
        ah::within_fields,
        state::{
            largest_path_mtu,
            Port, //
        }, //
    },
    qp::{
        engine::{
            Engine,
            SendEngine, //
        },
        poll::{
            drain_engine,
            resume_engine, //
        },
        queue_pair::{
            Qp,
            Transport, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::ArcBorrow, //
};
use rdma::{
    errno::EOPNOTSUPP,
    ib::qp_attr::{
        IbQpState,
        QpAttr,
        QpAttrMask, //
    }, //
};
use roce::{
    id::Qpn,
    qp::{
        field,
        state::{
            QpState,
            RecvAction,
            SendAction,
            Transition, //
        }, //
    },
    segmentation::mtu::Mtu, //
};

/// Sets the attributes of `qp` that `mask` names.
///
/// # Errors
///
/// `EINVAL` for a value out of range; `EOPNOTSUPP` for attributes that no QP of this driver has. The QP is
/// unchanged then.
pub(crate) fn modify<T: Transport>(
    qp: ArcBorrow<'_, Qp<T>>,
    new: &QpAttr,
    mask: QpAttrMask,
) -> Result {
    if mask.intersects(QpAttrMask::OTHERS) {
        return Err(EOPNOTSUPP);
    }
    check_ranges(new, mask, qp.shared().port())?;

    // Held throughout: modifications of a QP are serialised.
    let mut attr = qp.attr().lock();
    let mut merged = *attr;
    merge(&mut merged, new, mask);
    check_interface(&merged, mask)?;
    if qp.shared().state() == IbQpState::Sqd {
        T::modify_in_sqd(&qp, &merged, mask)?;
    }
    if mask.contains(QpAttrMask::STATE) {
        // Not an attribute of the QP: it applies to this call only.
        let notify = mask.contains(QpAttrMask::EN_SQD_ASYNC_NOTIFY) && new.en_sqd_async_notify;
        let transition = (new.cur_qp_state, new.qp_state);
        transition_to(qp, &mut merged, transition, notify)?;
    }
    T::apply_attrs(&qp, &merged, mask);
    *attr = merged;
    drop(attr);

    // Run the engines: one may have posted requests that the new state allows.
    qp.run_sender();
    qp.run_receiver();
    Ok(())
}

/// Checks values that have a range. The path MTU has the MTU of the port as its limit: longer packets would be lost.
fn check_ranges(new: &QpAttr, mask: QpAttrMask, port: &Port) -> Result {
    let in_range = [
        (
            QpAttrMask::PATH_MTU,
            Mtu::from_code(new.path_mtu).is_some_and(|mtu| mtu <= port.active_mtu()),
        ),
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
        // Without its high bits, 32 would mean that a timeout never comes.
        (QpAttrMask::TIMEOUT, new.timeout < 32),
    ];
    if in_range.iter().all(|&(bit, ok)| ok || !mask.contains(bit)) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Checks the path MTU against the interface of the QP's own address. It may be a VLAN with a smaller MTU than the port
/// has, and would lose every longer packet.
fn check_interface(attr: &QpAttr, mask: QpAttrMask) -> Result {
    let changes = mask.intersects(QpAttrMask::AV) || mask.intersects(QpAttrMask::PATH_MTU);
    if changes && path_mtu(attr) > largest_path_mtu(attr.ah.mtu) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Copies the attributes that `mask` names, as far as they fit into their fields.
fn merge(attr: &mut QpAttr, new: &QpAttr, mask: QpAttrMask) {
    macro_rules! copy {
        ($($bit:ident => $field:ident,)+) => {
            $(if mask.contains(QpAttrMask::$bit) {
                attr.$field = new.$field;
            })+
        };
    }
    copy! {
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
    // As adapters and rdma_rxe do: a value wider than its field is not refused. Programs set such values.
    attr.min_rnr_timer = field::rnr_timer(attr.min_rnr_timer);
    attr.retry_cnt = field::retry_count(attr.retry_cnt);
    attr.rnr_retry = field::retry_count(attr.rnr_retry);
    attr.dest_qp_num = Qpn::new(attr.dest_qp_num).get();
    attr.ah = within_fields(attr.ah);
}

/// Goes from state `from` to state `to`, or to ERR if an engine has failed meanwhile. `notify`: the consumer
/// asked for the event when the send queue has drained.
///
/// # Errors
///
/// `EINVAL` for a transition that IBA does not have; those of [`Transport::ready_to_receive`].
fn transition_to<T: Transport>(
    qp: ArcBorrow<'_, Qp<T>>,
    attr: &mut QpAttr,
    (from, to): (IbQpState, IbQpState),
    notify: bool,
) -> Result {
    let Transition { send, recv } = legal_transition(from, to).ok_or(EINVAL)?;
    if recv == RecvAction::Start {
        T::ready_to_receive(&qp, attr)?;
    }
    match send {
        SendAction::Reset => {
            qp.reset();
            *attr = QpAttr::default();
        }
        SendAction::Init => {
            let _ = qp.sender().enter(SendEngine::init);
        }
        SendAction::Start => T::ready_to_send(&qp, attr)?,
        SendAction::Drain => {
            let _ = qp.sender().enter(|engine| drain_engine(engine, notify));
        }
        SendAction::Keep | SendAction::Resume | SendAction::Fail => {}
    }
    attr.qp_state = to;
    if send == SendAction::Fail {
        let _ = qp.shared().fail();
        // Not in RESET, where nothing can fail.
        if qp.shared().is_failed() {
            // Waits for a run that began in the old state: it would send requests posted from now on instead
            // of flushing them.
            let _ = qp.sender().enter(|_| ());
            let _ = qp.receiver().enter(Engine::abort_replies);
        }
        return Ok(());
    }
    qp.shared().change_state(from, to);
    match send {
        SendAction::Drain => {
            // Waits for a UD run that began in the old state: it would send requests posted from now on.
            let _ = qp.sender().enter(|_| ());
        }
        SendAction::Resume => {
            // After the state change: in SQE, a run would fail the engine again.
            let _ = qp.sender().enter(resume_engine);
        }
        _ => {}
    }
    Ok(())
}

/// Returns the effect of a transition on both directions, from the table in [`roce::qp::state`] (IBA 10.3.1). `None` if
/// there is no such transition; `rdma::ib::ops` has checked the kernel's own table before.
fn legal_transition(from: IbQpState, to: IbQpState) -> Option<Transition> {
    // CAST: Reads the discriminants, which are those of verbs in both.
    let states = [from as u32, to as u32].map(QpState::from_code);
    let [Some(from), Some(to)] = states else {
        return None;
    };
    from.to(to)
}

/// Returns the path MTU, which was checked when it was set.
pub(crate) fn path_mtu(attr: &QpAttr) -> Mtu {
    Mtu::from_code(attr.path_mtu).unwrap_or_default()
}
