// SPDX-License-Identifier: GPL-2.0

//! Work queue entries (`rxe_send_wqe`, `rxe_recv_wqe`, `rxe_sge`), decoded by value.
//!
//! Each entry is copied from the ring once, and checked; the result is a work request, or the status that the request
//! completes with. Fields that only another implementation uses (state, PSNs, cursors) are ignored.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

use crate::{
    abi::send_op::{
        LocalRequest,
        WqeOp,
        UNION, //
    },
    limits::MAX_MESSAGE, //
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
mod flag {
    pub(super) const FENCE: u32 = 1;
    pub(super) const SIGNALED: u32 = 2;
    pub(super) const SOLICITED: u32 = 4;
    pub(super) const INLINE: u32 = 8;
}

/// One scatter/gather entry (`struct rxe_sge`).
#[derive(Clone, Copy, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct WqeSge {
    /// Address in the region that `lkey` names.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) length: u32,
    /// Local key.
    pub(crate) lkey: u32,
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

/// Progress fields of a work queue entry (`struct rxe_dma_info` without its union).
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
struct Dma {
    length: u32,
    _resid: u32,
    _cur_sge: u32,
    num_sge: u32,
    _sge_offset: u32,
    _reserved: u32,
}

/// The fixed part of a send queue entry (`struct rxe_send_wqe`).
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub(crate) struct SendWqe {
    wr_id: u64,
    _reserved: u32,
    opcode: u32,
    send_flags: u32,
    ex: [u8; 4],
    union: [u8; UNION],
    _status: u32,
    _state: u32,
    _iova: u64,
    _psns: [u32; 6],
    dma: Dma,
    /// First bytes of what follows the fixed part: the value of an atomic write.
    value: u64,
}

/// The fixed part of a receive queue entry (`struct rxe_recv_wqe`).
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub(crate) struct RecvWqe {
    wr_id: u64,
    _reserved: u64,
    dma: Dma,
}

/// Where the bytes of a message stand, once its entry has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// In the entry itself: this many bytes.
    Inline(u32),
    /// In memory: this many scatter/gather entries.
    Scatter(u32),
    /// There is no message, but something to be done here.
    LocalRequest(LocalRequest),
}

impl Shape {
    /// Bytes of the entry that follow its fixed part and have to be copied.
    pub(crate) const fn body_len(self) -> usize {
        match self {
            // CAST: At most `MAX_INLINE`.
            Self::Inline(bytes) => bytes as usize,
            // CAST: At most `MAX_SGE`.
            Self::Scatter(entries) => entries as usize * size_of::<WqeSge>(),
            Self::LocalRequest(_) => 0,
        }
    }
}

/// A work request that completes with an error in its turn, instead of being carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejectedWqe {
    /// Identifier given by the consumer.
    pub(crate) wr_id: u64,
    /// Status that it completes with.
    pub(crate) status: WcStatus,
}

/// What the queue pair was created with: bounds of every entry of its rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WqeBounds {
    /// Scatter/gather entries of one work request.
    pub(crate) max_sge: u32,
    /// Inline bytes of one work request.
    pub(crate) max_inline: u32,
}

impl SendWqe {
    /// Bytes of the fixed part; scatter list or inline data follow.
    pub(crate) const LEN: usize = size_of::<Self>() - size_of::<u64>();

    /// Bytes to be copied of each entry: the fixed part and the start of what follows.
    pub(crate) const HEAD: usize = size_of::<Self>();

    /// Finds out where the message stands, and what is to be done if it is none.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for more entries or inline bytes than the queue pair was created with.
    pub(crate) fn shape(&self, bounds: WqeBounds) -> Result<Shape, RejectedWqe> {
        let order = self.order();
        let shape = match (order.local(), order.operation()) {
            (Some(local), _) => Shape::LocalRequest(local),
            // What they carry is in the fixed part, if they carry anything.
            (_, Some(SendOp::AtomicWrite { .. } | SendOp::Flush { .. })) => Shape::Scatter(0),
            // What is fetched is scattered: its entry cannot be the destination.
            (_, Some(op)) if self.has(flag::INLINE) && op.sends_payload() => {
                Shape::Inline(self.dma.length)
            }
            _ => Shape::Scatter(self.dma.num_sge),
        };
        match shape {
            Shape::LocalRequest(_) => Ok(shape),
            Shape::Inline(bytes) if bytes <= bounds.max_inline => Ok(shape),
            Shape::Scatter(entries) if entries <= bounds.max_sge => Ok(shape),
            _ => Err(self.refused(WcStatus::LocQpOpErr)),
        }
    }

    /// Turns the entry into a work request whose scatter list or inline data has `length` bytes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for an operation that user space cannot ask for; `IB_WC_LOC_LEN_ERR` for
    /// an atomic operation whose result has no room.
    pub(crate) fn work_request(
        &self,
        length: u32,
        signal_all: bool,
    ) -> Result<SendWr, RejectedWqe> {
        let op = self
            .order()
            .operation()
            .ok_or(self.refused(WcStatus::LocQpOpErr))?;
        let length = match op {
            SendOp::Atomic { .. } if length < ATOMIC_BYTES => {
                return Err(self.refused(WcStatus::LocLenErr));
            }
            SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => ATOMIC_BYTES,
            SendOp::Flush { .. } | SendOp::Local(_) => 0,
            _ => length,
        };
        Ok(SendWr {
            wr_id: self.wr_id,
            op,
            length,
            signaled: signal_all || self.has(flag::SIGNALED),
            solicited: self.has(flag::SOLICITED),
            fence: self.has(flag::FENCE),
        })
    }

    /// Turns the entry into a datagram of `length` bytes, through the address handle whose number
    /// comes with it.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` for anything but a SEND.
    pub(crate) fn datagram(
        &self,
        length: u32,
        signal_all: bool,
    ) -> Result<(DatagramWr, u32), RejectedWqe> {
        let (datagram, imm) = self
            .order()
            .datagram()
            .ok_or(self.refused(WcStatus::LocQpOpErr))?;
        let wr = DatagramWr {
            wr_id: self.wr_id,
            remote_qpn: Qpn::new(datagram.remote_qpn),
            remote_qkey: Qkey::new(datagram.remote_qkey),
            imm,
            length,
            signaled: signal_all || self.has(flag::SIGNALED),
            solicited: self.has(flag::SOLICITED),
        };
        Ok((wr, datagram.ah))
    }

    /// The same entry, completing with `status` in its turn.
    pub(crate) fn refused(&self, status: WcStatus) -> RejectedWqe {
        RejectedWqe {
            wr_id: self.wr_id,
            status,
        }
    }

    fn has(&self, flag: u32) -> bool {
        self.send_flags & flag != 0
    }

    /// What it asks for.
    fn order(&self) -> WqeOp {
        WqeOp {
            opcode: self.opcode,
            ex: self.ex,
            union: self.union,
            length: self.dma.length,
            value: self.value,
        }
    }
}

impl RecvWqe {
    /// Bytes of the fixed part; the scatter list follows.
    pub(crate) const LEN: usize = size_of::<Self>();

    /// Identifier given by the consumer.
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Scatter/gather entries that follow, if they are no more than the queue was created with.
    pub(crate) fn entries(&self, bounds: WqeBounds) -> Option<u32> {
        (self.dma.num_sge <= bounds.max_sge).then_some(self.dma.num_sge)
    }

    /// Turns the entry into a receive of `length` bytes.
    pub(crate) fn work_request(&self, length: u32) -> RecvWr {
        RecvWr {
            wr_id: self.wr_id,
            length,
        }
    }
}

/// Adds up the bytes of a scatter list; `None` above [`MAX_MESSAGE`].
pub(crate) fn total_length(sges: &[WqeSge]) -> Option<u32> {
    let total = sges
        .iter()
        .try_fold(0u32, |sum, sge| sum.checked_add(sge.length))?;
    (total <= MAX_MESSAGE).then_some(total)
}

/// How long a message may be to fit in a scatter list. There may be more room than any message takes.
pub(crate) fn room(sges: &[WqeSge]) -> u32 {
    total_length(sges).unwrap_or(MAX_MESSAGE)
}

const _: () = {
    assert!(size_of::<WqeSge>() == 16);
    assert!(SendWqe::LEN == 208);
    assert!(core::mem::offset_of!(SendWqe, union) == 24);
    assert!(core::mem::offset_of!(SendWqe, dma) == 184);
    assert!(size_of::<RecvWqe>() == 40);
    assert!(core::mem::offset_of!(RecvWqe, dma) == 16);
};
