// SPDX-License-Identifier: GPL-2.0

//! The making of queue pairs.
//!
//! Owns the sizes of rings and of what is kept beside them, within what the device has reported.

use crate::{
    abi::wqe::{
        SendWqe,
        WqeBounds, //
    },
    device::ferroce::Ferroce,
    mem::pd::Pd,
    qp::{
        any_qp::AnyQp,
        queue_pair::{
            Qp,
            Transport, //
        },
        rc::{
            self,
            responder::ReplayStorage,
            Rc, //
        },
        uc::{
            self,
            Uc, //
        },
        ud::{
            self,
            sender::UdRequests,
            Ud, //
        }, //
    },
    queue::{
        recv_source::RingReader,
        ring::{
            receive_ring,
            ring, //
        },
        rq::{
            RecvQueue,
            RqSource, //
        },
        sq::{
            self,
            SendQueue,
            SendSlots, //
        },
        srq::Srq, //
    },
    verbs::{
        qp_init::{
            parts,
            within_limits,
            Engines,
            Queues, //
        },
        qp_kernel, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::{
    device::Device,
    driver::{
        QpCreated,
        QpInit, //
    },
    mmap::MmapInfo,
    qp_attr::{
        QpCaps,
        QpType, //
    },
    udata::UserContext, //
};
use roce::rc::{
    requester::Requester,
    responder::Responder, //
};
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Answer to `create_qp` (`struct rxe_create_qp_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Created {
    receive: MmapInfo,
    send: MmapInfo,
}

/// Queues as large as `caps` says, which `user` may map, and what it is told about them; receives
/// come from `srq` if there is one.
fn map_queues<U>(
    user: &mut UserContext<U>,
    caps: QpCaps,
    signal_all: bool,
    srq: Option<Arc<Srq>>,
) -> Result<(Queues, Created)> {
    let send_bounds = WqeBounds {
        max_sge: caps.max_send_sge,
        max_inline: caps.max_inline_data,
    };
    let send = ring(SendWqe::LEN, caps.max_send_sge, caps.max_send_wr)?;
    let mut created = Created {
        send: user.map_ring(&send)?,
        receive: MmapInfo::default(),
    };
    let receive = if let Some(srq) = srq {
        let max_sge = srq.max_sge();
        RecvQueue::new(RqSource::Shared(srq), max_sge)?
    } else {
        let ring = receive_ring(caps.max_recv_sge, caps.max_recv_wr)?;
        created.receive = user.map_ring(&ring)?;
        let reader = RingReader::new(ring, caps.max_recv_sge);
        RecvQueue::new(RqSource::Ring(reader), caps.max_recv_sge)?
    };
    let queues = Queues {
        send: SendQueue::new(
            sq::SqSource::Ring(send),
            send_bounds,
            caps.max_send_wr,
            signal_all,
        )?,
        receive,
    };
    Ok((queues, created))
}

/// Makes a queue pair.
///
/// # Errors
///
/// `EINVAL` for more than the device can do; `EOPNOTSUPP` for a service or a consumer that there is
/// no queue pair for; `ENOMEM`.
pub(crate) fn create(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let mut init = init;
    match (init.qp_type, init.user.take()) {
        (QpType::Rc, Some(user)) => for_process(dev, pd, init, user, rc(dev), AnyQp::Rc),
        (QpType::Uc, Some(user)) => for_process(dev, pd, init, user, uc, AnyQp::Uc),
        (QpType::Ud, Some(user)) => for_process(dev, pd, init, user, ud, AnyQp::Ud),
        (QpType::Rc, None) => qp_kernel::connected(dev, pd, init, rc(dev), AnyQp::Rc),
        (QpType::Uc, None) => qp_kernel::connected(dev, pd, init, uc, AnyQp::Uc),
        (QpType::Ud | QpType::Gsi, None) => qp_kernel::ud(dev, pd, init),
        (QpType::Gsi, Some(_)) => Err(EINVAL),
    }
}

/// The halves of a reliable connected queue pair.
fn rc(
    dev: &Device<Ferroce>,
) -> impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Engines<Rc>> + use<'_> {
    |queues, init| {
        let requester = Requester::new(SendSlots::new(queues.send.slots())?);
        let responder = Responder::new(ReplayStorage::new(0)?);
        let (send_cq, recv_cq) = (init.send_cq.clone(), init.recv_cq.clone());
        let peers = dev.shared().demux().clone();
        Ok((
            rc::requester::RcSendEngine::new(requester, queues.send, send_cq, peers),
            rc::responder::RcRecvEngine::new(responder, queues.receive, recv_cq),
        ))
    }
}

/// The halves of an unreliable connected queue pair.
fn uc(queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Engines<Uc>> {
    Ok((
        uc::sender::UcSendEngine::new(queues.send, init.send_cq.clone()),
        uc::receiver::UcRecvEngine::new(queues.receive, init.recv_cq.clone()),
    ))
}

/// The halves of a datagram queue pair.
fn ud(queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Engines<Ud>> {
    let requests = UdRequests::Ring(queues.send);
    Ok((
        ud::sender::UdSendEngine::new(requests, init.send_cq.clone()),
        ud::receiver::UdRecvEngine::new(queues.receive, init.recv_cq.clone()),
    ))
}

/// Makes a queue pair for a process.
fn for_process<T: Transport>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    user: &mut UserContext<()>,
    halves: impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Engines<T>>,
    wrap: impl FnOnce(Arc<Qp<T>>) -> AnyQp,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let caps = granted(init.caps, init.srq.is_some())?;
    let (queues, created) = map_queues(user, caps, init.sq_sig_all, init.srq.clone())?;
    let halves = halves(queues, &init)?;
    let parts = parts(dev, pd, init, caps, None)?;
    let qp = Arc::new(
        wrap(Qp::new(parts, halves, dev.shared().qps().join())?),
        GFP_KERNEL_ACCOUNT,
    )?;
    user.respond(&created)?;
    // The last step: packets find it from here on.
    let qp_num = dev.shared().demux().insert(qp.clone())?;
    qp.shared().set_number(qp_num);
    Ok((qp, QpCreated { qp_num, caps }))
}

/// What is granted to a process for what it asked. What receives there shall be means nothing if they are
/// `shared`.
fn granted(asked: QpCaps, shared: bool) -> Result<QpCaps> {
    let asked = match shared {
        true => QpCaps {
            max_recv_wr: 0,
            max_recv_sge: 0,
            ..asked
        },
        false => asked,
    };
    let caps = within_limits(asked)?;
    Ok(QpCaps {
        max_send_wr: held(caps.max_send_wr),
        max_recv_wr: held(caps.max_recv_wr.max(u32::from(!shared))),
        ..caps
    })
}

/// How many entries fit into the ring that is made for so many: user space fills it to the brim, and
/// shall read here where that is.
fn held(entries: u32) -> u32 {
    entries
        .checked_ilog2()
        .map_or(0, |log| u32::MAX >> (31 - log))
}
