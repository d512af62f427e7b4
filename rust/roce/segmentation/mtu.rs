// SPDX-License-Identifier: GPL-2.0

//! The path MTU and the arithmetic of dividing a message into packets.

use crate::{
    num::u32_as_usize,
    wire::opcode::Position, //
};

/// Maximum number of outstanding PSNs: half of the PSN space, which the longest READ takes at the
/// smallest MTU.
pub const MAX_PSNS: u32 = 1 << 23;

/// The path MTU: the payload length of every packet of a message except the last.
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
    /// All path MTUs in ascending order.
    pub const ALL: [Self; 5] = [
        Self::Mtu256,
        Self::Mtu512,
        Self::Mtu1024,
        Self::Mtu2048,
        Self::Mtu4096,
    ];

    /// Returns the MTU with this `enum ib_mtu` value; `None` if it is invalid.
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

    /// Returns the `enum ib_mtu` value.
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
    pub(super) const fn shift(self) -> u32 {
        // Code 1 is 2^8 bytes, and each further one twice as many.
        self.code().wrapping_add(7)
    }

    /// Returns the smallest MTU of packets with `length` bytes of payload. `None` if there is none.
    #[inline]
    #[must_use]
    pub fn holding(length: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| length <= mtu.bytes())
    }

    /// Returns the MTU of packets of which the longest has `len` bytes from the BTH to the ICRC, inclusive. Its
    /// headers are shorter than the smallest MTU, so it is the largest MTU not above `len`. `None` if there is none.
    #[must_use]
    pub fn of_longest_packet(len: usize) -> Option<Self> {
        let fits = |mtu: &Self| u32_as_usize(mtu.bytes()) <= len;
        Self::ALL.into_iter().rev().find(fits)
    }

    /// Returns the number of packets of a message of `length` bytes. An empty message has one
    /// packet.
    #[inline]
    #[must_use]
    pub fn packets(self, length: u32) -> u32 {
        let full = length.wrapping_shr(self.shift());
        let last = length & self.bytes().wrapping_sub(1);
        // `full` is at most 2^24 - 1.
        full.wrapping_add(u32::from(last != 0)).max(1)
    }

    /// Returns the offset of the payload of packet `index` in a message of `length` bytes. For
    /// packets after the last one, returns `length`.
    #[inline]
    #[must_use]
    pub fn offset(self, index: u32, length: u32) -> u32 {
        let offset = u64::from(index).wrapping_shl(self.shift());
        u32::try_from(offset).map_or(length, |offset| offset.min(length))
    }

    /// Returns the payload length of packets `from..to` of a message of `length` bytes.
    #[inline]
    #[must_use]
    pub fn payload_between(self, from: u32, to: u32, length: u32) -> u32 {
        self.offset(to, length)
            .saturating_sub(self.offset(from, length))
    }

    /// Returns whether a super-packet of `packets` packets at `position` may have `len` bytes of
    /// payload. See [`allows_payload`](Self::allows_payload).
    #[inline]
    #[must_use]
    pub fn allows_super_packet(self, position: Position, packets: u32, len: u32) -> bool {
        let full = packets.wrapping_sub(1).wrapping_shl(self.shift());
        match (packets, position) {
            (..=1, _) => self.allows_payload(position, len),
            (_, Position::Only | Position::Last) => len
                .checked_sub(full)
                .is_some_and(|last| self.allows_payload(Position::Last, last)),
            (_, Position::First | Position::Middle) => len == full.wrapping_add(self.bytes()),
        }
    }

    /// Returns whether a packet at `position` may have `len` bytes of payload (C9-92): all packets
    /// of a message except the last are full, and only a message of one packet may be empty.
    #[inline]
    #[must_use]
    pub const fn allows_payload(self, position: Position, len: u32) -> bool {
        match position {
            Position::First | Position::Middle => len == self.bytes(),
            Position::Last => len != 0 && len <= self.bytes(),
            Position::Only => len <= self.bytes(),
        }
    }

    /// Returns the payload length of packet `index` of a message of `length` bytes.
    #[inline]
    #[must_use]
    pub fn payload(self, index: u32, length: u32) -> u32 {
        let left = length.saturating_sub(self.offset(index, length));
        left.min(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wr::MAX_MESSAGE_BYTES;

    #[test]
    fn packets_cover_a_message_exactly() {
        for mtu in Mtu::ALL {
            let size = mtu.bytes();
            for length in (0..4 * size + 2).chain([MAX_MESSAGE_BYTES - 1, MAX_MESSAGE_BYTES]) {
                let packets = mtu.packets(length);
                let last_index = packets - 1;
                assert_eq!(
                    mtu.offset(last_index, length) + mtu.payload(last_index, length),
                    length
                );
                assert_eq!(mtu.offset(packets, length), length);
                assert_eq!(mtu.payload(packets, length), 0);
                assert!(packets == 1 || mtu.payload(last_index, length) > 0);
                assert!(packets == 1 || mtu.payload(0, length) == size);
                assert_eq!(
                    u64::from(packets),
                    u64::from(length.max(1)).div_ceil(size.into())
                );
            }
        }
    }

    #[test]
    fn the_longest_message_takes_half_of_the_psn_space() {
        assert_eq!(Mtu::Mtu256.packets(MAX_MESSAGE_BYTES), MAX_PSNS);
    }

    #[test]
    fn codes_match_enum_ib_mtu() {
        for mtu in Mtu::ALL {
            assert_eq!(Mtu::from_code(mtu.code()), Some(mtu));
            assert_eq!(mtu.bytes(), 128 << mtu.code());
        }
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(6), None);
    }

    #[test]
    fn a_super_packet_is_as_long_as_its_packets() {
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
                let len = mtu.payload_between(from, to, length);
                assert_eq!(
                    len,
                    (from..to).map(|index| mtu.payload(index, length)).sum()
                );
                assert!(mtu.allows_super_packet(position, to - from, len));
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
                !mtu.allows_super_packet(position, packets, len),
                "{position:?} {packets} {len}"
            );
        }
    }
}
