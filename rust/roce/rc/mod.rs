// SPDX-License-Identifier: GPL-2.0

//! The reliable connection (RC).
//!
//! Two machines that share nothing, so that each half of a QP can be owned by another CPU:
//!
//! - [`requester::Requester`] sends requests and consumes responses. It keeps the requests in
//!   flight ([`window`]) and decides when to send again and when to give up (`retry`). What it
//!   sends is planned in `transmit`, in which parts a READ asks in `parts`, which packet asks for an acknowledgement in
//!   `ask`; what it is answered is judged in `completer`.
//! - [`responder::Responder`] consumes requests and sends responses. It executes in `execute` and
//!   `atomics`, answers in `answer`, and keeps what it needs to answer a repeated request
//!   (`duplicates`) in [`replay`].
//!
//! Neither touches memory. Where bytes are to be moved or looked up, the machine asks its
//! surroundings through a small trait that is given as an argument ([`requester::ResponseContext`],
//! [`responder::RequestContext`]); where bytes are to be sent, it says where they come from
//! ([`TxDesc`](crate::segmentation::tx_desc::Segment)). A packet that gets lost is never reported: the
//! protocol finds out.

mod ack_policy;
mod ack_request;
mod atomics;
mod attributes;
mod completer;
mod config;
mod duplicates;
mod execute;
mod local_ops;
mod nak;
mod pending_ack;
mod read_split;
mod respond;
mod retry;
mod slot;
mod transmit;

#[cfg(test)]
mod testing;

pub mod replay;
pub mod requester;
pub mod responder;
pub mod send_window;
