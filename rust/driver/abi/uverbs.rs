// SPDX-License-Identifier: GPL-2.0

//! Values that every ABI has from libibverbs: opcodes and flags.
//!
//! C header: [`include/uapi/rdma/ib_user_verbs.h`](srctree/include/uapi/rdma/ib_user_verbs.h)

use rdma::ib::wc::Wc;
use roce::wr::WcOpcode;

/// `enum ib_uverbs_wr_opcode`.
pub(super) mod opcode {
    pub(in crate::abi) const RDMA_WRITE: u32 = 0;
    pub(in crate::abi) const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub(in crate::abi) const SEND: u32 = 2;
    pub(in crate::abi) const SEND_WITH_IMM: u32 = 3;
    pub(in crate::abi) const RDMA_READ: u32 = 4;
    pub(in crate::abi) const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub(in crate::abi) const ATOMIC_FETCH_AND_ADD: u32 = 6;
    pub(in crate::abi) const LOCAL_INV: u32 = 7;
    pub(in crate::abi) const BIND_MW: u32 = 8;
    pub(in crate::abi) const SEND_WITH_INV: u32 = 9;
    pub(in crate::abi) const RDMA_READ_WITH_INV: u32 = 11;
    pub(in crate::abi) const FLUSH: u32 = 14;
    pub(in crate::abi) const ATOMIC_WRITE: u32 = 15;
    /// `enum ib_wr_opcode`.
    pub(in crate::abi) const REG_MR: u32 = 32;
}

/// `enum ib_flush_level`.
pub(super) mod flush_level {
    pub(in crate::abi) const RANGE: u8 = 0;
    pub(in crate::abi) const MR: u8 = 1;
}

/// `enum ibv_send_flags`.
/// `enum ib_send_flags` is the same.
pub(super) mod send_flag {
    pub(in crate::abi) const FENCE: u32 = 1;
    pub(in crate::abi) const SIGNALED: u32 = 2;
    pub(in crate::abi) const SOLICITED: u32 = 4;
    pub(in crate::abi) const INLINE: u32 = 8;
    pub(in crate::abi) const ALL: u32 = FENCE | SIGNALED | SOLICITED | INLINE;
}

/// Returns the opcode of the completion of a request that is not executed; that of a SEND if `opcode` is unknown.
pub(super) fn wc_opcode(opcode: u32) -> WcOpcode {
    match opcode {
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => WcOpcode::RdmaWrite,
        opcode::RDMA_READ | opcode::RDMA_READ_WITH_INV => WcOpcode::RdmaRead,
        opcode::ATOMIC_CMP_AND_SWP => WcOpcode::CompSwap,
        opcode::ATOMIC_FETCH_AND_ADD => WcOpcode::FetchAdd,
        opcode::LOCAL_INV => WcOpcode::LocalInv,
        opcode::BIND_MW => WcOpcode::BindMw,
        opcode::FLUSH => WcOpcode::Flush,
        opcode::ATOMIC_WRITE => WcOpcode::AtomicWrite,
        opcode::REG_MR => WcOpcode::RegMr,
        _ => WcOpcode::Send,
    }
}

/// `enum ibv_wc_flags`: the first 40 bytes of the payload are a GRH, or an IP header in its place.
const WC_GRH: u32 = 1;

/// `enum ibv_wc_flags`: the completion carries immediate data.
const WC_WITH_IMM: u32 = 1 << 1;

/// `enum ibv_wc_flags`: the completion carries an invalidated rkey.
const WC_WITH_INV: u32 = 1 << 3;

/// Returns the flags of a completion.
#[inline]
pub(super) fn wc_flags(wc: &Wc) -> u32 {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    flag(wc.imm.is_some(), WC_WITH_IMM)
        | flag(wc.invalidated.is_some(), WC_WITH_INV)
        | flag(wc.grh, WC_GRH)
}

/// Returns the immediate data of a completion, or the invalidated rkey.
#[inline]
pub(super) fn imm_or_key(wc: &Wc) -> [u8; 4] {
    match (wc.invalidated, wc.imm) {
        (Some(rkey), _) => rkey.to_ne_bytes(),
        (None, imm) => imm.unwrap_or_default(),
    }
}
