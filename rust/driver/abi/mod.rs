// SPDX-License-Identifier: GPL-2.0

//! The user-space ABI of rdma_rxe: the entries of the queues that the driver shares with a process.
//!
//! Every entry is decoded by value: nothing here refers to shared memory. The rings themselves are in `rdma::ib::ring`.
//!
//! May use: `limits`, and of `rdma` the values that pass through verbs.

pub(crate) mod cqe;
pub(crate) mod send_op;
pub(crate) mod wqe;
