// SPDX-License-Identifier: GPL-2.0

//! Super-packets: packets of one connection as one skb.
//!
//! A super-packet has one entry for each message, or part of one: the headers of a packet and the payload of all its
//! packets, without trailers ([`entry`]). The linear part has the IP and UDP headers and the headers of the first
//! entry; what does not fit there is in pages. To the stack the skb is a UDP tunnel with an inner protocol of this
//! module ([`protocol`]) and GSO types that only software devices support together. A device that supports them takes
//! the skb unsplit. For any other, the stack calls the splitter that is registered for the inner protocol, which makes
//! the packets ([`split`]). UDP passes the skb unsplit to a socket of this module, which has asked for such skbs
//! (`udp_allow_gso()`), and to one with `UDP_GRO`; for others it splits it. Packet sockets see it unsplit.
//!
//! No process and no device can create such an skb. So what arrives as one was built by this module, and no link has
//! carried it; only administrators of the namespaces on its way could change it.
//!
//! May use the base of `net`.

pub(in crate::net) mod entry;
pub mod format;
pub(in crate::net) mod split;

use crate::bindings;

/// EtherTypes for local experiments (IEEE 802), which stand for the inside of an IPv4 and an IPv6 super-packet. They
/// never appear on a link. The splitter has no other way to tell the family: it sees the inner headers only.
const IPV4_PROTOCOL: u16 = 0x88b5;
const IPV6_PROTOCOL: u16 = 0x88b6;

/// Returns the inner protocol of an IPv4 or IPv6 super-packet.
#[inline]
pub(in crate::net) const fn protocol(v4: bool) -> u16 {
    match v4 {
        true => IPV4_PROTOCOL,
        false => IPV6_PROTOCOL,
    }
}

/// Returns whether `skb` is a super-packet.
///
/// # Safety
///
/// `skb` must be valid.
#[inline]
pub(in crate::net) unsafe fn is_super_packet(skb: *const bindings::sk_buff) -> bool {
    // SAFETY: By the function's contract.
    let protocol = unsafe { bindings::ferroce_helper_skb_super_packet_protocol(skb) };
    matches!(u16::from_be(protocol), IPV4_PROTOCOL | IPV6_PROTOCOL)
}
