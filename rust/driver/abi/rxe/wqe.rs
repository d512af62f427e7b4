// SPDX-License-Identifier: GPL-2.0

//! Work queue entries (`rxe_send_wqe`, `rxe_recv_wqe`, `rxe_sge`), decoded by value.
//!
//! The consuming end of a queue copies each entry from the ring once and passes the copy here. Decoding
//! checks it and returns a work request, or the status with which the request completes. Fields that only
//! rdma_rxe's own implementation uses (state, PSNs, cursors) are ignored.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

use crate::{
    abi::{
        request::{
            RejectedWqe,
            SendRules,
            WqeCommon, //
        },
        rxe::send_op::{
            self,
            BodyKind,
            WqeOp,
            UNION_BYTES, //
        },
        uverbs::send_flag, //
    },
    mem::sge::Sge, //
};
use rdma::ib::wr_op::SendWrFields;
use roce::{
    bind::LocalRequest,
    id::{
        Qkey,
        Qpn,
        Srqn, //
    },
    status::WcStatus,
    ud::DatagramWr,
    wr::{
        RecvWr,
        SendWr, //
    }, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// Returns the scatter/gather entry (`struct rxe_sge`) with these words.
#[inline]
pub(super) fn sge(words: [u64; 2]) -> Sge {
    zerocopy::transmute!(words)
}

/// DMA fields of a work queue entry (`struct rxe_dma_info` without its union).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct DmaInfo {
    length: u32,
    _resid: u32,
    _cur_sge: u32,
    num_sge: u32,
    _sge_offset: u32,
    _reserved: u32,
}

impl DmaInfo {
    fn new(length: u32, num_sge: u32) -> Self {
        Self {
            length,
            _resid: 0,
            _cur_sge: 0,
            num_sge,
            _sge_offset: 0,
            _reserved: 0,
        }
    }
}

/// First part of a send queue entry (`struct rxe_send_wqe`) that is used, from its start.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct WqeHead {
    wr_id: u64,
    _reserved: u32,
    opcode: u32,
    send_flags: u32,
    ex: [u8; 4],
    union: [u8; UNION_BYTES],
}

/// Second part that is used: the end of the fixed part, and the first 8 bytes of the body, which are the value of an
/// ATOMIC WRITE.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
struct WqeTail {
    dma: DmaInfo,
    /// First bytes of the body.
    value: u64,
}

/// The fields of a send queue entry that are used, without its body.
#[derive(Clone, Copy)]
pub(super) struct SendWqe {
    head: WqeHead,
    tail: WqeTail,
}

/// The fixed part of a receive queue entry (`struct rxe_recv_wqe`).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct RecvWqe {
    wr_id: u64,
    _reserved: u64,
    dma: DmaInfo,
}

/// The body of a send queue entry that respects the bounds of the queue.
pub(super) enum WqeBody {
    /// Inline data of this many bytes.
    Inline(u32),
    /// A scatter/gather list of this many entries.
    Scatter(u32),
    /// No message: an operation on memory keys.
    LocalRequest(LocalRequest),
}

impl SendWqe {
    /// Length of the fixed part: the offset of the body (scatter/gather list or inline data).
    pub(super) const FIXED_LEN: usize = Self::TAIL_OFFSET + size_of::<DmaInfo>();

    /// Offset of the second part.
    pub(super) const TAIL_OFFSET: usize = 184;

    /// Words of 8 bytes of the first part.
    pub(super) const HEAD_WORDS: usize = size_of::<WqeHead>() / size_of::<u64>();

    /// Words of 8 bytes of the second part.
    pub(super) const TAIL_WORDS: usize = size_of::<WqeTail>() / size_of::<u64>();

    /// Returns the entry with these words at its start and at [`SendWqe::TAIL_OFFSET`].
    #[inline]
    pub(super) fn new(head: [u64; Self::HEAD_WORDS], tail: [u64; Self::TAIL_WORDS]) -> Self {
        Self {
            head: zerocopy::transmute!(head),
            tail: zerocopy::transmute!(tail),
        }
    }

    /// Returns the body.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for more SGEs or inline bytes than the QP was created with.
    #[inline]
    pub(super) fn body(&self, rules: SendRules) -> Result<WqeBody, RejectedWqe> {
        let (body, fits) = match self.wqe_op().body_kind(rules) {
            BodyKind::LocalRequest(request) => (WqeBody::LocalRequest(request), true),
            BodyKind::None => (WqeBody::Scatter(0), true),
            BodyKind::Payload if self.is_inline() => {
                let bytes = self.tail.dma.length;
                (WqeBody::Inline(bytes), bytes <= rules.max_inline)
            }
            // A READ or atomic ignores the inline flag: an entry cannot be the destination.
            BodyKind::Payload | BodyKind::Scatter => {
                let entries = self.tail.dma.num_sge;
                (WqeBody::Scatter(entries), entries <= rules.max_sge)
            }
        };
        match fits {
            true => Ok(body),
            false => Err(self.rejected(WcStatus::LocQpOpErr)),
        }
    }

    /// Decodes the entry. `length` is the length of its scatter/gather list or inline data, in bytes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for an operation that is not available to the consumer; `IB_WC_LOC_LEN_ERR` for an
    /// atomic whose scatter/gather list is too short for the result.
    #[inline]
    pub(super) fn work_request(
        &self,
        length: u32,
        rules: SendRules,
    ) -> Result<SendWr, RejectedWqe> {
        let op = self.wqe_op().operation(rules);
        self.common().work_request(op, length, rules)
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
        let (datagram, imm) = self
            .wqe_op()
            .datagram()
            .ok_or(self.rejected(WcStatus::LocQpOpErr))?;
        let wr = DatagramWr {
            wr_id: self.head.wr_id,
            remote_qpn: Qpn::new(datagram.remote_qpn),
            remote_qkey: Qkey::new(datagram.remote_qkey),
            imm,
            length,
            signaled: self.common().is_signaled(rules),
            solicited: self.common().has(send_flag::SOLICITED),
        };
        Ok((wr, datagram.ah))
    }

    /// Returns the error completion of this entry, with `status`.
    #[inline]
    pub(super) fn rejected(&self, status: WcStatus) -> RejectedWqe {
        self.common().rejected(status)
    }

    #[inline]
    fn common(&self) -> WqeCommon {
        WqeCommon {
            wr_id: self.head.wr_id,
            opcode: self.head.opcode,
            flags: self.head.send_flags,
            srqn: Srqn::default(),
        }
    }

    /// Returns whether the body is inline data. `ibv_wr_set_inline_data` of librxe does not set the flag, which
    /// programs need not set either; a length without SGEs then shows the data.
    fn is_inline(&self) -> bool {
        self.common().has(send_flag::INLINE)
            || (self.tail.dma.num_sge == 0 && self.tail.dma.length != 0)
    }

    /// Returns the fields that determine the operation.
    #[inline]
    fn wqe_op(&self) -> WqeOp<'_> {
        WqeOp {
            opcode: self.head.opcode,
            ex: self.head.ex,
            union: &self.head.union,
            length: self.tail.dma.length,
            value: self.tail.value,
        }
    }
}

impl RecvWqe {
    /// Length of the fixed part. The scatter/gather list follows.
    pub(super) const LEN: usize = size_of::<Self>();

    /// Encodes a receive with a list of `num_sge` SGEs.
    pub(super) fn new(wr_id: u64, num_sge: u32) -> Self {
        Self {
            wr_id,
            _reserved: 0,
            dma: DmaInfo::new(0, num_sge),
        }
    }

    /// Returns the identifier given by the consumer.
    pub(super) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Returns the number of SGEs that follow. It is not checked.
    pub(super) fn num_sge(&self) -> u32 {
        self.dma.num_sge
    }

    /// Decodes the entry as a receive of `length` bytes.
    #[inline]
    pub(super) fn work_request(&self, length: u32) -> RecvWr {
        RecvWr {
            wr_id: self.wr_id,
            length,
        }
    }
}

/// Encodes the request of a kernel consumer, with `num_sge` SGEs or inline data of `length` bytes: the first part, and
/// the one at [`SendWqe::TAIL_OFFSET`]. `ah` is the number of the AH of a datagram.
pub(super) fn encode_send(
    fields: &SendWrFields,
    (num_sge, length): (u32, u32),
    ah: u32,
) -> (WqeHead, DmaInfo) {
    let head = WqeHead {
        wr_id: fields.wr_id,
        _reserved: 0,
        opcode: fields.opcode,
        send_flags: fields.flags & send_flag::ALL,
        ex: fields.ex,
        union: send_op::encode_args(&fields.args, ah),
    };
    (head, DmaInfo::new(length, num_sge))
}

const _: () = {
    assert!(size_of::<Sge>() == 16);
    assert!(SendWqe::FIXED_LEN == 208);
    assert!(core::mem::offset_of!(WqeHead, union) == 24);
    assert!(size_of::<WqeHead>() == SendWqe::HEAD_WORDS * size_of::<u64>());
    assert!(size_of::<WqeTail>() == SendWqe::TAIL_WORDS * size_of::<u64>());
    assert!(size_of::<RecvWqe>() == 40);
    assert!(core::mem::offset_of!(RecvWqe, dma) == 16);
};
