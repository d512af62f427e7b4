// SPDX-License-Identifier: GPL-2.0

//! Completion queue entry as user space reads it (`struct ib_uverbs_wc`). The CQ writes it under its lock.
//!
//! C header: [`include/uapi/rdma/ib_user_verbs.h`](srctree/include/uapi/rdma/ib_user_verbs.h)

use rdma::ib::wc::Wc;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout, //
};

/// `enum ibv_wc_flags`: the first 40 bytes of the payload are a GRH, or an IP header in its place.
const WC_GRH: u32 = 1;

/// `enum ibv_wc_flags`: the completion carries immediate data.
const WC_WITH_IMM: u32 = 1 << 1;

/// `enum ibv_wc_flags`: the completion carries an invalidated rkey.
const WC_WITH_INV: u32 = 1 << 3;

/// Completion queue entry (`struct ib_uverbs_wc`).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct Cqe {
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
    pub(crate) const ELEMENT_BYTES: usize = 64;

    /// Converts `wc` to the layout of user space.
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

const _: () = assert!(size_of::<Cqe>() == 48);
