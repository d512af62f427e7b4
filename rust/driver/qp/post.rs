// SPDX-License-Identifier: GPL-2.0

//! Work requests of consumers in the kernel, as they are posted.
//!
//! Owns the way from what a consumer asks for to what a queue pair does, and the checks in between. Any
//! context may post, also with interrupts off; so requests are only put where the queue pair's next
//! turn finds them.

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
use rdma::ib::{
    qp_attr::IbQpState,
    wr::{
        RecvWrList,
        SendWrList, //
    },
    wr_op::{
        RemoteAddr, //
        WrOp,
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

/// Takes the sends in `list`.
///
/// # Errors
///
/// `EINVAL` before RTS, and for a request that cannot be; `EOPNOTSUPP` for one that the queue pair
/// cannot carry out; `ENOMEM` when too many are posted.
pub(crate) fn post_sends<A: AsRef<Arc<Ah>>>(qp: &AnyQp, list: &mut SendWrList<'_, A>) -> Result {
    if !qp.shared().takes_sends() {
        // The list knows which request is to blame once it has yielded it.
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

/// Takes the receives in `list`.
///
/// # Errors
///
/// `EINVAL` in RESET, for too long a scatter list, or when receives come from a shared queue; `ENOMEM`
/// when too many are posted.
pub(crate) fn post_receives(qp: &AnyQp, list: &mut RecvWrList<'_>) -> Result {
    let posted = list.try_for_each(|wr| {
        let open = || qp.shared().state() != IbQpState::Reset;
        qp.receive_posts().ok_or(EINVAL)?.push(open, &wr)
    });
    qp.receives_posted();
    posted
}

fn post_connected<T, A>(qp: &Qp<T>, list: &mut SendWrList<'_, A>) -> Result
where
    T: Transport<Sends = Arc<PostedSends>>,
{
    let posts = qp.posts();
    let open = || qp.shared().takes_sends();
    list.try_for_each(|wr| {
        let posts = posts.ok_or(EINVAL)?;
        let (op, local) = operation(wr.operation().ok_or(EOPNOTSUPP)?);
        let atomic = matches!(op, SendOp::Atomic { .. });
        let room = || {
            wr.sges()
                .iter()
                .map(|sge| u64::from(sge.length))
                .sum::<u64>()
        };
        if atomic && u64::from(ATOMIC_BYTES) > room() {
            return Err(EINVAL);
        }
        let request = |length| SendWr {
            wr_id: wr.wr_id(),
            op,
            // The result takes no more, whatever room there is.
            length: if atomic { ATOMIC_BYTES } else { length },
            signaled: wr.is_signaled() || qp.signals_all(),
            solicited: wr.is_solicited(),
            fence: wr.is_fenced(),
        };
        match (local, wr.inline_data()) {
            (Some(local), _) => posts.sends.push_local(open, local, request(0)),
            (None, Some(data)) if op.sends_payload() => {
                posts.sends.push_inline(open, &data, request)
            }
            // What is fetched is scattered.
            _ => posts.sends.push(open, &wr.sges(), request),
        }
    })
}

/// What the requester makes of `operation`, and what the driver carries out itself.
fn operation(operation: WrOp) -> (SendOp, Option<LocalRequest>) {
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
            remote: place(remote),
            imm: imm.map(Imm),
        },
        WrOp::Read {
            remote,
            invalidate: None,
        } => SendOp::Read {
            remote: place(remote),
        },
        WrOp::Read {
            remote,
            invalidate: Some(rkey),
        } => SendOp::ReadInvalidate {
            remote: place(remote),
            rkey: Rkey::new(rkey),
        },
        WrOp::CompareSwap {
            remote,
            compare,
            swap,
        } => SendOp::Atomic {
            remote: place(remote),
            op: AtomicOp::CompareSwap { compare, swap },
        },
        WrOp::FetchAdd { remote, add } => SendOp::Atomic {
            remote: place(remote),
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

fn place(remote: RemoteAddr) -> Remote {
    Remote {
        va: remote.addr,
        rkey: Rkey::new(remote.rkey),
    }
}

fn post_datagrams<A: AsRef<Arc<Ah>>>(qp: &Qp<Ud>, list: &mut SendWrList<'_, A>) -> Result {
    let posts = qp.posts();
    let open = || qp.shared().takes_sends();
    list.try_for_each(|wr| {
        let posts = posts.ok_or(EINVAL)?;
        let ud = wr.ud().ok_or(EINVAL)?;
        let request = |length| PostedDatagram {
            wr: DatagramWr {
                wr_id: wr.wr_id(),
                remote_qpn: Qpn::new(ud.remote_qpn),
                remote_qkey: Qkey::new(ud.remote_qkey),
                imm: wr.has_imm().then(|| Imm(wr.imm())),
                length,
                signaled: wr.is_signaled() || qp.signals_all(),
                solicited: wr.is_solicited(),
            },
            ah: ud.ah.as_ref().as_ref().clone(),
        };
        match wr.inline_data() {
            Some(data) => posts.sends.push_inline(open, &data, request),
            None => posts.sends.push(open, &wr.sges(), request),
        }
    })
}
