// SPDX-License-Identifier: GPL-2.0

//! Which headers there are, how long they are, and in what order they stand.
//!
//! Owns the set of headers of a packet, from which offsets follow. Does not know what is in a
//! header, nor which opcode brings it.

use crate::num::u8_as_usize;

/// Length of the Base Transport Header, in bytes.
pub const BTH_LEN: usize = 12;

/// The most bytes that the headers of a packet can take, from the BTH on. They are those of an
/// atomic operation.
pub const MAX_HEADERS: usize = BTH_LEN + u8_as_usize(Header::AtomicEth.size());

/// An extension header: what may stand between BTH and payload.
///
/// In the order in which they stand there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Header {
    /// Datagram Extended Transport Header.
    Deth,
    /// Flush Extended Transport Header.
    Feth,
    /// RDMA Extended Transport Header.
    Reth,
    /// ACK Extended Transport Header.
    Aeth,
    /// Atomic Extended Transport Header.
    AtomicEth,
    /// Atomic ACK Extended Transport Header.
    AtomicAckEth,
    /// Immediate data.
    ImmDt,
    /// Invalidate Extended Transport Header.
    Ieth,
    /// The reserved bytes of a congestion notification.
    CnpReserved,
}

impl Header {
    /// Every header, in the order of the wire.
    const ALL: [Self; 9] = [
        Self::Deth,
        Self::Feth,
        Self::Reth,
        Self::Aeth,
        Self::AtomicEth,
        Self::AtomicAckEth,
        Self::ImmDt,
        Self::Ieth,
        Self::CnpReserved,
    ];

    /// Returns the length of the header in bytes.
    #[inline]
    #[must_use]
    pub const fn size(self) -> u8 {
        match self {
            Self::Feth | Self::Aeth | Self::ImmDt | Self::Ieth => 4,
            Self::Deth | Self::AtomicAckEth => 8,
            Self::Reth | Self::CnpReserved => 16,
            Self::AtomicEth => 28,
        }
    }

    /// Returns the header's bit in a set.
    #[inline]
    #[expect(
        clippy::as_conversions,
        reason = "reads the discriminant, which is below 9"
    )]
    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The extension headers of a packet, with their length.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct HeaderSet {
    bits: u16,
    len: u8,
}

impl HeaderSet {
    /// No header.
    pub const EMPTY: Self = Self { bits: 0, len: 0 };

    /// Returns the set with `header` in it.
    #[inline]
    #[must_use]
    pub const fn with(self, header: Header) -> Self {
        if self.contains(header) {
            return self;
        }
        Self {
            bits: self.bits | header.bit(),
            // All headers together have 92 bytes.
            len: self.len.wrapping_add(header.size()),
        }
    }

    /// Returns whether `header` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, header: Header) -> bool {
        self.bits & header.bit() != 0
    }

    /// Returns the length of all headers of the set, in bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        u8_as_usize(self.len)
    }

    /// Returns whether the set has no header.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Returns how many bytes after the BTH `header` starts; `None` if it is not in the set.
    #[inline]
    #[must_use]
    pub fn offset(self, header: Header) -> Option<usize> {
        if !self.contains(header) {
            return None;
        }
        let before = self.bits & header.bit().wrapping_sub(1);
        Some(match before {
            0 => 0, // Most opcodes bring one header.
            before => Self::total(before),
        })
    }

    /// Returns the length of the headers with these bits.
    fn total(bits: u16) -> usize {
        let present = |header: &&Header| bits & header.bit() != 0;
        let sizes = Header::ALL.iter().filter(present);
        sizes.fold(0, |sum, header| {
            u8_as_usize(header.size()).wrapping_add(sum)
        })
    }
}
