// SPDX-License-Identifier: GPL-2.0

//! Packets that travel unsplit: an entry of a buffer has the headers of a [`TxDesc`], followed by the payload of all
//! its packets, without pad bytes and ICRC.
//!
//! The buffer also records the number of packets and the length of the longest one on the wire, from which the path
//! MTU follows. A super-packet leaves the host only after it was split. A single packet can travel like this, too: it
//! then has no ICRC yet.

use super::{
    mtu::Mtu,
    tx_desc::TxDesc, //
};
use crate::{
    num::{
        low_u32,
        u32_as_usize,
        usize_as_u64, //
    },
    segmentation::gso::{
        single_wire_len,
        MAX_COALESCED_PACKETS, //
    },
    status::DropReason,
    wire::{
        bth::{
            Bth,
            BTH_LEN, //
        },
        icrc::ICRC_LEN,
        opcode::Position,
        packet::Packet, //
    }, //
};
use zerocopy::FromBytes as _;

/// The size of a super-packet, as its buffer records it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SuperPacketSize {
    /// Length of the UDP payload of the buffer in bytes: headers and payload.
    pub len: usize,
    /// Number of packets.
    pub packets: u32,
    /// Length of the longest packet in bytes, from its BTH to its ICRC, inclusive; at least that of a full one.
    pub longest: usize,
}

/// Maximum payload of an unsplit super-packet: the limit of the IPv4 total length, with room for headers.
const MAX_UNSPLIT_BYTES: u32 = 60 << 10;

/// Returns the maximum number of packets of an unsplit super-packet.
#[inline]
#[must_use]
pub fn max_unsplit_packets(mtu: Mtu) -> u32 {
    let full = MAX_UNSPLIT_BYTES.wrapping_shr(mtu.shift());
    full.min(MAX_COALESCED_PACKETS)
}

/// Returns the length of a packet with a full payload and no extension header, from its BTH to its ICRC, inclusive.
#[inline]
fn full_packet_len(mtu: Mtu) -> usize {
    BTH_LEN
        .wrapping_add(u32_as_usize(mtu.bytes()))
        .wrapping_add(ICRC_LEN)
}

impl TxDesc {
    /// Returns the length of the longest packet after splitting, from its BTH to its ICRC, inclusive; at least that
    /// of a packet with a full payload and no extension header. A single packet counts as divided for the smallest path
    /// MTU that holds it: some of the stack looks at this length instead of that of the buffer.
    #[inline]
    #[must_use]
    pub fn longest_packet(&self, mtu: Mtu) -> usize {
        let opcode = self.headers.opcode();
        match (self.packets, opcode.position()) {
            (1, Position::Only | Position::Last) => {
                let mtu = Mtu::holding(self.length).unwrap_or(mtu);
                single_wire_len(opcode, self.length).max(full_packet_len(mtu))
            }
            _ => self.longest_of_several(mtu),
        }
    }

    fn longest_of_several(&self, mtu: Mtu) -> usize {
        let opcode = self.headers.opcode();
        let full = self.packets.saturating_sub(1).wrapping_mul(mtu.bytes());
        let packet_len = |starts, ends, payload| {
            let opcode = opcode.of_part(starts, ends);
            opcode.map_or(0, |opcode| single_wire_len(opcode, payload))
        };
        let first = packet_len(true, self.packets == 1, self.length.min(mtu.bytes()));
        let last = packet_len(self.packets == 1, true, self.length.saturating_sub(full));
        first.max(last).max(full_packet_len(mtu))
    }

    /// Returns the first `packets` packets of the super-packet, which has more of them. They request no ACK and no
    /// completion event, as the last packet is not one of them. `None` if `packets` is 0.
    #[must_use]
    pub fn first_packets(&self, packets: u32, mtu: Mtu) -> Option<Self> {
        if packets == 0 || packets >= self.packets {
            return None;
        }
        let opcode = self.headers.opcode().of_part(true, false)?;
        Some(Self {
            headers: self.headers.shortened(opcode),
            length: packets.wrapping_mul(mtu.bytes()),
            packets,
            ..*self
        })
    }
}

impl<'a> Packet<'a> {
    /// Parses a super-packet. `bytes` starts at the BTH and holds at least the first
    /// [`MAX_HEADERS_LEN`](crate::wire::packet::MAX_HEADERS_LEN) bytes of the buffer, or all of it if it is
    /// shorter. Also returns the path MTU.
    ///
    /// # Errors
    ///
    /// - As [`Packet::parse`].
    /// - [`DropReason::BadLength`]: the buffer does not have the payload of that many packets.
    pub fn parse_super_packet(
        bytes: &'a [u8],
        size: SuperPacketSize,
    ) -> Result<(Self, Mtu), DropReason> {
        let (bth, _) = Bth::ref_from_prefix(bytes).map_err(|_| DropReason::TooShort)?;
        // `parse` expects pad bytes and ICRC.
        let trailer = usize::from(bth.pad()).wrapping_add(ICRC_LEN);
        let packet = Self::parse(bytes, size.len.saturating_add(trailer))?;
        let mtu = Mtu::of_longest_packet(size.longest).ok_or(DropReason::BadLength)?;
        let len = low_u32(usize_as_u64(packet.payload_len()));
        let position = packet.opcode().position();
        let valid = (1..=MAX_COALESCED_PACKETS).contains(&size.packets)
            && mtu.allows_super_packet(position, size.packets, len);
        match valid {
            true => Ok((packet.as_super_packet(size.packets), mtu)),
            false => Err(DropReason::BadLength),
        }
    }
}
