// SPDX-License-Identifier: GPL-2.0

//! Requests and responses of verbs.
//!
//! C header: `include/uapi/rdma/ferroce-abi.h`

use kernel::prelude::*;
use rdma::{
    errno::EOPNOTSUPP,
    ib::{
        mmap::MmapInfo,
        udata::{
            OpenRequest,
            UserContext, //
        }, //
    }, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// `FERROCE_MAGIC`.
const MAGIC: u32 = 0x4645_5252;

/// `FERROCE_ABI_VERSION`.
const VERSION: u16 = 1;

/// `FERROCE_FEATURE_NO_DOORBELL`.
const NO_DOORBELL: u64 = 1 << 0;

/// `enum ferroce_feature`: what the driver can do.
const FEATURES: u64 = NO_DOORBELL;

/// `struct ferroce_get_context_req`.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct GetContextRequest {
    magic: u32,
    min_version: u16,
    max_version: u16,
    features: u64,
}

/// `struct ferroce_get_context_resp`.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct GetContextResponse {
    version: u32,
    _reserved: u32,
    features: u64,
}

/// `struct ferroce_mapping`.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct DirectMapping {
    offset: u64,
    size: u32,
    _reserved: u32,
}

impl From<MmapInfo> for DirectMapping {
    fn from(MmapInfo { offset, size }: MmapInfo) -> Self {
        Self {
            offset,
            size,
            _reserved: 0,
        }
    }
}

/// `struct ferroce_create_srq_resp`.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct DirectCreateSrqResponse {
    ring: DirectMapping,
    srq_num: u32,
    _reserved: u32,
}

/// Answers a provider that asks for this ABI. Returns whether it knows `ferroce_ring.no_doorbell`; `None` if it does
/// not ask.
///
/// # Errors
///
/// `EOPNOTSUPP` if it asks for versions that the driver does not have; `EINVAL` or `EFAULT` for a malformed
/// request or response.
pub(in crate::abi) fn negotiate(request: &mut OpenRequest) -> Result<Option<bool>> {
    let Some(asked) = request.read::<GetContextRequest>()? else {
        return Ok(None);
    };
    if asked.magic != MAGIC {
        return Err(EINVAL);
    }
    if !(asked.min_version..=asked.max_version).contains(&VERSION) {
        return Err(EOPNOTSUPP);
    }
    let features = asked.features & FEATURES;
    request.respond(&GetContextResponse {
        version: VERSION.into(),
        _reserved: 0,
        features,
    })?;
    Ok(Some(features & NO_DOORBELL != 0))
}

/// See [`Abi::respond_qp`](crate::abi::Abi::respond_qp).
pub(in crate::abi) fn respond_qp<U>(
    user: &mut UserContext<U>,
    send: MmapInfo,
    receive: MmapInfo,
) -> Result {
    user.respond(&[DirectMapping::from(receive), DirectMapping::from(send)])
}

/// See [`Abi::respond_srq`](crate::abi::Abi::respond_srq).
pub(in crate::abi) fn respond_srq<U>(
    user: &mut UserContext<U>,
    ring: MmapInfo,
    srq_num: u32,
) -> Result {
    user.respond(&DirectCreateSrqResponse {
        ring: ring.into(),
        srq_num,
        _reserved: 0,
    })
}

/// See [`Abi::respond_ring`](crate::abi::Abi::respond_ring).
pub(in crate::abi) fn respond_ring<U>(user: &mut UserContext<U>, ring: MmapInfo) -> Result {
    user.respond(&DirectMapping::from(ring))
}

/// See [`Abi::respond_ah`](crate::abi::Abi::respond_ah).
pub(in crate::abi) fn respond_ah<U>(user: &mut UserContext<U>, number: u32) -> Result {
    user.respond(&[number, 0])
}
