// SPDX-License-Identifier: GPL-2.0

//! Packets: parsing and verification on receive; construction and transmission on send.
//!
//! On send: `TxDesc` -> [`EntryWriter`](path::EntryWriter) -> `SuperPacket` -> `TxSkb`: one skb for all packets if the
//! route takes that, otherwise one for each.
//!
//! - [`rx_parse`]: a received packet, or an entry of a super-packet.
//! - [`path`]: addresses and route to a peer, and the burst that is being filled.
//! - [`roce_splitter`]: splits a super-packet, when a device does not take it, or before. [`icrc`]: what follows the
//!   payload of a packet.
//!
//! May use `limits`, `abi`, `mem`, `queue` and `port`.

pub(crate) mod icrc;
pub(crate) mod path;
pub(crate) mod roce_splitter;
pub(crate) mod rx_parse;
