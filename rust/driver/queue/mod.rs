// SPDX-License-Identifier: GPL-2.0

//! The queues that consumers post to and poll from: SQ, RQ, SRQ and CQ.
//!
//! May use: `abi`, `mem`, `limits`.

pub(crate) mod cq;
pub(crate) mod cq_moderation;
pub(crate) mod fifo;
pub(crate) mod posted;
pub(crate) mod posted_sends;
pub(crate) mod recv_source;
pub(crate) mod ring;
pub(crate) mod rq;
pub(crate) mod sq;
pub(crate) mod srq;
