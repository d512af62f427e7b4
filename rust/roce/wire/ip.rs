// SPDX-License-Identifier: GPL-2.0

//! IP and UDP headers, as the ICRC sees them.
//!
//! Owns which fields the ICRC covers and which it takes as all ones, as routers may change them. Does
//! not know how the CRC is computed, and builds no header that goes on the wire.
//!
//! IBA: annex 17, ICRC of RoCEv2.

use crate::{
    num::saturating_u16,
    status::DropReason, //
};
use zerocopy::{
    byteorder::network_endian::U16,
    FromBytes as _,
    IntoBytes as _, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// UDP port of RoCEv2.
pub const ROCE_UDP_PORT: u16 = 4791;

/// Length of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;

/// Length of an IPv6 header without extension headers.
pub const IPV6_LEN: usize = 40;

/// Length of a UDP header.
pub const UDP_LEN: usize = 8;

/// Number of UDP in an IP header.
const PROTOCOL_UDP: u8 = 17;

/// What masked bytes are.
const ONES: u8 = 0xff;

/// The fields of an IPv4 header that the ICRC covers. Version, header length and protocol are those
/// of UDP without IP options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv4Pseudo {
    /// Length of the packet in bytes, with this header.
    pub total_len: u16,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset: 0x4000 is "don't fragment".
    pub frag: u16,
    /// Source address, in the order of the wire.
    pub saddr: [u8; 4],
    /// Destination address, in the order of the wire.
    pub daddr: [u8; 4],
}

/// The fields of an IPv6 header that the ICRC covers. Version and next header are those of UDP
/// without extension headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv6Pseudo {
    /// Length of the packet in bytes, without this header.
    pub payload_len: u16,
    /// Source address.
    pub saddr: [u8; 16],
    /// Destination address.
    pub daddr: [u8; 16],
}

/// The fields of a UDP header that the ICRC covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UdpPseudo {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Length in bytes, with this header.
    pub len: u16,
}

/// IP and UDP header of a packet, with the fields that the ICRC does not cover set to ones.
///
/// For the packets of a burst, make it once and change what differs with [`Masked::packet`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Masked(IpLayout);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum IpLayout {
    V4(Ipv4Udp),
    V6(Ipv6Udp),
}

impl Masked {
    /// Takes the fields of a packet over IPv4.
    #[inline]
    #[must_use]
    pub fn ipv4(ip: &Ipv4Pseudo, udp: &UdpPseudo) -> Self {
        Self(IpLayout::V4(Ipv4Udp {
            version_ihl: VERSION_IHL,
            tos: ONES,
            total_len: U16::new(ip.total_len),
            id: U16::new(ip.id),
            frag: U16::new(ip.frag),
            ttl: ONES,
            protocol: PROTOCOL_UDP,
            check: [ONES; 2],
            saddr: ip.saddr,
            daddr: ip.daddr,
            udp: Udp::new(udp),
        }))
    }

    /// Takes the fields of a packet over IPv6.
    #[inline]
    #[must_use]
    pub fn ipv6(ip: &Ipv6Pseudo, udp: &UdpPseudo) -> Self {
        Self(IpLayout::V6(Ipv6Udp {
            version_class_flow: VERSION_CLASS_FLOW,
            payload_len: U16::new(ip.payload_len),
            next_header: PROTOCOL_UDP,
            hop_limit: ONES,
            saddr: ip.saddr,
            daddr: ip.daddr,
            udp: Udp::new(udp),
        }))
    }

    /// Takes IP and UDP header as they were received. `bytes` starts at the IP header; what
    /// comes after the UDP header is not looked at.
    ///
    /// # Errors
    ///
    /// - [`DropReason::TooShort`]: the headers are not all there.
    /// - [`DropReason::BadIpHeader`]: there are IP options or extension headers, which the ICRC does
    ///   not define; or the packet is a fragment, or not UDP.
    ///
    /// The lengths in the headers are taken as they are.
    #[inline]
    pub fn received(bytes: &[u8]) -> Result<Self, DropReason> {
        let version = bytes.first().ok_or(DropReason::TooShort)? >> 4;
        match version {
            4 => {
                let (raw, _) =
                    Ipv4Udp::read_from_prefix(bytes).map_err(|_| DropReason::TooShort)?;
                raw.masked().map(|masked| Self(IpLayout::V4(masked)))
            }
            6 => {
                let (raw, _) =
                    Ipv6Udp::read_from_prefix(bytes).map_err(|_| DropReason::TooShort)?;
                raw.masked().map(|masked| Self(IpLayout::V6(masked)))
            }
            _ => Err(DropReason::BadIpHeader),
        }
    }

    /// Changes what differs from packet to packet of a burst: the identification, which IPv6 has
    /// not, and the lengths. `udp_payload_len` counts from the BTH to the ICRC, in bytes.
    #[inline]
    pub fn packet(&mut self, id: u16, udp_payload_len: usize) {
        let udp_len = udp_payload_len.saturating_add(UDP_LEN);
        match &mut self.0 {
            IpLayout::V4(v4) => {
                v4.id = U16::new(id);
                v4.total_len = U16::new(saturating_u16(udp_len.saturating_add(IPV4_LEN)));
                v4.udp.len = U16::new(saturating_u16(udp_len));
            }
            IpLayout::V6(v6) => {
                v6.payload_len = U16::new(saturating_u16(udp_len));
                v6.udp.len = U16::new(saturating_u16(udp_len));
            }
        }
    }

    /// Goes from the first packet of a burst, as it was received, to the one with this index.
    /// `udp_payload_len` counts from its BTH to its ICRC, in bytes.
    #[inline]
    pub fn of_burst(&mut self, index: u16, udp_payload_len: usize) {
        let first = match &self.0 {
            IpLayout::V4(v4) => v4.id.get(),
            IpLayout::V6(_) => 0,
        };
        self.packet(first.wrapping_add(index), udp_payload_len);
    }

    /// Returns the masked bytes: 28 for IPv4, 48 for IPv6.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IpLayout::V4(v4) => v4.as_bytes(),
            IpLayout::V6(v6) => v6.as_bytes(),
        }
    }

    /// Returns the layout of the masked bytes.
    #[inline]
    pub(super) const fn layout(&self) -> &IpLayout {
        &self.0
    }
}

/// Version 4, and five words of header.
const VERSION_IHL: u8 = 0x45;

/// Version 6 and the masked traffic class and flow label.
const VERSION_CLASS_FLOW: [u8; 4] = [0x6f, ONES, ONES, ONES];

/// The bits of an IPv4 header's `frag` that only fragments have: "more fragments" and the offset.
const FRAGMENT: u16 = 0x3fff;

/// A UDP header on the wire.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(C)]
pub(super) struct Udp {
    sport: U16,
    dport: U16,
    len: U16,
    check: [u8; 2],
}

impl Udp {
    #[inline]
    fn new(udp: &UdpPseudo) -> Self {
        Self {
            sport: U16::new(udp.sport),
            dport: U16::new(udp.dport),
            len: U16::new(udp.len),
            check: [ONES; 2],
        }
    }

    #[inline]
    fn masked(self) -> Self {
        Self {
            check: [ONES; 2],
            ..self
        }
    }
}

/// An IPv4 header without options and a UDP header on the wire.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(C)]
pub(super) struct Ipv4Udp {
    version_ihl: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    frag: U16,
    ttl: u8,
    protocol: u8,
    check: [u8; 2],
    saddr: [u8; 4],
    daddr: [u8; 4],
    udp: Udp,
}

impl Ipv4Udp {
    #[inline]
    fn masked(self) -> Result<Self, DropReason> {
        if self.version_ihl != VERSION_IHL
            || self.protocol != PROTOCOL_UDP
            || self.frag.get() & FRAGMENT != 0
        {
            return Err(DropReason::BadIpHeader);
        }
        Ok(Self {
            tos: ONES,
            ttl: ONES,
            check: [ONES; 2],
            udp: self.udp.masked(),
            ..self
        })
    }
}

/// An IPv6 header without extension headers and a UDP header on the wire.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(C)]
pub(super) struct Ipv6Udp {
    version_class_flow: [u8; 4],
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    saddr: [u8; 16],
    daddr: [u8; 16],
    udp: Udp,
}

impl Ipv6Udp {
    #[inline]
    fn masked(self) -> Result<Self, DropReason> {
        if self.next_header != PROTOCOL_UDP {
            return Err(DropReason::BadIpHeader);
        }
        Ok(Self {
            version_class_flow: VERSION_CLASS_FLOW,
            hop_limit: ONES,
            udp: self.udp.masked(),
            ..self
        })
    }
}

const _: () = assert!(size_of::<Ipv4Udp>() == IPV4_LEN + UDP_LEN);
const _: () = assert!(size_of::<Ipv6Udp>() == IPV6_LEN + UDP_LEN);
