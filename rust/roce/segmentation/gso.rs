// SPDX-License-Identifier: GPL-2.0

//! Splitting of super-packets into packets, as GSO does.
//!
//! A super-packet has the headers of one packet and the payload of all its packets. The position in
//! its opcode says which ends of the message it includes: "only" if it includes the first and the
//! last packet of the message, "first" or "last" if it includes one of them, "middle" if none.

use crate::{
    num::{
        low_u32,
        u32_as_usize,
        usize_as_u64, //
    },
    segmentation::{
        mtu::Mtu,
        tx_desc::TxDesc, //
    },
    wire::{
        bth::BTH_LEN,
        emit::{
            pad_bits,
            pad_len,
            HeaderBuf, //
        },
        icrc::ICRC_LEN,
        opcode::{
            Opcode,
            Position, //
        },
        packet::Packet, //
    }, //
};

/// Maximum number of packets of a super-packet.
pub const MAX_COALESCED_PACKETS: u32 = 64;

/// The packets of a super-packet, in order. The headers are built once and updated for each packet.
///
/// Returned by [`TxDesc::split`].
#[derive(Clone, Debug)]
pub struct PacketSplitter {
    headers: HeaderBuf,
    mtu: Mtu,
    /// Opcode of the super-packet.
    super_opcode: Opcode,
    /// Opcode of the current packet.
    opcode: Opcode,
    /// Bits of the last packet: AckReq, solicited event.
    last_flags: (bool, bool),
    /// Packets left.
    left: u32,
    /// Bytes of payload left.
    length: u32,
    started: bool,
}

impl TxDesc {
    /// Splits the super-packet into packets.
    #[inline]
    #[must_use]
    pub fn split(&self, mtu: Mtu) -> PacketSplitter {
        let headers = self.headers.emit(u32_as_usize(self.length));
        PacketSplitter::new(
            headers,
            self.headers.opcode(),
            (self.packets, self.length),
            mtu,
        )
    }

    /// Returns the packet, or super-packet, with `headers`, which are those of this description.
    #[inline]
    #[must_use]
    pub fn packet<'a>(&self, headers: &'a HeaderBuf) -> Packet<'a> {
        Packet::with_headers(headers, self.headers.opcode(), u32_as_usize(self.length))
            .as_super_packet(self.packets)
    }

    /// Returns the length in bytes of all packets after splitting, each from its BTH to its ICRC,
    /// inclusive.
    #[inline]
    #[must_use]
    pub fn wire_len(&self, mtu: Mtu) -> usize {
        wire_len(self.headers.opcode(), (self.packets, self.length), mtu)
    }
}

impl Packet<'_> {
    /// Splits the super-packet into packets.
    #[must_use]
    pub fn split(&self, mtu: Mtu) -> PacketSplitter {
        let length = low_u32(usize_as_u64(self.payload_len()));
        PacketSplitter::new(self.headers(), self.opcode(), (self.packets(), length), mtu)
    }

    /// Returns the length in bytes of all packets after splitting: see [`TxDesc::wire_len`].
    #[inline]
    #[must_use]
    pub fn wire_len(&self, mtu: Mtu) -> usize {
        let length = low_u32(usize_as_u64(self.payload_len()));
        wire_len(self.opcode(), (self.packets(), length), mtu)
    }
}

/// Returns the length in bytes of the packets of a super-packet with `opcode`, each from its BTH to its ICRC.
#[inline]
fn wire_len(opcode: Opcode, (packets, length): (u32, u32), mtu: Mtu) -> usize {
    match packets {
        0 | 1 => single_wire_len(opcode, length),
        packets => super_packet_wire_len(opcode, (packets, length), mtu),
    }
}

/// Returns the length in bytes of one packet from its BTH to its ICRC.
#[inline]
pub(super) fn single_wire_len(opcode: Opcode, length: u32) -> usize {
    let length = u32_as_usize(length);
    BTH_LEN
        .wrapping_add(ICRC_LEN)
        .wrapping_add(opcode.headers().len())
        .wrapping_add(length)
        .wrapping_add(pad_len(length))
}

fn super_packet_wire_len(super_opcode: Opcode, (packets, length): (u32, u32), mtu: Mtu) -> usize {
    let extended = |starts, ends| {
        let opcode = super_opcode.of_part(starts, ends);
        opcode.map_or(0, |opcode| opcode.headers().len())
    };
    let middle = u32_as_usize(packets.wrapping_sub(2));
    let ends = extended(true, false).wrapping_add(extended(false, true));
    let full = packets.wrapping_sub(1).wrapping_mul(mtu.bytes());
    let extended = ends.wrapping_add(middle.wrapping_mul(extended(false, false)));
    let last = length.saturating_sub(full);
    // Only the last packet has pad bytes. The others are full, and a path MTU is a multiple of
    // four.
    u32_as_usize(packets)
        .wrapping_mul(BTH_LEN.wrapping_add(ICRC_LEN))
        .wrapping_add(extended)
        .wrapping_add(u32_as_usize(length))
        .wrapping_add(pad_len(u32_as_usize(last)))
}

impl PacketSplitter {
    /// Splits a super-packet with `headers` and `opcode` into `packets` packets with `length` bytes of payload in all.
    #[inline]
    fn new(
        mut headers: HeaderBuf,
        opcode: Opcode,
        (packets, length): (u32, u32),
        mtu: Mtu,
    ) -> Self {
        let bth = headers.bth_mut();
        let last_flags = (bth.ack_request(), bth.solicited());
        if packets > 1 {
            bth.set_ack_request(false);
            bth.set_solicited(false);
        }
        Self {
            headers,
            mtu,
            super_opcode: opcode,
            opcode,
            last_flags,
            left: packets,
            length,
            started: false,
        }
    }

    /// Advances to the next packet. Returns its headers and payload length; `None` after the last
    /// packet.
    #[inline]
    pub fn advance(&mut self) -> Option<(&HeaderBuf, u32)> {
        self.left = self.left.checked_sub(1)?;
        let starts = !core::mem::replace(&mut self.started, true);
        let ends = self.left == 0;
        if starts && ends {
            return Some((&self.headers, self.length));
        }
        let length = self.length.min(self.mtu.bytes());
        self.length = self.length.wrapping_sub(length);
        let super_opcode = self.super_opcode;
        let opcode = super_opcode.of_part(starts, ends)?;
        if self.opcode.position() != opcode.position() {
            // Drops the RETH, which only the first packet has. It precedes an ImmDt, which only the last
            // packet has.
            let skipped = match ends {
                true => super_opcode
                    .headers()
                    .len()
                    .saturating_sub(opcode.headers().len()),
                false => 0,
            };
            self.headers.rewrite_for(opcode, skipped);
            self.opcode = opcode;
        }
        let bth = self.headers.bth_mut();
        if !starts {
            bth.set_psn(bth.psn().next());
        }
        if ends {
            bth.set_ack_request(self.last_flags.0);
            bth.set_solicited(self.last_flags.1);
        }
        bth.set_pad(pad_bits(u32_as_usize(length)));
        Some((&self.headers, length))
    }
}

impl Opcode {
    /// Returns the opcode of a part of a super-packet with this opcode. The part includes the first packet if it
    /// `starts`, the last packet if it `ends`.
    #[inline]
    pub(super) fn of_part(self, starts: bool, ends: bool) -> Option<Self> {
        self.at(Position::of(
            starts && self.starts_message(),
            ends && self.ends_message(),
        ))
    }

    /// Returns the opcode of a packet at `position` in the same message.
    #[inline]
    fn at(self, position: Position) -> Option<Self> {
        match self.position() == position {
            true => Some(self),
            false => Self::of(self.service(), self.operation(), position, self.has_imm()),
        }
    }
}

#[cfg(test)]
mod tests;
