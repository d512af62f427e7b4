// SPDX-License-Identifier: GPL-2.0

//! What a driver implements to receive the packets of a UDP port.

use crate::net::{
    netdev::NetDevBorrow,
    rx::skb::RxSkb, //
};

/// Bytes of the first payload that a receiver is asked with.
pub const BTH_PEEK_LEN: usize = 12;

/// Takes packets.
pub trait PacketReceiver: Send + Sync + 'static {
    /// The UDP port.
    const PORT: u16;

    /// Whether it takes a burst as one whose first UDP payload begins with these bytes. If not, it gets
    /// the packets one by one. Called as [`PacketReceiver::receive`] is.
    fn takes_gso(&self, first: &[u8; BTH_PEEK_LEN]) -> bool;

    /// A packet has come in by the interface `via`, or a burst. Called in softirq, under RCU, on many CPUs at
    /// once.
    fn receive(&self, skb: RxSkb, via: &NetDevBorrow);
}
