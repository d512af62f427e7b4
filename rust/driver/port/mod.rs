// SPDX-License-Identifier: GPL-2.0

//! What all queue pairs of a device share: the port with its counters, address handles and work queues.
//!
//! May use: `abi`, `mem`, `queue`, `limits`.

pub(crate) mod ah;
pub(crate) mod counters;
pub(crate) mod query;
pub(crate) mod state;
pub(crate) mod workqueues;
