// SPDX-License-Identifier: GPL-2.0

//! Packets to send: IP and UDP headers ([`header`]), one packet in one skb ([`skb`]), lists of packets that the stack
//! handles as one ([`gso_list`]), and super-packets ([`super_packet`]), whose payload is in pages of a [`page_pool`].
//! All leave by [`output`].
//!
//! May use the base of `net`, and `mm`.

pub mod gso_list;
pub mod header;
pub mod output;
pub mod page_pool;
pub mod skb;
pub mod super_packet;
