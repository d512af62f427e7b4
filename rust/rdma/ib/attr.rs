// SPDX-License-Identifier: GPL-2.0

//! Attributes of devices, ports, MRs, MWs and SRQs, as plain values.
//!
//! Translates between these values and the C structures. Checks nothing: `ops` and the driver do. Numbers are those
//! of the C enumerations; addresses and GUIDs are in network byte order.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    compat::attr::Limit, //
};
use kernel::prelude::*;

/// Keys of an MR.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MrKeys {
    /// Key for the consumer's own WRs.
    pub lkey: u32,
    /// Key for peers.
    pub rkey: u32,
}

/// Arguments of the registration of process memory.
#[derive(Clone, Copy, Debug)]
pub struct MrInit {
    /// Address of the first byte in the calling process.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Address of the first byte in WRs and RETHs.
    pub iova: u64,
    /// `enum ib_access_flags`.
    pub access: u32,
}

/// Arguments of the registration of a DMA buffer.
#[derive(Clone, Copy, Debug)]
pub struct DmaBufInit {
    /// File descriptor of the buffer in the calling process.
    pub fd: c_int,
    /// Offset of the first byte in the buffer.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Address of the first byte in WRs and RETHs.
    pub iova: u64,
    /// `enum ib_access_flags`.
    pub access: u32,
}

/// Changes to an MR; `None`: unchanged.
#[derive(Clone, Copy, Debug)]
pub struct MrChange<'a, P> {
    /// New PD.
    pub pd: Option<&'a P>,
    /// New access rights (`enum ib_access_flags`).
    pub access: Option<u32>,
    /// New memory.
    pub range: Option<MrRange>,
}

/// Process memory of an MR.
#[derive(Clone, Copy, Debug)]
pub struct MrRange {
    /// Address of the first byte in the calling process.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Address of the first byte in WRs and RETHs.
    pub iova: u64,
}

/// Type of an MW (`enum ib_mw_type`): the QPs that may use it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MwType {
    /// All QPs of the PD.
    One,
    /// The QP that bound it.
    Two,
}

/// Limits and capabilities of a device (`struct ib_device_attr`).
///
/// Fields that are missing here are reported as zero.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    missing_docs,
    reason = "the fields of the C structure, which documents them"
)]
pub struct DeviceAttr {
    pub fw_ver: u64,
    pub sys_image_guid: [u8; 8],
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub device_cap_flags: u64,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_sge_rd: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_pd: u32,
    pub max_qp_rd_atom: u32,
    pub max_res_rd_atom: u32,
    pub max_qp_init_rd_atom: u32,
    pub atomic_cap: u32,
    pub max_mw: u32,
    pub max_mcast_grp: u32,
    pub max_mcast_qp_attach: u32,
    pub max_total_mcast_qp_attach: u32,
    pub max_ah: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    pub max_fast_reg_page_list_len: u32,
    pub odp: OdpCaps,
    pub max_pkeys: u16,
    pub max_cq_moderation_count: u16,
    pub max_cq_moderation_period: u16,
    pub local_ca_ack_delay: u8,
    /// Clock of the timestamps of completions, in kHz; 0: there are none.
    pub hca_core_clock: u64,
}

/// On-demand paging capabilities (`struct ib_odp_caps`).
#[derive(Clone, Copy, Debug, Default)]
pub struct OdpCaps {
    /// General capabilities (`enum ib_odp_general_cap_bits`); 0: no support.
    pub general: u64,
    /// RC capabilities (`enum ib_odp_transport_cap_bits`).
    pub rc: u32,
    /// UC capabilities.
    pub uc: u32,
    /// UD capabilities.
    pub ud: u32,
    /// XRC capabilities.
    pub xrc: u32,
}

impl DeviceAttr {
    /// Fills in the C structure.
    pub(crate) fn write_to(&self, raw: &mut bindings::ib_device_attr) {
        raw.fw_ver = self.fw_ver;
        raw.sys_image_guid = u64::from_ne_bytes(self.sys_image_guid);
        raw.max_mr_size = self.max_mr_size;
        raw.page_size_cap = self.page_size_cap;
        raw.vendor_id = self.vendor_id;
        raw.vendor_part_id = self.vendor_part_id;
        raw.hw_ver = self.hw_ver;
        raw.max_qp = Limit::at_most(self.max_qp);
        raw.max_qp_wr = Limit::at_most(self.max_qp_wr);
        raw.device_cap_flags = self.device_cap_flags;
        // The core implements `rdma link del`, so the user can unregister every device of this crate.
        raw.kernel_cap_flags = u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
        if self.odp.general != 0 {
            // The core checks this bit before it lets a process register on-demand memory.
            let odp = bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING;
            raw.kernel_cap_flags |= u64::from(odp);
        }
        raw.odp_caps.general_caps = self.odp.general;
        raw.odp_caps.per_transport_caps.rc_odp_caps = self.odp.rc;
        raw.odp_caps.per_transport_caps.uc_odp_caps = self.odp.uc;
        raw.odp_caps.per_transport_caps.ud_odp_caps = self.odp.ud;
        raw.odp_caps.per_transport_caps.xrc_odp_caps = self.odp.xrc;
        raw.max_send_sge = Limit::at_most(self.max_send_sge);
        raw.max_recv_sge = Limit::at_most(self.max_recv_sge);
        raw.max_sge_rd = Limit::at_most(self.max_sge_rd);
        raw.max_cq = Limit::at_most(self.max_cq);
        raw.max_cqe = Limit::at_most(self.max_cqe);
        raw.max_mr = Limit::at_most(self.max_mr);
        raw.max_pd = Limit::at_most(self.max_pd);
        raw.max_qp_rd_atom = Limit::at_most(self.max_qp_rd_atom);
        raw.max_res_rd_atom = Limit::at_most(self.max_res_rd_atom);
        raw.max_qp_init_rd_atom = Limit::at_most(self.max_qp_init_rd_atom);
        raw.atomic_cap = self.atomic_cap;
        raw.max_mw = Limit::at_most(self.max_mw);
        raw.max_mcast_grp = Limit::at_most(self.max_mcast_grp);
        raw.max_mcast_qp_attach = Limit::at_most(self.max_mcast_qp_attach);
        raw.max_total_mcast_qp_attach = Limit::at_most(self.max_total_mcast_qp_attach);
        raw.max_ah = Limit::at_most(self.max_ah);
        raw.max_srq = Limit::at_most(self.max_srq);
        raw.max_srq_wr = Limit::at_most(self.max_srq_wr);
        raw.max_srq_sge = Limit::at_most(self.max_srq_sge);
        raw.max_fast_reg_page_list_len = self.max_fast_reg_page_list_len;
        raw.max_pkeys = self.max_pkeys;
        raw.cq_caps.max_cq_moderation_count = self.max_cq_moderation_count;
        raw.cq_caps.max_cq_moderation_period = self.max_cq_moderation_period;
        raw.local_ca_ack_delay = self.local_ca_ack_delay;
        raw.hca_core_clock = self.hca_core_clock;
        raw.timestamp_mask = match self.hca_core_clock {
            0 => 0,
            _ => u64::MAX,
        };
    }
}

/// Attributes of an SRQ (`struct ib_srq_attr`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SrqAttr {
    /// Maximum number of posted receives.
    pub max_wr: u32,
    /// Maximum number of SGEs of a receive.
    pub max_sge: u32,
    /// Limit below which the number of posted receives raises one event; 0: disarmed.
    pub limit: u32,
}

impl SrqAttr {
    /// Reads the C structure.
    pub(crate) fn from_raw(raw: &bindings::ib_srq_attr) -> Self {
        Self {
            max_wr: raw.max_wr,
            max_sge: raw.max_sge,
            limit: raw.srq_limit,
        }
    }

    /// Fills in the C structure.
    pub(crate) fn write_to(&self, raw: &mut bindings::ib_srq_attr) {
        raw.max_wr = self.max_wr;
        raw.max_sge = self.max_sge;
        raw.srq_limit = self.limit;
    }
}

/// Logical state of a port (`enum ib_port_state`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PortState {
    /// The netdev is down or has no carrier.
    Down,
    /// The netdev is up and has a carrier.
    Active,
}

impl PortState {
    fn as_raw(self) -> bindings::ib_port_state {
        match self {
            Self::Down => bindings::ib_port_state_IB_PORT_DOWN,
            Self::Active => bindings::ib_port_state_IB_PORT_ACTIVE,
        }
    }
}

/// Physical state of a port (`enum ib_port_phys_state`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PhysState {
    /// No carrier yet.
    Polling,
    /// Disabled.
    Disabled,
    /// Carrier present.
    LinkUp,
}

impl PhysState {
    fn as_raw(self) -> u8 {
        let raw = match self {
            Self::Polling => bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING,
            Self::Disabled => bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED,
            Self::LinkUp => bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP,
        };
        // CAST: The largest value of the enumeration is 7.
        raw as u8
    }
}

/// State of a port (`struct ib_port_attr`).
///
/// Fields without meaning for RoCE (LIDs, subnet manager) are reported as zero.
#[derive(Clone, Copy, Debug)]
pub struct PortAttr {
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub phys_state: PhysState,
    /// Maximum MTU (`enum ib_mtu`: 1 is 256 bytes, 5 is 4096).
    pub max_mtu: u32,
    /// Active MTU (`enum ib_mtu`).
    pub active_mtu: u32,
    /// Number of entries of the GID table.
    pub gid_tbl_len: u32,
    /// Number of entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// Capabilities (`enum ib_port_capability_mask_bits`).
    pub port_cap_flags: u32,
    /// Maximum message size in bytes.
    pub max_msg_sz: u32,
    /// Number of packets with a P_Key violation.
    pub bad_pkey_cntr: u32,
    /// Number of packets with a Q_Key violation.
    pub qkey_viol_cntr: u32,
    /// Width (`enum ib_port_width`).
    pub active_width: u8,
    /// Speed (`enum ib_port_speed`).
    pub active_speed: u16,
}

impl PortAttr {
    /// Fills in the C structure.
    pub(crate) fn write_to(&self, raw: &mut bindings::ib_port_attr) {
        raw.state = self.state.as_raw();
        raw.phys_state = self.phys_state.as_raw();
        raw.max_mtu = self.max_mtu;
        raw.active_mtu = self.active_mtu;
        // CAST: A table has far fewer entries than `c_int::MAX`.
        raw.gid_tbl_len = self.gid_tbl_len as c_int;
        raw.pkey_tbl_len = self.pkey_tbl_len;
        raw.port_cap_flags = self.port_cap_flags;
        raw.max_msg_sz = self.max_msg_sz;
        raw.bad_pkey_cntr = self.bad_pkey_cntr;
        raw.qkey_viol_cntr = self.qkey_viol_cntr;
        raw.max_vl_num = 1;
        raw.active_width = self.active_width;
        raw.active_speed = self.active_speed;
        // GIDs are derived from IP addresses.
        raw.set_ip_gids(1);
    }
}
