// SPDX-License-Identifier: GPL-2.0

//! Work completions.
//!
//! [`Wc`] is a completion from the moment it is pushed until it is polled. `ops` passes it to ULPs as `struct
//! ib_wc`; the driver defines the layout for user space.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::event::QpToken, //
};
use core::mem::MaybeUninit;
use kernel::prelude::*;

/// One work completion (`struct ib_wc`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Wc {
    /// Identifier from the work request.
    pub wr_id: u64,
    /// `enum ib_wc_status`.
    pub status: u32,
    /// `enum ib_wc_opcode`; receives have bit 7 set.
    pub opcode: u32,
    /// Number of bytes received or read.
    pub byte_len: u32,
    /// Immediate data, in network byte order.
    pub imm: Option<[u8; 4]>,
    /// Local key that the sender's SEND invalidated. Excludes immediate data.
    pub invalidated: Option<u32>,
    /// QP number.
    pub qp_num: u32,
    /// QP number of the sender (UD only).
    pub src_qp: u32,
    /// Whether the first 40 bytes received are a GRH (UD only).
    pub grh: bool,
    /// Index into the P_Key table (GSI only).
    pub pkey_index: u16,
    /// Network type of the packet (`enum rdma_network_type`), for a ULP.
    pub network_hdr_type: Option<u8>,
    /// VLAN through which the packet was received, for a ULP.
    pub vlan_id: Option<u16>,
    /// The QP, for a ULP.
    pub qp: QpToken,
}

impl Wc {
    /// Returns the C structure for a ULP.
    fn as_raw(&self) -> bindings::ib_wc {
        let mut raw: bindings::ib_wc = pin_init::zeroed();
        let mut flags = 0;
        raw.__bindgen_anon_1.wr_id = self.wr_id;
        raw.status = self.status;
        raw.opcode = self.opcode;
        raw.byte_len = self.byte_len;
        if let Some(imm) = self.imm {
            raw.ex.imm_data = u32::from_ne_bytes(imm);
            flags |= bindings::ib_wc_flags_IB_WC_WITH_IMM;
        }
        if let Some(rkey) = self.invalidated {
            raw.ex.invalidate_rkey = rkey;
            flags |= bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE;
        }
        if self.grh {
            flags |= bindings::ib_wc_flags_IB_WC_GRH;
        }
        if let Some(network_type) = self.network_hdr_type {
            raw.network_hdr_type = network_type;
            flags |= bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE;
        }
        if let Some(vlan_id) = self.vlan_id {
            raw.vlan_id = vlan_id;
            flags |= bindings::ib_wc_flags_IB_WC_WITH_VLAN;
        }
        // CAST: A bit set that the kernel declares as `int`.
        raw.wc_flags = flags as c_int;
        raw.qp = self.qp.as_ptr();
        raw.src_qp = self.src_qp;
        raw.pkey_index = self.pkey_index;
        raw.port_num = 1;
        raw
    }
}

/// Destination of the completions that a ULP polls.
pub struct WcSink<'a> {
    slots: &'a mut [MaybeUninit<bindings::ib_wc>],
    filled: usize,
}

impl<'a> WcSink<'a> {
    /// Creates a sink of `count` structures, which may be uninitialised.
    ///
    /// # Safety
    ///
    /// `slots` points to `count` structures that no other code uses for `'a`; or `count` is 0 or negative.
    pub(crate) unsafe fn from_raw(slots: *mut bindings::ib_wc, count: c_int) -> Self {
        let slots = match usize::try_from(count) {
            // SAFETY: The caller guarantees `count` valid structures and exclusive access for `'a`. `MaybeUninit`
            // permits uninitialised ones.
            Ok(count) if count > 0 => unsafe {
                core::slice::from_raw_parts_mut(slots.cast(), count)
            },
            _ => &mut [],
        };
        Self { slots, filled: 0 }
    }

    /// Returns the number of completions that still fit.
    pub fn free(&self) -> usize {
        self.slots.len().saturating_sub(self.filled)
    }

    /// Adds `wc`. Returns whether there was room.
    pub fn push(&mut self, wc: &Wc) -> bool {
        let Some(slot) = self.slots.get_mut(self.filled) else {
            return false;
        };
        slot.write(wc.as_raw());
        self.filled = self.filled.wrapping_add(1);
        true
    }

    /// Returns the number of completions added.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }
}
