// SPDX-License-Identifier: GPL-2.0

//! Creates and resizes SRQs, in process context.
//!
//! The SRQ of a process has a ring that it maps; that of a ULP is a FIFO of posted receives.

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

/// Response to `create_srq` (`struct rxe_create_srq_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreateSrqResponse {
    ring: MmapInfo,
    srq_num: u32,
    reserved: u32,
}

/// Creates an SRQ. Returns its capabilities as well.
///
/// # Errors
///
/// `EINVAL` if a limit of the device is exceeded; `ENOMEM`; `EINVAL` or `EFAULT` if the response cannot be written.
pub(crate) fn create(pd: &Arc<Pd>, init: SrqInit<'_, Ferroce>) -> Result<(Arc<Srq>, SrqAttr)> {
    let mut attr = init.attr;
    if attr.max_wr > MAX_WR || attr.max_wr == 0 || attr.max_sge > MAX_SGE {
        return Err(EINVAL);
    }
    // The limit has no meaning yet (`ibv_create_srq(3)`), so programs leave anything here.
    if attr.limit > attr.max_wr {
        attr.limit = 0;
    }
    let source = match init.user {
        Some(user) => {
            let ring = receive_ring(attr.max_sge, attr.max_wr)?;
            let response = CreateSrqResponse {
                ring: user.map_ring(&ring)?,
                srq_num: 0,
                reserved: 0,
            };
            user.respond(&response)?;
            attr.max_wr = ring.entries();
            RecvSource::Ring(RingReader::new(ring, attr.max_sge))
        }
        None => RecvSource::Posted(recv_source::RecvFifo::new(attr.max_wr, attr.max_sge)?),
    };
    let srq = Srq::new(pd.clone(), init.handle, attr, source)?;
    Ok((srq, attr))
}

/// Resizes an SRQ to `max_wr` receives: with a new ring for a process, or a larger FIFO for a ULP.
///
/// # Errors
///
/// `EINVAL` if a limit of the device is exceeded, or if fewer receives fit than are posted; `EBUSY`; `EFAULT`;
/// `ENOMEM`.
pub(crate) fn resize<U>(srq: &Srq, max_wr: u32, user: Option<&mut UserContext<U>>) -> Result {
    if max_wr > MAX_WR || max_wr == 0 {
        return Err(EINVAL);
    }
    let Some(user) = user else {
        return srq.resize_posted(max_wr);
    };
    let ring = receive_ring(srq.max_sge(), max_wr)?;
    let info = user.map_ring(&ring)?;
    // Respond before the resize, because this may fail. User space ignores the response if the call fails.
    user.respond(&info)?;
    srq.resize_ring(&ring)
}
