// SPDX-License-Identifier: GPL-2.0

//! Work queue entries (`struct ferroce_send_wqe`, `struct ferroce_recv_wqe`), decoded by value.
//!
//! The first 64 bytes of a send queue entry are read once; they decide how much of the rest is read, and how.
//!
//! C header: `include/uapi/rdma/ferroce-abi.h`

use crate::{
    abi::{
        request::{
            RejectedWqe,
            SendRules,
            WqeCommon, //
        },
        uverbs::{
            flush_level,
            opcode,
            send_flag, //
        }, //
    },
    mem::sge::Sge, //
};
use roce::{
    access::{
        Access,
        Region, //
    },
    bind::{
        Bind,
        LocalRequest, //
    },
    id::{
        Lkey,
        Qkey,
        Qpn,
        Rkey,
        Srqn, //
    },
    status::WcStatus,
    ud::DatagramWr,
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        LocalOp,
        Placement,
        Remote,
        SendOp,
        SendWr, //
    }, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable, //
};

/// Bytes in the place of the list.
pub(super) const BODY_BYTES: usize = 32;

/// The first 64 bytes of a send queue entry.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub(super) struct DirectSendWqe {
    wr_id: u64,
    opcode: u8,
    flags: u8,
    count: u16,
    imm_or_key: [u8; 4],
    args: [u8; 16],
    body: [u8; BODY_BYTES],
}

/// `struct ferroce_rdma`.
#[derive(FromBytes)]
#[repr(C)]
struct DirectRdmaArgs {
    remote_addr: u64,
    rkey: u32,
    remote_srqn: u32,
}

/// `struct ferroce_datagram`.
#[derive(FromBytes)]
#[repr(C)]
struct DirectDatagramArgs {
    remote_qpn: u32,
    remote_qkey: u32,
    ah: u32,
    _reserved: u32,
}

/// `struct ferroce_atomic`.
#[derive(FromBytes)]
#[repr(C)]
struct AtomicBody {
    compare_add: u64,
    swap: u64,
    result: Sge,
}

/// `struct ferroce_flush`, and what is left.
#[derive(FromBytes)]
#[repr(C)]
struct FlushBody {
    length: u32,
    placement: u8,
    level: u8,
    _reserved: [u8; 26],
}

/// `struct ferroce_bind`, and what is left.
#[derive(FromBytes)]
#[repr(C)]
struct BindBody {
    length: u64,
    mr_lkey: u32,
    new_rkey: u32,
    access: u32,
    _reserved: [u8; 12],
}

/// The message of a send queue entry.
pub(super) enum Message {
    /// Inline data of this many bytes.
    Inline(u32),
    /// A scatter/gather list of this many entries, at the body.
    List(u32),
    /// One entry, for the original value of an atomic operation.
    Result(Sge),
    /// An operation on memory keys.
    Local(LocalRequest),
}

impl DirectSendWqe {
    /// Offset of the list or of inline data.
    pub(super) const BODY_OFFSET: usize = size_of::<Self>() - BODY_BYTES;

    /// Words of 8 bytes.
    const WORDS: usize = size_of::<Self>() / size_of::<u64>();

    /// Returns the entry with these words at its start.
    #[inline]
    pub(super) fn new(words: [u64; Self::WORDS]) -> Self {
        zerocopy::transmute!(words)
    }

    /// Returns the message.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for an unknown operation, and for more SGEs or inline bytes than the QP was created with.
    #[inline]
    pub(super) fn message(&self, rules: SendRules) -> Result<Message, RejectedWqe> {
        let count = u32::from(self.count);
        let is_inline = self.common().has(send_flag::INLINE);
        let (message, fits) = match u32::from(self.opcode) {
            opcode::SEND
            | opcode::SEND_WITH_IMM
            | opcode::SEND_WITH_INV
            | opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM => match is_inline {
                true => (Message::Inline(count), count <= rules.max_inline),
                false => (Message::List(count), count <= rules.max_sge),
            },
            // The flag is ignored: an entry cannot be the destination.
            opcode::RDMA_READ => (Message::List(count), count <= rules.max_sge),
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                let AtomicBody { result, .. } = zerocopy::transmute!(self.body);
                (Message::Result(result), true)
            }
            opcode::ATOMIC_WRITE | opcode::FLUSH => (Message::List(0), true),
            opcode::LOCAL_INV => {
                let key = LocalRequest::Invalidate(self.key());
                (Message::Local(key), true)
            }
            opcode::BIND_MW => (Message::Local(LocalRequest::Bind(self.bind())), true),
            _ => (Message::List(0), false),
        };
        match fits {
            true => Ok(message),
            false => Err(self.rejected(WcStatus::LocQpOpErr)),
        }
    }

    /// Decodes the entry. `length` is the length of its list or inline data, in bytes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for an invalid operation; `IB_WC_LOC_LEN_ERR` for an atomic operation without room for the
    /// original value.
    #[inline]
    pub(super) fn work_request(
        &self,
        length: u32,
        rules: SendRules,
    ) -> Result<SendWr, RejectedWqe> {
        self.common().work_request(self.operation(), length, rules)
    }

    /// Decodes the entry as a datagram of `length` bytes. Also returns the number of its address handle.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` if the opcode is not a SEND.
    pub(super) fn datagram(
        &self,
        length: u32,
        rules: SendRules,
    ) -> Result<(DatagramWr, u32), RejectedWqe> {
        let imm = match u32::from(self.opcode) {
            opcode::SEND => None,
            opcode::SEND_WITH_IMM => Some(Imm(self.imm_or_key)),
            _ => return Err(self.rejected(WcStatus::LocQpOpErr)),
        };
        let args: DirectDatagramArgs = zerocopy::transmute!(self.args);
        let wr = DatagramWr {
            wr_id: self.wr_id,
            remote_qpn: Qpn::new(args.remote_qpn),
            remote_qkey: Qkey::new(args.remote_qkey),
            imm,
            length,
            signaled: self.common().is_signaled(rules),
            solicited: self.common().has(send_flag::SOLICITED),
        };
        Ok((wr, args.ah))
    }

    /// Returns the error completion of this entry, with `status`.
    #[inline]
    pub(super) fn rejected(&self, status: WcStatus) -> RejectedWqe {
        self.common().rejected(status)
    }

    #[inline]
    fn common(&self) -> WqeCommon {
        let args: DirectRdmaArgs = zerocopy::transmute!(self.args);
        WqeCommon {
            wr_id: self.wr_id,
            opcode: self.opcode.into(),
            flags: self.flags.into(),
            srqn: Srqn::new(args.remote_srqn),
        }
    }

    /// Returns the first bytes of inline data.
    pub(super) fn inline_start(&self) -> &[u8; BODY_BYTES] {
        &self.body
    }

    /// Returns the first two SGEs.
    #[inline]
    pub(super) fn first_sges(&self) -> [Sge; 2] {
        zerocopy::transmute!(self.body)
    }

    #[inline]
    fn operation(&self) -> Option<SendOp> {
        let imm = Some(Imm(self.imm_or_key));
        Some(match u32::from(self.opcode) {
            opcode::SEND => SendOp::Send { imm: None },
            opcode::SEND_WITH_IMM => SendOp::Send { imm },
            opcode::SEND_WITH_INV => SendOp::SendInvalidate { rkey: self.key() },
            opcode::RDMA_WRITE => SendOp::Write {
                remote: self.remote(),
                imm: None,
            },
            opcode::RDMA_WRITE_WITH_IMM => SendOp::Write {
                remote: self.remote(),
                imm,
            },
            opcode::RDMA_READ => SendOp::Read {
                remote: self.remote(),
            },
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => self.atomic(),
            opcode::ATOMIC_WRITE => {
                let [value, ..]: [u64; 4] = zerocopy::transmute!(self.body);
                SendOp::AtomicWrite {
                    remote: self.remote(),
                    value,
                }
            }
            opcode::FLUSH => self.flush()?,
            opcode::LOCAL_INV => SendOp::Local(LocalOp::Invalidate),
            opcode::BIND_MW => SendOp::Local(LocalOp::Bind),
            _ => return None,
        })
    }

    fn atomic(&self) -> SendOp {
        let AtomicBody {
            compare_add, swap, ..
        } = zerocopy::transmute!(self.body);
        let op = match u32::from(self.opcode) {
            opcode::ATOMIC_CMP_AND_SWP => AtomicOp::CompareSwap {
                compare: compare_add,
                swap,
            },
            _ => AtomicOp::FetchAdd { add: compare_add },
        };
        SendOp::Atomic {
            remote: self.remote(),
            op,
        }
    }

    fn flush(&self) -> Option<SendOp> {
        let body: FlushBody = zerocopy::transmute!(self.body);
        Some(SendOp::Flush {
            remote: self.remote(),
            scope: match body.level {
                flush_level::RANGE => FlushScope::Range(body.length),
                flush_level::MR => FlushScope::Region,
                _ => return None,
            },
            placement: Placement::from_bits(body.placement)?,
        })
    }

    fn bind(&self) -> Bind {
        let body: BindBody = zerocopy::transmute!(self.body);
        let window = self.remote();
        Bind {
            window: window.rkey,
            // CAST: Only the low byte of the key is chosen by the consumer.
            key: body.new_rkey as u8,
            region: Lkey::new(body.mr_lkey),
            access: Access::from_bits(body.access),
            range: Region {
                iova: window.va,
                length: body.length,
            },
        }
    }

    #[inline]
    fn remote(&self) -> Remote {
        let args: DirectRdmaArgs = zerocopy::transmute!(self.args);
        Remote {
            va: args.remote_addr,
            rkey: Rkey::new(args.rkey),
        }
    }

    /// Returns the rkey that takes the place of immediate data.
    fn key(&self) -> Rkey {
        Rkey::new(u32::from_ne_bytes(self.imm_or_key))
    }
}

const _: () = {
    assert!(size_of::<DirectSendWqe>() == 64);
    assert!(core::mem::offset_of!(DirectSendWqe, args) == 16);
    assert!(size_of::<AtomicBody>() == BODY_BYTES);
    assert!(size_of::<FlushBody>() == BODY_BYTES);
    assert!(size_of::<BindBody>() == BODY_BYTES);
};
