// SPDX-License-Identifier: GPL-2.0

//! Where `c` and the headers of libibverbs have things, on x86-64 and on arm64.
//!
//! The compiler checks the table against `c`. `scripts/checks/provider-layouts.sh` checks it against the headers of
//! releases of libibverbs, for which `scripts/checks/provider-abi.py` turns it into C; so it has the names of both.

use super::{
    c,
    wr, //
};
use core::mem::offset_of;

/// Size of a type, or offset of a field.
macro_rules! place {
    ($module:ident::$name:ident) => {
        size_of::<$module::$name>()
    };
    ($module:ident::$name:ident.$field:ident) => {
        offset_of!($module::$name, $field)
    };
}

// `is at least`: releases have different sizes.
macro_rules! layouts {
    ($($module:ident::$name:ident $(.$field:ident)? is $(at $least:ident)?
        $c:literal $x86_64:literal $aarch64:literal;)+) => {
        $(const _: () = {
            let expected = if cfg!(target_arch = "aarch64") { $aarch64 } else { $x86_64 };
            assert!(place!($module::$name $(.$field)?) == expected);
        };)+
    };
}

layouts! {
    c::Context is "struct ibv_context" 328 336;
    c::Context.device is "struct ibv_context.device" 0 0;
    c::Context.cmd_fd is "struct ibv_context.cmd_fd" 264 264;
    c::Context.async_fd is "struct ibv_context.async_fd" 268 268;
    c::VerbsDevice is "struct verbs_device" 712 712;
    c::Pd is "struct ibv_pd" 16 16;
    c::Pd.handle is "struct ibv_pd.handle" 8 8;
    c::Td is "struct ibv_td" 8 8;
    c::TdInitAttr is "struct ibv_td_init_attr" 4 4;
    c::ParentDomainInitAttr.td is "struct ibv_parent_domain_init_attr.td" 8 8;
    c::ParentDomainInitAttr.comp_mask is "struct ibv_parent_domain_init_attr.comp_mask" 16 16;
    c::Xrcd is "struct verbs_xrcd" 16 16;
    c::Mr is "struct verbs_mr" 56 56;
    c::Mr.handle is "struct ibv_mr.handle" 32 32;
    c::Mr.lkey is "struct ibv_mr.lkey" 36 36;
    c::Mr.rkey is "struct ibv_mr.rkey" 40 40;
    c::Mw is "struct ibv_mw" 32 32;
    c::Mw.rkey is "struct ibv_mw.rkey" 16 16;
    c::Mw.handle is "struct ibv_mw.handle" 20 20;
    c::Mw.kind is "struct ibv_mw.type" 24 24;
    c::Ah is "struct ibv_ah" 24 24;
    c::Ah.handle is "struct ibv_ah.handle" 16 16;
    c::Cq is "struct ibv_cq" 128 136;
    c::Cq.handle is "struct ibv_cq.handle" 24 24;
    c::Cq.cqe is "struct ibv_cq.cqe" 28 28;
    c::CqEx is "struct ibv_cq_ex" 288 296;
    c::CqEx.status is "struct ibv_cq_ex.status" 132 140;
    c::CqEx.wr_id is "struct ibv_cq_ex.wr_id" 136 144;
    c::CqEx.functions is "struct ibv_cq_ex.start_poll" 144 152;
    c::Srq is "struct verbs_srq" 160 168;
    c::Srq.pd is "struct ibv_srq.pd" 16 16;
    c::Srq.handle is "struct ibv_srq.handle" 24 24;
    c::Srq.kind is "struct verbs_srq.srq_type" 128 136;
    c::Srq.srq_num is "struct verbs_srq.srq_num" 152 160;
    c::Qp is "struct ibv_qp" 160 168;
    c::Qp.send_cq is "struct ibv_qp.send_cq" 24 24;
    c::Qp.handle is "struct ibv_qp.handle" 48 48;
    c::Qp.qp_num is "struct ibv_qp.qp_num" 52 52;
    c::Qp.state is "struct ibv_qp.state" 56 56;
    c::Qp.kind is "struct ibv_qp.qp_type" 60 60;
    c::VerbsQp is at least "struct verbs_qp" 376 384;
    c::VerbsQp.wr_id is "struct ibv_qp_ex.wr_id" 168 176;
    c::VerbsQp.wr_flags is "struct ibv_qp_ex.wr_flags" 176 184;
    c::VerbsQp.functions is "struct ibv_qp_ex.wr_atomic_cmp_swp" 184 192;
    c::QpInitAttr.cap is "struct ibv_qp_init_attr.cap" 32 32;
    c::QpInitAttr.qp_type is "struct ibv_qp_init_attr.qp_type" 52 52;
    c::QpInitAttrEx.comp_mask is "struct ibv_qp_init_attr_ex.comp_mask" 60 60;
    c::QpInitAttrEx.pd is "struct ibv_qp_init_attr_ex.pd" 64 64;
    c::QpInitAttrEx.create_flags is "struct ibv_qp_init_attr_ex.create_flags" 80 80;
    c::QpInitAttrEx.send_ops_flags is "struct ibv_qp_init_attr_ex.send_ops_flags" 128 128;
    c::QpInitAttrEx is "struct ibv_qp_init_attr_ex" 136 136;
    c::CqInitAttrEx.wc_flags is "struct ibv_cq_init_attr_ex.wc_flags" 32 32;
    c::CqInitAttrEx.comp_mask is "struct ibv_cq_init_attr_ex.comp_mask" 40 40;
    c::CqInitAttrEx.flags is "struct ibv_cq_init_attr_ex.flags" 44 44;
    c::CqInitAttrEx is at least "struct ibv_cq_init_attr_ex" 56 56;
    c::SrqInitAttr.max_sge is "struct ibv_srq_init_attr.attr.max_sge" 12 12;
    c::SrqInitAttrEx.comp_mask is "struct ibv_srq_init_attr_ex.comp_mask" 20 20;
    c::SrqInitAttrEx.srq_type is "struct ibv_srq_init_attr_ex.srq_type" 24 24;
    c::Wc is "struct ibv_wc" 48 48;
    c::Wc.wc_flags is "struct ibv_wc.wc_flags" 36 36;
    c::Wc.dlid_path_bits is "struct ibv_wc.dlid_path_bits" 45 45;
    c::MwBind is "struct ibv_mw_bind" 48 48;
    c::MwBind.info is "struct ibv_mw_bind.bind_info" 16 16;
    c::MwBindInfo is "struct ibv_mw_bind_info" 32 32;
    c::DataBuf is "struct ibv_data_buf" 16 16;
    c::ValuesEx is "struct ibv_values_ex" 24 24;
    wr::Sge is "struct ibv_sge" 16 16;
    wr::SendWr is "struct ibv_send_wr" 128 128;
    wr::RecvWr is "struct ibv_recv_wr" 32 32;
}
