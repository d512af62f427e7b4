// SPDX-License-Identifier: GPL-2.0

//! Packets: parsing and verification on receive; construction and transmission on send.
//!
//! On send: `TxDesc` -> `PacketSplitter` -> [`TxPacket`](tx_packet::TxPacket) -> `TxSkb` -> `IpPacket` -> `GsoList`.
//!
//! - [`rx_parse`]: a received packet, or several coalesced ones.
//! - [`segmenter`]: splits a super-packet while its payload is read. [`tx_packet`]: one packet under construction.
//! - [`path`]: addresses and route to a peer, and the GSO list that is being filled.
//!
//! May use `limits`, `abi`, `mem`, `queue` and `port`.

pub(crate) mod path;
pub(crate) mod rx_parse;
pub(crate) mod segmenter;
pub(crate) mod tx_packet;
