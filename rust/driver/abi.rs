// SPDX-License-Identifier: GPL-2.0

//! The work queue entries and completions that user space shares with us, decoded by value.
//!
//! Owns the layout of `rxe_send_wqe`, `rxe_recv_wqe`, `rxe_sge` and `ib_uverbs_wc`. Knows neither
//! the rings that hold them nor the queue pairs they belong to: it is given bytes that were copied
//! once and answers with a value that cannot be wrong, or with the status that the work request
//! completes with. Fields that only mean something to another implementation (state, PSNs,
//! cursors) are never looked at.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

mod operation;

pub(crate) use operation::Local;

use operation::{
    Order,
    UNION, //
};
use rdma::{
    wc::Wc,
    wr, //
};
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

/// Longest message, in bytes.
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// Most scatter/gather entries of one work request.
pub(crate) const MAX_SGE: u32 = 32;

/// Most bytes of inline data, in bytes: the room of [`MAX_SGE`] entries.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * 16;

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
pub(crate) struct Sge {
    /// Address in the region that `lkey` names.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) length: u32,
    /// Local key.
    pub(crate) lkey: u32,
}

impl From<wr::Sge> for Sge {
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
    Local(Local),
}

impl Shape {
    /// Bytes of the entry that follow its fixed part and have to be copied.
    pub(crate) const fn body_len(self) -> usize {
        match self {
            // CAST: At most `MAX_INLINE`.
            Self::Inline(bytes) => bytes as usize,
            // CAST: At most `MAX_SGE`.
            Self::Scatter(entries) => entries as usize * size_of::<Sge>(),
            Self::Local(_) => 0,
        }
    }
}

/// A work request that completes with an error in its turn, instead of being carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Identifier given by the consumer.
    pub(crate) wr_id: u64,
    /// Status that it completes with.
    pub(crate) status: WcStatus,
}

/// What the queue pair was created with: bounds of every entry of its rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
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
    pub(crate) fn shape(&self, bounds: Bounds) -> Result<Shape, Refused> {
        let order = self.order();
        let shape = match (order.local(), order.operation()) {
            (Some(local), _) => Shape::Local(local),
            // What they carry is in the fixed part, if they carry anything.
            (_, Some(SendOp::AtomicWrite { .. } | SendOp::Flush { .. })) => Shape::Scatter(0),
            // What is fetched is scattered: its entry cannot be the destination.
            (_, Some(op)) if self.has(flag::INLINE) && op.sends_payload() => {
                Shape::Inline(self.dma.length)
            }
            _ => Shape::Scatter(self.dma.num_sge),
        };
        match shape {
            Shape::Local(_) => Ok(shape),
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
    pub(crate) fn work_request(&self, length: u32, signal_all: bool) -> Result<SendWr, Refused> {
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
    ) -> Result<(DatagramWr, u32), Refused> {
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
    pub(crate) fn refused(&self, status: WcStatus) -> Refused {
        Refused {
            wr_id: self.wr_id,
            status,
        }
    }

    fn has(&self, flag: u32) -> bool {
        self.send_flags & flag != 0
    }

    /// What it asks for.
    fn order(&self) -> Order {
        Order {
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
    pub(crate) fn entries(&self, bounds: Bounds) -> Option<u32> {
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
pub(crate) fn total_length(sges: &[Sge]) -> Option<u32> {
    let total = sges
        .iter()
        .try_fold(0u32, |sum, sge| sum.checked_add(sge.length))?;
    (total <= MAX_MESSAGE).then_some(total)
}

/// How long a message may be to fit in a scatter list. There may be more room than any message takes.
pub(crate) fn room(sges: &[Sge]) -> u32 {
    total_length(sges).unwrap_or(MAX_MESSAGE)
}

/// `enum ibv_wc_flags`: the first 40 bytes received are a GRH, or an IP header in its place.
const WC_GRH: u32 = 1;

/// `enum ibv_wc_flags`: the completion carries immediate data.
const WC_WITH_IMM: u32 = 1 << 1;

/// `enum ibv_wc_flags`: the completion says which key was taken back.
const WC_WITH_INV: u32 = 1 << 3;

/// A completion as user space reads it (`struct ib_uverbs_wc`).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct Cqe {
    wr_id: u64,
    status: u32,
    opcode: u32,
    vendor_err: u32,
    byte_len: u32,
    /// Immediate data, or a key.
    ex: [u8; 4],
    qp_num: u32,
    src_qp: u32,
    wc_flags: u32,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
    port_num: u8,
    _reserved: u8,
}

impl Cqe {
    /// Bytes of one element of a completion ring: one cache line.
    pub(crate) const ELEMENT: usize = 64;

    /// The completion `wc` in the form that user space reads.
    pub(crate) fn new(wc: &Wc) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: wc.opcode,
            vendor_err: 0,
            byte_len: wc.byte_len,
            ex: match (wc.invalidated, wc.imm) {
                (Some(rkey), _) => rkey.to_ne_bytes(),
                (None, imm) => imm.unwrap_or_default(),
            },
            qp_num: wc.qp_num,
            src_qp: wc.src_qp,
            wc_flags: if wc.imm.is_some() { WC_WITH_IMM } else { 0 }
                | if wc.invalidated.is_some() {
                    WC_WITH_INV
                } else {
                    0
                }
                | if wc.grh { WC_GRH } else { 0 },
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
            port_num: 1,
            _reserved: 0,
        }
    }
}

const _: () = {
    assert!(size_of::<Sge>() == 16);
    assert!(SendWqe::LEN == 208);
    assert!(core::mem::offset_of!(SendWqe, union) == 24);
    assert!(core::mem::offset_of!(SendWqe, dma) == 184);
    assert!(size_of::<RecvWqe>() == 40);
    assert!(core::mem::offset_of!(RecvWqe, dma) == 16);
    assert!(size_of::<Cqe>() == 48);
};
