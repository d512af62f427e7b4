// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of consumers in the kernel.
//!
//! Owns where such a consumer posts. What queue pairs have in common is in `create`.

use crate::verbs::qp_init::{
    parts,
    within_limits,
    Engines,
    Queues, //
};
use crate::{
    abi::wqe::WqeBounds,
    device::ferroce::Ferroce,
    mem::pd::Pd,
    qp::{
        any_qp::AnyQp,
        queue_pair::{
            KernelPosts,
            Qp,
            Transport, //
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
        rq::{
            PostedRecvs,
            RecvQueue,
            RqSource, //
        },
        sq::{
            self,
            SendQueue, //
        }, //
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
    qp_attr::QpType, //
};
use roce::id::Qpn;

/// Makes a queue pair for a consumer in the kernel, who posts to `sends`.
fn for_kernel<T: Transport>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    sends: T::Sends,
    halves: impl FnOnce(&T::Sends, RecvQueue, &QpInit<'_, Ferroce>) -> Result<Engines<T>>,
    wrap: impl FnOnce(Arc<Qp<T>>) -> AnyQp,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let caps = init.caps;
    let (receives, posts) = match init.srq.clone() {
        Some(srq) => {
            let max_sge = srq.max_sge();
            (RecvQueue::new(RqSource::Shared(srq), max_sge)?, None)
        }
        None => {
            let posts = PostedRecvs::new(caps.max_recv_wr, caps.max_recv_sge)?;
            let source = RqSource::Posted(posts.clone());
            (RecvQueue::new(source, caps.max_recv_sge)?, Some(posts))
        }
    };
    let halves = halves(&sends, receives, &init)?;
    let general_services = init.qp_type == QpType::Gsi;
    let posts = KernelPosts {
        sends,
        receives: posts,
    };
    let parts = parts(dev, pd, init, caps, Some(posts))?;
    let qp = wrap(Qp::new(parts, halves, dev.shared().qps().join())?);
    let qp = Arc::new(qp, GFP_KERNEL)?;
    // The last step: packets find it from here on.
    let qp_num = if general_services {
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

/// A connected queue pair of a consumer in the kernel, with the halves that `halves` makes.
pub(super) fn connected<T: Transport<Sends = Arc<PostedSends>>>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    halves: impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Engines<T>>,
    wrap: impl FnOnce(Arc<Qp<T>>) -> AnyQp,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let mut init = init;
    init.caps = within_limits(init.caps)?;
    let sends = PostedSends::new(init.caps.max_send_wr, init.caps.max_send_sge)?;
    let halves = |sends: &Arc<PostedSends>, receive, init: &QpInit<'_, Ferroce>| {
        let bounds = WqeBounds {
            max_sge: init.caps.max_send_sge,
            max_inline: init.caps.max_inline_data,
        };
        let source = sq::SqSource::Posted(sends.clone());
        let send = SendQueue::new(source, bounds, init.caps.max_send_wr, init.sq_sig_all)?;
        halves(Queues { send, receive }, init)
    };
    for_kernel(dev, pd, init, sends, halves, wrap)
}

/// A datagram queue pair of a consumer in the kernel. The MAD layer wants that of number 1.
pub(super) fn ud(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
) -> Result<(Arc<AnyQp>, QpCreated)> {
    let mut init = init;
    init.caps = within_limits(init.caps)?;
    let sends = PostedSends::new(init.caps.max_send_wr, init.caps.max_send_sge)?;
    for_kernel(dev, pd, init, sends, ud_halves, AnyQp::Ud)
}

fn ud_halves(
    sends: &Arc<PostedSends<PostedDatagram>>,
    receives: RecvQueue,
    init: &QpInit<'_, Ferroce>,
) -> Result<Engines<Ud>> {
    let requests = UdRequests::Posted(UdPostedSends::new(sends.clone(), init.caps.max_send_sge)?);
    Ok((
        ud::sender::UdSendEngine::new(requests, init.send_cq.clone()),
        ud::receiver::UdRecvEngine::new(receives, init.recv_cq.clone()),
    ))
}
