// SPDX-License-Identifier: GPL-2.0

//! Types of libibverbs (`infiniband/verbs.h`, `infiniband/driver.h`) that have one layout in all releases. `layouts`
//! checks them.

use core::ffi::{
    c_int,
    c_void, //
};

/// Words of 64 bits of `pthread_mutex_t`. On both architectures, `pthread_cond_t` has 6.
const MUTEX_WORDS: usize = match cfg!(target_arch = "aarch64") {
    true => 6,
    false => 5,
};

/// A function of any type, in a table of C.
pub(crate) type Function = *const ();

/// A type of C that nothing here looks into.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)+) => {
        $($(#[$doc])* #[repr(C)] pub(crate) struct $name { _private: [u8; 0] })+
    };
}

opaque! {
    /// `struct verbs_context`; its size depends on the release.
    VerbsContext;
    /// `struct ibv_comp_channel`.
    CompChannel;
    /// `union ibv_gid`.
    Gid;
    /// `struct ibv_ah_attr`.
    AhAttr;
    /// `struct ibv_qp_attr`.
    QpAttr;
    /// `struct ibv_port_attr`.
    PortAttr;
    /// `struct ibv_modify_cq_attr`.
    ModifyCqAttr;
    /// `struct ibv_srq_attr`.
    SrqAttr;
    /// `struct ibv_query_device_ex_input`.
    QueryDeviceInput;
    /// `struct ibv_xrcd_init_attr`.
    XrcdInitAttr;
    /// `struct ibv_qp_open_attr`.
    QpOpenAttr;
    /// `struct ibv_comp_cntr_caps`.
    CompCntrCaps;
    /// `struct ibv_qp_attach_comp_cntr_attr`.
    AttachCompCntrAttr;
}

/// `struct ibv_context`.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) device: *mut VerbsDevice,
    ops: [usize; 32],
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    num_comp_vectors: c_int,
    mutex: [u64; MUTEX_WORDS],
    abi_compat: usize,
}

/// `struct verbs_device`.
#[repr(C)]
pub(crate) struct VerbsDevice {
    words: [u64; 89],
}

/// `struct ibv_pd`.
#[repr(C)]
pub(crate) struct Pd {
    pub(crate) context: *mut Context,
    pub(crate) handle: u32,
}

/// `struct ibv_comp_cntr`.
#[repr(C)]
pub(crate) struct CompCntr {
    pub(crate) context: *mut Context,
    pub(crate) handle: u32,
}

/// `struct ibv_comp_cntr_init_attr`.
#[repr(C)]
pub(crate) struct CompCntrInitAttr {
    pub(crate) comp_mask: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u32,
}

/// `struct ibv_td`.
#[repr(C)]
pub(crate) struct Td {
    pub(crate) context: *mut Context,
}

/// `struct ibv_td_init_attr`.
#[repr(C)]
pub(crate) struct TdInitAttr {
    pub(crate) comp_mask: u32,
}

/// `struct ibv_parent_domain_init_attr`, up to the mask.
#[repr(C)]
pub(crate) struct ParentDomainInitAttr {
    pub(crate) pd: *mut Pd,
    pub(crate) td: *mut Td,
    pub(crate) comp_mask: u32,
}

/// `struct verbs_xrcd`.
#[repr(C)]
pub(crate) struct Xrcd {
    pub(crate) context: *mut Context,
    comp_mask: u32,
    handle: u32,
}

/// `struct verbs_mr`.
#[repr(C)]
pub(crate) struct Mr {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
    _padding: u32,
    kind: u32,
    access: c_int,
}

/// `struct ibv_mw`.
#[repr(C)]
pub(crate) struct Mw {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut Pd,
    pub(crate) rkey: u32,
    pub(crate) handle: u32,
    pub(crate) kind: u32,
}

/// `struct ibv_ah`.
#[repr(C)]
pub(crate) struct Ah {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut Pd,
    pub(crate) handle: u32,
}

/// `struct ibv_cq`.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) context: *mut Context,
    channel: *mut CompChannel,
    cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
    mutex: [u64; MUTEX_WORDS],
    cond: [u64; 6],
    events: [u32; 2],
}

/// `struct ibv_cq_ex`, and `struct verbs_cq`.
#[repr(C)]
pub(crate) struct CqEx {
    pub(crate) cq: Cq,
    comp_mask: u32,
    pub(crate) status: u32,
    pub(crate) wr_id: u64,
    /// Functions, see `polling`.
    pub(crate) functions: [Function; 18],
}

/// `struct verbs_srq`.
#[repr(C)]
pub(crate) struct Srq {
    pub(crate) context: *mut Context,
    srq_context: *mut c_void,
    pub(crate) pd: *mut Pd,
    pub(crate) handle: u32,
    mutex: [u64; MUTEX_WORDS],
    cond: [u64; 6],
    events: [u32; 2],
    pub(crate) kind: u32,
    xrcd: *mut Xrcd,
    cq: *mut CqEx,
    pub(crate) srq_num: u32,
}

/// `struct ibv_qp`.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) context: *mut Context,
    qp_context: *mut c_void,
    pub(crate) pd: *mut Pd,
    pub(crate) send_cq: *mut CqEx,
    recv_cq: *mut CqEx,
    srq: *mut Srq,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
    pub(crate) state: u32,
    pub(crate) kind: u32,
    mutex: [u64; MUTEX_WORDS],
    cond: [u64; 6],
    events: u32,
}

/// `struct ibv_qp_ex`, and the longest `struct verbs_qp`.
#[repr(C)]
pub(crate) struct VerbsQp {
    pub(crate) qp: Qp,
    comp_mask: u64,
    pub(crate) wr_id: u64,
    pub(crate) wr_flags: u32,
    /// Functions (see `builder`), and what lies behind them.
    pub(crate) functions: [Function; 24],
}

/// `struct ibv_qp_cap`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct QpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`, with which the next one begins. Packed, for that one has a field in its padding.
#[repr(C, packed(4))]
pub(crate) struct QpInitAttr {
    qp_context: *mut c_void,
    pub(crate) send_cq: *mut CqEx,
    pub(crate) recv_cq: *mut CqEx,
    pub(crate) srq: *mut Srq,
    pub(crate) cap: QpCap,
    pub(crate) qp_type: u32,
    sq_sig_all: c_int,
}

/// `struct ibv_qp_init_attr_ex`. A program that was built with older headers has fewer of the last fields.
#[repr(C)]
pub(crate) struct QpInitAttrEx {
    pub(crate) base: QpInitAttr,
    pub(crate) comp_mask: u32,
    pub(crate) pd: *mut Pd,
    xrcd: *mut Xrcd,
    pub(crate) create_flags: u32,
    max_tso_header: u16,
    rwq_ind_tbl: *mut c_void,
    rx_hash_conf: [u64; 3],
    source_qpn: u32,
    pub(crate) send_ops_flags: u64,
}

/// `struct ibv_cq_init_attr_ex`. A program that was built with older headers has fewer of the last fields.
#[repr(C)]
pub(crate) struct CqInitAttrEx {
    cqe: u32,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    comp_vector: u32,
    pub(crate) wc_flags: u64,
    pub(crate) comp_mask: u32,
    pub(crate) flags: u32,
    pub(crate) parent_domain: *mut Pd,
}

/// `struct ibv_srq_init_attr`.
#[repr(C)]
pub(crate) struct SrqInitAttr {
    srq_context: *mut c_void,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    srq_limit: u32,
}

/// `struct ibv_srq_init_attr_ex`, up to the type.
#[repr(C)]
pub(crate) struct SrqInitAttrEx {
    srq_context: *mut c_void,
    max_wr: u32,
    pub(crate) max_sge: u32,
    srq_limit: u32,
    pub(crate) comp_mask: u32,
    pub(crate) srq_type: u32,
}

/// `struct ibv_wc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Wc {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_or_key: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: u32,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}

/// `struct ibv_mw_bind_info`.
#[repr(C)]
pub(crate) struct MwBindInfo {
    pub(crate) mr: *mut Mr,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) access: u32,
}

/// `struct ibv_mw_bind`.
#[repr(C)]
pub(crate) struct MwBind {
    pub(crate) wr_id: u64,
    pub(crate) send_flags: u32,
    pub(crate) info: MwBindInfo,
}

/// `struct ibv_data_buf`.
#[repr(C)]
pub(crate) struct DataBuf {
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
}

/// `struct ibv_values_ex`.
#[repr(C)]
pub(crate) struct ValuesEx {
    pub(crate) comp_mask: u32,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}
