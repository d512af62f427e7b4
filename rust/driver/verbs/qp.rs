// SPDX-License-Identifier: GPL-2.0

//! Creates QPs, for processes and for ULPs.
//!
//! Called by `create_qp`, in process context. A process posts to rings that it maps; a kernel consumer posts to
//! rings that no process maps. The requested capabilities are checked against the limits of the device and rounded up.

use crate::{
    abi::{
        request::SendRules,
        Abi, //
    },
    device::ferroce::Ferroce,
    limits::{
        MAX_INLINE_BYTES,
        MAX_SGE,
        MAX_WR, //
    },
    mem::{
        pd::Pd,
        sge::Sge, //
    },
    net::demux::Demux,
    port::ah::PostedAhs,
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
            Ud, //
        }, //
    },
    queue::{
        cq::Cq,
        producer::Posts,
        recv_source::RingReader,
        rq::{
            RecvQueue,
            RqSource, //
        },
        sq::{
            SendBodies,
            SendQueue,
            SendSize,
            SendSlots, //
        },
        xrcd::Xrcd, //
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
        QpInit,
        XrcTargetInit, //
    },
    event::QpHandle,
    qp_attr::{
        QpCaps,
        QpType, //
    },
    ring::Ring,
    udata::UserContext, //
};
use roce::{
    id::Qpn,
    rc::{
        requester::Requester,
        responder::Responder, //
    }, //
};
/// The queues of a QP.
struct Queues {
    send: SendQueue,
    receive: RecvQueue,
    /// AHs of posted datagrams, for a kernel consumer.
    ahs: Option<Arc<PostedAhs>>,
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
    match init.qp_type {
        QpType::Rc => create_with(dev, pd, init, rc, AnyQp::Rc),
        QpType::XrcIni => create_with(dev, pd, init, rc, AnyQp::Xrc),
        QpType::Uc => create_with(dev, pd, init, uc, AnyQp::Uc),
        QpType::Gsi if init.user.is_some() => Err(EINVAL),
        QpType::Ud | QpType::Gsi => create_with(dev, pd, init, ud, AnyQp::Ud),
    }
}

// The engines of each service.

/// Creates the engines of an RC QP, or of an initiator of XRC.
fn rc(dev: &Device<Ferroce>, queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Engines<Rc>> {
    rc_engines(dev, queues, (&init.send_cq, &init.recv_cq), None)
}

/// Creates engines of RC.
fn rc_engines(
    dev: &Device<Ferroce>,
    queues: Queues,
    (send_cq, recv_cq): (&Arc<Cq>, &Arc<Cq>),
    xrcd: Option<Arc<Xrcd>>,
) -> Result<Engines<Rc>> {
    let peers = dev.shared().demux().clone();
    Ok((
        rc_send_engine(queues.send, send_cq.clone(), peers)?,
        rc_recv_engine(queues.receive, recv_cq.clone(), xrcd)?,
    ))
}

/// Creates the engine of a requester. It is large: not inlined, so that it leaves the stack.
#[inline(never)]
fn rc_send_engine(
    queue: SendQueue,
    cq: Arc<Cq>,
    peers: Arc<Demux>,
) -> Result<KBox<rc::requester::RcSendEngine>> {
    let requester = Requester::new(SendSlots::new(0)?);
    let engine = rc::requester::RcSendEngine::new(requester, queue, cq, peers);
    Ok(KBox::new(engine, GFP_KERNEL_ACCOUNT)?)
}

/// Creates the engine of a responder, as [`rc_send_engine`].
#[inline(never)]
fn rc_recv_engine(
    queue: RecvQueue,
    cq: Arc<Cq>,
    xrcd: Option<Arc<Xrcd>>,
) -> Result<KBox<rc::responder::RcRecvEngine>> {
    let responder = Responder::new(ReplayStorage::new(0)?);
    let engine = rc::responder::RcRecvEngine::new(responder, queue, cq, xrcd);
    Ok(KBox::new(engine, GFP_KERNEL_ACCOUNT)?)
}

/// Creates a target of XRC in RESET. No consumer can write to its send queue.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn create_xrc_target(
    dev: &Device<Ferroce>,
    init: XrcTargetInit<Ferroce>,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let xrcd = init.xrcd;
    let rules = SendRules {
        max_sge: 1,
        max_inline: 0,
        signal_all: false,
        is_kernel: true,
    };
    let send = Abi::KERNEL.new_send_ring(rules.max_sge, 1)?;
    let queues = Queues {
        send: SendQueue::new((Abi::KERNEL, send, None), rules, 1),
        receive: RecvQueue::new(RqSource::Named, MAX_SGE)?,
        ahs: None,
    };
    let parts = NewQp {
        pd: xrcd.pd().clone(),
        handle: init.handle,
        caps: QpCaps::default(),
        sq_sig_all: false,
        send_size: queues.send.size(),
        posts: None,
    };
    let cq = xrcd.cq().clone();
    let engines = rc_engines(dev, queues, (&cq, &cq), Some(xrcd))?;
    let qp = Arc::new(AnyQp::Xrc(new_qp(dev, parts, engines)?), GFP_KERNEL_ACCOUNT)?;
    let qp_num = insert(dev, &qp)?;
    let caps = QpCaps::default();
    Ok((qp, QpCreated { qp_num, caps }))
}

/// Inserts a QP into the demux, and sets its number. Packets find it then, so no later step may fail. A QP in RESET
/// drops them, and does not need its number for that.
fn insert(dev: &Device<Ferroce>, qp: &Arc<AnyQp>) -> Result<u32> {
    let qp_num = dev.shared().demux().insert(qp.clone())?;
    qp.shared().set_number(qp_num);
    Ok(qp_num)
}

/// Creates the engines of a UC QP.
#[inline(never)]
fn uc(_dev: &Device<Ferroce>, queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Engines<Uc>> {
    let mut queues = queues;
    let bodies = SendBodies::new(queues.send.size())?;
    let _none = queues.send.set_bodies(bodies);
    boxed(
        uc::sender::UcSendEngine::new(queues.send, init.send_cq.clone()),
        uc::receiver::UcRecvEngine::new(queues.receive, init.recv_cq.clone()),
    )
}

/// Creates the engines of a UD or GSI QP.
#[inline(never)]
fn ud(_dev: &Device<Ferroce>, queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Engines<Ud>> {
    let mut queues = queues;
    let bodies = SendBodies::new(queues.send.size())?;
    let _none = queues.send.set_bodies(bodies);
    boxed(
        ud::sender::UdSendEngine::new(queues.send, queues.ahs, init.send_cq.clone()),
        ud::receiver::UdRecvEngine::new(queues.receive, init.recv_cq.clone()),
    )
}

/// Puts two engines into boxes.
fn boxed<S, R>(sender: S, receiver: R) -> Result<(KBox<S>, KBox<R>)> {
    Ok((
        KBox::new(sender, GFP_KERNEL_ACCOUNT)?,
        KBox::new(receiver, GFP_KERNEL_ACCOUNT)?,
    ))
}

/// Creates a QP with the engines that `engines` returns.
fn create_with<T: Transport>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    engines: impl FnOnce(&Device<Ferroce>, Queues, &QpInit<'_, Ferroce>) -> Result<Engines<T>>,
    wrap: impl FnOnce(Arc<Qp<T>>) -> AnyQp,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let mut init = init;
    let user = init.user.take();
    let caps = match &user {
        Some(user) => ring_caps(init.caps, !has_recv_ring(&init), **user.ucontext())?,
        None => granted_caps(init.caps)?,
    };
    let is_gsi = init.qp_type == QpType::Gsi;
    let (queues, posts) = create_queues(user, caps, &init)?;
    let size = queues.send.size();
    let engines = engines(dev, queues, &init)?;
    let parts = NewQp {
        pd: pd.clone(),
        handle: init.handle,
        caps,
        sq_sig_all: init.sq_sig_all,
        send_size: size,
        posts,
    };
    let qp = Arc::new(wrap(new_qp(dev, parts, engines)?), GFP_KERNEL_ACCOUNT)?;
    let qp_num = match is_gsi {
        true => {
            qp.shared().set_number(Qpn::GSI.get());
            dev.shared().demux().insert_gsi(qp.clone())?;
            Qpn::GSI.get()
        }
        false => insert(dev, &qp)?,
    };
    Ok((qp, QpCreated { qp_num, caps }))
}

/// Returns whether a QP has a receive queue of its own.
fn has_recv_ring(init: &QpInit<'_, Ferroce>) -> bool {
    init.srq.is_none() && init.qp_type != QpType::XrcIni
}

/// What a QP is made of, apart from its engines.
struct NewQp {
    pd: Arc<Pd>,
    handle: QpHandle,
    caps: QpCaps,
    sq_sig_all: bool,
    send_size: SendSize,
    posts: Option<KernelPosts>,
}

/// Creates a QP with these engines. Not inlined: the parts of a QP are large.
#[inline(never)]
fn new_qp<T: Transport>(
    dev: &Device<Ferroce>,
    parts: NewQp,
    engines: Engines<T>,
) -> Result<Arc<Qp<T>>> {
    let live_ref = dev.shared().qps().join();
    let config = QpConfig {
        shared: QpShared::new(dev.port().clone(), parts.pd, parts.handle, live_ref)?,
        caps: parts.caps,
        signal_all: parts.sq_sig_all,
        send_size: parts.send_size,
        posts: parts.posts,
    };
    Qp::new(config, engines, dev.shared().qps().join())
}

/// Creates queues of the size in `caps`. A process may map their rings, and gets the response; a kernel consumer gets
/// their producing ends. Receives come from the SRQ if there is one.
#[inline(never)]
fn create_queues(
    user: Option<&mut UserContext<Abi>>,
    caps: QpCaps,
    init: &QpInit<'_, Ferroce>,
) -> Result<(Queues, Option<KernelPosts>)> {
    let is_kernel = user.is_none();
    let abi = user.as_ref().map_or(Abi::KERNEL, |user| **user.ucontext());
    let send = abi.new_send_ring(caps.max_send_sge, caps.max_send_wr)?;
    let recv = match has_recv_ring(init) {
        false => None,
        true => Some(abi.new_recv_ring(caps.max_recv_sge, caps.max_recv_wr)?),
    };
    let posts = match user {
        Some(user) => {
            let send_info = user.map_ring(&send)?;
            let recv_info = recv.as_ref().map(|ring| user.map_ring(ring)).transpose()?;
            abi.respond_qp(user, send_info, recv_info.unwrap_or_default())?;
            None
        }
        None => Some(kernel_posts(&send, recv.as_ref(), caps, init.qp_type)?),
    };
    let sends = posts.as_ref().map(|posts| posts.sends.clone());
    let receives = posts.as_ref().and_then(|posts| posts.receives.clone());
    let rules = SendRules {
        max_sge: caps.max_send_sge,
        max_inline: caps.max_inline_data,
        signal_all: init.sq_sig_all,
        is_kernel,
    };
    let (source, max_recv_sge) = match (recv, &init.srq) {
        (Some(ring), _) => {
            let source = RqSource::Own(RingReader::new(abi, ring), receives);
            (source, caps.max_recv_sge)
        }
        (None, Some(srq)) => (RqSource::Shared(srq.clone()), srq.max_sge()),
        (None, None) => (RqSource::Named, 0),
    };
    let slots = match init.qp_type {
        // The consumer may post more, as the ring is larger.
        QpType::Rc | QpType::XrcIni => init.caps.max_send_wr.max(1).next_power_of_two(),
        _ => 1,
    };
    let queues = Queues {
        send: SendQueue::new((abi, send, sends), rules, slots),
        receive: RecvQueue::new(source, max_recv_sge)?,
        ahs: posts.as_ref().and_then(|posts| posts.ahs.clone()),
    };
    Ok((queues, posts))
}

/// Creates the producing ends of the rings of a kernel consumer.
fn kernel_posts(
    send: &Arc<Ring>,
    recv: Option<&Arc<Ring>>,
    caps: QpCaps,
    qp_type: QpType,
) -> Result<KernelPosts> {
    let recv_limits = (caps.max_recv_wr, caps.max_recv_sge);
    let receives = recv.map(|ring| Posts::new(ring.clone(), recv_limits));
    let ahs = match qp_type {
        QpType::Rc | QpType::Uc | QpType::XrcIni => None,
        QpType::Ud | QpType::Gsi => Some(PostedAhs::new(send.places())?),
    };
    Ok(KernelPosts {
        sends: Posts::new(send.clone(), (caps.max_send_wr, caps.max_send_sge))?,
        receives: receives.transpose()?,
        ahs,
    })
}

// Parameters.

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
    let sge_len = size_of::<Sge>() as u32;
    let inline_sges = requested.max_inline_data.div_ceil(sge_len);
    let max_send_sge = requested.max_send_sge.max(inline_sges).max(1);
    Ok(QpCaps {
        max_send_wr: requested.max_send_wr.max(1),
        max_send_sge,
        max_inline_data: max_send_sge.saturating_mul(sge_len),
        ..requested
    })
}

/// As [`granted_caps`], for the rings of a process, which may fill them: so the granted capabilities are those of the
/// rings. With an SRQ, the receive capabilities have no meaning and are 0.
fn ring_caps(requested: QpCaps, has_srq: bool, abi: Abi) -> Result<QpCaps> {
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
        max_send_wr: abi.ring_entries(caps.max_send_wr),
        max_recv_wr: match has_srq {
            true => 0,
            false => abi.ring_entries(caps.max_recv_wr.max(1)),
        },
        ..caps
    })
}
