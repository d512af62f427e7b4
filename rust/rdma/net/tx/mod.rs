// SPDX-License-Identifier: GPL-2.0

//! Packets to be sent: headers, one packet in one buffer, and lists of them that travel as one.
//!
//! May use: the base of `net`, `mm`.

pub mod gso_list;
pub mod header;
pub mod skb;
