// SPDX-License-Identifier: GPL-2.0

//! Packets to send: what they carry is written to a [`super_packet`], partly in pages of a [`page_pool`], and becomes
//! one [`skb`] with IP and UDP headers ([`header`]), or one for each packet. All leave by [`output`].
//!
//! May use the base of `net`, and `mm`.

pub mod header;
pub mod output;
pub mod page_pool;
pub mod skb;
pub mod super_packet;
