// SPDX-License-Identifier: GPL-2.0

//! Responses to the verbs that create or resize an object.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

use kernel::prelude::*;
use rdma::ib::{
    mmap::MmapInfo,
    udata::UserContext, //
};
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Where user space maps a ring (`struct mminfo`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Mapping {
    offset: u64,
    size: u32,
    _pad: u32,
}

impl From<MmapInfo> for Mapping {
    fn from(MmapInfo { offset, size }: MmapInfo) -> Self {
        Self {
            offset,
            size,
            _pad: 0,
        }
    }
}

/// Response to `create_qp` (`struct rxe_create_qp_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreateQpResponse {
    receive: Mapping,
    send: Mapping,
}

/// Response to `create_srq` (`struct rxe_create_srq_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreateSrqResponse {
    ring: Mapping,
    srq_num: u32,
    _reserved: u32,
}

/// Response to `create_ah` (`struct rxe_create_ah_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreateAhResponse {
    number: u32,
    _reserved: u32,
}

/// See [`Abi::respond_qp`](crate::abi::Abi::respond_qp).
pub(crate) fn respond_qp<U>(
    user: &mut UserContext<U>,
    send: MmapInfo,
    receive: MmapInfo,
) -> Result {
    user.respond(&CreateQpResponse {
        receive: receive.into(),
        send: send.into(),
    })
}

/// See [`Abi::respond_srq`](crate::abi::Abi::respond_srq).
pub(crate) fn respond_srq<U>(user: &mut UserContext<U>, ring: MmapInfo, srq_num: u32) -> Result {
    user.respond(&CreateSrqResponse {
        ring: ring.into(),
        srq_num,
        _reserved: 0,
    })
}

/// See [`Abi::respond_ring`](crate::abi::Abi::respond_ring).
pub(crate) fn respond_ring<U>(user: &mut UserContext<U>, ring: MmapInfo) -> Result {
    user.respond(&Mapping::from(ring))
}

/// See [`Abi::respond_ah`](crate::abi::Abi::respond_ah).
pub(crate) fn respond_ah<U>(user: &mut UserContext<U>, number: u32) -> Result {
    user.respond(&CreateAhResponse {
        number,
        _reserved: 0,
    })
}
