// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs and address handles.
//!
//! Part of [`attr`](super): values only.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
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

/// The service that a queue pair gives (`enum ib_qp_type`). Others are refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum QpType {
    /// General service interface: the queue pair 1 of a port.
    Gsi = bindings::ib_qp_type_IB_QPT_GSI,
    /// Reliable connection.
    Rc = bindings::ib_qp_type_IB_QPT_RC,
    /// Unreliable connection.
    Uc = bindings::ib_qp_type_IB_QPT_UC,
    /// Unreliable datagram.
    Ud = bindings::ib_qp_type_IB_QPT_UD,
}

impl QpType {
    pub(crate) fn from_raw(raw: bindings::ib_qp_type) -> Result<Self> {
        match raw {
            bindings::ib_qp_type_IB_QPT_GSI => Ok(Self::Gsi),
            bindings::ib_qp_type_IB_QPT_RC => Ok(Self::Rc),
            bindings::ib_qp_type_IB_QPT_UC => Ok(Self::Uc),
            bindings::ib_qp_type_IB_QPT_UD => Ok(Self::Ud),
            _ => Err(EOPNOTSUPP),
        }
    }
}

/// The state of a queue pair (`enum ib_qp_state`, IBA 10.3.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u32)]
pub enum IbQpState {
    /// Nothing is posted, nothing arrives.
    #[default]
    Reset = bindings::ib_qp_state_IB_QPS_RESET,
    /// Receives may be posted.
    Init = bindings::ib_qp_state_IB_QPS_INIT,
    /// Ready to receive.
    Rtr = bindings::ib_qp_state_IB_QPS_RTR,
    /// Ready to send.
    Rts = bindings::ib_qp_state_IB_QPS_RTS,
    /// Send queue drained, or on its way there.
    Sqd = bindings::ib_qp_state_IB_QPS_SQD,
    /// Send queue in error.
    Sqe = bindings::ib_qp_state_IB_QPS_SQE,
    /// Everything posted completes with an error.
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

/// How much a queue pair holds (`struct ib_qp_cap`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QpCaps {
    /// Send work requests.
    pub max_send_wr: u32,
    /// Receive work requests.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a send.
    pub max_send_sge: u32,
    /// Scatter/gather entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes of inline data of a send.
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

/// Where packets of an address handle or a connection go (`struct rdma_ah_attr`, RoCE).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AhAttr {
    /// Our address.
    pub sgid: [u8; 16],
    /// The peer's address.
    pub dgid: [u8; 16],
    /// Index of `sgid` in the GID table.
    pub sgid_index: u8,
    /// The interface that has the address `sgid`: the one below the port, or one on top of that, such as
    /// a VLAN. 0 if it is going away.
    pub ifindex: i32,
    /// The namespace that this interface is in, which need not be the port's.
    pub net: Option<NetId>,
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
    /// Port of the device, counted from 1; 0: nobody has set an address.
    pub port: u32,
}

impl AhAttr {
    /// # Safety
    ///
    /// `raw.grh.sgid_attr` is null or points to an entry of the GID table that the caller holds.
    pub(crate) unsafe fn from_raw(raw: &bindings::rdma_ah_attr) -> Self {
        let sgid = NonNull::new(raw.grh.sgid_attr.cast_mut());
        let (sgid, (ifindex, net)) = sgid
            // SAFETY: The entry is held, as the function requires; an entry does not change while it
            // is. Any bytes are a GID.
            .map(|entry| unsafe { (entry.as_ref().gid.raw, interface_of(entry)) })
            .unwrap_or_default();
        // SAFETY: Any bytes are an Ethernet address, and the union holds at least those six.
        let dmac = unsafe { raw.__bindgen_anon_1.roce.dmac };
        Self {
            sgid,
            // SAFETY: Any bytes are a GID.
            dgid: unsafe { raw.grh.dgid.raw },
            sgid_index: raw.grh.sgid_index,
            ifindex,
            net,
            hop_limit: raw.grh.hop_limit,
            traffic_class: raw.grh.traffic_class,
            flow_label: raw.grh.flow_label,
            sl: raw.sl,
            dmac,
            port: raw.port_num,
        }
    }

    /// Writes everything but the reference to the GID table, which stays as it is. Of what nobody has
    /// set nothing is written.
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

/// Index and namespace of the interface that has the address of an entry of the GID table; 0 and `None` if it is
/// going away.
///
/// # Safety
///
/// The caller holds `entry`.
unsafe fn interface_of(entry: NonNull<bindings::ib_gid_attr>) -> (i32, Option<NetId>) {
    let _guard = rcu::read_lock();
    // SAFETY: The entry is held, and RCU is locked.
    let netdev = from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(entry.as_ptr()) });
    match netdev {
        Ok(netdev) => {
            // SAFETY: RCU keeps the interface.
            let netdev = unsafe { NetDevBorrow::from_raw(netdev) };
            (netdev.ifindex(), Some(netdev.net_id()))
        }
        Err(_) => (0, None),
    }
}

/// Which attributes a modification sets (`enum ib_qp_attr_mask`).
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
    /// Alternate path, queue sizes, rate limit: attributes that [`QpAttr`] does not have.
    pub const OTHERS: Self = Self(
        bindings::ib_qp_attr_mask_IB_QP_ALT_PATH
            | bindings::ib_qp_attr_mask_IB_QP_CAP
            | bindings::ib_qp_attr_mask_IB_QP_RATE_LIMIT,
    );

    pub(crate) fn from_raw(raw: c_int) -> Self {
        // CAST: A set of bits.
        Self(raw as u32)
    }

    pub(crate) fn as_raw(self) -> bindings::ib_qp_attr_mask {
        self.0
    }

    /// The same, but for `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// All of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Something of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Attributes of a queue pair (`struct ib_qp_attr`).
#[derive(Clone, Copy, Debug, Default)]
pub struct QpAttr {
    /// The state, or the state to go to.
    pub qp_state: IbQpState,
    /// The state that the caller assumes.
    pub cur_qp_state: IbQpState,
    /// `enum ib_mtu`: 1 is 256 bytes, 5 is 4096. Unchecked.
    pub path_mtu: u32,
    /// `enum ib_mig_state`: 0 is migrated. Unchecked.
    pub path_mig_state: u32,
    /// Q_Key of datagrams.
    pub qkey: u32,
    /// PSN expected next. Unchecked: 24 bits count.
    pub rq_psn: u32,
    /// PSN sent next. Unchecked: 24 bits count.
    pub sq_psn: u32,
    /// The peer's queue pair. Unchecked: 24 bits count.
    pub dest_qp_num: u32,
    /// What a peer may do (`enum ib_access_flags`).
    pub access_flags: u32,
    /// The way to the peer.
    pub ah: AhAttr,
    /// Index into the P_Key table.
    pub pkey_index: u16,
    /// Raise an event when the send queue has drained.
    pub en_sqd_async_notify: bool,
    /// The send queue is draining.
    pub sq_draining: bool,
    /// RDMA READ and atomic requests in flight, as requester.
    pub max_rd_atomic: u8,
    /// RDMA READ and atomic requests in flight, as responder.
    pub max_dest_rd_atomic: u8,
    /// Time code that an RNR NAK carries. Unchecked: 5 bits count.
    pub min_rnr_timer: u8,
    /// Port of the device, counted from 1.
    pub port_num: u32,
    /// Code of the ACK timeout. Unchecked: 5 bits count.
    pub timeout: u8,
    /// Retries before a request fails. Unchecked: 3 bits count.
    pub retry_cnt: u8,
    /// Retries after an RNR NAK; 7 is for ever. Unchecked: 3 bits count.
    pub rnr_retry: u8,
}

impl QpAttr {
    /// # Safety
    ///
    /// See [`AhAttr::from_raw`], for the primary path.
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
            // CAST: A set of bits.
            access_flags: raw.qp_access_flags as u32,
            ah: if mask.contains(QpAttrMask::AV) {
                // SAFETY: As the function requires.
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
        // CAST: A set of bits.
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
