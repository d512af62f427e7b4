// SPDX-License-Identifier: GPL-2.0

//! The kinds of devices of a driver, each with a link type.
//!
//! They differ in what user space sees: a driver id selects the user-space provider, and the ABI version tells a
//! provider whether it may use the device. ULPs see no difference.
//!
//! C header: [`include/uapi/rdma/ib_user_ioctl_verbs.h`](srctree/include/uapi/rdma/ib_user_ioctl_verbs.h)

use crate::bindings;
use kernel::prelude::*;

/// Driver id of rdma_rxe, whose provider comes with every rdma-core.
pub const DRIVER_ID_RXE: u32 = bindings::rdma_driver_id_RDMA_DRIVER_RXE;

/// Driver id of a provider of our own, outside of `enum rdma_driver_id`: the core only compares it. `rmmod` of another
/// driver unregisters all devices with that driver's id, and none with this one.
pub const DRIVER_ID_OWN: u32 = bindings::FERROCE_MAGIC;

/// Version of the ABI between the driver and the provider of rdma_rxe (`RXE_UVERBS_ABI_VERSION`).
pub const ABI_VERSION_RXE: u32 = 2;

/// Version of the ABI between the driver and a provider of our own. Other providers accept none as high.
pub const ABI_VERSION_OWN: u32 = bindings::FERROCE_UVERBS_ABI;

/// A kind of devices. `A` is how the driver names an ABI, or that there is none.
pub struct DeviceKind<A> {
    /// `TYPE` in `rdma link add NAME type TYPE netdev NETDEV`; at most 15 characters.
    pub link_type: &'static CStr,
    /// `enum rdma_driver_id`.
    pub driver_id: u32,
    /// Version of the ABI between the driver and user space.
    pub abi_version: u32,
    /// The ABI of a user context that does not ask for one.
    pub default_abi: A,
}

// Both ids select a provider, so they must differ. The core takes `RDMA_DRIVER_UNKNOWN` for any driver.
const _: () = assert!(
    DRIVER_ID_OWN != DRIVER_ID_RXE && DRIVER_ID_OWN != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN
);
