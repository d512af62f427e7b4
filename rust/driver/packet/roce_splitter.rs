// SPDX-License-Identifier: GPL-2.0

//! Splits a super-packet that a device does not take unsplit, or that an engine must examine packet by packet: computes
//! the headers of each packet and its ICRC.
//!
//! Called in any context except hard interrupts. The IP and UDP headers are those of the skb at that time, so the ICRC
//! also covers what NAT has changed.

use crate::packet::icrc::{
    trailer_len,
    KernelCrc,
    Trailer, //
};
use rdma::net::super_packet::format::{
    self,
    EntrySize,
    PacketParts,
    Splitter,
    MAX_PACKETS,
    MAX_TRAILER_LEN, //
};
use roce::{
    segmentation::{
        gso::{
            PacketSplitter,
            MAX_COALESCED_PACKETS, //
        },
        super_packet::SuperPacketSize, //
    },
    wire::{
        emit::HeaderBuf,
        icrc::Icrc,
        ip::Masked,
        packet::{
            Packet,
            MAX_HEADERS_LEN, //
        }, //
    }, //
};

const _: () = assert!(MAX_HEADERS_LEN <= format::MAX_HEADERS_LEN);
// CAST: `u16` to `u32`.
const _: () = assert!(MAX_COALESCED_PACKETS <= MAX_PACKETS as u32);
const _: () = assert!(Trailer::MAX_LEN <= MAX_TRAILER_LEN);

/// Splits one super-packet.
pub(crate) struct RoceSplitter {
    /// IP and UDP headers of the super-packet, which has the IPv4 identification of the first packet.
    ip_and_udp: Masked,
    /// Length of the longest packet in bytes, from which the path MTU follows.
    longest: u16,
    /// Index of the next packet.
    index: u16,
    /// Packets of the current entry that are left.
    packets: Option<PacketSplitter>,
    current: Option<Current>,
}

/// The current packet.
struct Current {
    headers: HeaderBuf,
    masked: Masked,
    payload_len: usize,
}

impl Splitter for RoceSplitter {
    fn new(ip_and_udp: &[u8], longest: u16) -> Option<Self> {
        Some(Self {
            ip_and_udp: Masked::received(ip_and_udp).ok()?,
            longest,
            index: 0,
            packets: None,
            current: None,
        })
    }

    fn begin_entry(&mut self, headers: &[u8], size: EntrySize) -> Option<usize> {
        let size = SuperPacketSize {
            len: size.len.into(),
            packets: size.packets.into(),
            longest: self.longest.into(),
        };
        let (packet, mtu) = Packet::parse_super_packet(headers, size).ok()?;
        self.packets = Some(packet.split(mtu));
        Some(packet.payload_offset())
    }

    fn next(&mut self) -> Option<PacketParts<'_>> {
        let (headers, payload_len) = self.packets.as_mut()?.advance()?;
        // CAST: At most one path MTU.
        let payload_len = payload_len as usize;
        let trailer_len = trailer_len(payload_len);
        let udp_payload_len = headers
            .len()
            .wrapping_add(payload_len)
            .wrapping_add(trailer_len);
        let mut masked = self.ip_and_udp;
        masked.select_packet(self.index, udp_payload_len);
        self.index = self.index.wrapping_add(1);
        let current = self.current.insert(Current {
            headers: *headers,
            masked,
            payload_len,
        });
        Some(PacketParts {
            headers: current.headers.as_slice(),
            payload_len,
            trailer_len,
        })
    }

    fn trailer(&self, crc: impl FnOnce(u32) -> u32) -> [u8; MAX_TRAILER_LEN] {
        let mut bytes = [0; MAX_TRAILER_LEN];
        let Some(Current {
            headers,
            masked,
            payload_len,
        }) = &self.current
        else {
            return bytes;
        };
        let icrc = Icrc::<KernelCrc>::headers(masked, headers.as_slice()).payload_with(crc);
        let trailer = Trailer::new(icrc, *payload_len);
        for (to, from) in bytes.iter_mut().zip(trailer.as_slice()) {
            *to = *from;
        }
        bytes
    }
}
