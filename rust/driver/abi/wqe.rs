// SPDX-License-Identifier: GPL-2.0

//! Work queue entries (`rxe_send_wqe`, `rxe_recv_wqe`, `rxe_sge`), decoded by value.
//!
//! The consuming end of a queue copies each entry from the ring once and passes the copy here. Decoding
//! checks it and returns a work request, or the status with which the request completes. Fields that only
//! rdma_rxe's own implementation uses (state, PSNs, cursors) are ignored.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

use crate::{
    abi::send_op::{
        BodyKind,
        LocalRequest,
        WqeOp,
        UNION_BYTES, //
    },
    limits::MAX_MESSAGE_BYTES, //
};
use rdma::ib::wr;
use roce::{
    id::{
        Qkey,
        Qpn, //
    },
    status::WcStatus,
    ud::DatagramWr,
    wr::{
        RecvWr,
        SendOp,
        SendWr,
        ATOMIC_BYTES, //
    }, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout, //
};

/// `enum ibv_send_flags`.
mod send_flag {
    pub(super) const FENCE: u32 = 1;
    pub(super) const SIGNALED: u32 = 2;
    pub(super) const SOLICITED: u32 = 4;
    pub(super) const INLINE: u32 = 8;
}

/// One scatter/gather entry (`struct rxe_sge`).
#[derive(Clone, Copy, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct WqeSge {
    /// Address in the region of `lkey`.
    pub(crate) addr: u64,
    /// Length in bytes.
    pub(crate) length: u32,
    /// Local key.
    pub(crate) lkey: u32,
}

impl WqeSge {
    /// Returns the entry with these words.
    #[inline]
    pub(crate) fn new(words: [u64; 2]) -> Self {
        zerocopy::transmute!(words)
    }
}

impl From<wr::Sge> for WqeSge {
    #[inline]
    fn from(sge: wr::Sge) -> Self {
        Self {
            addr: sge.addr,
            length: sge.length,
            lkey: sge.lkey,
        }
    }
}

/// DMA fields of a work queue entry (`struct rxe_dma_info` without its union).
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
struct DmaInfo {
    length: u32,
    _resid: u32,
    _cur_sge: u32,
    num_sge: u32,
    _sge_offset: u32,
    _reserved: u32,
}

/// First part of a send queue entry (`struct rxe_send_wqe`) that is used, from its start.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
struct WqeHead {
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
pub(crate) struct SendWqe {
    head: WqeHead,
    tail: WqeTail,
}

/// The fixed part of a receive queue entry (`struct rxe_recv_wqe`).
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub(crate) struct RecvWqe {
    wr_id: u64,
    _reserved: u64,
    dma: DmaInfo,
}

/// Kind and size of the body of a checked send queue entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyLayout {
    /// Inline data of this many bytes, in the entry itself.
    Inline(u32),
    /// A scatter/gather list of this many entries.
    Scatter(u32),
    /// No message: an operation on memory keys.
    LocalRequest(LocalRequest),
}

/// A work request that is not executed, but completes with an error when its predecessors have completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejectedWqe {
    /// Identifier given by the consumer.
    pub(crate) wr_id: u64,
    /// Completion status.
    pub(crate) status: WcStatus,
}

/// Limits that the QP was created with, which every entry of its rings must respect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WqeBounds {
    /// Scatter/gather entries of one work request.
    pub(crate) max_sge: u32,
    /// Bytes of inline data of one work request.
    pub(crate) max_inline: u32,
}

impl SendWqe {
    /// Length of the fixed part: the offset of the body (scatter/gather list or inline data).
    pub(crate) const FIXED_LEN: usize = Self::TAIL_OFFSET + size_of::<DmaInfo>();

    /// Offset of the second part.
    pub(crate) const TAIL_OFFSET: usize = 184;

    /// Words of 8 bytes of the first part.
    pub(crate) const HEAD_WORDS: usize = size_of::<WqeHead>() / size_of::<u64>();

    /// Words of 8 bytes of the second part.
    pub(crate) const TAIL_WORDS: usize = size_of::<WqeTail>() / size_of::<u64>();

    /// Returns the entry with these words at its start and at [`SendWqe::TAIL_OFFSET`].
    #[inline]
    pub(crate) fn new(head: [u64; Self::HEAD_WORDS], tail: [u64; Self::TAIL_WORDS]) -> Self {
        Self {
            head: zerocopy::transmute!(head),
            tail: zerocopy::transmute!(tail),
        }
    }

    /// Returns the kind and size of the body.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for more SGEs or inline bytes than the QP was created with.
    pub(crate) fn layout(&self, bounds: WqeBounds) -> Result<BodyLayout, RejectedWqe> {
        let wqe_op = self.wqe_op();
        let layout = match wqe_op.body_kind() {
            BodyKind::LocalRequest(local) => BodyLayout::LocalRequest(local),
            BodyKind::None => BodyLayout::Scatter(0),
            BodyKind::Payload if self.is_inline() => BodyLayout::Inline(self.tail.dma.length),
            // A READ or atomic ignores the inline flag: an entry cannot be the destination.
            BodyKind::Payload | BodyKind::Scatter => BodyLayout::Scatter(self.tail.dma.num_sge),
        };
        match layout {
            BodyLayout::LocalRequest(_) => Ok(layout),
            BodyLayout::Inline(bytes) if bytes <= bounds.max_inline => Ok(layout),
            BodyLayout::Scatter(entries) if entries <= bounds.max_sge => Ok(layout),
            _ => Err(self.rejected(WcStatus::LocQpOpErr)),
        }
    }

    /// Decodes the entry. `length` is the length of its scatter/gather list or inline data, in bytes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for an operation that is not available to user space; `IB_WC_LOC_LEN_ERR` for an
    /// atomic whose scatter/gather list is too short for the result.
    pub(crate) fn work_request(
        &self,
        length: u32,
        signal_all: bool,
    ) -> Result<SendWr, RejectedWqe> {
        let op = self
            .wqe_op()
            .operation()
            .ok_or(self.rejected(WcStatus::LocQpOpErr))?;
        let length = match op {
            SendOp::Atomic { .. } if length < ATOMIC_BYTES => {
                return Err(self.rejected(WcStatus::LocLenErr));
            }
            SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => ATOMIC_BYTES,
            SendOp::Flush { .. } | SendOp::Local(_) => 0,
            _ => length,
        };
        Ok(SendWr {
            wr_id: self.head.wr_id,
            op,
            length,
            signaled: signal_all || self.has_flag(send_flag::SIGNALED),
            solicited: self.has_flag(send_flag::SOLICITED),
            fence: self.has_flag(send_flag::FENCE),
        })
    }

    /// Decodes the entry as a datagram of `length` bytes. Also returns the number of its address handle.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` if the opcode is not a SEND.
    pub(crate) fn datagram(
        &self,
        length: u32,
        signal_all: bool,
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
            signaled: signal_all || self.has_flag(send_flag::SIGNALED),
            solicited: self.has_flag(send_flag::SOLICITED),
        };
        Ok((wr, datagram.ah))
    }

    /// Returns the error completion of this entry, with `status`.
    pub(crate) fn rejected(&self, status: WcStatus) -> RejectedWqe {
        RejectedWqe {
            wr_id: self.head.wr_id,
            status,
        }
    }

    /// Returns whether the body is inline data. `ibv_wr_set_inline_data` of librxe does not set the flag, which
    /// programs need not set either; a length without SGEs then shows the data.
    fn is_inline(&self) -> bool {
        self.has_flag(send_flag::INLINE)
            || (self.tail.dma.num_sge == 0 && self.tail.dma.length != 0)
    }

    fn has_flag(&self, flag: u32) -> bool {
        self.head.send_flags & flag != 0
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
    pub(crate) const LEN: usize = size_of::<Self>();

    /// Returns the identifier given by the consumer.
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Returns the number of SGEs that follow, or `None` if it exceeds the limit of the queue.
    pub(crate) fn num_sge(&self, bounds: WqeBounds) -> Option<u32> {
        (self.dma.num_sge <= bounds.max_sge).then_some(self.dma.num_sge)
    }

    /// Decodes the entry as a receive of `length` bytes.
    pub(crate) fn work_request(&self, length: u32) -> RecvWr {
        RecvWr {
            wr_id: self.wr_id,
            length,
        }
    }
}

/// Returns the total length of a scatter/gather list, or `None` above [`MAX_MESSAGE_BYTES`].
pub(crate) fn total_length(sges: &[WqeSge]) -> Option<u32> {
    let total = sges
        .iter()
        .try_fold(0u32, |sum, sge| sum.checked_add(sge.length))?;
    (total <= MAX_MESSAGE_BYTES).then_some(total)
}

/// Returns the length of the longest message that fits in a scatter/gather list.
pub(crate) fn capacity(sges: &[WqeSge]) -> u32 {
    total_length(sges).unwrap_or(MAX_MESSAGE_BYTES)
}

const _: () = {
    assert!(size_of::<WqeSge>() == 16);
    assert!(SendWqe::FIXED_LEN == 208);
    assert!(core::mem::offset_of!(WqeHead, union) == 24);
    assert!(size_of::<WqeHead>() == SendWqe::HEAD_WORDS * size_of::<u64>());
    assert!(size_of::<WqeTail>() == SendWqe::TAIL_WORDS * size_of::<u64>());
    assert!(size_of::<RecvWqe>() == 40);
    assert!(core::mem::offset_of!(RecvWqe, dma) == 16);
};
