// SPDX-License-Identifier: GPL-2.0

//! Descriptions that this crate and its caller exchange: a packet to send ([`TxDesc`]), the limit
//! of a burst ([`BurstLimit`]) and the payload of a received packet ([`RxPayload`]).

use super::mtu::Mtu;
use crate::{
    id::Srqn,
    num::{
        low_u32,
        usize_as_u64, //
    },
    wire::{
        emit::Headers,
        packet::Packet, //
    },
    wr::Remote, //
};

/// A slot of the send queue. The requester has one entry per slot of the ring and fills them in
/// ring order, so that the same index serves both.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SlotIndex(pub u32);

/// The source of the payload of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TxPayload {
    /// No payload.
    None,
    /// The memory of the send WR in this slot, starting at [`TxDesc::offset`].
    Slot(SlotIndex),
    /// Memory that the peer reads, starting at this address. XRC: the SRQ that the READ named.
    Remote(Remote, Srqn),
    /// The eight bytes of an atomic write, as a number in host byte order.
    Value(u64),
}

/// A packet to send, or a super-packet: several consecutive packets of one message, described by
/// the headers of one packet. Its payload is the payload of all of them, and the position of its
/// opcode is their common position in the message. For the network it is split, see
/// [`gso`](crate::segmentation::gso).
#[derive(Clone, Copy, Debug)]
pub struct TxDesc {
    /// Headers; pass [`TxDesc::length`] to [`Headers::emit`].
    pub headers: Headers,
    /// Source of the payload.
    pub source: TxPayload,
    /// Offset of the payload in the message of a [`TxPayload::Slot`], in bytes; otherwise 0.
    pub offset: u32,
    /// Length of the payload in bytes, without pad bytes.
    pub length: u32,
    /// Number of packets.
    pub packets: u32,
}

/// Size limit of a burst.
///
/// A burst contains at least one packet if one can be sent and `packets` is not 0, even if its
/// payload exceeds `bytes`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BurstLimit {
    /// Bytes of payload.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
}

impl BurstLimit {
    /// Returns the number of full packets within the limit, at least 1.
    #[inline]
    pub(crate) fn full_packets(&self, mtu: Mtu) -> u32 {
        let full = self.bytes.wrapping_shr(mtu.shift());
        self.packets.min(full).max(1)
    }

    /// Deducts `packets` packets with `bytes` bytes of payload in total from the limit. Returns
    /// whether they were within it. The `first` packets of a burst may exceed `bytes`.
    #[inline]
    pub(crate) fn take(&mut self, packets: u32, bytes: u32, first: bool) -> bool {
        if packets > self.packets || (bytes > self.bytes && !first) {
            return false;
        }
        self.packets = self.packets.saturating_sub(packets);
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

/// Location of the payload in a received packet, which the caller holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RxPayload {
    /// Offset from the start of the BTH, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

impl RxPayload {
    /// Returns the location of the payload of `packet`; `None` if it is empty.
    #[must_use]
    pub fn of(packet: &Packet<'_>) -> Option<Self> {
        match low_u32(usize_as_u64(packet.payload_len())) {
            0 => None,
            len => Some(Self {
                offset: low_u32(usize_as_u64(packet.payload_offset())),
                len,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_always_accepts_its_first_packet() {
        let mut limit = BurstLimit {
            bytes: 10,
            packets: 2,
        };
        assert!(limit.take(1, 100, true));
        assert!(!limit.take(1, 1, false));
        assert!(limit.take(1, 0, false));
        assert!(!limit.take(1, 0, false), "the packet limit applies, too");
    }
}
