// SPDX-License-Identifier: GPL-2.0

//! The making of queue pairs.
//!
//! Owns the sizes of rings and of what is kept beside them, within what the device has reported.

mod in_kernel;

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
    datagram::{
        self,
        sender::Requests,
        Ud, //
    },
    device::{
        Ferroce,
        MAX_WR, //
    },
    mr::Pd,
    pair::{
        Pair,
        Parts,
        Posts,
        Service, //
    },
    queue_pair::QueuePair,
    rc::{
        self,
        receiver::Answers,
        Rc, //
    },
    rq::{
        Receives,
        Source, //
    },
    sq::{
        self,
        SendQueue,
        Slots, //
    },
    srq::Srq,
    supply::{
        self,
        RingReader,
        Supply, //
    }, //
    uc::{
        self,
        Uc, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    attr::{
        QpCaps,
        QpType,
        SrqAttr, //
    },
    device::Device,
    driver::{
        QpCreated,
        QpInit,
        SrqInit, //
    },
    mmap::MmapInfo,
    ring::Ring,
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

/// Answer to `create_srq` (`struct rxe_create_srq_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreatedSrq {
    ring: MmapInfo,
    srq_num: u32,
    reserved: u32,
}

/// The queues of a process's queue pair.
struct Queues {
    send: SendQueue,
    receive: Receives,
}

impl Queues {
    /// Queues as large as `caps` says, which `user` may map, and what it is told about them; receives
    /// come from `srq` if there is one.
    fn new<U>(
        user: &mut UserContext<U>,
        caps: QpCaps,
        signal_all: bool,
        srq: Option<Arc<Srq>>,
    ) -> Result<(Self, Created)> {
        let send_bounds = Bounds {
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
            Receives::new(Source::Shared(srq), max_sge)?
        } else {
            let ring = receive_ring(caps.max_recv_sge, caps.max_recv_wr)?;
            created.receive = user.map_ring(&ring)?;
            let reader = RingReader::new(ring, caps.max_recv_sge);
            Receives::new(Source::Ring(reader), caps.max_recv_sge)?
        };
        let queues = Self {
            send: SendQueue::new(
                sq::Source::Ring(send),
                send_bounds,
                caps.max_send_wr,
                signal_all,
            )?,
            receive,
        };
        Ok((queues, created))
    }
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
) -> Result<(Arc<QueuePair>, QpCreated)> {
    let mut init = init;
    match (init.qp_type, init.user.take()) {
        (QpType::Rc, Some(user)) => for_process(dev, pd, init, user, rc(dev), QueuePair::Rc),
        (QpType::Uc, Some(user)) => for_process(dev, pd, init, user, uc, QueuePair::Uc),
        (QpType::Ud, Some(user)) => for_process(dev, pd, init, user, ud, QueuePair::Datagram),
        (QpType::Rc, None) => in_kernel::connected(dev, pd, init, rc(dev), QueuePair::Rc),
        (QpType::Uc, None) => in_kernel::connected(dev, pd, init, uc, QueuePair::Uc),
        (QpType::Ud | QpType::Gsi, None) => in_kernel::ud(dev, pd, init),
        (QpType::Gsi, Some(_)) => Err(EINVAL),
    }
}

/// The halves of a queue pair of service `T`.
type Halves<T> = (<T as Service>::Sender, <T as Service>::Receiver);

/// The halves of a reliable connected queue pair.
fn rc(
    dev: &Device<Ferroce>,
) -> impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Halves<Rc>> + use<'_> {
    |queues, init| {
        let requester = Requester::new(Slots::new(queues.send.slots())?);
        let responder = Responder::new(Answers::new(0)?);
        let (send_cq, recv_cq) = (init.send_cq.clone(), init.recv_cq.clone());
        let neighbours = dev.shared().demux().clone();
        Ok((
            rc::sender::SendHalf::new(requester, queues.send, send_cq, neighbours),
            rc::receiver::ReceiveHalf::new(responder, queues.receive, recv_cq),
        ))
    }
}

/// The halves of an unreliable connected queue pair.
fn uc(queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Halves<Uc>> {
    Ok((
        uc::sender::SendHalf::new(queues.send, init.send_cq.clone()),
        uc::receiver::ReceiveHalf::new(queues.receive, init.recv_cq.clone()),
    ))
}

/// The halves of a datagram queue pair.
fn ud(queues: Queues, init: &QpInit<'_, Ferroce>) -> Result<Halves<Ud>> {
    let requests = Requests::Ring(queues.send);
    Ok((
        datagram::sender::SendHalf::new(requests, init.send_cq.clone()),
        datagram::receiver::ReceiveHalf::new(queues.receive, init.recv_cq.clone()),
    ))
}

/// Makes a queue pair for a process.
fn for_process<T: Service>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    user: &mut UserContext<()>,
    halves: impl FnOnce(Queues, &QpInit<'_, Ferroce>) -> Result<Halves<T>>,
    wrap: impl FnOnce(Arc<Pair<T>>) -> QueuePair,
) -> Result<(Arc<QueuePair>, QpCreated)> {
    let caps = granted(init.caps, init.srq.is_some())?;
    let (queues, created) = Queues::new(user, caps, init.sq_sig_all, init.srq.clone())?;
    let halves = halves(queues, &init)?;
    let parts = parts(dev, pd, init, caps, None)?;
    let qp = Arc::new(
        wrap(Pair::new(parts, halves, dev.shared().qps().join())?),
        GFP_KERNEL_ACCOUNT,
    )?;
    user.respond(&created)?;
    // The last step: packets find it from here on.
    let qp_num = dev.shared().demux().insert(qp.clone())?;
    qp.common().set_number(qp_num);
    Ok((qp, QpCreated { qp_num, caps }))
}

/// Makes a shared receive queue.
///
/// # Errors
///
/// `EINVAL` for more than the device can do; `ENOMEM`.
pub(crate) fn srq(pd: &Arc<Pd>, init: SrqInit<'_, Ferroce>) -> Result<(Arc<Srq>, SrqAttr)> {
    let mut asked = init.attr;
    if asked.max_wr > MAX_WR
        || asked.max_wr == 0
        || asked.max_sge > MAX_SGE
        || asked.limit > asked.max_wr
    {
        return Err(EINVAL);
    }
    let supply = match init.user {
        Some(user) => {
            let ring = receive_ring(asked.max_sge, asked.max_wr)?;
            let created = CreatedSrq {
                ring: user.map_ring(&ring)?,
                srq_num: 0,
                reserved: 0,
            };
            user.respond(&created)?;
            asked.max_wr = ring.entries();
            Supply::Ring(RingReader::new(ring, asked.max_sge))
        }
        None => Supply::Posts(supply::Posts::new(asked.max_wr, asked.max_sge)?),
    };
    let srq = Srq::new(pd.clone(), init.handle, asked, supply)?;
    Ok((srq, asked))
}

/// Gives a shared receive queue room for `max_wr` receives: a process's a ring, that of a consumer in
/// the kernel a backlog.
///
/// # Errors
///
/// `EINVAL` for more than the device can do, or less than what waits; `EBUSY`; `EFAULT`; `ENOMEM`.
pub(crate) fn resize_srq<U>(srq: &Srq, max_wr: u32, user: Option<&mut UserContext<U>>) -> Result {
    if max_wr > MAX_WR || max_wr == 0 {
        return Err(EINVAL);
    }
    let Some(user) = user else {
        return srq.resize_posts(max_wr);
    };
    let ring = receive_ring(srq.max_sge(), max_wr)?;
    let info = user.map_ring(&ring)?;
    // First, since this may fail. Until the call has succeeded, it means nothing to the caller.
    user.respond(&info)?;
    srq.resize_ring(&ring)
}

/// What every queue pair has.
///
/// # Errors
///
/// `ENOMEM`.
fn parts<T: Service>(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: QpInit<'_, Ferroce>,
    caps: QpCaps,
    posts: Option<Posts<T::Sends>>,
) -> Result<Parts<T>> {
    let alive = dev.shared().qps().join();
    Ok(Parts {
        common: Common::new(dev.port().clone(), pd.clone(), init.handle, alive)?,
        caps,
        signal_all: init.sq_sig_all,
        posts,
    })
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

/// What is granted to anybody for what he asked. Scatter list and inline data share the same room, so there
/// may be more of either.
///
/// # Errors
///
/// `EINVAL` for more than the device can do.
fn within_limits(asked: QpCaps) -> Result<QpCaps> {
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
        max_send_sge,
        max_inline_data: max_send_sge.saturating_mul(entry),
        ..asked
    })
}

/// How many entries fit into the ring that is made for so many: user space fills it to the brim, and
/// shall read here where that is.
fn held(entries: u32) -> u32 {
    entries
        .checked_ilog2()
        .map_or(0, |log| u32::MAX >> (31 - log))
}

/// A ring of `entries` receives with up to `max_sge` entries each.
pub(crate) fn receive_ring(max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
    ring(RecvWqe::LEN, max_sge, entries)
}

/// A ring of `entries` elements with room for `fixed` bytes and a scatter list.
fn ring(fixed: usize, max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
    // CAST: At most `MAX_SGE`.
    let list = (max_sge as usize).saturating_mul(size_of::<Sge>());
    let ring = Ring::new(fixed.saturating_add(list), entries)?;
    Ok(Arc::new(ring, GFP_KERNEL_ACCOUNT)?)
}
