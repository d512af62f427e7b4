// SPDX-License-Identifier: GPL-2.0

//! The interface that a driver implements to receive the packets of a UDP port. Called in softirq.

use crate::net::{
    netdev::NetDevBorrow,
    rx::skb::RxSkb, //
};

/// Receives packets.
pub trait PacketReceiver: Send + Sync + 'static {
    /// UDP port to receive from.
    const PORT: u16;

    /// Processes a received packet or super-packet, which arrived by `via`. Called in softirq, under RCU,
    /// concurrently on many CPUs.
    fn receive(&self, skb: RxSkb, via: &NetDevBorrow);
}
