// SPDX-License-Identifier: GPL-2.0

//! Creates and resizes SRQs, in process context.
//!
//! A process maps the ring; a kernel consumer posts to it through a [`Producer`].

use crate::{
    abi::Abi,
    device::ferroce::Ferroce,
    limits::{
        MAX_SGE,
        MAX_WR, //
    },
    mem::pd::Pd,
    queue::{
        producer::Producer,
        recv_source::RingReader,
        srq::Srq, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::{
    attr::SrqAttr,
    device::Device,
    driver::SrqInit,
    udata::UserContext, //
};
use roce::id::Srqn;

/// Creates an SRQ. Returns its capabilities as well, and its number if it is one of XRC.
///
/// # Errors
///
/// `EINVAL` if a limit of the device is exceeded; `ENOMEM`; `EINVAL` or `EFAULT` if the response cannot be written.
pub(crate) fn create(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: SrqInit<'_, Ferroce>,
) -> Result<(Arc<Srq>, SrqAttr, Option<u32>)> {
    let mut attr = init.attr;
    if attr.max_wr > MAX_WR || attr.max_wr == 0 || attr.max_sge > MAX_SGE {
        return Err(EINVAL);
    }
    // The limit has no meaning yet (`ibv_create_srq(3)`), so programs leave anything here.
    if attr.limit > attr.max_wr {
        attr.limit = 0;
    }
    let user = init.user;
    let abi = user.as_ref().map_or(Abi::KERNEL, |user| **user.ucontext());
    let ring = abi.new_recv_ring(attr.max_sge, attr.max_wr)?;
    let producer = match user {
        Some(_) => {
            attr.max_wr = ring.entries();
            None
        }
        None => Some(Producer::new(ring.clone(), 0, (attr.max_wr, attr.max_sge))),
    };
    let is_xrc = init.xrc.is_some();
    let ends = (RingReader::new(abi, ring.clone()), producer);
    let srq = Srq::new(pd.clone(), init.handle, attr, init.xrc, ends)?;
    if is_xrc {
        let numbers = 1..Srqn::COUNT;
        srq.set_number(dev.port().xrc_srqs().alloc_cyclic(numbers, srq.clone())?);
    }
    if let Some(user) = user {
        let responded = user
            .map_ring(&ring)
            .and_then(|mapped| abi.respond_srq(user, mapped, srq.number().unwrap_or(0)));
        responded.inspect_err(|_| destroy(dev, &srq))?;
    }
    let number = srq.number();
    Ok((srq, attr, number))
}

/// Destroys an SRQ. On return, no packet finds it. Sleeps.
pub(crate) fn destroy(dev: &Device<Ferroce>, srq: &Srq) {
    if let Some(number) = srq.number() {
        drop(dev.port().xrc_srqs().remove(number));
    }
}

/// Resizes an SRQ to `max_wr` receives, with a new ring.
///
/// # Errors
///
/// `EINVAL` if a limit of the device is exceeded, or if fewer receives fit than are posted; `EFAULT`; `ENOMEM`.
pub(crate) fn resize(srq: &Srq, max_wr: u32, user: Option<&mut UserContext<Abi>>) -> Result {
    if max_wr > MAX_WR || max_wr == 0 {
        return Err(EINVAL);
    }
    let abi = user.as_ref().map_or(Abi::KERNEL, |user| **user.ucontext());
    let ring = abi.new_recv_ring(srq.max_sge(), max_wr)?;
    let Some(user) = user else {
        return srq.resize(&ring, max_wr);
    };
    let mapped = user.map_ring(&ring)?;
    // Respond before the resize, because this may fail. User space ignores the response if the call fails.
    abi.respond_ring(user, mapped)?;
    srq.resize(&ring, ring.entries())
}
