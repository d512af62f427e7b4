// SPDX-License-Identifier: GPL-2.0

//! Work requests and completions, as values that were checked when they were made.
//!
//! Owns what a consumer can ask for and what it is told in the end. Knows neither the layout of
//! a ring nor any memory: a scatter/gather list stays with the caller, who finds it again by the
//! slot of the request.

use crate::{
    id::Rkey,
    status::WcStatus, //
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

/// Immediate data: four bytes that nobody between the two consumers interprets, in the order in
/// which they are on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Imm(pub [u8; 4]);

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SendOp {
    /// A message into the next buffer that the peer has posted.
    Send {
        /// Data for the peer's completion.
        imm: Option<Imm>,
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
}

impl SendOp {
    /// Returns whether it uses up a receive of the peer, and so completes something there.
    #[inline]
    #[must_use]
    pub const fn uses_receive(&self) -> bool {
        match self {
            Self::Send { .. } => true,
            Self::Write { imm, .. } => imm.is_some(),
            Self::Read { .. } => false,
        }
    }

    /// Returns the opcode of the completion.
    #[inline]
    #[must_use]
    pub const fn wc_opcode(&self) -> WcOpcode {
        match self {
            Self::Send { .. } => WcOpcode::Send,
            Self::Write { .. } => WcOpcode::RdmaWrite,
            Self::Read { .. } => WcOpcode::RdmaRead,
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
    /// Length of the message in bytes, at most [`MAX_MESSAGE`].
    pub length: u32,
    /// Whether success is told, too; failure always is.
    pub signaled: bool,
    /// Whether the peer's completion shall wake its consumer.
    pub solicited: bool,
    /// Whether it waits until all earlier reads are complete.
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
    /// What is wrong: [`WcStatus::LocQpOpErr`] or [`WcStatus::LocProtErr`].
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_the_numbers_of_the_abi() {
        let read = SendOp::Read {
            remote: Remote {
                va: 0,
                rkey: Rkey::new(1),
            },
        };
        assert_eq!(read.wc_opcode().code(), 2);
        assert_eq!(SendOp::Send { imm: None }.wc_opcode().code(), 0);
        assert_eq!(WcOpcode::AtomicWrite.code(), 9);
        assert_eq!(WcOpcode::Recv.code(), 0x80);
        assert_eq!(WcOpcode::RecvRdmaWithImm.code(), 0x81);
    }

    #[test]
    fn remote_address_wraps() {
        let remote = Remote {
            va: u64::MAX,
            rkey: Rkey::new(7),
        };
        assert_eq!(remote.advance(2).va, 1);
        assert_eq!(remote.advance(2).rkey, remote.rkey);
    }
}
