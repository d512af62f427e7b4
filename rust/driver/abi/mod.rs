// SPDX-License-Identifier: GPL-2.0

//! The user-space ABI of rdma_rxe: the entries of the queues that the driver shares with a process.
//!
//! `wqe` holds the send and receive queue entries, `send_op` the operations of send queue entries, and `cqe`
//! the completion queue entries. Entries are decoded by value: nothing here refers to shared memory. The
//! rings themselves are in `rdma::ib::ring`.
//!
//! May use: `limits`, and of `rdma` only plain values that pass through verbs.

pub(crate) mod cqe;
pub(crate) mod send_op;
pub(crate) mod wqe;
