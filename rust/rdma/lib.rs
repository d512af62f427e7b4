// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the RDMA core and the parts of the network stack that a RoCE provider needs.
//!
//! They are shaped as if they were part of the kernel crate. All `unsafe` code of the module is here, so the driver on
//! top needs none.
//!
//! Folders, bottom up; each uses only those before it:
//!
//! - [`compat`]: what differs between kernels;
//! - [`util`]: allocation flags, CRC-32, the exclusion of another module, random numbers;
//! - [`sync`]: ownership of a value by one CPU at a time, RCU look-ups, timers, work items, waiting for the last user;
//! - [`ib_device`]: the core's part of a device;
//! - [`mm`]: the memory behind a region, and copies to and from it;
//! - [`net`]: namespaces, netdevs, routes; packets received and sent; the sockets and hooks that they come through;
//! - [`ib`]: the trait that a driver implements, what the core passes to it, and the life of a device.

#![crate_name = "rdma"]

mod bindings;

mod compat;
pub mod ib;
pub mod ib_device;
pub mod mm;
pub mod net;
pub mod sync;
pub mod util;

pub use compat::{
    errno,
    param, //
};

/// Prefix of this crate's messages: it is linked into `ferroce.ko`.
const __LOG_PREFIX: &[u8] = b"ferroce\0";
