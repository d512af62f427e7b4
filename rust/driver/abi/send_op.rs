// SPDX-License-Identifier: GPL-2.0

//! Operations of send queue entries: the opcode, and the union whose layout depends on it.
//!
//! `wqe` calls this when it decodes an entry. An opcode that is not listed here is not available to user
//! space. REG_MR in particular is absent: its entry would hold a kernel pointer.
//!
//! C headers: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h),
//! [`include/uapi/rdma/ib_user_verbs.h`](srctree/include/uapi/rdma/ib_user_verbs.h)

use roce::{
    access::{
        Access,
        Region, //
    },
    bind::{
        Bind,
        FastReg, //
    },
    id::{
        Lkey,
        Rkey, //
    },
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        LocalOp,
        Placement,
        Remote,
        SendOp, //
    }, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable, //
};

/// `enum ib_uverbs_wr_opcode`.
mod opcode {
    pub(super) const RDMA_WRITE: u32 = 0;
    pub(super) const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub(super) const SEND: u32 = 2;
    pub(super) const SEND_WITH_IMM: u32 = 3;
    pub(super) const RDMA_READ: u32 = 4;
    pub(super) const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub(super) const ATOMIC_FETCH_AND_ADD: u32 = 6;
    pub(super) const LOCAL_INV: u32 = 7;
    pub(super) const BIND_MW: u32 = 8;
    pub(super) const SEND_WITH_INV: u32 = 9;
    pub(super) const RDMA_READ_WITH_INV: u32 = 11;
    pub(super) const FLUSH: u32 = 14;
    pub(super) const ATOMIC_WRITE: u32 = 15;
}

/// `enum ib_flush_level`.
mod flush_level {
    pub(super) const RANGE: u8 = 0;
    pub(super) const MR: u8 = 1;
}

/// Bytes of the union that an operation uses, at its start.
pub(super) const UNION_BYTES: usize = size_of::<BindArgs>();

/// The fields of a send queue entry that determine its operation.
#[derive(Clone, Copy)]
pub(super) struct WqeOp<'a> {
    /// Opcode.
    pub(super) opcode: u32,
    /// Immediate data, or the rkey to invalidate.
    pub(super) ex: [u8; 4],
    /// Arguments whose layout depends on the opcode.
    pub(super) union: &'a [u8; UNION_BYTES],
    /// Length of the message, in bytes, as given in the entry.
    pub(super) length: u32,
    /// First eight bytes after the fixed part: the value of an ATOMIC WRITE.
    pub(super) value: u64,
}

/// An operation on memory keys, which sends no packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LocalRequest {
    /// Invalidates a local memory key.
    Invalidate(Rkey),
    /// Binds a memory window.
    Bind(Bind),
    /// Registers pages. Only ULPs can request it.
    Register(FastReg),
}

/// Union of an RDMA operation or ATOMIC WRITE.
#[derive(FromBytes, Immutable)]
#[repr(C)]
struct RdmaArgs {
    remote_addr: u64,
    rkey: u32,
}

/// Union of a FetchAdd or CmpSwap.
#[derive(FromBytes, Immutable)]
#[repr(C)]
struct AtomicArgs {
    remote_addr: u64,
    compare_add: u64,
    swap: u64,
    rkey: u32,
}

/// Union of a FLUSH.
#[derive(FromBytes, Immutable)]
#[repr(C)]
struct FlushArgs {
    remote_addr: u64,
    /// Not set by the library, which gives the length in the entry instead.
    _length: u32,
    rkey: u32,
    placement: u8,
    level: u8,
}

/// Union of a datagram.
#[derive(FromBytes, Immutable)]
#[repr(C)]
pub(super) struct DatagramArgs {
    pub(super) remote_qpn: u32,
    pub(super) remote_qkey: u32,
    _pkey_index: u16,
    _reserved: u16,
    pub(super) ah: u32,
}

/// Union of a memory window bind.
#[derive(FromBytes, Immutable)]
#[repr(C)]
struct BindArgs {
    addr: u64,
    length: u64,
    mr_lkey: u32,
    mw_rkey: u32,
    rkey: u32,
    access: u32,
}

/// What the body of an entry is.
pub(super) enum BodyKind {
    /// An operation on memory keys has none.
    LocalRequest(LocalRequest),
    /// The fixed part holds all arguments.
    None,
    /// A scatter/gather list, or inline data.
    Payload,
    /// A scatter/gather list.
    Scatter,
}

impl WqeOp<'_> {
    /// Returns what the body of the entry is. For an opcode that is not available, this is a list.
    #[inline]
    pub(super) fn body_kind(&self) -> BodyKind {
        match self.opcode {
            opcode::SEND
            | opcode::SEND_WITH_IMM
            | opcode::SEND_WITH_INV
            | opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM => BodyKind::Payload,
            opcode::ATOMIC_WRITE => BodyKind::None,
            opcode::FLUSH if self.flush().is_some() => BodyKind::None,
            _ => match self.local_request() {
                Some(local) => BodyKind::LocalRequest(local),
                None => BodyKind::Scatter,
            },
        }
    }

    /// Returns the operation, or `None` if it is not available to user space.
    pub(super) fn operation(&self) -> Option<SendOp> {
        let imm = Some(Imm(self.ex));
        Some(match self.opcode {
            opcode::SEND => SendOp::Send { imm: None },
            opcode::SEND_WITH_IMM => SendOp::Send { imm },
            opcode::SEND_WITH_INV => SendOp::SendInvalidate {
                rkey: self.rkey_in_ex(),
            },
            opcode::RDMA_WRITE => SendOp::Write {
                remote: self.remote()?,
                imm: None,
            },
            opcode::RDMA_WRITE_WITH_IMM => SendOp::Write {
                remote: self.remote()?,
                imm,
            },
            opcode::RDMA_READ => SendOp::Read {
                remote: self.remote()?,
            },
            opcode::RDMA_READ_WITH_INV => SendOp::ReadInvalidate {
                remote: self.remote()?,
                rkey: self.rkey_in_ex(),
            },
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => self.atomic()?,
            opcode::ATOMIC_WRITE => SendOp::AtomicWrite {
                remote: self.remote()?,
                value: self.value,
            },
            opcode::FLUSH => self.flush()?,
            opcode::LOCAL_INV => SendOp::Local(LocalOp::Invalidate),
            opcode::BIND_MW => SendOp::Local(LocalOp::Bind),
            _ => return None,
        })
    }

    /// Returns the operation on memory keys, if the entry requests one.
    fn local_request(&self) -> Option<LocalRequest> {
        match self.opcode {
            opcode::LOCAL_INV => Some(LocalRequest::Invalidate(self.rkey_in_ex())),
            opcode::BIND_MW => self.bind().map(LocalRequest::Bind),
            _ => None,
        }
    }

    /// Returns the destination and the immediate data of a datagram, or `None` if the opcode is not a SEND.
    pub(super) fn datagram(&self) -> Option<(DatagramArgs, Option<Imm>)> {
        let imm = match self.opcode {
            opcode::SEND => None,
            opcode::SEND_WITH_IMM => Some(Imm(self.ex)),
            _ => return None,
        };
        Some((self.union()?, imm))
    }

    fn remote(&self) -> Option<Remote> {
        let RdmaArgs { remote_addr, rkey } = self.union()?;
        Some(remote_at(remote_addr, rkey))
    }

    fn atomic(&self) -> Option<SendOp> {
        let union: AtomicArgs = self.union()?;
        let op = if self.opcode == opcode::ATOMIC_CMP_AND_SWP {
            AtomicOp::CompareSwap {
                compare: union.compare_add,
                swap: union.swap,
            }
        } else {
            AtomicOp::FetchAdd {
                add: union.compare_add,
            }
        };
        Some(SendOp::Atomic {
            remote: remote_at(union.remote_addr, union.rkey),
            op,
        })
    }

    fn flush(&self) -> Option<SendOp> {
        let union: FlushArgs = self.union()?;
        Some(SendOp::Flush {
            remote: remote_at(union.remote_addr, union.rkey),
            scope: match union.level {
                flush_level::RANGE => FlushScope::Range(self.length),
                flush_level::MR => FlushScope::Region,
                _ => return None,
            },
            placement: Placement::from_bits(union.placement)?,
        })
    }

    fn bind(&self) -> Option<Bind> {
        let union: BindArgs = self.union()?;
        Some(Bind {
            window: Rkey::new(union.mw_rkey),
            // CAST: Only the low byte of the key is chosen by the consumer.
            key: union.rkey as u8,
            region: Lkey::new(union.mr_lkey),
            access: Access::from_bits(union.access),
            range: Region {
                iova: union.addr,
                length: union.length,
            },
        })
    }

    /// Returns the rkey that takes the place of immediate data.
    fn rkey_in_ex(&self) -> Rkey {
        Rkey::new(u32::from_ne_bytes(self.ex))
    }

    /// Returns the union, interpreted as `T`.
    fn union<T: zerocopy::FromBytes>(&self) -> Option<T> {
        T::read_from_prefix(self.union).ok().map(|(union, _)| union)
    }
}

fn remote_at(va: u64, rkey: u32) -> Remote {
    Remote {
        va,
        rkey: Rkey::new(rkey),
    }
}

const _: () = {
    assert!(core::mem::offset_of!(AtomicArgs, rkey) == 48 - 24);
    assert!(core::mem::offset_of!(FlushArgs, rkey) == 36 - 24);
    assert!(core::mem::offset_of!(FlushArgs, placement) == 40 - 24);
    assert!(core::mem::offset_of!(DatagramArgs, ah) == 36 - 24);
    assert!(core::mem::offset_of!(BindArgs, access) == 52 - 24);
};
