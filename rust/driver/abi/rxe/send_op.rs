// SPDX-License-Identifier: GPL-2.0

//! Operations of send queue entries: the opcode, and the union whose layout depends on it.
//!
//! `wqe` calls this when it decodes an entry, or encodes one of a kernel consumer, whose opcodes are the same. An
//! opcode that is not listed here is not available. REG_MR is no part of the ABI: only entries of kernel consumers
//! have it.
//!
//! C headers: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h),
//! [`include/uapi/rdma/ib_user_verbs.h`](srctree/include/uapi/rdma/ib_user_verbs.h)

use crate::abi::{
    request::SendRules,
    uverbs::{
        flush_level,
        opcode, //
    }, //
};
use rdma::ib::wr_op::WrArgs;
use roce::{
    access::{
        Access,
        Region, //
    },
    bind::{
        Bind,
        FastReg,
        LocalRequest, //
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
    Immutable,
    IntoBytes, //
};

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

/// Union of an RDMA operation or ATOMIC WRITE.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct RdmaArgs {
    remote_addr: u64,
    rkey: u32,
    _reserved: u32,
}

/// Union of a FetchAdd or CmpSwap.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct AtomicArgs {
    remote_addr: u64,
    compare_add: u64,
    swap: u64,
    rkey: u32,
    _reserved: u32,
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
#[derive(FromBytes, Immutable, IntoBytes)]
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

/// Union of a REG_MR.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct RegisterArgs {
    iova: u64,
    key: u32,
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
    pub(super) fn body_kind(&self, rules: SendRules) -> BodyKind {
        match self.opcode {
            opcode::SEND
            | opcode::SEND_WITH_IMM
            | opcode::SEND_WITH_INV
            | opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM => BodyKind::Payload,
            opcode::ATOMIC_WRITE => BodyKind::None,
            opcode::FLUSH if self.flush().is_some() => BodyKind::None,
            _ => match self.local_request(rules) {
                Some(local) => BodyKind::LocalRequest(local),
                None => BodyKind::Scatter,
            },
        }
    }

    /// Returns the operation, or `None` if it is not available to the consumer.
    #[inline]
    pub(super) fn operation(&self, rules: SendRules) -> Option<SendOp> {
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
            opcode::REG_MR if rules.is_kernel => SendOp::Local(LocalOp::Register),
            _ => return None,
        })
    }

    /// Returns the operation on memory keys, if the entry requests one.
    fn local_request(&self, rules: SendRules) -> Option<LocalRequest> {
        match self.opcode {
            opcode::LOCAL_INV => Some(LocalRequest::Invalidate(self.rkey_in_ex())),
            opcode::BIND_MW => self.bind().map(LocalRequest::Bind),
            opcode::REG_MR if rules.is_kernel => self.register().map(LocalRequest::Register),
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
        let union: RdmaArgs = self.union()?;
        Some(remote_at(union.remote_addr, union.rkey))
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

    fn register(&self) -> Option<FastReg> {
        let RegisterArgs { iova, key, access } = self.union()?;
        Some(FastReg {
            key,
            access: Access::from_bits(access),
            iova,
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

/// Returns the union with the arguments `args`. A datagram gets `ah` as the number of its AH.
pub(super) fn encode_args(args: &WrArgs, ah: u32) -> [u8; UNION_BYTES] {
    match *args {
        WrArgs::Send | WrArgs::Invalidate => [0; UNION_BYTES],
        WrArgs::Write(remote) | WrArgs::Read(remote) => union_of(&RdmaArgs {
            remote_addr: remote.addr,
            rkey: remote.rkey,
            _reserved: 0,
        }),
        WrArgs::Atomic {
            remote,
            compare_add,
            swap,
        } => union_of(&AtomicArgs {
            remote_addr: remote.addr,
            compare_add,
            swap,
            rkey: remote.rkey,
            _reserved: 0,
        }),
        WrArgs::Register { key, iova, access } => union_of(&RegisterArgs { iova, key, access }),
        WrArgs::Datagram {
            remote_qpn,
            remote_qkey,
        } => union_of(&DatagramArgs {
            remote_qpn,
            remote_qkey,
            _pkey_index: 0,
            _reserved: 0,
            ah,
        }),
    }
}

fn union_of(args: &(impl zerocopy::IntoBytes + zerocopy::Immutable)) -> [u8; UNION_BYTES] {
    let mut union = [0; UNION_BYTES];
    // Every variant fits.
    let _ = args.write_to_prefix(&mut union);
    union
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
