// SPDX-License-Identifier: GPL-2.0

//! Completion queue entry (`struct ferroce_cqe`).
//!
//! C header: `include/uapi/rdma/ferroce-abi.h`

use crate::abi::uverbs::{
    imm_or_key,
    wc_flags, //
};
use rdma::ib::wc::Wc;
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Completion queue entry without its last word, the turn.
#[derive(Clone, Copy, Immutable, IntoBytes)]
#[repr(C, packed(4))]
pub(super) struct DirectCqe {
    wr_id: u64,
    status: u32,
    opcode: u32,
    vendor_err: u32,
    byte_len: u32,
    imm_or_key: [u8; 4],
    qp_num: u32,
    src_qp: u32,
    wc_flags: u32,
    timestamp: u64,
    _reserved: u64,
    _reserved2: u32,
}

impl DirectCqe {
    /// Length with the turn.
    pub(super) const LEN: usize = Self::TURN_OFFSET + size_of::<u32>();

    /// Offset of the turn.
    pub(super) const TURN_OFFSET: usize = size_of::<Self>();

    /// Converts `wc` to the layout of user space.
    pub(super) fn new(wc: &Wc, timestamp: u64) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: wc.opcode,
            vendor_err: 0,
            byte_len: wc.byte_len,
            imm_or_key: imm_or_key(wc),
            qp_num: wc.qp_num,
            src_qp: wc.src_qp,
            wc_flags: wc_flags(wc),
            timestamp,
            _reserved: 0,
            _reserved2: 0,
        }
    }
}

const _: () = assert!(DirectCqe::LEN == 64);
