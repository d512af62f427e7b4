// SPDX-License-Identifier: GPL-2.0

//! Posting of work requests by ULPs: conversion and checks.
//!
//! Any context may post, also with interrupts off. Requests are only queued here; the engine's next run
//! processes them.

use crate::{
    abi::send_op::LocalRequest,
    port::ah::Ah,
    qp::{
        any_qp::AnyQp,
        queue_pair::{
            Qp,
            Transport, //
        },
        ud::{
            sender::PostedDatagram,
            Ud, //
        }, //
    },
    queue::posted_sends::PostedSends, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    errno::EOPNOTSUPP,
    ib::{
        qp_attr::IbQpState,
        wr::{
            RecvWrList,
            SendWrList, //
        },
        wr_op::{
            RemoteAddr,
            WrOp, //
        }, //
    }, //
};
use roce::{
    access::Access,
    bind::FastReg,
    id::{
        Qkey,
        Qpn,
        Rkey, //
    },
    ud::DatagramWr,
    wr::{
        AtomicOp,
        Imm,
        LocalOp,
        Remote,
        SendOp,
        SendWr,
        ATOMIC_BYTES, //
    }, //
};

/// Posts the sends in `list`.
///
/// # Errors
///
/// `EINVAL` before RTS, and for an invalid request; `EOPNOTSUPP` for one that the QP does not support;
/// `ENOMEM` if the queue is full.
pub(crate) fn post_sends<A: AsRef<Arc<Ah>>>(qp: &AnyQp, list: &mut SendWrList<'_, A>) -> Result {
    if !qp.shared().accepts_sends() {
        // The list reports the request that was yielded last as the bad one.
        let _ = list.next();
        return Err(EINVAL);
    }
    match qp {
        AnyQp::Rc(qp) => {
            let posted = post_connected(qp, list);
            qp.as_arc_borrow().sends_posted();
            posted
        }
        AnyQp::Uc(qp) => {
            let posted = post_connected(qp, list);
            qp.as_arc_borrow().sends_posted();
            posted
        }
        AnyQp::Ud(qp) => {
            let posted = post_datagrams(qp, list);
            qp.as_arc_borrow().sends_posted();
            posted
        }
    }
}

/// Posts the receives in `list`.
///
/// # Errors
///
/// `EINVAL` in RESET, if the scatter list is too long, or if the QP uses an SRQ; `ENOMEM` if the queue is
/// full.
pub(crate) fn post_receives(qp: &AnyQp, list: &mut RecvWrList<'_>) -> Result {
    let posted = list.try_for_each(|wr| {
        let is_accepting = || qp.shared().state() != IbQpState::Reset;
        qp.receive_posts().ok_or(EINVAL)?.push(is_accepting, &wr)
    });
    qp.receives_posted();
    posted
}

fn post_connected<T, A>(qp: &Qp<T>, list: &mut SendWrList<'_, A>) -> Result
where
    T: Transport<Sends = Arc<PostedSends>>,
{
    let posts = qp.posts();
    let is_accepting = || qp.shared().accepts_sends();
    list.try_for_each(|wr| {
        let posts = posts.ok_or(EINVAL)?;
        let (op, local) = convert(wr.operation().ok_or(EOPNOTSUPP)?);
        let atomic = matches!(op, SendOp::Atomic { .. });
        let sge_bytes = || {
            wr.sges()
                .iter()
                .map(|sge| u64::from(sge.length))
                .sum::<u64>()
        };
        if atomic && u64::from(ATOMIC_BYTES) > sge_bytes() {
            return Err(EINVAL);
        }
        let request = |length| SendWr {
            wr_id: wr.wr_id(),
            op,
            // An atomic returns 8 bytes, however long the scatter list is.
            length: if atomic { ATOMIC_BYTES } else { length },
            signaled: wr.is_signaled() || qp.signals_all(),
            solicited: wr.is_solicited(),
            fence: wr.is_fenced(),
        };
        match (local, wr.inline_data()) {
            (Some(local), _) => posts.sends.push_local(is_accepting, local, request(0)),
            (None, Some(data)) if op.sends_payload() => {
                posts.sends.push_inline(is_accepting, &data, request)
            }
            // The data of READs and atomics is scattered, never inline.
            _ => posts.sends.push(is_accepting, &wr.sges(), request),
        }
    })
}

/// Converts `operation` for the requester. A request that the driver performs itself comes as a second value.
fn convert(operation: WrOp) -> (SendOp, Option<LocalRequest>) {
    let op = match operation {
        WrOp::Send {
            invalidate: Some(rkey),
            ..
        } => SendOp::SendInvalidate {
            rkey: Rkey::new(rkey),
        },
        WrOp::Send {
            imm,
            invalidate: None,
        } => SendOp::Send { imm: imm.map(Imm) },
        WrOp::Write { remote, imm } => SendOp::Write {
            remote: remote_of(remote),
            imm: imm.map(Imm),
        },
        WrOp::Read {
            remote,
            invalidate: None,
        } => SendOp::Read {
            remote: remote_of(remote),
        },
        WrOp::Read {
            remote,
            invalidate: Some(rkey),
        } => SendOp::ReadInvalidate {
            remote: remote_of(remote),
            rkey: Rkey::new(rkey),
        },
        WrOp::CompareSwap {
            remote,
            compare,
            swap,
        } => SendOp::Atomic {
            remote: remote_of(remote),
            op: AtomicOp::CompareSwap { compare, swap },
        },
        WrOp::FetchAdd { remote, add } => SendOp::Atomic {
            remote: remote_of(remote),
            op: AtomicOp::FetchAdd { add },
        },
        WrOp::Invalidate { key } => {
            let local = LocalRequest::Invalidate(Rkey::new(key));
            return (SendOp::Local(LocalOp::Invalidate), Some(local));
        }
        WrOp::Register { key, iova, access } => {
            let local = LocalRequest::Register(FastReg {
                key,
                access: Access::from_bits(access),
                iova,
            });
            return (SendOp::Local(LocalOp::Register), Some(local));
        }
    };
    (op, None)
}

fn remote_of(remote: RemoteAddr) -> Remote {
    Remote {
        va: remote.addr,
        rkey: Rkey::new(remote.rkey),
    }
}

fn post_datagrams<A: AsRef<Arc<Ah>>>(qp: &Qp<Ud>, list: &mut SendWrList<'_, A>) -> Result {
    let posts = qp.posts();
    list.try_for_each(|wr| {
        let posts = posts.ok_or(EINVAL)?;
        let ud = wr.ud();
        // The core drains any QP by a WRITE that it posts in ERR, where it is only flushed.
        let (is_datagram, shared) = (ud.is_some(), qp.shared());
        let is_accepting = || match is_datagram {
            true => shared.accepts_sends(),
            false => shared.is_failed(),
        };
        let (remote_qpn, remote_qkey) = ud
            .as_ref()
            .map_or((0, 0), |ud| (ud.remote_qpn, ud.remote_qkey));
        let request = |length| PostedDatagram {
            wr: DatagramWr {
                wr_id: wr.wr_id(),
                remote_qpn: Qpn::new(remote_qpn),
                remote_qkey: Qkey::new(remote_qkey),
                imm: wr.has_imm().then(|| Imm(wr.imm())),
                length,
                signaled: wr.is_signaled() || qp.signals_all(),
                solicited: wr.is_solicited(),
            },
            ah: ud.map(|ud| ud.ah.as_ref().as_ref().clone()),
        };
        match wr.inline_data() {
            Some(data) => posts.sends.push_inline(is_accepting, &data, request),
            None => posts.sends.push(is_accepting, &wr.sges(), request),
        }
    })
}
