// SPDX-License-Identifier: GPL-2.0

//! Making and resizing shared receive queues.

use crate::{
    device::ferroce::Ferroce,
    limits::{
        MAX_SGE,
        MAX_WR, //
    },
    mem::pd::Pd,
    queue::{
        recv_source::{
            self,
            RecvSource,
            RingReader, //
        },
        ring::receive_ring,
        srq::Srq, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::{
    attr::SrqAttr,
    driver::SrqInit,
    mmap::MmapInfo,
    udata::UserContext, //
};
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Answer to `create_srq` (`struct rxe_create_srq_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreatedSrq {
    ring: MmapInfo,
    srq_num: u32,
    reserved: u32,
}

/// Makes a shared receive queue.
///
/// # Errors
///
/// `EINVAL` for more than the device can do; `ENOMEM`.
pub(crate) fn create(pd: &Arc<Pd>, init: SrqInit<'_, Ferroce>) -> Result<(Arc<Srq>, SrqAttr)> {
    let mut asked = init.attr;
    if asked.max_wr > MAX_WR
        || asked.max_wr == 0
        || asked.max_sge > MAX_SGE
        || asked.limit > asked.max_wr
    {
        return Err(EINVAL);
    }
    let source = match init.user {
        Some(user) => {
            let ring = receive_ring(asked.max_sge, asked.max_wr)?;
            let created = CreatedSrq {
                ring: user.map_ring(&ring)?,
                srq_num: 0,
                reserved: 0,
            };
            user.respond(&created)?;
            asked.max_wr = ring.entries();
            RecvSource::Ring(RingReader::new(ring, asked.max_sge))
        }
        None => RecvSource::Posted(recv_source::RecvFifo::new(asked.max_wr, asked.max_sge)?),
    };
    let srq = Srq::new(pd.clone(), init.handle, asked, source)?;
    Ok((srq, asked))
}

/// Gives a shared receive queue room for `max_wr` receives: a process's a ring, that of a consumer in
/// the kernel a backlog.
///
/// # Errors
///
/// `EINVAL` for more than the device can do, or less than what waits; `EBUSY`; `EFAULT`; `ENOMEM`.
pub(crate) fn resize<U>(srq: &Srq, max_wr: u32, user: Option<&mut UserContext<U>>) -> Result {
    if max_wr > MAX_WR || max_wr == 0 {
        return Err(EINVAL);
    }
    let Some(user) = user else {
        return srq.resize_posted(max_wr);
    };
    let ring = receive_ring(srq.max_sge(), max_wr)?;
    let info = user.map_ring(&ring)?;
    // First, since this may fail. Until the call has succeeded, it means nothing to the caller.
    user.respond(&info)?;
    srq.resize_ring(&ring)
}
