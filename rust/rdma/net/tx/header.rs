// SPDX-License-Identifier: GPL-2.0

//! IP and UDP headers of packets to send.
//!
//! The stack fills in IPv4 total length and checksum, because they depend on how many packets are sent as
//! one.

use crate::{
    bindings,
    net::route::Addresses, //
};

/// Length of a UDP header in bytes.
pub(in crate::net) const UDP_LEN: usize = 8;

/// Length of an IPv4 header without options, in bytes.
pub(in crate::net) const IPV4_LEN: usize = 20;

/// Length of an IPv6 header in bytes.
pub(in crate::net) const IPV6_LEN: usize = 40;

/// "Don't fragment" in the flags of an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;

/// Protocol number of UDP.
const UDP: u8 = bindings::IPPROTO_UDP as u8;

/// The fields of an IP header that the sender chooses.
#[derive(Clone, Copy, Debug)]
pub struct IpHeader {
    /// Source and destination.
    pub addresses: Addresses,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// Priority for qdiscs and for the egress map of a VLAN (PCP). 0: derived from the traffic class.
    pub priority: u8,
    /// IPv4 time to live or IPv6 hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits. Unused for IPv4.
    pub flow_label: u32,
    /// IPv4 identification. Unused for IPv6. The stack must not change it, because the ICRC covers it.
    pub ipv4_id: u16,
}

impl Addresses {
    /// Returns the length of an IP header of this family, in bytes.
    pub(in crate::net) const fn header_len(&self) -> usize {
        match self {
            Self::V4 { .. } => IPV4_LEN,
            Self::V6 { .. } => IPV6_LEN,
        }
    }
}

/// Returns a UDP header with checksum 0, as RoCE sends it (IBA annex 17).
pub(super) fn udp_header((source, dest): (u16, u16), len: u16) -> [u8; UDP_LEN] {
    let ([a, b], [c, d], [e, f]) = (source.to_be_bytes(), dest.to_be_bytes(), len.to_be_bytes());
    [a, b, c, d, e, f, 0, 0]
}

/// Returns an IPv4 header. The stack fills in total length and checksum.
pub(super) fn ipv4_header(ip: &IpHeader, src: [u8; 4], dst: [u8; 4]) -> [u8; IPV4_LEN] {
    let [id_high, id_low] = ip.ipv4_id.to_be_bytes();
    let [flags, fragment] = DONT_FRAGMENT.to_be_bytes();
    let [s0, s1, s2, s3] = src;
    let [d0, d1, d2, d3] = dst;
    [
        0x45,
        ip.traffic_class,
        0,
        0,
        id_high,
        id_low,
        flags,
        fragment,
        ip.hop_limit,
        UDP,
        0,
        0,
        s0,
        s1,
        s2,
        s3,
        d0,
        d1,
        d2,
        d3,
    ]
}

/// Returns an IPv6 header for a payload of `len` bytes.
pub(super) fn ipv6_header(ip: &IpHeader, src: [u8; 16], dst: [u8; 16], len: u16) -> [u8; IPV6_LEN] {
    let class = u32::from(ip.traffic_class) << 20;
    let first = 6 << 28 | class | (ip.flow_label & 0xf_ffff);
    let mut header = [0; IPV6_LEN];
    let (fixed, addresses) = header.split_at_mut(8);
    let (word, rest) = fixed.split_at_mut(4);
    word.copy_from_slice(&first.to_be_bytes());
    let [high, low] = len.to_be_bytes();
    rest.copy_from_slice(&[high, low, UDP, ip.hop_limit]);
    let (from, to) = addresses.split_at_mut(16);
    from.copy_from_slice(&src);
    to.copy_from_slice(&dst);
    header
}
