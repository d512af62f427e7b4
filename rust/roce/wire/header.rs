// SPDX-License-Identifier: GPL-2.0

//! The headers of a packet: their lengths and their order.

use crate::num::u8_as_usize;

/// Length of the Base Transport Header, in bytes.
pub const BTH_LEN: usize = 12;

/// Maximum length of all headers of a packet, in bytes, starting with the BTH: an atomic operation of XRC.
pub const MAX_HEADERS_LEN: usize =
    BTH_LEN + u8_as_usize(Header::Xrceth.size()) + u8_as_usize(Header::AtomicEth.size());

/// An extension header, located between BTH and payload. Variants are in wire order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Header {
    /// XRC Extended Transport Header.
    Xrceth,
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
    /// Reserved bytes of a congestion notification.
    CnpReserved,
}

impl Header {
    /// All headers, in wire order.
    const ALL: [Self; 10] = [
        Self::Xrceth,
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
            Self::Xrceth | Self::Feth | Self::Aeth | Self::ImmDt | Self::Ieth => 4,
            Self::Deth | Self::AtomicAckEth => 8,
            Self::Reth | Self::CnpReserved => 16,
            Self::AtomicEth => 28,
        }
    }

    /// Returns the bit of the header in a [`HeaderSet`].
    #[inline]
    #[expect(
        clippy::as_conversions,
        reason = "reads the discriminant, which is below 10"
    )]
    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The extension headers of a packet, and their total length.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct HeaderSet {
    bits: u16,
    len: u8,
}

impl HeaderSet {
    /// No header.
    pub const EMPTY: Self = Self { bits: 0, len: 0 };

    /// Returns the length of the header that all requests of the service have, in bytes: the XRCETH.
    #[inline]
    pub(super) const fn common_len(self) -> usize {
        match self.contains(Header::Xrceth) {
            true => u8_as_usize(Header::Xrceth.size()),
            false => 0,
        }
    }

    /// Returns the set with `header` added.
    #[inline]
    #[must_use]
    pub const fn with(self, header: Header) -> Self {
        if self.contains(header) {
            return self;
        }
        Self {
            bits: self.bits | header.bit(),
            // All headers together are 96 bytes long.
            len: self.len.wrapping_add(header.size()),
        }
    }

    /// Returns whether `header` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, header: Header) -> bool {
        self.bits & header.bit() != 0
    }

    /// Returns the total length of the headers in the set, in bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        u8_as_usize(self.len)
    }

    /// Returns whether the set is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Returns the offset of `header` from the end of the BTH, in bytes; `None` if it is not in the
    /// set.
    #[inline]
    #[must_use]
    pub fn offset(self, header: Header) -> Option<usize> {
        if !self.contains(header) {
            return None;
        }
        let before = self.bits & header.bit().wrapping_sub(1);
        Some(match before {
            0 => 0, // Most opcodes have one header.
            before => Self::total(before),
        })
    }

    /// Returns the total length of the headers whose bits are set.
    fn total(bits: u16) -> usize {
        let present = |header: &&Header| bits & header.bit() != 0;
        let sizes = Header::ALL.iter().filter(present);
        sizes.fold(0, |sum, header| {
            u8_as_usize(header.size()).wrapping_add(sum)
        })
    }
}
