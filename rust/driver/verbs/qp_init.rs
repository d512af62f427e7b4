// SPDX-License-Identifier: GPL-2.0

//! What making a queue pair for a process and for a kernel consumer have in common.

use crate::{
    abi::wqe::WqeSge,
    device::ferroce::Ferroce,
    limits::{
        MAX_INLINE_BYTES,
        MAX_SGE,
        MAX_WR, //
    },
    mem::pd::Pd,
    qp::{
        queue_pair::{
            KernelPosts,
            QpConfig,
            Transport, //
        },
        shared::QpShared, //
    },
    queue::{
        rq::RecvQueue,
        sq::SendQueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::{
    device::Device,
    driver::QpInit,
    qp_attr::QpCaps, //
};

/// The queues of a process's queue pair.
pub(super) struct Queues {
    pub(super) send: SendQueue,
    pub(super) receive: RecvQueue,
}

/// The halves of a queue pair of service `T`.
pub(super) type Engines<T> = (<T as Transport>::Sender, <T as Transport>::Receiver);

/// What every queue pair has.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn parts<T: Transport>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    caps: QpCaps,
    posts: Option<KernelPosts<T::Sends>>,
) -> Result<QpConfig<T>> {
    let alive = dev.shared().qps().join();
    Ok(QpConfig {
        shared: QpShared::new(dev.port().clone(), pd.clone(), init.handle, alive)?,
        caps,
        signal_all: init.sq_sig_all,
        posts,
    })
}

/// What is granted to anybody for what he asked. Scatter list and inline data share the same room, so there
/// may be more of either.
///
/// # Errors
///
/// `EINVAL` for more than the device can do.
pub(super) fn within_limits(asked: QpCaps) -> Result<QpCaps> {
    if asked.max_send_wr > MAX_WR
        || asked.max_recv_wr > MAX_WR
        || asked.max_send_sge > MAX_SGE
        || asked.max_recv_sge > MAX_SGE
        || asked.max_inline_data > MAX_INLINE_BYTES
    {
        return Err(EINVAL);
    }
    // CAST: 16.
    let entry = size_of::<WqeSge>() as u32;
    let entries = asked.max_inline_data.div_ceil(entry);
    let max_send_sge = asked.max_send_sge.max(entries).max(1);
    Ok(QpCaps {
        max_send_wr: asked.max_send_wr.max(1),
        max_send_sge,
        max_inline_data: max_send_sge.saturating_mul(entry),
        ..asked
    })
}
