// SPDX-License-Identifier: GPL-2.0

//! Completion queue entry as user space reads it (`struct ib_uverbs_wc`). The CQ writes it under its lock.
//!
//! C header: [`include/uapi/rdma/ib_user_verbs.h`](srctree/include/uapi/rdma/ib_user_verbs.h)

use crate::abi::uverbs::{
    imm_or_key,
    wc_flags, //
};
use rdma::ib::wc::Wc;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout, //
};

/// Completion queue entry (`struct ib_uverbs_wc`).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct Cqe {
    wr_id: u64,
    status: u32,
    opcode: u32,
    vendor_err: u32,
    byte_len: u32,
    /// Immediate data, or the invalidated rkey.
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
    /// Size of one element of a completion ring: one cache line.
    pub(super) const ELEMENT_BYTES: usize = 64;

    /// Converts `wc` to the layout of user space.
    pub(super) fn new(wc: &Wc) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: wc.opcode,
            vendor_err: 0,
            byte_len: wc.byte_len,
            ex: imm_or_key(wc),
            qp_num: wc.qp_num,
            src_qp: wc.src_qp,
            wc_flags: wc_flags(wc),
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
            port_num: 1,
            _reserved: 0,
        }
    }
}

const _: () = assert!(size_of::<Cqe>() == 48);
