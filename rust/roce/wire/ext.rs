// SPDX-License-Identifier: GPL-2.0

//! The extension headers but AETH: what stands between BTH and payload.
//!
//! Owns their layouts and the values in them. Which opcode brings which header is not known here,
//! nor what an address or a key is good for.

use super::header::Header;
use crate::{
    id::{
        Qkey,
        Qpn,
        Rkey, //
    },
    num::low_u8, //
};
use zerocopy::{
    byteorder::network_endian::{
        U32,
        U64, //
    },
    FromBytes,
    Immutable,
    IntoBytes,
    Unaligned, //
};

/// A header that can be read from and written to a packet.
pub(super) trait Extension: Copy {
    /// Which header it is.
    const HEADER: Header;

    /// Its form on the wire, [`Header::size`] bytes long.
    type Layout: FromBytes + IntoBytes + Immutable + Unaligned;

    /// Reads the values.
    fn decode(layout: Self::Layout) -> Self;

    /// Writes the values; reserved bits are 0.
    fn encode(self) -> Self::Layout;
}

/// The forms on the wire, big endian.
mod layout {
    use zerocopy::byteorder::network_endian::{
        U32,
        U64, //
    };
    use zerocopy_derive::{
        FromBytes,
        Immutable,
        IntoBytes,
        Unaligned, //
    };

    #[derive(FromBytes, Immutable, IntoBytes, Unaligned)]
    #[repr(C)]
    pub(crate) struct RawReth {
        pub(super) va: U64,
        pub(super) rkey: U32,
        pub(super) len: U32,
    }

    #[derive(FromBytes, Immutable, IntoBytes, Unaligned)]
    #[repr(C)]
    pub(crate) struct RawAtomicEth {
        pub(super) va: U64,
        pub(super) rkey: U32,
        pub(super) swap_or_add: U64,
        pub(super) compare: U64,
    }

    #[derive(FromBytes, Immutable, IntoBytes, Unaligned)]
    #[repr(C)]
    pub(crate) struct RawDeth {
        pub(super) qkey: U32,
        pub(super) src_qpn: U32,
    }
}

/// RDMA Extended Transport Header: memory of the responder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reth {
    /// Address, in the address space that the key stands for.
    pub va: u64,
    /// Key that opens the memory.
    pub rkey: Rkey,
    /// Length in bytes. Anything up to `u32::MAX` can arrive; a message has at most 2^31 bytes, and
    /// it is for the responder to refuse more.
    pub len: u32,
}

impl Extension for Reth {
    const HEADER: Header = Header::Reth;
    type Layout = layout::RawReth;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self {
            va: layout.va.get(),
            rkey: Rkey::new(layout.rkey.get()),
            len: layout.len.get(),
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        layout::RawReth {
            va: U64::new(self.va),
            rkey: U32::new(self.rkey.get()),
            len: U32::new(self.len),
        }
    }
}

/// Atomic Extended Transport Header: 64 bits of the responder, and what to do with them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AtomicEth {
    /// Address, in the address space that the key stands for. It need not be aligned here.
    pub va: u64,
    /// Key that opens the memory.
    pub rkey: Rkey,
    /// The new value of a compare and swap, or the summand of a fetch and add.
    pub swap_or_add: u64,
    /// The value that a compare and swap expects; unused otherwise.
    pub compare: u64,
}

impl Extension for AtomicEth {
    const HEADER: Header = Header::AtomicEth;
    type Layout = layout::RawAtomicEth;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self {
            va: layout.va.get(),
            rkey: Rkey::new(layout.rkey.get()),
            swap_or_add: layout.swap_or_add.get(),
            compare: layout.compare.get(),
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        layout::RawAtomicEth {
            va: U64::new(self.va),
            rkey: U32::new(self.rkey.get()),
            swap_or_add: U64::new(self.swap_or_add),
            compare: U64::new(self.compare),
        }
    }
}

/// Atomic ACK Extended Transport Header: what an atomic operation found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AtomicAckEth {
    /// The 64 bits before the operation.
    pub original: u64,
}

impl Extension for AtomicAckEth {
    const HEADER: Header = Header::AtomicAckEth;
    type Layout = U64;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self {
            original: layout.get(),
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        U64::new(self.original)
    }
}

/// Datagram Extended Transport Header: who sent a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deth {
    /// Key that the receiving QP must have.
    pub qkey: Qkey,
    /// QP that sent it.
    pub src_qpn: Qpn,
}

impl Extension for Deth {
    const HEADER: Header = Header::Deth;
    type Layout = layout::RawDeth;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self {
            qkey: Qkey::new(layout.qkey.get()),
            src_qpn: Qpn::new(layout.src_qpn.get()),
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        layout::RawDeth {
            qkey: U32::new(self.qkey.get()),
            src_qpn: U32::new(self.src_qpn.get()),
        }
    }
}

/// Immediate data: four bytes from one program to another.
///
/// They are kept in the order of the wire, which is also that of the `imm_data` (`__be32`) of work
/// requests and completions, so that nobody swaps them on the way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ImmDt(pub [u8; 4]);

impl Extension for ImmDt {
    const HEADER: Header = Header::ImmDt;
    type Layout = [u8; 4];

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self(layout)
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        self.0
    }
}

/// Invalidate Extended Transport Header: a key of the receiver that shall open nothing any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ieth {
    /// The key.
    pub rkey: Rkey,
}

impl Extension for Ieth {
    const HEADER: Header = Header::Ieth;
    type Layout = U32;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self {
            rkey: Rkey::new(layout.get()),
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        U32::new(self.rkey.get())
    }
}

/// Flush Extended Transport Header: how far earlier writes shall get, and which of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Feth {
    /// Where the data shall be: [`Feth::GLOBAL`], [`Feth::PERSISTENT`], or both; four bits.
    pub placement: u8,
    /// Which data is meant: [`Feth::RANGE`] or [`Feth::MR`]; two bits, of which two values are
    /// reserved.
    pub selectivity: u8,
}

impl Feth {
    /// Placement: visible to all. C: `IB_FLUSH_GLOBAL`.
    pub const GLOBAL: u8 = 1;

    /// Placement: safe from loss of power. C: `IB_FLUSH_PERSISTENT`.
    pub const PERSISTENT: u8 = 2;

    /// Selectivity: the range that the RETH names. C: `IB_FLUSH_RANGE`.
    pub const RANGE: u8 = 0;

    /// Selectivity: the memory region that the RETH's key opens. C: `IB_FLUSH_MR`.
    pub const MR: u8 = 1;
}

impl Extension for Feth {
    const HEADER: Header = Header::Feth;
    type Layout = U32;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        let low = low_u8(layout.get());
        Self {
            placement: low & 0x0f,
            selectivity: (low >> 4) & 0x03,
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        U32::new(u32::from(
            (self.placement & 0x0f) | ((self.selectivity & 0x03) << 4),
        ))
    }
}
