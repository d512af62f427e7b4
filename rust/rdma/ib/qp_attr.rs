// SPDX-License-Identifier: GPL-2.0

//! Attributes of QPs and AHs, as plain values. Checks nothing: `ops` and the driver do.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    errno::EOPNOTSUPP,
    net::{
        netdev::NetDevBorrow,
        netns::NetId, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::rcu, //
};

/// Type of service of a QP (`enum ib_qp_type`). Other types are not supported; the target of XRC is created apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum QpType {
    /// General service interface: QP 1 of a port.
    Gsi = bindings::ib_qp_type_IB_QPT_GSI,
    /// Reliable connection.
    Rc = bindings::ib_qp_type_IB_QPT_RC,
    /// Unreliable connection.
    Uc = bindings::ib_qp_type_IB_QPT_UC,
    /// Unreliable datagram.
    Ud = bindings::ib_qp_type_IB_QPT_UD,
    /// Initiator of an extended reliable connection.
    XrcIni = bindings::ib_qp_type_IB_QPT_XRC_INI,
}

impl QpType {
    pub(crate) fn from_raw(raw: bindings::ib_qp_type) -> Result<Self> {
        match raw {
            bindings::ib_qp_type_IB_QPT_GSI => Ok(Self::Gsi),
            bindings::ib_qp_type_IB_QPT_RC => Ok(Self::Rc),
            bindings::ib_qp_type_IB_QPT_UC => Ok(Self::Uc),
            bindings::ib_qp_type_IB_QPT_UD => Ok(Self::Ud),
            bindings::ib_qp_type_IB_QPT_XRC_INI => Ok(Self::XrcIni),
            _ => Err(EOPNOTSUPP),
        }
    }
}

/// State of a QP (`enum ib_qp_state`, IBA 10.3.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u32)]
pub enum IbQpState {
    /// Rejects WRs and drops packets.
    #[default]
    Reset = bindings::ib_qp_state_IB_QPS_RESET,
    /// Accepts receives.
    Init = bindings::ib_qp_state_IB_QPS_INIT,
    /// Ready to receive.
    Rtr = bindings::ib_qp_state_IB_QPS_RTR,
    /// Ready to send.
    Rts = bindings::ib_qp_state_IB_QPS_RTS,
    /// Send queue draining or drained.
    Sqd = bindings::ib_qp_state_IB_QPS_SQD,
    /// Send queue in error.
    Sqe = bindings::ib_qp_state_IB_QPS_SQE,
    /// All WRs complete in error.
    Err = bindings::ib_qp_state_IB_QPS_ERR,
}

impl IbQpState {
    pub(crate) fn from_raw(raw: bindings::ib_qp_state) -> Result<Self> {
        match raw {
            bindings::ib_qp_state_IB_QPS_RESET => Ok(Self::Reset),
            bindings::ib_qp_state_IB_QPS_INIT => Ok(Self::Init),
            bindings::ib_qp_state_IB_QPS_RTR => Ok(Self::Rtr),
            bindings::ib_qp_state_IB_QPS_RTS => Ok(Self::Rts),
            bindings::ib_qp_state_IB_QPS_SQD => Ok(Self::Sqd),
            bindings::ib_qp_state_IB_QPS_SQE => Ok(Self::Sqe),
            bindings::ib_qp_state_IB_QPS_ERR => Ok(Self::Err),
            _ => Err(EINVAL),
        }
    }
}

/// Capacity of a QP (`struct ib_qp_cap`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QpCaps {
    /// Number of send WRs.
    pub max_send_wr: u32,
    /// Number of receive WRs.
    pub max_recv_wr: u32,
    /// SGEs of a send WR.
    pub max_send_sge: u32,
    /// SGEs of a receive WR.
    pub max_recv_sge: u32,
    /// Inline data of a send WR, in bytes.
    pub max_inline_data: u32,
}

impl QpCaps {
    pub(crate) fn from_raw(raw: &bindings::ib_qp_cap) -> Self {
        Self {
            max_send_wr: raw.max_send_wr,
            max_recv_wr: raw.max_recv_wr,
            max_send_sge: raw.max_send_sge,
            max_recv_sge: raw.max_recv_sge,
            max_inline_data: raw.max_inline_data,
        }
    }

    pub(crate) fn write_to(&self, raw: &mut bindings::ib_qp_cap) {
        raw.max_send_wr = self.max_send_wr;
        raw.max_recv_wr = self.max_recv_wr;
        raw.max_send_sge = self.max_send_sge;
        raw.max_recv_sge = self.max_recv_sge;
        raw.max_inline_data = self.max_inline_data;
    }
}

/// Address vector of an AH or a connection (`struct rdma_ah_attr`, RoCE).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AhAttr {
    /// Local GID.
    pub sgid: [u8; 16],
    /// GID of the peer.
    pub dgid: [u8; 16],
    /// Index of `sgid` in the GID table.
    pub sgid_index: u8,
    /// Index of the netdev that has the address `sgid`: the one below the port, or one above that, such as a VLAN.
    /// 0 if it is being unregistered.
    pub ifindex: i32,
    /// Namespace of this netdev, which may differ from the port's.
    pub net: Option<NetId>,
    /// MTU of this netdev when the address vector was set.
    pub mtu: u32,
    /// IP hop limit.
    pub hop_limit: u8,
    /// IP traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Service level.
    pub sl: u8,
    /// Ethernet address of the next hop.
    pub dmac: [u8; 6],
    /// Port number, from 1; 0: no address was set.
    pub port: u32,
}

impl AhAttr {
    /// Reads the C structure.
    ///
    /// # Safety
    ///
    /// `raw.grh.sgid_attr` is null or points to an entry of the GID table that the caller holds.
    pub(crate) unsafe fn from_raw(raw: &bindings::rdma_ah_attr) -> Self {
        let sgid = NonNull::new(raw.grh.sgid_attr.cast_mut());
        let (sgid, (ifindex, net, mtu)) = sgid
            // SAFETY: The caller guarantees that the entry is held, and an entry does not change while it is. All
            // bytes are valid in a GID.
            .map(|entry| unsafe { (entry.as_ref().gid.raw, interface_of(entry)) })
            .unwrap_or_default();
        // SAFETY: The variant is as valid as any other: all bytes are valid in an Ethernet address, and the union
        // has at least six.
        let dmac = unsafe { raw.__bindgen_anon_1.roce.dmac };
        Self {
            sgid,
            // SAFETY: All bytes are valid in a GID.
            dgid: unsafe { raw.grh.dgid.raw },
            sgid_index: raw.grh.sgid_index,
            ifindex,
            net,
            mtu,
            hop_limit: raw.grh.hop_limit,
            traffic_class: raw.grh.traffic_class,
            flow_label: raw.grh.flow_label,
            sl: raw.sl,
            dmac,
            port: raw.port_num,
        }
    }

    /// Fills in the C structure, except the reference to the GID table. Does nothing if no address was set.
    pub(crate) fn write_to(&self, raw: &mut bindings::rdma_ah_attr) {
        if self.port == 0 {
            return;
        }
        raw.grh.dgid.raw = self.dgid;
        raw.grh.sgid_index = self.sgid_index;
        raw.grh.hop_limit = self.hop_limit;
        raw.grh.traffic_class = self.traffic_class;
        raw.grh.flow_label = self.flow_label;
        raw.sl = self.sl;
        raw.port_num = self.port;
        raw.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        raw.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        raw.__bindgen_anon_1.roce.dmac = self.dmac;
    }
}

/// Returns index, namespace and MTU of the netdev that has the address of a GID entry; 0 and `None` if it is being
/// unregistered.
///
/// # Safety
///
/// The caller holds `entry`.
unsafe fn interface_of(entry: NonNull<bindings::ib_gid_attr>) -> (i32, Option<NetId>, u32) {
    let _guard = rcu::read_lock();
    // SAFETY: The caller holds the entry, and this function the RCU read lock, as the function requires.
    let netdev = from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(entry.as_ptr()) });
    match netdev {
        Ok(netdev) => {
            // SAFETY: The netdev is not freed before the RCU read lock is released, and the borrow ends before.
            let netdev = unsafe { NetDevBorrow::from_raw(netdev) };
            (netdev.ifindex(), Some(netdev.net_id()), netdev.mtu())
        }
        Err(_) => (0, None, 0),
    }
}

/// Set of attributes to modify (`enum ib_qp_attr_mask`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QpAttrMask(u32);

macro_rules! masks {
    ($($(#[$doc:meta])* $name:ident = $raw:ident;)*) => {
        impl QpAttrMask {
            $($(#[$doc])* pub const $name: Self = Self(bindings::$raw);)*
        }
    };
}

masks! {
    /// [`QpAttr::qp_state`].
    STATE = ib_qp_attr_mask_IB_QP_STATE;
    /// [`QpAttr::cur_qp_state`].
    CUR_STATE = ib_qp_attr_mask_IB_QP_CUR_STATE;
    /// [`QpAttr::en_sqd_async_notify`].
    EN_SQD_ASYNC_NOTIFY = ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY;
    /// [`QpAttr::access_flags`].
    ACCESS_FLAGS = ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
    /// [`QpAttr::pkey_index`].
    PKEY_INDEX = ib_qp_attr_mask_IB_QP_PKEY_INDEX;
    /// [`QpAttr::port_num`].
    PORT = ib_qp_attr_mask_IB_QP_PORT;
    /// [`QpAttr::qkey`].
    QKEY = ib_qp_attr_mask_IB_QP_QKEY;
    /// [`QpAttr::ah`].
    AV = ib_qp_attr_mask_IB_QP_AV;
    /// [`QpAttr::path_mtu`].
    PATH_MTU = ib_qp_attr_mask_IB_QP_PATH_MTU;
    /// [`QpAttr::timeout`].
    TIMEOUT = ib_qp_attr_mask_IB_QP_TIMEOUT;
    /// [`QpAttr::retry_cnt`].
    RETRY_CNT = ib_qp_attr_mask_IB_QP_RETRY_CNT;
    /// [`QpAttr::rnr_retry`].
    RNR_RETRY = ib_qp_attr_mask_IB_QP_RNR_RETRY;
    /// [`QpAttr::rq_psn`].
    RQ_PSN = ib_qp_attr_mask_IB_QP_RQ_PSN;
    /// [`QpAttr::max_rd_atomic`].
    MAX_QP_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;
    /// [`QpAttr::min_rnr_timer`].
    MIN_RNR_TIMER = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER;
    /// [`QpAttr::sq_psn`].
    SQ_PSN = ib_qp_attr_mask_IB_QP_SQ_PSN;
    /// [`QpAttr::max_dest_rd_atomic`].
    MAX_DEST_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC;
    /// [`QpAttr::path_mig_state`].
    PATH_MIG_STATE = ib_qp_attr_mask_IB_QP_PATH_MIG_STATE;
    /// [`QpAttr::dest_qp_num`].
    DEST_QPN = ib_qp_attr_mask_IB_QP_DEST_QPN;
}

impl QpAttrMask {
    /// The rate limit, which [`QpAttr`] lacks.
    pub(crate) const RATE_LIMIT: Self = Self(bindings::ib_qp_attr_mask_IB_QP_RATE_LIMIT);

    /// Attributes that [`QpAttr`] lacks: alternate path, queue sizes, rate limit.
    pub const OTHERS: Self = Self(
        bindings::ib_qp_attr_mask_IB_QP_ALT_PATH
            | bindings::ib_qp_attr_mask_IB_QP_CAP
            | bindings::ib_qp_attr_mask_IB_QP_RATE_LIMIT,
    );

    pub(crate) fn from_raw(raw: c_int) -> Self {
        // CAST: A bit set that the kernel declares as `int`.
        Self(raw as u32)
    }

    pub(crate) fn as_raw(self) -> bindings::ib_qp_attr_mask {
        self.0
    }

    /// Returns the set without `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether all of `other` is in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any of `other` is in the set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Attributes of a QP (`struct ib_qp_attr`).
#[derive(Clone, Copy, Debug, Default)]
pub struct QpAttr {
    /// Current state, or the new one in a modification.
    pub qp_state: IbQpState,
    /// State that the caller assumes.
    pub cur_qp_state: IbQpState,
    /// Path MTU (`enum ib_mtu`: 1 is 256 bytes, 5 is 4096). Unchecked.
    pub path_mtu: u32,
    /// Path migration state (`enum ib_mig_state`: 0 is migrated). Unchecked.
    pub path_mig_state: u32,
    /// Q_Key (UD).
    pub qkey: u32,
    /// Next expected PSN. Unchecked: 24 bits are significant.
    pub rq_psn: u32,
    /// PSN of the next request. Unchecked: 24 bits are significant.
    pub sq_psn: u32,
    /// QP number of the peer. Unchecked: 24 bits are significant.
    pub dest_qp_num: u32,
    /// Access rights of the peer (`enum ib_access_flags`).
    pub access_flags: u32,
    /// Address of the peer.
    pub ah: AhAttr,
    /// Index into the P_Key table.
    pub pkey_index: u16,
    /// Whether to raise an event when the send queue has drained.
    pub en_sqd_async_notify: bool,
    /// Whether the send queue is draining.
    pub sq_draining: bool,
    /// Maximum number of READ and atomic requests in flight, as requester.
    pub max_rd_atomic: u8,
    /// Maximum number of READ and atomic requests in flight, as responder.
    pub max_dest_rd_atomic: u8,
    /// Timer code of RNR NAKs. Unchecked: 5 bits are significant.
    pub min_rnr_timer: u8,
    /// Port number, from 1.
    pub port_num: u32,
    /// ACK timeout code. Unchecked: 5 bits are significant.
    pub timeout: u8,
    /// Number of retries before a request fails. Unchecked: 3 bits are significant.
    pub retry_cnt: u8,
    /// Number of retries after an RNR NAK; 7: unlimited. Unchecked: 3 bits are significant.
    pub rnr_retry: u8,
}

impl QpAttr {
    /// Reads the attributes in `mask` of the C structure.
    ///
    /// # Safety
    ///
    /// As for [`AhAttr::from_raw`], if `mask` has [`QpAttrMask::AV`].
    pub(crate) unsafe fn from_raw(raw: &bindings::ib_qp_attr, mask: QpAttrMask) -> Result<Self> {
        let state = |bit, value| match mask.contains(bit) {
            true => IbQpState::from_raw(value),
            false => Ok(IbQpState::Reset),
        };
        Ok(Self {
            qp_state: state(QpAttrMask::STATE, raw.qp_state)?,
            cur_qp_state: state(QpAttrMask::CUR_STATE, raw.cur_qp_state)?,
            path_mtu: raw.path_mtu,
            path_mig_state: raw.path_mig_state,
            qkey: raw.qkey,
            rq_psn: raw.rq_psn,
            sq_psn: raw.sq_psn,
            dest_qp_num: raw.dest_qp_num,
            // CAST: A bit set that the kernel declares as `int`.
            access_flags: raw.qp_access_flags as u32,
            ah: if mask.contains(QpAttrMask::AV) {
                // SAFETY: `mask` has `AV`, for which the caller guarantees what `AhAttr::from_raw` requires.
                unsafe { AhAttr::from_raw(&raw.ah_attr) }
            } else {
                AhAttr::default()
            },
            pkey_index: raw.pkey_index,
            en_sqd_async_notify: raw.en_sqd_async_notify != 0,
            sq_draining: raw.sq_draining != 0,
            max_rd_atomic: raw.max_rd_atomic,
            max_dest_rd_atomic: raw.max_dest_rd_atomic,
            min_rnr_timer: raw.min_rnr_timer,
            port_num: raw.port_num,
            timeout: raw.timeout,
            retry_cnt: raw.retry_cnt,
            rnr_retry: raw.rnr_retry,
        })
    }

    pub(crate) fn write_to(&self, raw: &mut bindings::ib_qp_attr) {
        raw.qp_state = self.qp_state as u32;
        raw.cur_qp_state = self.qp_state as u32;
        raw.path_mtu = self.path_mtu;
        raw.path_mig_state = self.path_mig_state;
        raw.qkey = self.qkey;
        raw.rq_psn = self.rq_psn;
        raw.sq_psn = self.sq_psn;
        raw.dest_qp_num = self.dest_qp_num;
        // CAST: A bit set that the kernel declares as `int`.
        raw.qp_access_flags = self.access_flags as c_int;
        self.ah.write_to(&mut raw.ah_attr);
        raw.pkey_index = self.pkey_index;
        raw.en_sqd_async_notify = self.en_sqd_async_notify.into();
        raw.sq_draining = self.sq_draining.into();
        raw.max_rd_atomic = self.max_rd_atomic;
        raw.max_dest_rd_atomic = self.max_dest_rd_atomic;
        raw.min_rnr_timer = self.min_rnr_timer;
        raw.port_num = self.port_num;
        raw.timeout = self.timeout;
        raw.retry_cnt = self.retry_cnt;
        raw.rnr_retry = self.rnr_retry;
    }
}
