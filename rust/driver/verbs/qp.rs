// SPDX-License-Identifier: GPL-2.0

//! Creates QPs, for processes and for ULPs.
//!
//! Called by `create_qp`, in process context. A process posts to rings that it maps; a ULP posts to queues in kernel
//! memory. The requested capabilities are checked against the limits of the device and rounded up.

use crate::{
    abi::wqe::{
        SendWqe,
        WqeBounds,
        WqeSge, //
    },
    device::ferroce::Ferroce,
    limits::{
        MAX_INLINE_BYTES,
        MAX_SGE,
        MAX_WR, //
    },
    mem::pd::Pd,
    qp::{
        any_qp::AnyQp,
        queue_pair::{
            Engines,
            KernelPosts,
            Qp,
            QpConfig,
            Transport, //
        },
        rc::{
            self,
            responder::ReplayStorage,
            Rc, //
        },
        shared::QpShared,
        uc::{
            self,
            Uc, //
        },
        ud::{
            self,
            sender::{
                PostedDatagram,
                UdPostedSends,
                UdRequests, //
            },
            Ud, //
        }, //
    },
    queue::{
        posted_sends::PostedSends,
        recv_source::RingReader,
        ring::{
            receive_ring,
            ring, //
        },
        rq::{
            PostedRecvs,
            RecvQueue,
            RqSource, //
        },
        sq::{
            SendQueue,
            SendSlots,
            SqSource, //
        },
        srq::Srq, //
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
use roce::{
    id::Qpn,
    rc::{
        requester::Requester,
        responder::Responder, //
    }, //
};
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Response to `create_qp` (`struct rxe_create_qp_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreateQpResponse {
    receive: MmapInfo,
    send: MmapInfo,
}

/// The queues of a QP.
struct Queues {
    send: SendQueue,
    receive: RecvQueue,
}

/// Creates a QP in RESET.
///
/// # Errors
///
/// `EINVAL` if a limit of the device is exceeded, or if a process requests a GSI QP; `ENOMEM`; `EINVAL` or `EFAULT` if
/// the response cannot be written.
pub(crate) fn create(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let mut init = init;
    match (init.qp_type, init.user.take()) {
        (QpType::Rc, Some(user)) => create_for_process(dev, pd, init, user, rc(dev), AnyQp::Rc),
        (QpType::Uc, Some(user)) => create_for_process(dev, pd, init, user, uc, AnyQp::Uc),
        (QpType::Ud, Some(user)) => create_for_process(dev, pd, init, user, ud, AnyQp::Ud),
        (QpType::Rc, None) => create_connected_for_ulp(dev, pd, init, rc(dev), AnyQp::Rc),
        (QpType::Uc, None) => create_connected_for_ulp(dev, pd, init, uc, AnyQp::Uc),
        (QpType::Ud | QpType::Gsi, None) => create_ud_for_ulp(dev, pd, init),
        (QpType::Gsi, Some(_)) => Err(EINVAL),
    }
}

// The engines of each service.

/// Returns a function that creates the engines of an RC QP.
fn rc(
    dev: &Device<Ferroce>,
) -> impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Engines<Rc>> + use<'_> {
    |queues, init| {
        let requester = Requester::new(SendSlots::new(queues.send.slots())?);
        let (send_cq, recv_cq) = (init.send_cq.clone(), init.recv_cq.clone());
        let peers = dev.shared().demux().clone();
        let sender = rc::requester::RcSendEngine::new(requester, queues.send, send_cq, peers);
        let responder = Responder::new(ReplayStorage::new(0)?);
        let receiver = rc::responder::RcRecvEngine::new(responder, queues.receive, recv_cq);
        boxed(sender, receiver)
    }
}

/// Creates the engines of a UC QP.
fn uc(queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Engines<Uc>> {
    boxed(
        uc::sender::UcSendEngine::new(queues.send, init.send_cq.clone()),
        uc::receiver::UcRecvEngine::new(queues.receive, init.recv_cq.clone()),
    )
}

/// Creates the engines of a UD QP of a process.
fn ud(queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Engines<Ud>> {
    let requests = UdRequests::Ring(queues.send);
    boxed(
        ud::sender::UdSendEngine::new(requests, init.send_cq.clone()),
        ud::receiver::UdRecvEngine::new(queues.receive, init.recv_cq.clone()),
    )
}

/// Creates the engines of a UD QP of a ULP.
fn ud_for_ulp(
    sends: &Arc<PostedSends<PostedDatagram>>,
    receives: RecvQueue,
    init: &QpInit<'_, Ferroce>,
) -> Result<Engines<Ud>> {
    let requests = UdRequests::Posted(UdPostedSends::new(sends.clone(), init.caps.max_send_sge)?);
    boxed(
        ud::sender::UdSendEngine::new(requests, init.send_cq.clone()),
        ud::receiver::UdRecvEngine::new(receives, init.recv_cq.clone()),
    )
}

/// Puts two engines into boxes.
fn boxed<S, R>(sender: S, receiver: R) -> Result<(KBox<S>, KBox<R>)> {
    Ok((
        KBox::new(sender, GFP_KERNEL_ACCOUNT)?,
        KBox::new(receiver, GFP_KERNEL_ACCOUNT)?,
    ))
}

// QPs of processes.

/// Creates a QP of a process, with the engines that `engines` returns.
fn create_for_process<T: Transport>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    user: &mut UserContext<()>,
    engines: impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Engines<T>>,
    wrap: impl FnOnce(Arc<Qp<T>>) -> AnyQp,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let caps = ring_caps(init.caps, init.srq.is_some())?;
    let (queues, response) = map_queues(user, caps, init.sq_sig_all, init.srq.clone())?;
    let engines = engines(queues, &init)?;
    let config = qp_config(dev, pd, init, caps, None)?;
    let qp = Arc::new(
        wrap(Qp::new(config, engines, dev.shared().qps().join())?),
        GFP_KERNEL_ACCOUNT,
    )?;
    user.respond(&response)?;
    // Packets find the QP from here on, so no later step may fail. A QP in RESET drops them, and does not need its
    // number for that.
    let qp_num = dev.shared().demux().insert(qp.clone())?;
    qp.shared().set_number(qp_num);
    Ok((qp, QpCreated { qp_num, caps }))
}

/// Creates queues of the size in `caps`, on rings that `user` may map. Receives come from `srq` if there is one.
/// Returns the response to user space as well.
fn map_queues<U>(
    user: &mut UserContext<U>,
    caps: QpCaps,
    signal_all: bool,
    srq: Option<Arc<Srq>>,
) -> Result<(Queues, CreateQpResponse)> {
    let send_bounds = WqeBounds {
        max_sge: caps.max_send_sge,
        max_inline: caps.max_inline_data,
    };
    let send = ring(SendWqe::FIXED_LEN, caps.max_send_sge, caps.max_send_wr)?;
    let mut response = CreateQpResponse {
        send: user.map_ring(&send)?,
        receive: MmapInfo::default(),
    };
    let receive = if let Some(srq) = srq {
        let max_sge = srq.max_sge();
        RecvQueue::new(RqSource::Shared(srq), max_sge)?
    } else {
        let ring = receive_ring(caps.max_recv_sge, caps.max_recv_wr)?;
        response.receive = user.map_ring(&ring)?;
        let reader = RingReader::new(ring, caps.max_recv_sge);
        RecvQueue::new(RqSource::Ring(reader), caps.max_recv_sge)?
    };
    let queues = Queues {
        send: SendQueue::new(
            SqSource::Ring(send),
            send_bounds,
            caps.max_send_wr,
            signal_all,
        )?,
        receive,
    };
    Ok((queues, response))
}

// QPs of ULPs.

/// Creates an RC or UC QP of a ULP, with the engines that `engines` returns.
fn create_connected_for_ulp<T: Transport<Sends = Arc<PostedSends>>>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    engines: impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Engines<T>>,
    wrap: impl FnOnce(Arc<Qp<T>>) -> AnyQp,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let mut init = init;
    init.caps = granted_caps(init.caps)?;
    let sends = PostedSends::new(init.caps.max_send_wr, init.caps.max_send_sge)?;
    let engines = |sends: &Arc<PostedSends>, receive, init: &QpInit<'_, Ferroce>| {
        let bounds = WqeBounds {
            max_sge: init.caps.max_send_sge,
            max_inline: init.caps.max_inline_data,
        };
        let source = SqSource::Posted(sends.clone());
        let send = SendQueue::new(source, bounds, init.caps.max_send_wr, init.sq_sig_all)?;
        engines(Queues { send, receive }, init)
    };
    create_for_ulp(dev, pd, init, sends, engines, wrap)
}

/// Creates a UD or GSI QP of a ULP.
fn create_ud_for_ulp(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let mut init = init;
    init.caps = granted_caps(init.caps)?;
    let sends = PostedSends::new(init.caps.max_send_wr, init.caps.max_send_sge)?;
    create_for_ulp(dev, pd, init, sends, ud_for_ulp, AnyQp::Ud)
}

/// Creates a QP of a ULP that posts to `sends`, with the engines that `engines` returns.
fn create_for_ulp<T: Transport>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    sends: T::Sends,
    engines: impl FnOnce(&T::Sends, RecvQueue, &QpInit<'_, Ferroce>) -> Result<Engines<T>>,
    wrap: impl FnOnce(Arc<Qp<T>>) -> AnyQp,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let caps = init.caps;
    let (recv_queue, receives) = match init.srq.clone() {
        Some(srq) => {
            let max_sge = srq.max_sge();
            (RecvQueue::new(RqSource::Shared(srq), max_sge)?, None)
        }
        None => {
            let receives = PostedRecvs::new(caps.max_recv_wr, caps.max_recv_sge)?;
            let source = RqSource::Posted(receives.clone());
            let recv_queue = RecvQueue::new(source, caps.max_recv_sge)?;
            (recv_queue, Some(receives))
        }
    };
    let engines = engines(&sends, recv_queue, &init)?;
    let is_gsi = init.qp_type == QpType::Gsi;
    let posts = KernelPosts { sends, receives };
    let config = qp_config(dev, pd, init, caps, Some(posts))?;
    let qp = wrap(Qp::new(config, engines, dev.shared().qps().join())?);
    let qp = Arc::new(qp, GFP_KERNEL)?;
    // Packets find the QP as soon as it is inserted, so no later step may fail. A QP in RESET drops them.
    let qp_num = if is_gsi {
        let qp_num = Qpn::GSI.get();
        qp.shared().set_number(qp_num);
        dev.shared().demux().insert_gsi(qp.clone())?;
        qp_num
    } else {
        let qp_num = dev.shared().demux().insert(qp.clone())?;
        qp.shared().set_number(qp_num);
        qp_num
    };
    Ok((qp, QpCreated { qp_num, caps }))
}

// Parameters.

/// Returns the parameters of a QP, apart from its engines.
///
/// # Errors
///
/// `ENOMEM`.
fn qp_config<T: Transport>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    caps: QpCaps,
    posts: Option<KernelPosts<T::Sends>>,
) -> Result<QpConfig<T>> {
    let live_ref = dev.shared().qps().join();
    Ok(QpConfig {
        shared: QpShared::new(dev.port().clone(), pd.clone(), init.handle, live_ref)?,
        caps,
        signal_all: init.sq_sig_all,
        posts,
    })
}

/// Returns the capabilities granted for the requested ones. SGEs and inline data share the room of a WQE, so both are
/// rounded up to the larger.
///
/// # Errors
///
/// `EINVAL` if a limit of the device is exceeded.
fn granted_caps(requested: QpCaps) -> Result<QpCaps> {
    if requested.max_send_wr > MAX_WR
        || requested.max_recv_wr > MAX_WR
        || requested.max_send_sge > MAX_SGE
        || requested.max_recv_sge > MAX_SGE
        || requested.max_inline_data > MAX_INLINE_BYTES
    {
        return Err(EINVAL);
    }
    // CAST: The size is 16.
    let sge_len = size_of::<WqeSge>() as u32;
    let inline_sges = requested.max_inline_data.div_ceil(sge_len);
    let max_send_sge = requested.max_send_sge.max(inline_sges).max(1);
    Ok(QpCaps {
        max_send_wr: requested.max_send_wr.max(1),
        max_send_sge,
        max_inline_data: max_send_sge.saturating_mul(sge_len),
        ..requested
    })
}

/// As [`granted_caps`], for the rings of a process. With an SRQ, the receive capabilities have no meaning and are 0.
fn ring_caps(requested: QpCaps, has_srq: bool) -> Result<QpCaps> {
    let requested = match has_srq {
        true => QpCaps {
            max_recv_wr: 0,
            max_recv_sge: 0,
            ..requested
        },
        false => requested,
    };
    let caps = granted_caps(requested)?;
    Ok(QpCaps {
        max_send_wr: ring_capacity(caps.max_send_wr),
        max_recv_wr: ring_capacity(caps.max_recv_wr.max(u32::from(!has_srq))),
        ..caps
    })
}

/// Returns the number of entries that fit into a ring created for `entries`. User space may fill the ring, so the
/// reported capabilities must include the rounding.
fn ring_capacity(entries: u32) -> u32 {
    entries
        .checked_ilog2()
        .map_or(0, |log| u32::MAX >> (31 - log))
}
