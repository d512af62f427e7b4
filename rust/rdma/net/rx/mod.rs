// SPDX-License-Identifier: GPL-2.0

//! Received packets: the buffer, the packets in it, those taken together, and queues of buffers.
//!
//! May use: the base of `net`, `mm`.

pub mod coalesced;
pub mod packet;
pub mod queue;
pub mod receive;
pub mod skb;
