// SPDX-License-Identifier: GPL-2.0

//! Packets to send: IP and UDP headers ([`header`]), one packet in one skb ([`skb`]), and lists of packets
//! that the stack handles as one ([`gso_list`]).
//!
//! May use the base of `net`, and `mm`.

pub mod gso_list;
pub mod header;
pub mod skb;
