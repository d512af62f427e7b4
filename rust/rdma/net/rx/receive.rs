// SPDX-License-Identifier: GPL-2.0

//! The interface that a driver implements to receive the packets of a UDP port. Called in softirq.

use crate::net::{
    netdev::NetDevBorrow,
    rx::skb::RxSkb, //
};

/// Length of the BTH, which [`PacketReceiver::takes_gso`] gets.
pub const BTH_PEEK_LEN: usize = 12;

/// Receives packets.
pub trait PacketReceiver: Send + Sync + 'static {
    /// UDP port to receive from.
    const PORT: u16;

    /// Returns whether a GSO list is delivered as one skb, given the first bytes of its first UDP payload. If
    /// not, its packets are delivered one by one. Called as [`PacketReceiver::receive`].
    fn takes_gso(&self, first: &[u8; BTH_PEEK_LEN]) -> bool;

    /// Processes a received packet or GSO list, which arrived by `via`. Called in softirq, under RCU,
    /// concurrently on many CPUs.
    fn receive(&self, skb: RxSkb, via: &NetDevBorrow);
}
