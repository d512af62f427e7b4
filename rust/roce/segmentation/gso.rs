// SPDX-License-Identifier: GPL-2.0

//! Runs: consecutive packets of one message, described by one.
//!
//! Owns how a run is cut into the packets that go by a network, and how those that have come in are joined
//! again. Does not know what is done with either.
//!
//! A run is described by the headers of a packet whose payload is all of theirs, and whose opcode says where in
//! the message they are together: first and last packet make an "only" one.

use crate::{
    num::u32_as_usize,
    segmentation::tx_desc::{
        Mtu,
        TxDesc, //
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

/// Most packets of a run that is cut or joined: more are in no buffer.
pub const MAX_GSO_PACKETS: u32 = 64;

/// Returns where packets are in a message that include its first one or not, and its last one or not.
#[inline]
const fn position(starts: bool, ends: bool) -> Position {
    match (starts, ends) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, false) => Position::Middle,
        (false, true) => Position::Last,
    }
}

/// The packets of one segment, one after the other. They are not made anew: what differs is changed.
///
/// Made by [`TxDesc::split`].
#[derive(Clone, Debug)]
pub struct PacketSplitter {
    headers: HeaderBuf,
    mtu: Mtu,
    /// The opcode of all together, and that of the packet at hand.
    opcodes: (Opcode, Opcode),
    /// What the last packet asks for: an acknowledgement, a completion event.
    asks: (bool, bool),
    /// Packets that are to come.
    left: u32,
    /// Bytes of payload that are to come.
    length: u32,
    begun: bool,
}

impl TxDesc {
    /// Cuts the run into packets.
    #[inline]
    #[must_use]
    pub fn split(&self, mtu: Mtu) -> PacketSplitter {
        let opcode = self.headers.opcode();
        let mut headers = self.headers.emit(u32_as_usize(self.length));
        let bth = headers.bth_mut();
        let asks = (bth.ack_request(), bth.solicited());
        if self.packets > 1 {
            bth.set_ack_request(false);
            bth.set_solicited(false);
        }
        PacketSplitter {
            headers,
            mtu,
            opcodes: (opcode, opcode),
            asks,
            left: self.packets,
            length: self.length,
            begun: false,
        }
    }
}

impl TxDesc {
    /// Returns the bytes of all its packets, each from its BTH to its ICRC, as they are when it is split.
    #[must_use]
    pub fn wire_len(&self, mtu: Mtu) -> usize {
        let whole = self.headers.opcode();
        let extended = |starts: bool, ends: bool| {
            let place = position(
                starts && whole.starts_message(),
                ends && whole.ends_message(),
            );
            whole.at(place).map_or(0, |opcode| opcode.headers().len())
        };
        let (extended, last) = match self.packets {
            0 | 1 => (whole.headers().len(), self.length),
            packets => {
                let middle = u32_as_usize(packets.wrapping_sub(2));
                let ends = extended(true, false).wrapping_add(extended(false, true));
                let full = packets.wrapping_sub(1).wrapping_mul(mtu.bytes());
                let all = ends.wrapping_add(middle.wrapping_mul(extended(false, false)));
                (all, self.length.saturating_sub(full))
            }
        };
        // Only the last packet has pad bytes: the others are full, and a path MTU is a multiple of four.
        u32_as_usize(self.packets.max(1))
            .wrapping_mul(BTH_LEN.wrapping_add(ICRC_LEN))
            .wrapping_add(extended)
            .wrapping_add(u32_as_usize(self.length))
            .wrapping_add(pad_len(u32_as_usize(last)))
    }
}

impl PacketSplitter {
    /// Goes to the next packet. Returns its headers, and how long its payload is; `None` after the last.
    #[inline]
    pub fn advance(&mut self) -> Option<(&HeaderBuf, u32)> {
        self.left = self.left.checked_sub(1)?;
        let starts = !core::mem::replace(&mut self.begun, true);
        let ends = self.left == 0;
        if starts && ends {
            return Some((&self.headers, self.length));
        }
        let length = self.length.min(self.mtu.bytes());
        self.length = self.length.wrapping_sub(length);
        let (whole, present) = self.opcodes;
        let place = position(
            starts && whole.starts_message(),
            ends && whole.ends_message(),
        );
        if present.position() != place {
            let opcode = whole.at(place)?;
            // What the first packet brings stands in front, and what the last brings behind it.
            let skipped = match ends {
                true => whole.headers().len().saturating_sub(opcode.headers().len()),
                false => 0,
            };
            self.headers.rewrite_for(opcode, skipped);
            self.opcodes.1 = opcode;
        }
        let bth = self.headers.bth_mut();
        if !starts {
            bth.set_psn(bth.psn().next());
        }
        if ends {
            bth.set_ack_request(self.asks.0);
            bth.set_solicited(self.asks.1);
        }
        bth.set_pad(pad_bits(u32_as_usize(length)));
        Some((&self.headers, length))
    }
}

impl Packet<'_> {
    /// Returns the run of this packet, or this run, and `next`, if that goes on with the same message, and nobody
    /// asks for anything in between. Both are for the same connection, whose path MTU is `mtu`.
    #[inline]
    #[must_use]
    pub fn coalesce(&self, next: &Packet<'_>, mtu: Mtu) -> Option<Self> {
        let (before, after) = (self.opcode(), next.opcode());
        // Every packet of a message but the last is full.
        let full = mtu
            .bytes()
            .wrapping_mul(self.packets().min(MAX_GSO_PACKETS));
        let len = u32::try_from(next.payload_len()).ok()?;
        let fits = self.payload_len() == u32_as_usize(full)
            && self.packets() < MAX_GSO_PACKETS
            && mtu.admits(after.position(), len)
            && next.payload_offset() == BTH_LEN;
        let goes_on = !before.ends_message()
            && !after.starts_message()
            && before.service() == after.service()
            && before.operation() == after.operation()
            && next.psn() == self.psn().add(self.packets())
            && next.dest_qpn() == self.dest_qpn()
            && next.pkey() == self.pkey();
        let silent = !self.ack_request() && !self.solicited();
        if !(fits && goes_on && silent) {
            return None;
        }
        let opcode = before.at(position(before.starts_message(), after.ends_message()))?;
        Some(self.coalesced_with(next, opcode))
    }
}

impl Opcode {
    /// Returns the opcode of another packet of the same message.
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
