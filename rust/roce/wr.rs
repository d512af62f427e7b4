// SPDX-License-Identifier: GPL-2.0

//! Work requests and completions.
//!
//! Values here are validated. Scatter/gather lists stay with the caller, which finds them by the
//! slot of the request.

use crate::{
    access::Access,
    id::{
        Rkey,
        Srqn, //
    },
    status::WcStatus,
    wire::ext::{
        Feth,
        Reth, //
    }, //
};

/// Maximum length of a message in bytes (C9-94).
pub const MAX_MESSAGE_BYTES: u32 = 1 << 31;

/// An address in the peer's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Remote {
    /// Address in the address space of the key.
    pub va: u64,
    /// Key of the memory.
    pub rkey: Rkey,
}

impl Remote {
    /// Returns the address `bytes` bytes later. It wraps: the owner of the memory rejects a range
    /// that crosses the end of the address space.
    #[inline]
    #[must_use]
    pub fn advance(self, bytes: u32) -> Self {
        Self {
            va: self.va.wrapping_add(u64::from(bytes)),
            ..self
        }
    }
}

impl From<&Reth> for Remote {
    #[inline]
    fn from(reth: &Reth) -> Self {
        Self {
            va: reth.va,
            rkey: reth.rkey,
        }
    }
}

/// Immediate data: four bytes in wire order, not interpreted between the two consumers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Imm(pub [u8; 4]);

/// An atomic operation on eight bytes. It returns their original value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtomicOp {
    /// Stores `swap` if the value is `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// What they become.
        swap: u64,
    },
    /// Adds `add`, modulo 2^64.
    FetchAdd {
        /// Value to add.
        add: u64,
    },
}

/// Size and alignment in bytes of the operand of an atomic operation or atomic write.
pub const ATOMIC_BYTES: u32 = 8;

/// Where flushed data must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// Globally visible. C: `IB_FLUSH_GLOBAL`.
    Global,
    /// Persistent. C: `IB_FLUSH_PERSISTENT`.
    Persistent,
    /// Both.
    Both,
}

impl Placement {
    /// Returns the placement with these bits, which FETH and user ABI share; `None` if no bit or an
    /// unknown bit is set.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        const BOTH: u8 = Feth::GLOBAL | Feth::PERSISTENT;
        match bits {
            Feth::GLOBAL => Some(Self::Global),
            Feth::PERSISTENT => Some(Self::Persistent),
            BOTH => Some(Self::Both),
            _ => None,
        }
    }

    /// Returns the bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Global => Feth::GLOBAL,
            Self::Persistent => Feth::PERSISTENT,
            Self::Both => Feth::GLOBAL | Feth::PERSISTENT,
        }
    }

    /// Returns the access rights that it requires.
    #[inline]
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::Global => Access::FLUSH_GLOBAL,
            Self::Persistent => Access::FLUSH_PERSISTENT,
            Self::Both => Access::FLUSH_GLOBAL.union(Access::FLUSH_PERSISTENT),
        }
    }
}

/// The data to flush.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlushScope {
    /// This number of bytes, starting at the address.
    Range(u32),
    /// The whole region of the key; the address is unused.
    Region,
}

/// A local operation, which sends no packet. The caller keeps the details.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalOp {
    /// Invalidates a key, after all earlier requests are complete.
    Invalidate,
    /// Binds a memory window.
    Bind,
    /// Registers a region.
    Register,
}

/// The operation of a send WR.
///
/// With a tag of its own, and the operations that await a response in a row: whether one does is one comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum SendOp {
    /// Sends a message to the next receive that the peer has posted.
    Send {
        /// Immediate data for the peer's completion.
        imm: Option<Imm>,
    },
    /// Like [`SendOp::Send`]; the peer also invalidates one of its keys.
    SendInvalidate {
        /// The peer's key.
        rkey: Rkey,
    },
    /// Writes to memory of the peer.
    Write {
        /// Destination.
        remote: Remote,
        /// Immediate data for the peer's completion. Without it, the peer gets no completion.
        imm: Option<Imm>,
    },
    /// Reads memory of the peer into local memory.
    Read {
        /// Source.
        remote: Remote,
    },
    /// Like [`SendOp::Read`]; a local key is invalidated when the data is complete.
    ReadInvalidate {
        /// Source.
        remote: Remote,
        /// The local key.
        rkey: Rkey,
    },
    /// Executes an atomic operation on memory of the peer. The original value is stored in local
    /// memory.
    Atomic {
        /// Address of the eight bytes.
        remote: Remote,
        /// The operation.
        op: AtomicOp,
    },
    /// Atomically writes eight bytes of memory of the peer.
    AtomicWrite {
        /// Destination.
        remote: Remote,
        /// The new value, in host byte order.
        value: u64,
    },
    /// Flushes memory of the peer.
    Flush {
        /// Start and key of the memory.
        remote: Remote,
        /// Extent of the memory.
        scope: FlushScope,
        /// Where the data must be.
        placement: Placement,
    },
    /// A local operation, executed in order with the other requests.
    Local(LocalOp),
}

impl SendOp {
    /// Returns whether the request completes only with its own response, and counts against the
    /// number of requests that the peer serves at a time.
    #[inline]
    #[must_use]
    pub const fn awaits_response(&self) -> bool {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } | Self::Write { .. } => false,
            Self::Read { .. } | Self::ReadInvalidate { .. } => true,
            Self::Atomic { .. } | Self::AtomicWrite { .. } | Self::Flush { .. } => true,
            Self::Local(_) => false,
        }
    }

    /// Returns whether it is a READ.
    #[inline]
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::ReadInvalidate { .. })
    }

    /// Returns whether its packets contain the bytes of the message.
    #[inline]
    #[must_use]
    pub const fn sends_payload(&self) -> bool {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } | Self::Write { .. } => true,
            Self::AtomicWrite { .. } => true,
            Self::Read { .. } | Self::ReadInvalidate { .. } | Self::Atomic { .. } => false,
            Self::Flush { .. } | Self::Local(_) => false,
        }
    }

    /// Returns whether it consumes a receive of the peer.
    #[inline]
    #[must_use]
    pub const fn uses_receive(&self) -> bool {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } => true,
            Self::Write { imm, .. } => imm.is_some(),
            _ => false,
        }
    }

    /// Returns the opcode of the completion.
    #[inline]
    #[must_use]
    pub const fn wc_opcode(&self) -> WcOpcode {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } => WcOpcode::Send,
            Self::Write { .. } => WcOpcode::RdmaWrite,
            Self::Read { .. } | Self::ReadInvalidate { .. } => WcOpcode::RdmaRead,
            Self::Atomic { op, .. } => match op {
                AtomicOp::CompareSwap { .. } => WcOpcode::CompSwap,
                AtomicOp::FetchAdd { .. } => WcOpcode::FetchAdd,
            },
            Self::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            Self::Flush { .. } => WcOpcode::Flush,
            Self::Local(LocalOp::Invalidate) => WcOpcode::LocalInv,
            Self::Local(LocalOp::Bind) => WcOpcode::BindMw,
            Self::Local(LocalOp::Register) => WcOpcode::RegMr,
        }
    }
}

/// A send WR.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SendWr {
    /// Identifier from the consumer.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// Length of the message in bytes, at most [`MAX_MESSAGE_BYTES`]; [`ATOMIC_BYTES`] for an
    /// atomic operation or atomic write, 0 for a flush or local operation.
    pub length: u32,
    /// XRC: the SRQ of the peer.
    pub srqn: Srqn,
    /// Whether success generates a completion. Failure always does.
    pub signaled: bool,
    /// Whether to request a completion event at the peer.
    pub solicited: bool,
    /// Whether it waits until all earlier requests that await a response are complete.
    pub fence: bool,
}

impl SendWr {
    /// Returns a WR in the place of an invalid one, which is not sent.
    pub(crate) const fn invalid(wr_id: u64) -> Self {
        Self {
            wr_id,
            op: SendOp::Send { imm: None },
            length: 0,
            srqn: Srqn::new(0),
            signaled: true,
            solicited: false,
            fence: false,
        }
    }

    /// Returns the completion to report. `None` if an unsignaled request succeeded.
    #[inline]
    pub(crate) fn completion(&self, opcode: WcOpcode, status: WcStatus) -> Option<Completion> {
        match status {
            WcStatus::Success => self.signaled.then_some(Completion {
                wr_id: self.wr_id,
                status,
                opcode,
                byte_len: self.length,
                imm: None,
                invalidated: None,
            }),
            failed => Some(Completion::failed(self.wr_id, opcode, failed)),
        }
    }
}

/// A receive WR.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecvWr {
    /// Identifier from the consumer.
    pub wr_id: u64,
    /// Total length of its buffers in bytes.
    pub length: u32,
}

/// A receive WR that turned out to be unusable when it was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadRecv {
    /// Identifier from the consumer.
    pub wr_id: u64,
    /// The reason: [`WcStatus::LocQpOpErr`], or [`WcStatus::WrFlushErr`] if the QP has failed.
    pub status: WcStatus,
}

/// The opcode of a completion.
///
/// The values are those of the user ABI. C: `enum ib_uverbs_wc_opcode`; `enum ib_wc_opcode` for
/// receives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum WcOpcode {
    /// A SEND.
    Send = 0,
    /// An RDMA WRITE.
    RdmaWrite = 1,
    /// An RDMA READ.
    RdmaRead = 2,
    /// An atomic compare and swap.
    CompSwap = 3,
    /// An atomic fetch and add.
    FetchAdd = 4,
    /// A memory window was bound.
    BindMw = 5,
    /// A key was invalidated.
    LocalInv = 6,
    /// Remote memory was flushed.
    Flush = 8,
    /// An atomic write.
    AtomicWrite = 9,
    /// A region was registered; only for ULPs.
    RegMr = 10,
    /// A message was received.
    Recv = 128,
    /// An RDMA WRITE with immediate data was received.
    RecvRdmaWithImm = 129,
}

impl WcOpcode {
    /// Returns the value in the user ABI.
    #[inline]
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// The completion of a WR. The caller adds the QP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Completion {
    /// Identifier from the consumer.
    pub wr_id: u64,
    /// Status.
    pub status: WcStatus,
    /// Opcode.
    pub opcode: WcOpcode,
    /// Bytes transferred; 0 on failure.
    pub byte_len: u32,
    /// Immediate data from the peer.
    pub imm: Option<Imm>,
    /// The key that the peer invalidated.
    pub invalidated: Option<Rkey>,
}

impl Completion {
    /// Returns the completion of a failed request.
    #[inline]
    #[must_use]
    pub const fn failed(wr_id: u64, opcode: WcOpcode, status: WcStatus) -> Self {
        Self {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            imm: None,
            invalidated: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: Remote = Remote {
        va: u64::MAX,
        rkey: Rkey::new(7),
    };

    #[test]
    fn opcodes_match_the_abi() {
        let read = SendOp::Read { remote: REMOTE };
        assert_eq!(read.wc_opcode().code(), 2);
        assert_eq!(SendOp::Send { imm: None }.wc_opcode().code(), 0);
        assert_eq!(WcOpcode::AtomicWrite.code(), 9);
        assert_eq!(WcOpcode::Recv.code(), 0x80);
        assert_eq!(WcOpcode::RecvRdmaWithImm.code(), 0x81);
    }

    #[test]
    fn properties_of_each_operation() {
        let (remote, rkey) = (REMOTE, Rkey::new(2));
        let op = AtomicOp::FetchAdd { add: 1 };
        let flush = SendOp::Flush {
            remote,
            scope: FlushScope::Region,
            placement: Placement::Global,
        };
        for (op, awaits, payload, code) in [
            (SendOp::SendInvalidate { rkey }, false, true, 0),
            (SendOp::ReadInvalidate { remote, rkey }, true, false, 2),
            (SendOp::Atomic { remote, op }, true, false, 4),
            (SendOp::AtomicWrite { remote, value: 0 }, true, true, 9),
            (flush, true, false, 8),
            (SendOp::Local(LocalOp::Bind), false, false, 5),
            (SendOp::Local(LocalOp::Invalidate), false, false, 6),
            (SendOp::Local(LocalOp::Register), false, false, 10),
        ] {
            assert_eq!(op.awaits_response(), awaits, "{op:?}");
            assert_eq!(op.sends_payload(), payload, "{op:?}");
            assert_eq!(op.wc_opcode().code(), code, "{op:?}");
        }
    }

    #[test]
    fn placements_match_the_wire_format() {
        for bits in 0..=u8::MAX {
            match Placement::from_bits(bits) {
                Some(placement) => assert_eq!(placement.bits(), bits),
                None => assert!(bits == 0 || bits > 3, "{bits}"),
            }
        }
        assert_eq!(Placement::Both.access().bits(), 0x300);
    }

    #[test]
    fn remote_addresses_wrap() {
        assert_eq!(REMOTE.advance(2).va, 1);
        assert_eq!(REMOTE.advance(2).rkey, REMOTE.rkey);
    }
}
