// SPDX-License-Identifier: GPL-2.0

//! The interface that a driver implements to receive the packets of a UDP port. Called in softirq.

use crate::net::{
    netdev::NetDevBorrow,
    rx::skb::RxSkb, //
};

/// Length of the BTH, which [`PacketReceiver::takes_gso`] and [`GroPacket::parse`] get.
pub const BTH_PEEK_LEN: usize = 12;

/// What a packet says about joining it to others. Called in softirq, before any firewall.
pub trait GroPacket: Sized {
    /// Reads the first bytes of a UDP payload. `None`: the packet is passed on at once, and may overtake others.
    fn parse(first: &[u8; BTH_PEEK_LEN]) -> Option<Self>;

    /// Returns whether both packets are of one stream, whose order must be kept.
    fn is_same_stream(&self, other: &Self) -> bool;

    /// Returns whether the packet may be joined to others of its stream.
    fn can_join(&self) -> bool;

    /// Returns whether the packet may be joined behind `last`.
    fn follows(&self, last: &Self) -> bool;

    /// Returns whether the packet must not wait for others.
    fn is_urgent(&self) -> bool;
}

/// Receives packets.
pub trait PacketReceiver: Send + Sync + 'static {
    /// UDP port to receive from.
    const PORT: u16;

    /// The packets, as GRO sees them.
    type Gro: GroPacket;

    /// Returns whether a GSO list is delivered as one skb, given the first bytes of its first UDP payload. If
    /// not, its packets are delivered one by one. Called as [`PacketReceiver::receive`].
    fn takes_gso(&self, first: &[u8; BTH_PEEK_LEN]) -> bool;

    /// Processes a received packet or GSO list, which arrived by `via`. Called in softirq, under RCU,
    /// concurrently on many CPUs.
    fn receive(&self, skb: RxSkb, via: &NetDevBorrow);
}
