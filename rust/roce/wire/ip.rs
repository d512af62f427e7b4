// SPDX-License-Identifier: GPL-2.0

//! IP and UDP headers as the ICRC covers them: fields that routers may change count as all ones.
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

/// IP protocol number of UDP.
const PROTOCOL_UDP: u8 = 17;

/// Value of a byte that the ICRC does not cover.
const MASKED: u8 = 0xff;

/// Fields of an IPv4 header that the ICRC covers. Version, header length and protocol are fixed:
/// IPv4 without options, UDP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv4Pseudo {
    /// Length of the packet in bytes, including this header.
    pub total_len: u16,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset: 0x4000 is "don't fragment".
    pub frag: u16,
    /// Source address, in wire order.
    pub saddr: [u8; 4],
    /// Destination address, in wire order.
    pub daddr: [u8; 4],
}

/// Fields of an IPv6 header that the ICRC covers. Version and next header are fixed: IPv6 without
/// extension headers, UDP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv6Pseudo {
    /// Length of the packet in bytes, excluding this header.
    pub payload_len: u16,
    /// Source address.
    pub saddr: [u8; 16],
    /// Destination address.
    pub daddr: [u8; 16],
}

/// Fields of a UDP header that the ICRC covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UdpPseudo {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Length in bytes, including this header.
    pub len: u16,
}

/// IP and UDP headers of a packet, with the fields that the ICRC does not cover set to all ones.
///
/// For several packets of one flow, build it once and update it with [`Masked::set_packet`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Masked(IpLayout);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum IpLayout {
    V4(Ipv4Udp),
    V6(Ipv6Udp),
}

impl Masked {
    /// Builds the headers of a packet over IPv4.
    #[inline]
    #[must_use]
    pub fn ipv4(ip: &Ipv4Pseudo, udp: &UdpPseudo) -> Self {
        Self(IpLayout::V4(Ipv4Udp {
            version_ihl: VERSION_IHL,
            tos: MASKED,
            total_len: U16::new(ip.total_len),
            id: U16::new(ip.id),
            frag: U16::new(ip.frag),
            ttl: MASKED,
            protocol: PROTOCOL_UDP,
            check: [MASKED; 2],
            saddr: ip.saddr,
            daddr: ip.daddr,
            udp: Udp::new(udp),
        }))
    }

    /// Builds the headers of a packet over IPv6.
    #[inline]
    #[must_use]
    pub fn ipv6(ip: &Ipv6Pseudo, udp: &UdpPseudo) -> Self {
        Self(IpLayout::V6(Ipv6Udp {
            version_class_flow: VERSION_CLASS_FLOW,
            payload_len: U16::new(ip.payload_len),
            next_header: PROTOCOL_UDP,
            hop_limit: MASKED,
            saddr: ip.saddr,
            daddr: ip.daddr,
            udp: Udp::new(udp),
        }))
    }

    /// Masks received IP and UDP headers. `bytes` starts at the IP header; bytes after the UDP
    /// header are ignored. The length fields are not checked.
    ///
    /// # Errors
    ///
    /// - [`DropReason::TooShort`]: the headers are truncated.
    /// - [`DropReason::BadIpHeader`]: the packet has IP options or extension headers, for which no
    ///   ICRC is defined, or is a fragment, or is not UDP.
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

    /// Sets the fields that differ between packets of a flow: the lengths and, with IPv4, the
    /// identification. `udp_payload_len` is the number of bytes from the BTH to the ICRC,
    /// inclusive.
    #[inline]
    pub fn set_packet(&mut self, id: u16, udp_payload_len: usize) {
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

    /// Turns the headers of a super-packet into those of one of its packets. `id_offset` is the
    /// difference of their IPv4 identifications, and `udp_payload_len` the number of bytes of the
    /// packet from its BTH to its ICRC, inclusive.
    #[inline]
    pub fn select_packet(&mut self, id_offset: u16, udp_payload_len: usize) {
        let first = match &self.0 {
            IpLayout::V4(v4) => v4.id.get(),
            IpLayout::V6(_) => 0,
        };
        self.set_packet(first.wrapping_add(id_offset), udp_payload_len);
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

/// IPv4, header of five words.
const VERSION_IHL: u8 = 0x45;

/// IPv6, with masked traffic class and flow label.
const VERSION_CLASS_FLOW: [u8; 4] = [0x6f, MASKED, MASKED, MASKED];

/// Bits of the IPv4 `frag` field that are set only in fragments: "more fragments" and the offset.
const FRAGMENT_MASK: u16 = 0x3fff;

/// Wire format of a UDP header.
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
            check: [MASKED; 2],
        }
    }

    #[inline]
    fn masked(self) -> Self {
        Self {
            check: [MASKED; 2],
            ..self
        }
    }
}

/// Wire format of an IPv4 header without options, followed by a UDP header.
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
            || self.frag.get() & FRAGMENT_MASK != 0
        {
            return Err(DropReason::BadIpHeader);
        }
        Ok(Self {
            tos: MASKED,
            ttl: MASKED,
            check: [MASKED; 2],
            udp: self.udp.masked(),
            ..self
        })
    }
}

/// Wire format of an IPv6 header without extension headers, followed by a UDP header.
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
            hop_limit: MASKED,
            udp: self.udp.masked(),
            ..self
        })
    }
}

const _: () = assert!(size_of::<Ipv4Udp>() == IPV4_LEN + UDP_LEN);
const _: () = assert!(size_of::<Ipv6Udp>() == IPV6_LEN + UDP_LEN);
