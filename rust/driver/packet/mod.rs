// SPDX-License-Identifier: GPL-2.0

//! Packets: parsing and verification on receive; construction and transmission on send.
//!
//! On send: `TxDesc` -> `SuperPacket`, for several packets on a route that takes one; otherwise `TxDesc` ->
//! `PacketSplitter` -> [`TxPacket`](tx_packet::TxPacket) -> `TxSkb` -> `IpPacket` -> `GsoList`.
//!
//! - [`rx_parse`]: a received packet, or several coalesced ones.
//! - [`segmenter`]: sends a super-packet, unsplit or as packets. [`tx_packet`]: one packet under construction.
//!   [`roce_splitter`]: splits a super-packet later.
//! - [`path`]: addresses and route to a peer, and the GSO list that is being filled.
//!
//! May use `limits`, `abi`, `mem`, `queue` and `port`.

pub(crate) mod path;
pub(crate) mod roce_splitter;
pub(crate) mod rx_parse;
pub(crate) mod segmenter;
pub(crate) mod tx_packet;
