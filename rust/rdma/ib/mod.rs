// SPDX-License-Identifier: GPL-2.0

//! Interface to the RDMA core (`ib_core`): the trait that a driver implements, the values that the core passes to
//! it, and the life of a device.
//!
//! - [`driver`]: the [`Driver`](driver::Driver) trait. `ops` implements `struct ib_device_ops` with it.
//! - [`kind`], [`link`]: kinds of devices, and their link types.
//! - [`unregistered`], [`device`], [`registry`]: create, reference, find and remove devices.
//! - `object`: verb objects, C structure and driver part; [`event`]: notifications to their consumers.
//! - [`attr`], [`qp_attr`], [`comp_cntr`]: attributes as plain values; [`gid`]: the GID table.
//! - [`wr`], [`wr_op`], [`wc`]: work requests and completions of ULPs.
//! - [`udata`], [`ring`], [`mmap`]: private data of a verb, and rings that user space maps.
//! - [`adapter`]: devices of adapters below an interface.
//! - `hw_stats`, [`qp_counters`], [`restrack`], `sysfs`, [`trace`]: counters, details, attributes and tracepoints.
//!
//! May use every other folder of this crate.

pub mod adapter;
pub mod attr;
pub mod comp_cntr;
pub mod device;
pub mod driver;
pub mod event;
pub mod gid;
pub(crate) mod hw_stats;
pub mod kind;
pub mod link;
pub mod mmap;
pub(crate) mod object;
pub(crate) mod ops;
pub mod qp_attr;
pub mod qp_counters;
pub mod registry;
pub mod restrack;
pub mod ring;
pub(crate) mod sysfs;
pub mod trace;
pub mod udata;
pub mod unregistered;
pub mod wc;
pub mod wr;
pub mod wr_op;
