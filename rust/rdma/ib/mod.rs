// SPDX-License-Identifier: GPL-2.0

//! The RDMA core: what a driver implements, what the core passes to it, and how a device lives.
//!
//! [`driver`] has the trait; `ops` calls it; [`unregistered`], [`registry`] and [`link`] make and find devices.
//!
//! May use: every other folder of this crate.

pub mod attr;
pub mod device;
pub mod driver;
pub mod event;
pub mod gid;
pub(crate) mod hw_stats;
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
