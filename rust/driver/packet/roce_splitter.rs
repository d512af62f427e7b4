// SPDX-License-Identifier: GPL-2.0

//! Splits a super-packet that a device does not take unsplit, or that an engine must examine packet by packet: computes
//! the headers of each packet and its ICRC.
//!
//! Called in any context except hard interrupts. The IP and UDP headers are those of the skb at that time, so the ICRC
//! also covers what NAT has changed.

use crate::packet::tx_packet::{
    trailer_len,
    KernelCrc, //
};
use rdma::net::super_packet::format::{
    self,
    PacketParts,
    Splitter,
    SuperPacketParts,
    MAX_TRAILER_LEN, //
};
use roce::{
    segmentation::{
        gso::PacketSplitter,
        super_packet::SuperPacketSize, //
    },
    wire::{
        emit::{
            pad_len,
            HeaderBuf, //
        },
        icrc::{
            Icrc,
            ICRC_LEN, //
        },
        ip::Masked,
        packet::{
            Packet,
            MAX_HEADERS_LEN, //
        }, //
    }, //
};

const _: () = assert!(MAX_HEADERS_LEN <= format::MAX_HEADERS_LEN);
const _: () = assert!(3 + ICRC_LEN <= MAX_TRAILER_LEN);

/// Splits one super-packet.
pub(crate) struct RoceSplitter {
    packets: PacketSplitter,
    /// IP and UDP headers of the super-packet, which has the IPv4 identification of the first packet.
    ip_and_udp: Masked,
    /// Index of the next packet.
    index: u16,
    /// The current packet.
    headers: HeaderBuf,
    masked: Masked,
}

impl Splitter for RoceSplitter {
    fn new(super_packet: &SuperPacketParts<'_>) -> Option<(Self, usize)> {
        let size = SuperPacketSize {
            len: super_packet.len,
            packets: super_packet.packets.into(),
            longest: super_packet.longest.into(),
        };
        let (packet, mtu) = Packet::parse_super_packet(super_packet.headers, size).ok()?;
        let ip_and_udp = Masked::received(super_packet.ip_and_udp).ok()?;
        let splitter = Self {
            packets: packet.split(mtu),
            ip_and_udp,
            index: 0,
            headers: packet.headers(),
            masked: ip_and_udp,
        };
        Some((splitter, packet.payload_offset()))
    }

    fn next(&mut self) -> Option<PacketParts<'_>> {
        let (headers, payload_len) = self.packets.advance()?;
        self.headers = *headers;
        // CAST: At most one path MTU.
        let payload_len = payload_len as usize;
        let trailer_len = trailer_len(payload_len);
        let udp_payload_len = headers
            .len()
            .wrapping_add(payload_len)
            .wrapping_add(trailer_len);
        self.masked = self.ip_and_udp;
        self.masked.select_packet(self.index, udp_payload_len);
        self.index = self.index.wrapping_add(1);
        Some(PacketParts {
            headers: self.headers.as_slice(),
            payload_len,
            trailer_len,
        })
    }

    fn trailer(&self, payload: &[u8]) -> [u8; MAX_TRAILER_LEN] {
        let pad = pad_len(payload.len());
        let icrc = Icrc::<KernelCrc>::headers(&self.masked, self.headers.as_slice())
            .payload(payload)
            .pad(pad)
            .finish();
        let mut trailer = [0; MAX_TRAILER_LEN];
        for (to, from) in trailer.iter_mut().skip(pad).zip(icrc) {
            *to = from;
        }
        trailer
    }
}
