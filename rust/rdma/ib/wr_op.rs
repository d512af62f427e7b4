// SPDX-License-Identifier: GPL-2.0

//! Operations of the send WRs of ULPs.
//!
//! The opcode of a WR determines the structure in which its `struct ib_send_wr` is embedded; this file is the only
//! one that relies on that, besides [`KernelSendWr::ud`]. Any context.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use crate::ib::wr::KernelSendWr;

/// Remote memory.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAddr {
    /// Address in the MR of `rkey`.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
}

/// Operation of a WR.
#[derive(Clone, Copy, Debug)]
pub enum WrOp {
    /// SEND.
    Send {
        /// Immediate data, in network byte order.
        imm: Option<[u8; 4]>,
        /// Key of the peer that the message invalidates.
        invalidate: Option<u32>,
    },
    /// RDMA WRITE.
    Write {
        /// Destination.
        remote: RemoteAddr,
        /// Immediate data, in network byte order.
        imm: Option<[u8; 4]>,
    },
    /// RDMA READ.
    Read {
        /// Source.
        remote: RemoteAddr,
        /// Local key to invalidate when the READ completes.
        invalidate: Option<u32>,
    },
    /// Atomic compare and swap: replaces eight bytes by `swap` if they equal `compare`.
    CompareSwap {
        /// Address of the eight bytes.
        remote: RemoteAddr,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Atomic fetch and add: adds `add` to eight bytes.
    FetchAdd {
        /// Address of the eight bytes.
        remote: RemoteAddr,
        /// Value to add.
        add: u64,
    },
    /// Invalidation of a local key.
    Invalidate {
        /// Key.
        key: u32,
    },
    /// Fast registration: an MR gets the pages that `map_mr_sg` recorded, and a key.
    Register {
        /// New key. Its high bits identify the MR.
        key: u32,
        /// Address of its first byte.
        iova: u64,
        /// Access rights (`enum ib_access_flags`).
        access: u32,
    },
}

impl<A> KernelSendWr<'_, A> {
    /// Returns the operation; `None` if the opcode is unknown.
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
                // SAFETY: The opcode is that of a READ or WRITE.
                remote: unsafe { self.rdma() },
                imm: None,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => WrOp::Write {
                // SAFETY: The opcode is that of a READ or WRITE.
                remote: unsafe { self.rdma() },
                imm: Some(self.imm()),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => WrOp::Read {
                // SAFETY: The opcode is that of a READ or WRITE.
                remote: unsafe { self.rdma() },
                invalidate: None,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => WrOp::Read {
                // SAFETY: The opcode is that of a READ or WRITE.
                remote: unsafe { self.rdma() },
                invalidate: Some(self.invalidate()),
            },
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
                // SAFETY: The opcode is that of an atomic operation.
                let (remote, compare, swap) = unsafe { self.atomic() };
                WrOp::CompareSwap {
                    remote,
                    compare,
                    swap,
                }
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                // SAFETY: The opcode is that of an atomic operation.
                let (remote, add, _) = unsafe { self.atomic() };
                WrOp::FetchAdd { remote, add }
            }
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => WrOp::Invalidate {
                key: self.invalidate(),
            },
            // SAFETY: The opcode is that of a fast registration.
            bindings::ib_wr_opcode_IB_WR_REG_MR => unsafe { self.register() },
            _ => return None,
        })
    }

    /// Returns the key to invalidate. Meaningful only for opcodes that have one.
    fn invalidate(&self) -> u32 {
        // SAFETY: Both variants of the union are 32 bits for which all values are valid.
        unsafe { self.header().ex.invalidate_rkey }
    }

    /// Returns the remote memory of a READ or WRITE.
    ///
    /// # Safety
    ///
    /// The opcode is that of an RDMA READ or WRITE.
    unsafe fn rdma(&self) -> RemoteAddr {
        // SAFETY: The caller guarantees the opcode, and a well-formed WR with it is embedded in an `ib_rdma_wr`.
        let wr: &bindings::ib_rdma_wr = unsafe { self.container() };
        RemoteAddr {
            addr: wr.remote_addr,
            rkey: wr.rkey,
        }
    }

    /// Returns the remote memory and the operands of an atomic operation.
    ///
    /// # Safety
    ///
    /// The opcode is that of an atomic operation.
    unsafe fn atomic(&self) -> (RemoteAddr, u64, u64) {
        // SAFETY: The caller guarantees the opcode, and a well-formed WR with it is embedded in an `ib_atomic_wr`.
        let wr: &bindings::ib_atomic_wr = unsafe { self.container() };
        let remote = RemoteAddr {
            addr: wr.remote_addr,
            rkey: wr.rkey,
        };
        (remote, wr.compare_add, wr.swap)
    }

    /// Returns the operation of a fast registration.
    ///
    /// # Safety
    ///
    /// The opcode is that of a fast registration.
    unsafe fn register(&self) -> WrOp {
        // SAFETY: The caller guarantees the opcode, and a well-formed WR with it is embedded in an `ib_reg_wr`.
        let wr: &bindings::ib_reg_wr = unsafe { self.container() };
        WrOp::Register {
            key: wr.key,
            // SAFETY: A well-formed WR names an MR, which the ULP keeps and does not map anew until the WR completes.
            iova: unsafe { (*wr.mr).iova },
            // CAST: A bit set that the kernel declares as `int`.
            access: wr.access as u32,
        }
    }
}
