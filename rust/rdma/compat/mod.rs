// SPDX-License-Identifier: GPL-2.0

//! What differs between the kernels that this module builds for, under the names of the newest.
//!
//! `rust/features.mk` asks the kernel for each `has_...`. A module below either re-exports what the kernel has, or
//! makes the same from what an older kernel has; when the oldest supported kernel has a feature, its module goes. What
//! bindgen can even out is in `bindgen_parameters` instead: the constants of an enum, the width of a field.
//! `static_branch` depends on the headers package, not on the age of the kernel.

pub(crate) mod alloc_device;
pub(crate) mod attr;
pub(crate) mod barrier;
pub(crate) mod comp_cntr;
pub(crate) mod dma_buf;
pub mod errno;
pub(crate) mod flow;
pub(crate) mod hmm;
pub(crate) mod hrtimer;
pub(crate) mod init;
pub(crate) mod mutex;
pub(crate) mod ops;
pub mod param;
pub(crate) mod port;
pub(crate) mod spinlock_irq;
#[cfg(CONFIG_TRACEPOINTS)]
pub(crate) mod static_branch;
pub(crate) mod sysfs;
pub(crate) mod udata;
pub(crate) mod udp_tunnel;
pub(crate) mod umem;
pub(crate) mod workqueue;
