// SPDX-License-Identifier: GPL-2.0

//! Received packets: the skb ([`skb`]), a packet in it ([`packet`]), and queues of skbs ([`queue`]). [`receive`] is the
//! interface that a driver implements.
//!
//! May use the base of `net`, and `mm`.

pub mod packet;
pub mod queue;
pub mod receive;
pub mod skb;
