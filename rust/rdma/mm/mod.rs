// SPDX-License-Identifier: GPL-2.0

//! The memory of memory regions, and copies to and from it.
//!
//! - [`memory`]: [`Memory`](memory::Memory), the type that drivers use; `atomic`, [`copy`], `write_back`
//!   extend it.
//! - [`pinned`], [`on_demand`] (with [`hmm_range`]), [`dma_buf`], [`fast_reg`]: the kinds of memory.
//! - `extents`: arithmetic on ranges; `pmem`: detection of persistent memory.
//!
//! Keys and rights are the driver's. May use `util`, `sync`, `ib_device`.

pub(crate) mod atomic;
pub mod copy;
pub mod dma_buf;
pub(crate) mod extents;
pub mod fast_reg;
pub mod hmm_range;
pub mod memory;
pub mod on_demand;
pub mod pinned;
pub(crate) mod pmem;
pub(crate) mod write_back;
