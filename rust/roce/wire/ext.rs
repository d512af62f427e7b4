// SPDX-License-Identifier: GPL-2.0

//! The extension headers except the AETH: layouts and values.

use super::header::Header;
use crate::{
    id::{
        Qkey,
        Qpn,
        Rkey,
        Srqn, //
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

/// A header that can be decoded from and encoded to a packet.
pub(super) trait Extension: Copy {
    /// The kind of header.
    const HEADER: Header;

    /// Wire format, [`Header::size`] bytes long.
    type Layout: FromBytes + IntoBytes + Immutable + Unaligned;

    /// Decodes the values.
    fn decode(layout: Self::Layout) -> Self;

    /// Encodes the values. Reserved bits are 0.
    fn encode(self) -> Self::Layout;
}

/// Wire formats, big endian.
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

/// RDMA Extended Transport Header (RETH): a range of the responder's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reth {
    /// Address in the address space of the key.
    pub va: u64,
    /// Key of the memory.
    pub rkey: Rkey,
    /// Length in bytes. Any value may be received. The responder must reject more than 2^31, the
    /// maximum length of a message.
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

/// Atomic Extended Transport Header (AtomicETH): 64 bits of the responder's memory, and the
/// operands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AtomicEth {
    /// Address in the address space of the key. It may be unaligned.
    pub va: u64,
    /// Key of the memory.
    pub rkey: Rkey,
    /// New value of a compare and swap, or the value to add of a fetch and add.
    pub swap_or_add: u64,
    /// Value that a compare and swap expects; otherwise unused.
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

/// Atomic ACK Extended Transport Header (AtomicAckETH): the result of an atomic operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AtomicAckEth {
    /// The value before the operation.
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

/// Datagram Extended Transport Header (DETH): Q_Key and source of a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deth {
    /// Q_Key, which must match that of the receiving QP.
    pub qkey: Qkey,
    /// Source QP.
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

/// XRC Extended Transport Header (XRCETH): the SRQ of the peer that a request is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Xrceth {
    /// Its number.
    pub srqn: Srqn,
}

impl Extension for Xrceth {
    const HEADER: Header = Header::Xrceth;
    type Layout = U32;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self {
            srqn: Srqn::new(layout.get()),
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        U32::new(self.srqn.get())
    }
}

/// Immediate data: four bytes from one consumer to the other.
///
/// They stay in wire order, which is also the order of `imm_data` (`__be32`) in work requests and
/// completions: they are never byte-swapped.
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

/// Invalidate Extended Transport Header (IETH): a key that the receiver must invalidate.
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

/// Flush Extended Transport Header (FETH): placement and selectivity of a FLUSH.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Feth {
    /// Where the data must be: [`Feth::GLOBAL`], [`Feth::PERSISTENT`], or both; four bits.
    pub placement: u8,
    /// Which data is flushed: [`Feth::RANGE`] or [`Feth::MR`]; two bits, of which two values are
    /// reserved.
    pub selectivity: u8,
}

impl Feth {
    /// Placement: globally visible. C: `IB_FLUSH_GLOBAL`.
    pub const GLOBAL: u8 = 1;

    /// Placement: persistent. C: `IB_FLUSH_PERSISTENT`.
    pub const PERSISTENT: u8 = 2;

    /// Selectivity: the range in the RETH. C: `IB_FLUSH_RANGE`.
    pub const RANGE: u8 = 0;

    /// Selectivity: the whole memory region of the key in the RETH. C: `IB_FLUSH_MR`.
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
