// SPDX-License-Identifier: GPL-2.0

//! The operations of a context, which libibverbs and programs call.
//!
//! They are called with objects of contexts of ours, with memory that may be read or written as the verb says, and
//! with objects that are not destroyed meanwhile. That is what the SAFETY comments below call the contract.

// The condition of all functions that C calls is the contract.
#![allow(clippy::missing_safety_doc)]

use super::{
    attr::{
        CqAttrEx,
        QpAttr,
        QpAttrEx,
        SrqAttrEx, //
    },
    c::{
        self,
        Function, //
    },
    cmd::{
        self,
        Address,
        CqArguments,
        DeviceQuery,
        Group,
        Moderation,
        OpenQp,
        PortQuery,
        QpState,
        SpeedQuery,
        SrqAttr,
        XrcdFile, //
    },
    comp_cntr_ops,
    entry::free_context,
    libc,
    memory_ops::{
        advise_mr,
        alloc_mw,
        alloc_parent_domain,
        alloc_pd,
        alloc_td,
        dealloc_mw,
        dealloc_pd,
        dealloc_td,
        dereg_mr,
        import_mr,
        import_pd,
        reg_dmabuf_mr,
        reg_mr,
        rereg_mr,
        unimport_mr,
        unimport_pd, //
    },
    object::{
        give,
        returned,
        take_back,
        Context,
        Cq,
        Mw,
        Object,
        Qp,
        Srq,
        Xrcd, //
    },
    wr::{
        Bind,
        Chain,
        RecvWr,
        SendWr, //
    },
};
use crate::{
    abi::ops::Op,
    ah,
    context,
    cq,
    cqe::Cqe,
    errno::Errno,
    post::BadWr,
    qp,
    srq,
    xrcd, //
};
use core::{
    ffi::{
        c_int,
        c_void, //
    },
    mem::MaybeUninit,
    slice, //
};

/// Returns all operations but those of `comp_cntr_ops`, with their functions.
pub(super) fn table() -> [(Op, Function); Op::ALL.len() - comp_cntr_ops::COUNT] {
    [
        (Op::AdviseMr, advise_mr as Function),
        (Op::AllocMw, alloc_mw as Function),
        (Op::AllocParentDomain, alloc_parent_domain as Function),
        (Op::AllocPd, alloc_pd as Function),
        (Op::AllocTd, alloc_td as Function),
        (Op::AttachMcast, attach_mcast as Function),
        (Op::BindMw, bind_mw as Function),
        (Op::CloseXrcd, close_xrcd as Function),
        (Op::CreateAh, create_ah as Function),
        (Op::CreateCq, create_cq as Function),
        (Op::CreateCqEx, create_cq_ex as Function),
        (Op::CreateQp, create_qp as Function),
        (Op::CreateQpEx, create_qp_ex as Function),
        (Op::CreateSrq, create_srq as Function),
        (Op::CreateSrqEx, create_srq_ex as Function),
        (Op::DeallocMw, dealloc_mw as Function),
        (Op::DeallocPd, dealloc_pd as Function),
        (Op::DeallocTd, dealloc_td as Function),
        (Op::DeregMr, dereg_mr as Function),
        (Op::DestroyAh, destroy_ah as Function),
        (Op::DestroyCq, destroy_cq as Function),
        (Op::DestroyQp, destroy_qp as Function),
        (Op::DestroySrq, destroy_srq as Function),
        (Op::DetachMcast, detach_mcast as Function),
        (Op::FreeContext, free_context as Function),
        (Op::GetSrqNum, get_srq_num as Function),
        (Op::ImportMr, import_mr as Function),
        (Op::ImportPd, import_pd as Function),
        (Op::ModifyCq, modify_cq as Function),
        (Op::ModifyQp, modify_qp as Function),
        (Op::ModifySrq, modify_srq as Function),
        (Op::OpenQp, open_qp as Function),
        (Op::OpenXrcd, open_xrcd as Function),
        (Op::PollCq, poll_cq as Function),
        (Op::PostRecv, post_recv as Function),
        (Op::PostSend, post_send as Function),
        (Op::PostSrqRecv, post_srq_recv as Function),
        (Op::QueryDeviceEx, query_device_ex as Function),
        (Op::QueryPort, query_port as Function),
        (Op::QueryPortSpeed, query_port_speed as Function),
        (Op::QueryQp, query_qp as Function),
        (Op::QueryRtValues, query_rt_values as Function),
        (Op::QuerySrq, query_srq as Function),
        (Op::RegDmabufMr, reg_dmabuf_mr as Function),
        (Op::RegMr, reg_mr as Function),
        (Op::ReqNotifyCq, req_notify_cq as Function),
        (Op::ReregMr, rereg_mr as Function),
        (Op::ResizeCq, resize_cq as Function),
        (Op::UnimportMr, unimport_mr as Function),
        (Op::UnimportPd, unimport_pd as Function),
    ]
}

unsafe extern "C" fn query_device_ex(
    context: *mut c::Context,
    input: *const c::QueryDeviceInput,
    attr: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: By the contract, the context is ours.
    let context = unsafe { Context::from_c(context) };
    returned(context::query_device(
        context,
        DeviceQuery { input, attr, size },
    ))
}

unsafe extern "C" fn query_port(
    context: *mut c::Context,
    port: u8,
    attr: *mut c::PortAttr,
) -> c_int {
    // SAFETY: By the contract, the context is ours.
    let context = unsafe { Context::from_c(context) };
    returned(context::query_port(context, PortQuery { port, attr }))
}

unsafe extern "C" fn query_port_speed(
    context: *mut c::Context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: By the contract, the context is ours.
    let context = unsafe { Context::from_c(context) };
    returned(cmd::query_port_speed(context, SpeedQuery { port, speed }))
}

unsafe extern "C" fn query_rt_values(_context: *mut c::Context, values: *mut c::ValuesEx) -> c_int {
    const RAW_CLOCK: u32 = 1;
    // SAFETY: By the contract, the values may be written.
    let values = unsafe { &mut *values };
    let mut known = 0;
    if values.comp_mask & RAW_CLOCK != 0 {
        match libc::raw_clock() {
            Ok(time) => {
                values.seconds = time.seconds;
                values.nanoseconds = time.nanoseconds;
                known = RAW_CLOCK;
            }
            Err(error) => return returned(Err(error)),
        }
    }
    values.comp_mask = known;
    0
}

unsafe extern "C" fn bind_mw(
    qp: *mut c::VerbsQp,
    mw: *mut c::Mw,
    request: *mut c::MwBind,
) -> c_int {
    // SAFETY: By the contract, both objects are ours, the request may be read, and its region is valid or null.
    let (qp, mw, request, bind): (&Qp, &Mw, _, _) = unsafe {
        let request = &*request;
        (
            Object::from_c(qp),
            Object::from_c(mw),
            request,
            Bind::new(0, 0, &request.info),
        )
    };
    returned(qp::bind_window(
        qp,
        mw,
        (request.wr_id, request.send_flags),
        bind,
    ))
}

unsafe extern "C" fn open_xrcd(
    context: *mut c::Context,
    attr: *mut c::XrcdInitAttr,
) -> *mut c::Xrcd {
    // SAFETY: By the contract, the context is ours.
    give(xrcd::open(
        unsafe { Context::from_c(context) },
        XrcdFile(attr),
    ))
}

unsafe extern "C" fn close_xrcd(xrcd: *mut c::Xrcd) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(xrcd, |xrcd: &Xrcd| cmd::close_xrcd(xrcd)) }
}

unsafe extern "C" fn create_cq(
    context: *mut c::Context,
    cqe: c_int,
    channel: *mut c::CompChannel,
    comp_vector: c_int,
) -> *mut c::CqEx {
    let arguments = CqArguments {
        cqe,
        channel,
        comp_vector,
    };
    // SAFETY: By the contract, the context is ours.
    give(cq::create(unsafe { Context::from_c(context) }, arguments))
}

unsafe extern "C" fn create_cq_ex(
    context: *mut c::Context,
    attr: *mut c::CqInitAttrEx,
) -> *mut c::CqEx {
    // SAFETY: By the contract, the context is ours, and the attributes are valid and not shared.
    give(unsafe { cq::create_ex(Context::from_c(context), CqAttrEx::from_c(attr)) })
}

unsafe extern "C" fn modify_cq(cq: *mut c::CqEx, attr: *mut c::ModifyCqAttr) -> c_int {
    // SAFETY: By the contract, the queue is ours.
    returned(cmd::modify_cq(
        unsafe { Object::from_c(cq) },
        Moderation(attr),
    ))
}

unsafe extern "C" fn resize_cq(cq: *mut c::CqEx, cqe: c_int) -> c_int {
    // SAFETY: By the contract, the queue is ours.
    returned(cq::resize(unsafe { Object::from_c(cq) }, cqe))
}

unsafe extern "C" fn destroy_cq(cq: *mut c::CqEx) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(cq, |cq: &Cq| cmd::destroy_cq(cq)) }
}

unsafe extern "C" fn req_notify_cq(cq: *mut c::CqEx, solicited_only: c_int) -> c_int {
    // SAFETY: By the contract, the queue is ours.
    returned(cq::request_event(
        unsafe { Object::from_c(cq) },
        solicited_only,
    ))
}

/// Converts a completion.
#[inline]
fn completion(cqe: Cqe) -> c::Wc {
    c::Wc {
        wr_id: cqe.wr_id,
        status: cqe.status,
        opcode: cqe.opcode,
        vendor_err: cqe.vendor_err,
        byte_len: cqe.byte_len,
        imm_or_key: cqe.imm_or_key,
        qp_num: cqe.qp_num,
        src_qp: cqe.src_qp,
        wc_flags: cqe.wc_flags,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

unsafe extern "C" fn poll_cq(
    cq: *mut c::CqEx,
    entries: c_int,
    wc: *mut MaybeUninit<c::Wc>,
) -> c_int {
    let entries = usize::try_from(entries).unwrap_or(0);
    if entries == 0 {
        return 0;
    }
    // SAFETY: By the contract, the queue is ours, and so many completions may be written.
    let (cq, to): (&Cq, _) =
        unsafe { (Object::from_c(cq), slice::from_raw_parts_mut(wc, entries)) };
    let polled = cq::poll(cq, entries, |at, cqe| {
        if let Some(slot) = to.get_mut(at) {
            slot.write(completion(cqe));
        }
    });
    polled
        .and_then(|polled| c_int::try_from(polled).ok())
        .unwrap_or(-1)
}

unsafe extern "C" fn create_srq(pd: *mut c::Pd, attr: *mut c::SrqInitAttr) -> *mut c::Srq {
    // SAFETY: By the contract, the domain is ours, and the attributes are valid and not shared.
    give(unsafe { srq::create(Object::from_c(pd), &mut *attr) })
}

unsafe extern "C" fn create_srq_ex(
    context: *mut c::Context,
    attr: *mut c::SrqInitAttrEx,
) -> *mut c::Srq {
    // SAFETY: By the contract, the context is ours, and the attributes are valid and not shared.
    give(unsafe { srq::create_ex(Context::from_c(context), SrqAttrEx::from_c(attr)) })
}

unsafe extern "C" fn modify_srq(srq: *mut c::Srq, attr: *mut c::SrqAttr, mask: c_int) -> c_int {
    // SAFETY: By the contract, the queue is ours.
    returned(srq::modify(
        unsafe { Object::from_c(srq) },
        SrqAttr(attr),
        mask,
    ))
}

unsafe extern "C" fn query_srq(srq: *mut c::Srq, attr: *mut c::SrqAttr) -> c_int {
    // SAFETY: By the contract, the queue is ours.
    returned(cmd::query_srq(
        unsafe { Object::from_c(srq) },
        SrqAttr(attr),
    ))
}

unsafe extern "C" fn get_srq_num(srq: *mut c::Srq, number: *mut u32) -> c_int {
    // SAFETY: By the contract, the queue is ours.
    let srq: &Srq = unsafe { Object::from_c(srq) };
    match srq.number() {
        0 => returned(Err(Errno::OPNOTSUPP)),
        found => {
            // SAFETY: By the contract, the number may be written.
            unsafe { number.write(found) };
            0
        }
    }
}

unsafe extern "C" fn destroy_srq(srq: *mut c::Srq) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(srq, |srq: &Srq| cmd::destroy_srq(srq)) }
}

unsafe extern "C" fn create_qp(pd: *mut c::Pd, attr: *mut c::QpInitAttr) -> *mut c::VerbsQp {
    // SAFETY: By the contract, the domain is ours, and the attributes are valid and not shared.
    give(unsafe { qp::create(Object::from_c(pd), QpAttr::from_c(attr)) })
}

unsafe extern "C" fn create_qp_ex(
    context: *mut c::Context,
    attr: *mut c::QpInitAttrEx,
) -> *mut c::VerbsQp {
    // SAFETY: By the contract, the context is ours, and the attributes are valid and not shared.
    give(unsafe { qp::create_ex(Context::from_c(context), QpAttrEx::from_c(attr)) })
}

unsafe extern "C" fn open_qp(
    context: *mut c::Context,
    attr: *mut c::QpOpenAttr,
) -> *mut c::VerbsQp {
    // SAFETY: By the contract, the context is ours.
    give(qp::open(unsafe { Context::from_c(context) }, OpenQp(attr)))
}

unsafe extern "C" fn query_qp(
    qp: *mut c::VerbsQp,
    attr: *mut c::QpAttr,
    mask: c_int,
    init: *mut c::QpInitAttr,
) -> c_int {
    // SAFETY: By the contract, the QP is ours, and both attributes may be written.
    let (qp, init): (&Qp, _) = unsafe { (Object::from_c(qp), QpAttr::from_c(init)) };
    returned(cmd::query_qp(qp, QpState { attr, mask }, init))
}

unsafe extern "C" fn modify_qp(qp: *mut c::VerbsQp, attr: *mut c::QpAttr, mask: c_int) -> c_int {
    // SAFETY: By the contract, the QP is ours.
    returned(qp::modify(
        unsafe { Object::from_c(qp) },
        QpState { attr, mask },
    ))
}

unsafe extern "C" fn destroy_qp(qp: *mut c::VerbsQp) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(qp, |qp: &Qp| qp::destroy(qp)) }
}

/// Converts the result of a list, and says which request was not posted.
///
/// # Safety
///
/// `bad` is null or may be written.
#[inline]
unsafe fn posted<W>(
    result: Result<(), BadWr<'_, W>>,
    bad: *mut *const W,
    first: *const W,
) -> c_int {
    let Err((error, wr)) = result else {
        return 0;
    };
    // SAFETY: The caller guarantees that it may be written if it is not null.
    if let Some(bad) = unsafe { bad.as_mut() } {
        *bad = wr.map_or(first, |wr| wr);
    }
    error.0
}

unsafe extern "C" fn post_send(
    qp: *mut c::VerbsQp,
    wr: *const SendWr,
    bad: *mut *const SendWr,
) -> c_int {
    // SAFETY: By the contract, the QP is ours, all requests may be read, and the bad one may be written.
    unsafe { posted(qp::post_send(Object::from_c(qp), Chain::new(wr)), bad, wr) }
}

unsafe extern "C" fn post_recv(
    qp: *mut c::VerbsQp,
    wr: *const RecvWr,
    bad: *mut *const RecvWr,
) -> c_int {
    // SAFETY: By the contract, the QP is ours, all requests may be read, and the bad one may be written.
    unsafe { posted(qp::post_recv(Object::from_c(qp), Chain::new(wr)), bad, wr) }
}

unsafe extern "C" fn post_srq_recv(
    srq: *mut c::Srq,
    wr: *const RecvWr,
    bad: *mut *const RecvWr,
) -> c_int {
    // SAFETY: By the contract, the queue is ours, all requests may be read, and the bad one may be written.
    unsafe { posted(srq::post(Object::from_c(srq), Chain::new(wr)), bad, wr) }
}

unsafe extern "C" fn create_ah(pd: *mut c::Pd, attr: *mut c::AhAttr) -> *mut c::Ah {
    // SAFETY: By the contract, the domain is ours.
    give(ah::create(unsafe { Object::from_c(pd) }, Address(attr)))
}

unsafe extern "C" fn destroy_ah(ah: *mut c::Ah) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(ah, cmd::destroy_ah) }
}

unsafe extern "C" fn attach_mcast(qp: *mut c::VerbsQp, gid: *const c::Gid, lid: u16) -> c_int {
    // SAFETY: By the contract, the QP is ours.
    returned(cmd::attach_mcast(
        unsafe { Object::from_c(qp) },
        Group { gid, lid },
    ))
}

unsafe extern "C" fn detach_mcast(qp: *mut c::VerbsQp, gid: *const c::Gid, lid: u16) -> c_int {
    // SAFETY: By the contract, the QP is ours.
    returned(cmd::detach_mcast(
        unsafe { Object::from_c(qp) },
        Group { gid, lid },
    ))
}
