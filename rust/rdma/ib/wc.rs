// SPDX-License-Identifier: GPL-2.0

//! Work completions.
//!
//! Owns the value that a completion is until somebody polls it, and its translation for consumers
//! in the kernel. What user space polls is laid out by the driver. Knows no queues.
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
    /// Identifier given with the work request.
    pub wr_id: u64,
    /// `enum ib_wc_status`.
    pub status: u32,
    /// `enum ib_wc_opcode`; receives have bit 7 set.
    pub opcode: u32,
    /// Bytes received or read.
    pub byte_len: u32,
    /// Immediate data, in network byte order.
    pub imm: Option<[u8; 4]>,
    /// The local key that the sender had taken back. There is no immediate data then.
    pub invalidated: Option<u32>,
    /// The queue pair's number.
    pub qp_num: u32,
    /// The sender's queue pair (datagrams only).
    pub src_qp: u32,
    /// The first 40 bytes received are a GRH (datagrams only).
    pub grh: bool,
    /// Index into the P_Key table (GSI only).
    pub pkey_index: u16,
    /// How the packet came (`enum rdma_network_type`), for a consumer in the kernel.
    pub network_hdr_type: Option<u8>,
    /// The VLAN that the packet came in by, for a consumer in the kernel.
    pub vlan_id: Option<u16>,
    /// The queue pair, for a consumer in the kernel.
    pub qp: QpToken,
}

impl Wc {
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
        // CAST: A set of bits.
        raw.wc_flags = flags as c_int;
        raw.qp = self.qp.as_ptr();
        raw.src_qp = self.src_qp;
        raw.pkey_index = self.pkey_index;
        raw.port_num = 1;
        raw
    }
}

/// Room for the completions that a consumer in the kernel polls.
pub struct WcSink<'a> {
    slots: &'a mut [MaybeUninit<bindings::ib_wc>],
    filled: usize,
}

impl<'a> WcSink<'a> {
    /// # Safety
    ///
    /// `slots` points to `count` structures that nobody else uses for `'a`; or `count` is not above
    /// 0.
    pub(crate) unsafe fn from_raw(slots: *mut bindings::ib_wc, count: c_int) -> Self {
        let slots = match usize::try_from(count) {
            // SAFETY: As the function requires; uninitialised memory may be written.
            Ok(count) if count > 0 => unsafe {
                core::slice::from_raw_parts_mut(slots.cast(), count)
            },
            _ => &mut [],
        };
        Self { slots, filled: 0 }
    }

    /// Completions that still fit.
    pub fn free(&self) -> usize {
        self.slots.len().saturating_sub(self.filled)
    }

    /// Gives `wc` to the consumer; says whether it fitted.
    pub fn push(&mut self, wc: &Wc) -> bool {
        let Some(slot) = self.slots.get_mut(self.filled) else {
            return false;
        };
        slot.write(wc.as_raw());
        self.filled = self.filled.wrapping_add(1);
        true
    }

    pub(crate) fn filled(&self) -> usize {
        self.filled
    }
}
