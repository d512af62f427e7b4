// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the RDMA core and the parts of the network stack that a RoCE provider
//! needs. Shaped as if they were part of the kernel crate: all `unsafe` code of the project is
//! here, and a driver on top needs none.
//!
//! # Map
//!
//! From the bottom up; a module uses those above it in this list.
//!
//! - [`attr`], [`wc`]: values that pass between the core and a driver.
//! - [`ring`]: memory that a queue shares with user space; [`mmap`]: how it gets there.
//! - [`event`], [`udata`], [`wr`]: what a verb brings along, and the way back to its consumer.
//! - [`wait`], [`slot`], [`table`]: what is found under RCU, and waiting for those who found it.
//! - [`tally`]: counters of each CPU.
//! - [`gate`]: a value that is taken away from its readers without sleeping.
//! - [`turn`], [`timer`], [`sleep`]: who runs when.
//! - [`trace`], [`restrack`], [`apart`]: tracepoints, details and counters for those who ask.
//! - [`umem`], [`crc32`]: memory that data is moved to and from.
//! - [`net`]: interfaces, packets, routes.
//! - [`driver`]: the trait that a driver implements.
//! - [`device`], [`link`], [`gid`]: the life of a device, how it is found, its addresses.

#![crate_name = "rdma"]

mod bindings;

pub mod ib;
pub mod ib_device;
pub mod mm;
pub mod net;
pub mod sync;
pub mod util;

/// Prefix of this crate's messages: it is linked into `ferroce.ko`.
const __LOG_PREFIX: &[u8] = b"ferroce\0";
