// SPDX-License-Identifier: GPL-2.0

//! Fields of the send WRs of ULPs, whose arguments depend on the opcode.
//!
//! The opcode of a WR determines the structure in which its `struct ib_send_wr` is embedded; this file is the only
//! one that relies on that, besides the datagrams in `wr`. Any context.
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

/// Arguments of a WR. Its opcode determines their kind.
#[derive(Clone, Copy, Debug)]
pub enum WrArgs {
    /// A SEND on a connected QP.
    Send,
    /// A WRITE.
    Write(RemoteAddr),
    /// A READ.
    Read(RemoteAddr),
    /// An atomic operation.
    Atomic {
        /// Address of the eight bytes.
        remote: RemoteAddr,
        /// Expected value, or value to add.
        compare_add: u64,
        /// New value.
        swap: u64,
    },
    /// Invalidation of a local key.
    Invalidate,
    /// Fast registration: an MR gets the pages that `map_mr_sg` recorded, and a key.
    Register {
        /// New key. Its high bits identify the MR.
        key: u32,
        /// Address of its first byte.
        iova: u64,
        /// Access rights (`enum ib_access_flags`).
        access: u32,
    },
    /// A datagram. Its AH is [`KernelSendWr::ah`].
    Datagram {
        /// QP number of the destination.
        remote_qpn: u32,
        /// Q_Key of the destination.
        remote_qkey: u32,
    },
}

/// The fields of a WR, apart from its message.
#[derive(Clone, Copy, Debug)]
pub struct SendWrFields {
    /// Identifier that the completion carries.
    pub wr_id: u64,
    /// Opcode (`enum ib_wr_opcode`).
    pub opcode: u32,
    /// Flags (`enum ib_send_flags`).
    pub flags: u32,
    /// Immediate data in network byte order, or the key to invalidate.
    pub ex: [u8; 4],
    /// Arguments.
    pub args: WrArgs,
}

impl<A> KernelSendWr<'_, A> {
    /// Returns the fields; `None` if the opcode is unknown.
    pub fn fields(&self) -> Option<SendWrFields> {
        let header = self.header();
        Some(SendWrFields {
            // SAFETY: Both variants of the union are 64 bits for which all values are valid.
            wr_id: unsafe { header.__bindgen_anon_1.wr_id },
            opcode: header.opcode,
            // CAST: A bit set that the kernel declares as `int`.
            flags: header.send_flags as u32,
            // SAFETY: Both variants of the union are 32 bits for which all values are valid.
            ex: unsafe { header.ex.imm_data }.to_ne_bytes(),
            args: self.args()?,
        })
    }

    fn args(&self) -> Option<WrArgs> {
        if let Some(wr) = self.ud() {
            return Some(WrArgs::Datagram {
                remote_qpn: wr.remote_qpn,
                remote_qkey: wr.remote_qkey,
            });
        }
        Some(match self.header().opcode {
            bindings::ib_wr_opcode_IB_WR_SEND
            | bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM
            | bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => WrArgs::Send,
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => WrArgs::Invalidate,
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
            | bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => {
                // SAFETY: The opcode is that of a WRITE.
                WrArgs::Write(unsafe { self.rdma() })
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ
            | bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
                // SAFETY: The opcode is that of a READ.
                WrArgs::Read(unsafe { self.rdma() })
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
            | bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                // SAFETY: The opcode is that of an atomic operation.
                unsafe { self.atomic() }
            }
            // SAFETY: The opcode is that of a fast registration.
            bindings::ib_wr_opcode_IB_WR_REG_MR => unsafe { self.register() },
            _ => return None,
        })
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
    unsafe fn atomic(&self) -> WrArgs {
        // SAFETY: The caller guarantees the opcode, and a well-formed WR with it is embedded in an `ib_atomic_wr`.
        let wr: &bindings::ib_atomic_wr = unsafe { self.container() };
        WrArgs::Atomic {
            remote: RemoteAddr {
                addr: wr.remote_addr,
                rkey: wr.rkey,
            },
            compare_add: wr.compare_add,
            swap: wr.swap,
        }
    }

    /// Returns the arguments of a fast registration.
    ///
    /// # Safety
    ///
    /// The opcode is that of a fast registration.
    unsafe fn register(&self) -> WrArgs {
        // SAFETY: The caller guarantees the opcode, and a well-formed WR with it is embedded in an `ib_reg_wr`.
        let wr: &bindings::ib_reg_wr = unsafe { self.container() };
        WrArgs::Register {
            key: wr.key,
            // SAFETY: A well-formed WR names an MR, which the ULP keeps and does not map anew until the WR completes.
            iova: unsafe { (*wr.mr).iova },
            // CAST: A bit set that the kernel declares as `int`.
            access: wr.access as u32,
        }
    }
}

// The user ABIs decode these opcodes and flags.
const _: () = {
    assert!(bindings::ib_wr_opcode_IB_WR_REG_MR == 32);
    assert!(bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV == 11);
    assert!(bindings::ib_send_flags_IB_SEND_INLINE == 8);
};
