// SPDX-License-Identifier: GPL-2.0

//! What a send work request of a consumer in the kernel asks for.
//!
//! Owns the way from an opcode to the structure around `struct ib_send_wr` that goes with it. Datagrams
//! are told apart by their queue pair: see [`KernelSendWr::ud`].
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use crate::ib::wr::KernelSendWr;
use core::ptr;

/// Memory of the peer.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAddr {
    /// Address in the region that `rkey` names.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub enum WrOp {
    /// A message.
    Send {
        /// Immediate data, in network byte order.
        imm: Option<[u8; 4]>,
        /// A key of the peer that it takes back then.
        invalidate: Option<u32>,
    },
    /// An RDMA WRITE.
    Write {
        /// Where to.
        remote: RemoteAddr,
        /// Immediate data, in network byte order.
        imm: Option<[u8; 4]>,
    },
    /// An RDMA READ.
    Read {
        /// Where from.
        remote: RemoteAddr,
        /// A key of our own that is taken back then.
        invalidate: Option<u32>,
    },
    /// Eight bytes are replaced by `swap` if they are `compare`.
    CompareSwap {
        /// Where they are.
        remote: RemoteAddr,
        /// What is expected there.
        compare: u64,
        /// What takes its place.
        swap: u64,
    },
    /// `add` is added to eight bytes.
    FetchAdd {
        /// Where they are.
        remote: RemoteAddr,
        /// How much.
        add: u64,
    },
    /// A key of our own is taken back.
    Invalidate {
        /// The key.
        key: u32,
    },
    /// A region gets the pages that were mapped to it, and a key.
    Register {
        /// Its key from then on; the high bits tell which region it is.
        key: u32,
        /// Address of its first byte.
        iova: u64,
        /// Rights to it (`enum ib_access_flags`).
        access: u32,
    },
}

impl<A> KernelSendWr<'_, A> {
    /// What the request asks for; `None` for an opcode that is not known here.
    pub fn operation(&self) -> Option<WrOp> {
        Some(match self.opcode() {
            bindings::ib_wr_opcode_IB_WR_SEND => WrOp::Send {
                imm: None,
                invalidate: None,
            },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => WrOp::Send {
                imm: Some(self.imm()),
                invalidate: None,
            },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => WrOp::Send {
                imm: None,
                invalidate: Some(self.invalidate()),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => WrOp::Write {
                remote: self.rdma(),
                imm: None,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => WrOp::Write {
                remote: self.rdma(),
                imm: Some(self.imm()),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => WrOp::Read {
                remote: self.rdma(),
                invalidate: None,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => WrOp::Read {
                remote: self.rdma(),
                invalidate: Some(self.invalidate()),
            },
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
                let (remote, compare, swap) = self.atomic();
                WrOp::CompareSwap {
                    remote,
                    compare,
                    swap,
                }
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                let (remote, add, _) = self.atomic();
                WrOp::FetchAdd { remote, add }
            }
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => WrOp::Invalidate {
                key: self.invalidate(),
            },
            bindings::ib_wr_opcode_IB_WR_REG_MR => self.register(),
            _ => return None,
        })
    }

    /// The key to be taken back. Means something for opcodes that have it.
    fn invalidate(&self) -> u32 {
        // SAFETY: Both variants are 32 bits that may have any value.
        unsafe { self.raw.ex.invalidate_rkey }
    }

    /// The peer's memory. Only for an RDMA READ or WRITE.
    fn rdma(&self) -> RemoteAddr {
        let wr: *const bindings::ib_rdma_wr = ptr::from_ref(self.raw).cast();
        // SAFETY: Requests with such an opcode are embedded in an `ib_rdma_wr`, as its first field.
        let wr = unsafe { &*wr };
        RemoteAddr {
            addr: wr.remote_addr,
            rkey: wr.rkey,
        }
    }

    /// The peer's memory, and the operands. Only for an atomic operation.
    fn atomic(&self) -> (RemoteAddr, u64, u64) {
        let wr: *const bindings::ib_atomic_wr = ptr::from_ref(self.raw).cast();
        // SAFETY: As in `rdma`, of an `ib_atomic_wr`.
        let wr = unsafe { &*wr };
        let remote = RemoteAddr {
            addr: wr.remote_addr,
            rkey: wr.rkey,
        };
        (remote, wr.compare_add, wr.swap)
    }

    /// Only for the registration of a region.
    fn register(&self) -> WrOp {
        let wr: *const bindings::ib_reg_wr = ptr::from_ref(self.raw).cast();
        // SAFETY: As in `rdma`, of an `ib_reg_wr`.
        let wr = unsafe { &*wr };
        WrOp::Register {
            key: wr.key,
            // SAFETY: The region lives until the request has completed, and does not change meanwhile.
            iova: unsafe { (*wr.mr).iova },
            // CAST: A set of bits.
            access: wr.access as u32,
        }
    }
}
