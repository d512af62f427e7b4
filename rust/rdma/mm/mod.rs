// SPDX-License-Identifier: GPL-2.0

//! Memory that a memory region is made of, and copies to and from it.
//!
//! [`memory`] is the one type that drivers see; each other file is a kind of memory (pinned, on demand, DMA-BUF,
//! fast registration) or a kind of access. Knows neither keys nor packets.
//!
//! May use: `util`, `sync`, `ib_device`.

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
