// SPDX-License-Identifier: GPL-2.0

//! Work requests and completions, as values that were checked when they were made.
//!
//! Owns what a consumer can ask for and what it is told in the end. Knows neither the layout of
//! a ring nor any memory: a scatter/gather list stays with the caller, who finds it again by the
//! slot of the request.

use crate::{
    access::Access,
    id::Rkey,
    status::WcStatus,
    wire::ext::{
        Feth,
        Reth, //
    }, //
};

/// The longest message, in bytes (C9-94).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// A place in the peer's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Remote {
    /// Address, in the address space that the key stands for.
    pub va: u64,
    /// Key that opens the memory.
    pub rkey: Rkey,
}

impl Remote {
    /// Returns the place `bytes` further on. The address wraps: a range that reaches around the
    /// end of the address space is refused by whoever owns the memory.
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

/// Immediate data: four bytes that nobody between the two consumers interprets, in the order in
/// which they are on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Imm(pub [u8; 4]);

/// What an atomic operation does to the eight bytes that it names. It yields what they were.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtomicOp {
    /// They become `swap` if they are `compare`.
    CompareSwap {
        /// What they must be.
        compare: u64,
        /// What they become.
        swap: u64,
    },
    /// `add` is added to them; a carry out of the highest bit is lost.
    FetchAdd {
        /// The summand.
        add: u64,
    },
}

/// Size and alignment of what an atomic operation or an atomic write works on, in bytes.
pub const ATOMIC_BYTES: u32 = 8;

/// Where flushed data shall be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// Visible to all. C: `IB_FLUSH_GLOBAL`.
    Global,
    /// Safe from loss of power. C: `IB_FLUSH_PERSISTENT`.
    Persistent,
    /// Both.
    Both,
}

impl Placement {
    /// Returns the placement with these bits, those of the FETH and of the user ABI; `None` if they
    /// ask for nothing or for more than there is.
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

    /// Returns the rights that the peer must have for it.
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

/// Which data is flushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlushScope {
    /// So many bytes from the named place on.
    Range(u32),
    /// The whole region that the key opens; the address means nothing.
    Region,
}

/// What a request is about that concerns nobody but its own host. Its details stay with the
/// caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalOp {
    /// A key is taken back, after everything before it is complete.
    Invalidate,
    /// A memory window is bound.
    Bind,
    /// A region is registered.
    Register,
}

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SendOp {
    /// A message into the next buffer that the peer has posted.
    Send {
        /// Data for the peer's completion.
        imm: Option<Imm>,
    },
    /// A message as with [`SendOp::Send`], on whose arrival the peer takes one of its keys back.
    SendInvalidate {
        /// The peer's key.
        rkey: Rkey,
    },
    /// A message into memory of the peer.
    Write {
        /// Where it goes.
        remote: Remote,
        /// Data for the peer's completion; without it, the peer gets none.
        imm: Option<Imm>,
    },
    /// Memory of the peer into local memory.
    Read {
        /// Where it comes from.
        remote: Remote,
    },
    /// The same; when all of it is there, a local key is taken back.
    ReadInvalidate {
        /// Where it comes from.
        remote: Remote,
        /// The local key.
        rkey: Rkey,
    },
    /// An atomic operation on memory of the peer. What it found goes to local memory.
    Atomic {
        /// The eight bytes.
        remote: Remote,
        /// What is done to them.
        op: AtomicOp,
    },
    /// Eight bytes of memory of the peer, written as a whole.
    AtomicWrite {
        /// Where they go.
        remote: Remote,
        /// What they become, as a number in the order of this machine.
        value: u64,
    },
    /// Memory of the peer, brought to where it shall be.
    Flush {
        /// Where it starts, and the key.
        remote: Remote,
        /// How much.
        scope: FlushScope,
        /// Where it shall be.
        placement: Placement,
    },
    /// Something that takes no packet, in its turn.
    Local(LocalOp),
}

impl SendOp {
    /// Returns whether nothing but its own response can complete it, and whether it counts among the
    /// requests that the peer serves only so many of at a time.
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

    /// Returns whether packets carry the bytes of the message away.
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

    /// Returns whether it uses up a receive of the peer, and so completes something there.
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

/// A send work request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SendWr {
    /// The consumer's name for it.
    pub wr_id: u64,
    /// What it asks for.
    pub op: SendOp,
    /// Length of the message in bytes, at most [`MAX_MESSAGE`]; [`ATOMIC_BYTES`] for an atomic
    /// operation or write, 0 for a flush and for what is local.
    pub length: u32,
    /// Whether success is told, too; failure always is.
    pub signaled: bool,
    /// Whether the peer's completion shall wake its consumer.
    pub solicited: bool,
    /// Whether it waits until all earlier requests that await a response are complete.
    pub fence: bool,
}

/// A receive work request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecvWr {
    /// The consumer's name for it.
    pub wr_id: u64,
    /// How many bytes its buffers hold.
    pub length: u32,
}

/// A receive work request that cannot be used, as its owner found when it was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadRecv {
    /// The consumer's name for it.
    pub wr_id: u64,
    /// What is wrong: [`WcStatus::LocQpOpErr`]; or [`WcStatus::WrFlushErr`]: the queue pair has failed.
    pub status: WcStatus,
}

/// The kind of a completed work request.
///
/// The numbers are those of the user ABI. C: `enum ib_uverbs_wc_opcode`, and `enum ib_wc_opcode`
/// for the receiving ones.
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
    /// A region was registered; for consumers in the kernel alone.
    RegMr = 10,
    /// A message was received.
    Recv = 128,
    /// A message was written to registered memory and announced by immediate data.
    RecvRdmaWithImm = 129,
}

impl WcOpcode {
    /// Returns the number that user space sees.
    #[inline]
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// How a work request ended. The QP is for the caller to add.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Completion {
    /// The consumer's name for the request.
    pub wr_id: u64,
    /// How it went.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes transferred; 0 after a failure.
    pub byte_len: u32,
    /// Immediate data of the peer.
    pub imm: Option<Imm>,
    /// The key that the peer had taken back.
    pub invalidated: Option<Rkey>,
}

impl Completion {
    /// Returns the completion of a request that failed.
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
    fn opcodes_have_the_numbers_of_the_abi() {
        let read = SendOp::Read { remote: REMOTE };
        assert_eq!(read.wc_opcode().code(), 2);
        assert_eq!(SendOp::Send { imm: None }.wc_opcode().code(), 0);
        assert_eq!(WcOpcode::AtomicWrite.code(), 9);
        assert_eq!(WcOpcode::Recv.code(), 0x80);
        assert_eq!(WcOpcode::RecvRdmaWithImm.code(), 0x81);
    }

    #[test]
    fn what_counts_as_a_request_that_awaits_a_response() {
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
    fn placements_have_the_bits_of_the_wire() {
        for bits in 0..=u8::MAX {
            match Placement::from_bits(bits) {
                Some(placement) => assert_eq!(placement.bits(), bits),
                None => assert!(bits == 0 || bits > 3, "{bits}"),
            }
        }
        assert_eq!(Placement::Both.access().bits(), 0x300);
    }

    #[test]
    fn remote_address_wraps() {
        assert_eq!(REMOTE.advance(2).va, 1);
        assert_eq!(REMOTE.advance(2).rkey, REMOTE.rkey);
    }
}
