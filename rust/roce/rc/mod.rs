// SPDX-License-Identifier: GPL-2.0

//! The reliable connection (RC) transport, and the extended one (XRC).
//!
//! Two independent state machines, so that each direction of a QP can be owned by another CPU:
//!
//! - [`requester::Requester`] sends requests and consumes responses. Its attributes are in
//!   `config`. [`send_window`] holds the requests in flight, one `slot` each. `transmit` plans
//!   packets, `read_split` divides long READs, `ack_request` sets the AckReq bit. `completer`
//!   handles responses, `credits` holds messages back for which the peer has no receive, `retry` decides when to
//!   retransmit and when to give up.
//! - [`responder::Responder`] consumes requests and sends responses. `execute` and `atomics`
//!   execute new requests, SENDs and WRITEs with `message::assembly`, `duplicates` handles repeated ones, `nak` holds
//!   the reasons to NAK, `respond` plans responses and ACKs, `xrc` selects the SRQ of an XRC request. [`replay`] keeps
//!   the state needed to respond again.
//!
//! `memory_wait` holds back packets whose memory is not present, for either of them.
//!
//! [`reorder`] keeps packets that arrive early, for either of them, where the path does not keep the order.
//!
//! Neither accesses memory or allocates. To place or check data they call a small trait that the
//! caller passes as an argument ([`requester::ResponseContext`], [`responder::RequestContext`]). A
//! packet to send is a [`TxDesc`](crate::segmentation::tx_desc::TxDesc) that names the source of
//! its payload. Packet loss is not reported to them; the protocol detects it.
//!
//! Imports only modules listed before `rc` in `scripts/checks/layers`; in particular not `uc` or `qp`.

mod ack_request;
mod atomics;
mod completer;
mod config;
mod credits;
mod duplicates;
mod execute;
mod memory_wait;
mod nak;
mod read_split;
mod respond;
mod retry;
mod slot;
mod transmit;
mod xrc;

#[cfg(test)]
mod testing;

pub mod reorder;
pub mod replay;
pub mod requester;
pub mod responder;
pub mod send_window;
