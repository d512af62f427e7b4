// SPDX-License-Identifier: GPL-2.0

//! How a message is cut into packets, and what the core says about a packet to be sent.
//!
//! Owns the arithmetic of the path MTU and the descriptions that go between the core and whoever
//! moves the bytes. Does not know who sends, nor why.

use crate::{
    num::{
        low_u32,
        usize_as_u64, //
    },
    wire::{
        emit::Headers,
        opcode::Position,
        packet::Packet, //
    },
    wr::Remote, //
};

/// The most packet sequence numbers that may be outstanding: half of the circle, which is what the
/// longest READ takes at the smallest MTU.
pub const MAX_PSNS: u32 = 1 << 23;

/// The path MTU: the payload of every packet of a message but the last.
///
/// C: `enum ib_mtu`, `rdma/ib_verbs.h`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    #[default]
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl Mtu {
    /// Every path MTU, the smallest first.
    pub const ALL: [Self; 5] = [
        Self::Mtu256,
        Self::Mtu512,
        Self::Mtu1024,
        Self::Mtu2048,
        Self::Mtu4096,
    ];

    /// Returns the MTU with this number in verbs; `None` if there is none.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Mtu256),
            2 => Some(Self::Mtu512),
            3 => Some(Self::Mtu1024),
            4 => Some(Self::Mtu2048),
            5 => Some(Self::Mtu4096),
            _ => None,
        }
    }

    /// Returns the number in verbs.
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the number of bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u32 {
        1_u32.wrapping_shl(self.shift())
    }

    /// Returns the binary logarithm of the number of bytes.
    #[inline]
    const fn shift(self) -> u32 {
        match self {
            Self::Mtu256 => 8,
            Self::Mtu512 => 9,
            Self::Mtu1024 => 10,
            Self::Mtu2048 => 11,
            Self::Mtu4096 => 12,
        }
    }

    /// Returns how many packets a message of `length` bytes takes. An empty one takes one.
    #[inline]
    #[must_use]
    pub fn packets(self, length: u32) -> u32 {
        let full = length.wrapping_shr(self.shift());
        let rest = length & self.bytes().wrapping_sub(1);
        // At most 2^24 - 1 full ones.
        full.wrapping_add(u32::from(rest != 0)).max(1)
    }

    /// Returns where the payload of packet `index` starts, in bytes from the start of a message
    /// of `length` bytes; for packets after the last, its end.
    #[inline]
    #[must_use]
    pub fn offset(self, index: u32, length: u32) -> u32 {
        let full = length.wrapping_shr(self.shift());
        if index > full {
            return length;
        }
        // Below `length`, so no bit is lost.
        index.wrapping_shl(self.shift())
    }

    /// Returns how many bytes of payload packets `from` to `to` of a message of `length` bytes have, the
    /// last not included.
    #[inline]
    #[must_use]
    pub fn span(self, from: u32, to: u32, length: u32) -> u32 {
        self.offset(to, length)
            .saturating_sub(self.offset(from, length))
    }

    /// Returns whether a run of `packets` packets of a message may have `len` bytes of payload together, if
    /// it is at `position` as a whole. See [`admits`](Self::admits).
    #[inline]
    #[must_use]
    pub fn admits_run(self, position: Position, packets: u32, len: u32) -> bool {
        let full = packets.wrapping_sub(1).wrapping_shl(self.shift());
        match (packets, position) {
            (..=1, _) => self.admits(position, len),
            (_, Position::Only | Position::Last) => len
                .checked_sub(full)
                .is_some_and(|rest| self.admits(Position::Last, rest)),
            (_, Position::First | Position::Middle) => len == full.wrapping_add(self.bytes()),
        }
    }

    /// Returns whether a packet of a message may have `len` bytes of payload (C9-92): all but the last
    /// are full, and only a message of one packet may be empty.
    #[inline]
    #[must_use]
    pub const fn admits(self, position: Position, len: u32) -> bool {
        match position {
            Position::First | Position::Middle => len == self.bytes(),
            Position::Last => len != 0 && len <= self.bytes(),
            Position::Only => len <= self.bytes(),
        }
    }

    /// Returns the payload of packet `index` of a message of `length` bytes.
    #[inline]
    #[must_use]
    pub fn payload(self, index: u32, length: u32) -> u32 {
        let left = length.saturating_sub(self.offset(index, length));
        left.min(self.bytes())
    }
}

/// A slot of the send ring. The requester keeps one entry for each slot of the ring and fills
/// them in the order of the ring, so that one index serves for both.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SlotIndex(pub u32);

/// Where the payload of a packet comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TxPayload {
    /// There is none.
    None,
    /// The memory of the send work request in this slot, from [`TxDesc::offset`] on.
    Slot(SlotIndex),
    /// Memory that the peer asked to read, from exactly this address on.
    Remote(Remote),
    /// These eight bytes, as the number that they are in memory. Not sent yet: it is what an
    /// atomic write carries.
    Value(u64),
}

/// One packet to be sent, or a run: consecutive packets of a message that are described by one packet, whose
/// payload is theirs together and whose opcode says where in the message they are together. For a network it
/// is cut into packets: see [`run`](crate::segmentation::gso).
#[derive(Clone, Copy, Debug)]
pub struct TxDesc {
    /// Its headers; [`Headers::emit`] takes [`TxDesc::length`].
    pub headers: Headers,
    /// Where its payload comes from.
    pub source: TxPayload,
    /// Where the payload starts in the message of a [`TxPayload::Slot`], in bytes; otherwise 0.
    pub offset: u32,
    /// Length of the payload in bytes, without pad bytes.
    pub length: u32,
    /// How many packets it stands for.
    pub packets: u32,
}

/// How much a burst may hold.
///
/// A burst holds at least one packet if one can be sent and `packets` is not 0, even if its
/// payload alone is longer than `bytes`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BurstLimit {
    /// Bytes of payload.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
}

impl BurstLimit {
    /// Returns how many full packets there is room for, at least 1.
    #[inline]
    pub(crate) fn full_packets(&self, mtu: Mtu) -> u32 {
        let full = self.bytes.wrapping_shr(mtu.shift());
        self.packets.min(full).max(1)
    }

    /// Takes `packets` packets with `bytes` of payload together off the limit. Returns whether they still
    /// fit; `first` says that nothing was sent before them.
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

/// Where the payload of a received packet is, in the packet that the caller holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RxPayload {
    /// First byte, counted from the start of the BTH.
    pub offset: u32,
    /// Number of bytes.
    pub len: u32,
}

impl RxPayload {
    /// Returns where the payload of `packet` is, if it has one.
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
    use crate::wr::MAX_MESSAGE;

    #[test]
    fn packets_cover_a_message_exactly() {
        for mtu in Mtu::ALL {
            let size = mtu.bytes();
            for length in (0..4 * size + 2).chain([MAX_MESSAGE - 1, MAX_MESSAGE]) {
                let packets = mtu.packets(length);
                let last = packets - 1;
                assert_eq!(mtu.offset(last, length) + mtu.payload(last, length), length);
                assert_eq!(mtu.offset(packets, length), length);
                assert_eq!(mtu.payload(packets, length), 0);
                assert!(packets == 1 || mtu.payload(last, length) > 0);
                assert!(packets == 1 || mtu.payload(0, length) == size);
                assert_eq!(
                    u64::from(packets),
                    u64::from(length.max(1)).div_ceil(size.into())
                );
            }
        }
    }

    #[test]
    fn longest_message_takes_half_the_sequence_space() {
        assert_eq!(Mtu::Mtu256.packets(MAX_MESSAGE), MAX_PSNS);
    }

    #[test]
    fn codes_are_those_of_verbs() {
        for mtu in Mtu::ALL {
            assert_eq!(Mtu::from_code(mtu.code()), Some(mtu));
            assert_eq!(mtu.bytes(), 128 << mtu.code());
        }
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(6), None);
    }

    #[test]
    fn a_run_is_as_long_as_its_packets() {
        let mtu = Mtu::Mtu256;
        for length in 0..2000 {
            let packets = mtu.packets(length);
            for (from, to) in
                (0..packets).flat_map(|from| (from + 1..=packets).map(move |to| (from, to)))
            {
                let position = match (from, to == packets) {
                    (0, true) => Position::Only,
                    (0, false) => Position::First,
                    (_, false) => Position::Middle,
                    (_, true) => Position::Last,
                };
                let len = mtu.span(from, to, length);
                assert_eq!(
                    len,
                    (from..to).map(|index| mtu.payload(index, length)).sum()
                );
                assert!(mtu.admits_run(position, to - from, len));
            }
        }
        for (position, packets, len) in [
            (Position::First, 2, 511),
            (Position::Middle, 3, 769),
            (Position::Middle, 3, 512),
            (Position::Last, 2, 256),
            (Position::Last, 2, 513),
            (Position::Only, 3, 512),
            (Position::Only, 3, 769),
            (Position::Only, 2, 0),
        ] {
            assert!(
                !mtu.admits_run(position, packets, len),
                "{position:?} {packets} {len}"
            );
        }
    }

    #[test]
    fn a_burst_takes_its_first_packet_in_any_case() {
        let mut limit = BurstLimit {
            bytes: 10,
            packets: 2,
        };
        assert!(limit.take(1, 100, true));
        assert!(!limit.take(1, 1, false));
        assert!(limit.take(1, 0, false));
        assert!(!limit.take(1, 0, false), "packets are counted, too");
    }
}
