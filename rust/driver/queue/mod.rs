// SPDX-License-Identifier: GPL-2.0

//! The queues that consumers post to and poll from: SQ, RQ, SRQ and CQ.
//!
//! `sq`, `rq` (over `recv_source`), `srq` and `cq` are the queues as the engines see them. Requests come from a ring
//! that a process maps, or to which a kernel consumer posts through `producer`. `copy_ring` moves them to a ring of
//! another size.
//! The CQ of a kernel consumer is a `fifo`. `cq_moderation` delays completion events, and `doorbell`
//! spares a process doorbells. `comp_cntr` counts completions.
//!
//! May use: `abi`, `mem`, `limits`.

pub(crate) mod comp_cntr;
pub(crate) mod copy_ring;
pub(crate) mod cq;
pub(crate) mod cq_moderation;
mod doorbell;
pub(crate) mod fifo;
pub(crate) mod producer;
pub(crate) mod recv_source;
pub(crate) mod rq;
pub(crate) mod sq;
pub(crate) mod srq;
pub(crate) mod xrcd;
