// SPDX-License-Identifier: GPL-2.0

//! The kinds of devices. A new kind is an entry here, and an alias of the module in `main.rs`.

use crate::abi::Abi;
use rdma::ib::kind::{
    DeviceKind,
    ABI_VERSION_OWN,
    ABI_VERSION_RXE,
    DRIVER_ID_OWN,
    DRIVER_ID_RXE, //
};

/// A kind of devices. Without a default ABI, a user context must ask for the own ABI.
pub(crate) type Kind = DeviceKind<Option<Abi>>;

/// All kinds. The first one also has the link type of rdma_rxe, with `as_rxe=1`.
pub(crate) const KINDS: &[Kind] = &[
    // For the programs and libraries of any distribution.
    Kind {
        link_type: c"ferroce",
        driver_id: DRIVER_ID_RXE,
        abi_version: ABI_VERSION_RXE,
        default_abi: Some(Abi::Rxe),
    },
    // For ferroce's own provider. That of rdma_rxe must not take its rings for those that it knows.
    Kind {
        link_type: c"ferroce_direct",
        driver_id: DRIVER_ID_OWN,
        abi_version: ABI_VERSION_OWN,
        default_abi: None,
    },
];
