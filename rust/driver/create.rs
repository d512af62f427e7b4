// SPDX-License-Identifier: GPL-2.0

//! The making of queue pairs.
//!
//! Owns the sizes of rings and of what is kept beside them, within what the device has reported.

use crate::{
    abi::{
        Bounds,
        RecvWqe,
        SendWqe,
        Sge,
        MAX_INLINE,
        MAX_SGE, //
    },
    common::Common,
    device::{
        Ferroce,
        MAX_WR, //
    },
    gsi::{
        self,
        Gsi, //
    },
    mr::Pd,
    qp::Qp,
    receiver::{
        Answers,
        ReceiveHalf, //
    },
    rq::ReceiveQueue,
    sender::SendHalf,
    sq::{
        SendQueue,
        Slots, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    attr::QpCaps,
    device::Device,
    driver::{
        QpCreated,
        QpInit, //
    },
    mmap::MmapInfo,
    ring::Ring, //
};
use roce::rc::{
    requester::Requester,
    responder::Responder, //
};
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// A queue pair, by the service it gives.
pub(crate) enum QueuePair {
    /// Reliable connection.
    Rc(Arc<Qp>),
    /// General services.
    Gsi(Arc<Gsi>),
}

/// Answer to `create_qp` (`struct rxe_create_qp_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Created {
    receive: MmapInfo,
    send: MmapInfo,
}

/// Makes a reliable connected queue pair for a process.
///
/// # Errors
///
/// `EINVAL` for more than the device can do; `EOPNOTSUPP` for a consumer in the kernel; `ENOMEM`.
pub(crate) fn rc(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
) -> Result<(QueuePair, QpCreated)> {
    let user = init.user.ok_or(EOPNOTSUPP)?;
    let caps = granted(init.caps)?;
    let send_bounds = Bounds {
        max_sge: caps.max_send_sge,
        max_inline: caps.max_inline_data,
    };
    let receive_bounds = Bounds {
        max_sge: caps.max_recv_sge,
        max_inline: 0,
    };

    let send_ring = ring(SendWqe::LEN, send_bounds, caps.max_send_wr)?;
    let receive_ring = ring(RecvWqe::LEN, receive_bounds, caps.max_recv_wr)?;
    let send_info = user.map_ring(&send_ring)?;
    let receive_info = user.map_ring(&receive_ring)?;

    let sender = SendHalf::new(
        Requester::new(Slots::new(SendQueue::slots(&send_ring))?),
        SendQueue::new(send_ring, send_bounds, init.sq_sig_all)?,
        init.send_cq,
    );
    let receiver = ReceiveHalf::new(
        Responder::new(Answers::new(0)?),
        ReceiveQueue::new(receive_ring, receive_bounds)?,
        init.recv_cq,
    );
    let alive = dev.shared().qps().join();
    let qp = Qp::new(
        Common::new(dev.port().clone(), pd.clone(), init.handle),
        caps,
        init.sq_sig_all,
        (sender, receiver),
        alive,
    )?;
    user.respond(&Created {
        receive: receive_info,
        send: send_info,
    })?;
    // Last: packets find it from here on.
    let qp_num = dev.shared().demux().insert(qp.clone())?;
    qp.common().set_number(qp_num);
    Ok((QueuePair::Rc(qp), QpCreated { qp_num, caps }))
}

/// Makes a general services queue pair for the MAD layer.
///
/// # Errors
///
/// `EINVAL` for a process, or for more than the device can do; `ENOMEM`.
pub(crate) fn gsi(init: QpInit<'_, Ferroce>) -> Result<(QueuePair, QpCreated)> {
    if init.user.is_some() || init.caps.max_recv_wr > MAX_WR {
        return Err(EINVAL);
    }
    let caps = init.caps;
    let qp = Gsi::new(init.handle, caps, init.send_cq, init.recv_cq)?;
    let created = QpCreated {
        qp_num: gsi::NUMBER,
        caps,
    };
    Ok((QueuePair::Gsi(qp), created))
}

/// What is granted for what was asked. Scatter list and inline data share the same room, so there
/// may be more of either.
fn granted(asked: QpCaps) -> Result<QpCaps> {
    if asked.max_send_wr > MAX_WR
        || asked.max_recv_wr > MAX_WR
        || asked.max_send_sge > MAX_SGE
        || asked.max_recv_sge > MAX_SGE
        || asked.max_inline_data > MAX_INLINE
    {
        return Err(EINVAL);
    }
    // CAST: 16.
    let entry = size_of::<Sge>() as u32;
    let entries = asked.max_inline_data.div_ceil(entry);
    let max_send_sge = asked.max_send_sge.max(entries).max(1);
    Ok(QpCaps {
        max_send_wr: asked.max_send_wr.max(1),
        max_recv_wr: asked.max_recv_wr.max(1),
        max_send_sge,
        max_recv_sge: asked.max_recv_sge,
        max_inline_data: max_send_sge.saturating_mul(entry),
    })
}

/// A ring of `entries` elements with room for `fixed` bytes and a scatter list.
fn ring(fixed: usize, bounds: Bounds, entries: u32) -> Result<Arc<Ring>> {
    // CAST: At most `MAX_SGE`.
    let list = (bounds.max_sge as usize).saturating_mul(size_of::<Sge>());
    let ring = Ring::new(fixed.saturating_add(list), entries)?;
    Ok(Arc::new(ring, GFP_KERNEL_ACCOUNT)?)
}
