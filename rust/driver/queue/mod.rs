// SPDX-License-Identifier: GPL-2.0

//! The queues that consumers post to and poll from: SQ, RQ, SRQ and CQ.
//!
//! `sq`, `rq`, `srq` and `cq` are the queues as the engines see them. Requests come from a ring of a process
//! (`ring`), or from copies that a ULP posted (`posted_sends`, `recv_source`, over `posted_fifo` and `fifo`).
//! `cq_moderation` delays completion events.
//!
//! May use: `abi`, `mem`, `limits`.

pub(crate) mod cq;
pub(crate) mod cq_moderation;
pub(crate) mod fifo;
pub(crate) mod posted_fifo;
pub(crate) mod posted_sends;
pub(crate) mod recv_source;
pub(crate) mod ring;
pub(crate) mod rq;
pub(crate) mod sq;
pub(crate) mod srq;
