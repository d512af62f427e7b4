// SPDX-License-Identifier: GPL-2.0

//! The commands of completion queues, shared receive queues and QPs, whose responses say where their rings are.

use super::{
    any,
    call,
    Resp,
    Scratch, //
};
use crate::{
    abi::{
        direct::{
            CreateQpResp,
            CreateSrqResp,
            Mapping, //
        },
        version::QP_COMP_MASKS,
    },
    errno::Errno,
    ffi::{
        attr::{
            CqAttrEx,
            QpAttr,
            QpAttrEx, //
        },
        c,
        libc,
        object::{
            Context,
            Cq,
            Pd,
            Qp,
            Srq, //
        },
        symbols, //
    },
};
use core::{
    ffi::c_int,
    ptr, //
};

/// Arguments of `create_cq`.
#[derive(Clone, Copy)]
pub(crate) struct CqArguments {
    pub(in crate::ffi) cqe: c_int,
    pub(in crate::ffi) channel: *mut c::CompChannel,
    pub(in crate::ffi) comp_vector: c_int,
}

/// Creates a completion queue.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn create_cq(
    context: Context<'_>,
    arguments: CqArguments,
    cq: &mut Cq,
) -> Result<Mapping, Errno> {
    let mut resp = Resp::<2, Mapping>::default();
    let size = size_of_val(&resp);
    call!(ibv_cmd_create_cq(
        context.raw(),
        arguments.cqe,
        arguments.channel,
        arguments.comp_vector,
        cq.head(),
        ptr::null_mut(),
        0,
        any(&mut resp),
        size
    ))?;
    Ok(resp.driver)
}

/// Creates a completion queue with extended attributes.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn create_cq_ex(
    context: Context<'_>,
    attr: CqAttrEx<'_>,
    cq: &mut Cq,
) -> Result<Mapping, Errno> {
    let mut resp = Resp::<4, Mapping>::default();
    let (at, size, head) = (
        any(&mut resp) as usize,
        size_of_val(&resp),
        cq.head() as usize,
    );
    let version = symbols::get().ok_or(Errno::OPNOTSUPP)?.version;
    // No command, no flags, and no attributes of the provider where there could be some.
    let [a, b, c, d, e, f, g] = match version.cq_has_provider_attr() {
        true => [0, head, 0, 0, at, size, 0],
        false => [head, 0, 0, at, size, 0, 0],
    };
    call!(ibv_cmd_create_cq_ex(
        context.raw(),
        attr.raw(),
        a,
        b,
        c,
        d,
        e,
        f,
        g
    ))?;
    Ok(resp.driver)
}

/// Asks for an event at the next completion.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn req_notify_cq(cq: &Cq, solicited_only: c_int) -> Result<(), Errno> {
    call!(ibv_cmd_req_notify_cq(cq.head(), solicited_only))
}

/// Resizes a completion queue.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn resize_cq(cq: &Cq, cqe: c_int) -> Result<Mapping, Errno> {
    let mut command = Scratch::default();
    let mut resp = Resp::<2, Mapping>::default();
    let size = size_of_val(&resp);
    call!(ibv_cmd_resize_cq(
        cq.head(),
        cqe,
        any(&mut command),
        24,
        any(&mut resp),
        size
    ))?;
    Ok(resp.driver)
}

/// How a program wants the events of a completion queue.
#[derive(Clone, Copy)]
pub(crate) struct Moderation(pub(in crate::ffi) *mut c::ModifyCqAttr);

/// Changes a completion queue.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn modify_cq(cq: &Cq, moderation: Moderation) -> Result<(), Errno> {
    let mut command = Scratch::default();
    call!(ibv_cmd_modify_cq(
        cq.head(),
        moderation.0,
        any(&mut command),
        40
    ))
}

/// Destroys a completion queue. Waits until its events are acknowledged.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn destroy_cq(cq: &Cq) -> Result<(), Errno> {
    call!(ibv_cmd_destroy_cq(cq.head()))
}

/// Creates a shared receive queue.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn create_srq(
    pd: &Pd,
    attr: &mut c::SrqInitAttr,
    srq: &mut Srq,
) -> Result<CreateSrqResp, Errno> {
    let mut command = Scratch::default();
    let mut resp = Resp::<4, CreateSrqResp>::default();
    let size = size_of_val(&resp);
    call!(ibv_cmd_create_srq(
        pd.head(),
        srq.head(),
        attr,
        any(&mut command),
        40,
        any(&mut resp),
        size
    ))?;
    Ok(resp.driver)
}

/// Creates a shared receive queue with extended attributes.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn create_srq_ex(
    context: Context<'_>,
    attr: *mut c::SrqInitAttrEx,
    srq: &mut Srq,
) -> Result<CreateSrqResp, Errno> {
    let mut command = Scratch::default();
    let mut resp = Resp::<4, CreateSrqResp>::default();
    let size = size_of_val(&resp);
    call!(ibv_cmd_create_srq_ex(
        context.raw(),
        srq.head(),
        attr,
        any(&mut command),
        56,
        any(&mut resp),
        size
    ))?;
    Ok(resp.driver)
}

/// What a program passes to `modify_srq` and `query_srq`.
#[derive(Clone, Copy)]
pub(crate) struct SrqAttr(pub(in crate::ffi) *mut c::SrqAttr);

/// Changes a shared receive queue. Returns the new ring if it is resized.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn modify_srq(srq: &Srq, attr: SrqAttr, mask: c_int) -> Result<Option<Mapping>, Errno> {
    const MAX_WR: c_int = 1;
    #[repr(C)]
    struct Command {
        core: [u64; 3],
        mapping_addr: u64,
    }
    let mut mapping = Mapping::default();
    let mut command = Command {
        core: [0; 3],
        mapping_addr: any(&mut mapping) as u64,
    };
    // The kernel wants the address in any case.
    let size = size_of_val(&command);
    call!(ibv_cmd_modify_srq(
        srq.head(),
        attr.0,
        mask,
        any(&mut command),
        size
    ))?;
    // SAFETY: `mapping` is our own. The kernel has written to it behind the compiler's back.
    Ok((mask & MAX_WR != 0).then(|| unsafe { ptr::read_volatile(&raw const mapping) }))
}

/// Queries a shared receive queue.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_srq(srq: &Srq, attr: SrqAttr) -> Result<(), Errno> {
    let mut command = Scratch::default();
    call!(ibv_cmd_query_srq(srq.head(), attr.0, any(&mut command), 24))
}

/// Destroys a shared receive queue.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn destroy_srq(srq: &Srq) -> Result<(), Errno> {
    call!(ibv_cmd_destroy_srq(srq.head()))
}

/// Creates a QP.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn create_qp(pd: &Pd, attr: QpAttr<'_>, qp: &mut Qp) -> Result<CreateQpResp, Errno> {
    let mut command = Scratch::default();
    let mut resp = Resp::<8, CreateQpResp>::default();
    let size = size_of_val(&resp);
    call!(ibv_cmd_create_qp(
        pd.head(),
        qp.head().cast(),
        attr.raw(),
        any(&mut command),
        64,
        any(&mut resp),
        size
    ))?;
    Ok(resp.driver)
}

/// Creates a QP with extended attributes. Returns the offset of `comp_mask` in its structure, too.
///
/// # Errors
///
/// The kernel's; `EOPNOTSUPP` for a libibverbs whose structure is not known.
pub(crate) fn create_qp_ex(
    context: Context<'_>,
    attr: QpAttrEx<'_>,
    qp: &mut Qp,
) -> Result<(CreateQpResp, usize), Errno> {
    const SENTINEL: u32 = u32::MAX;
    let mut command = Scratch::default();
    let mut resp = Resp::<10, CreateQpResp>::default();
    let size = size_of_val(&resp);
    let offsets = QP_COMP_MASKS.map(|behind| behind.wrapping_add(size_of::<c::Qp>()));
    let words = offsets.map(|offset| {
        // SAFETY: All of these offsets are inside the structure, and aligned.
        unsafe { qp.head().byte_add(offset).cast::<u32>() }
    });
    for word in words {
        // SAFETY: The structure is ours alone as yet. Only functions and masks are there, no field that
        // libibverbs has set before.
        unsafe { word.write_volatile(SENTINEL) };
    }
    call!(ibv_cmd_create_qp_ex2(
        context.raw(),
        qp.head(),
        attr.raw(),
        any(&mut command),
        88,
        any(&mut resp),
        size,
        ptr::null_mut()
    ))?;
    let mut found = None;
    for (word, offset) in words.into_iter().zip(offsets) {
        // SAFETY: As above. Behind the mask, libibverbs may have written the half of a pointer, which is aligned.
        unsafe {
            match word.read_volatile() {
                SENTINEL => word.write_volatile(0),
                _ => found = found.or(Some(offset)),
            }
        }
    }
    if found.is_none() {
        libc::complain(&[b"ferroce: this libibverbs has a struct verbs_qp of unknown layout"]);
        // The program gets no QP: there is nothing to be done about a failure.
        let _ = destroy_qp(qp);
    }
    Ok((resp.driver, found.ok_or(Errno::OPNOTSUPP)?))
}

/// Which target of an XRC domain a program opens.
#[derive(Clone, Copy)]
pub(crate) struct OpenQp(pub(in crate::ffi) *mut c::QpOpenAttr);

/// Opens a target of an XRC domain.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn open_qp(context: Context<'_>, target: OpenQp, qp: &mut Qp) -> Result<(), Errno> {
    // CAST: It has some hundred bytes.
    const SIZE: c_int = size_of::<c::VerbsQp>() as c_int;
    let (mut command, mut resp) = (Scratch::default(), [0_u32; 8]);
    call!(ibv_cmd_open_qp(
        context.raw(),
        qp.head(),
        SIZE,
        target.0,
        any(&mut command),
        40,
        any(&mut resp),
        32
    ))
}

/// What a program passes to `query_qp` and `modify_qp`.
#[derive(Clone, Copy)]
pub(crate) struct QpState {
    pub(in crate::ffi) attr: *mut c::QpAttr,
    pub(in crate::ffi) mask: c_int,
}

impl QpState {
    /// Whether this leads to RESET.
    pub(crate) fn is_reset(self) -> bool {
        const STATE: c_int = 1 << 0;
        const RESET: u32 = 0;
        // SAFETY: By the contract of verbs the attributes may be read. They begin with the state.
        self.mask & STATE != 0 && unsafe { self.attr.cast::<u32>().read() } == RESET
    }
}

/// Queries a QP.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_qp(qp: &Qp, state: QpState, init: QpAttr<'_>) -> Result<(), Errno> {
    let mut command = Scratch::default();
    call!(ibv_cmd_query_qp(
        qp.head().cast(),
        state.attr,
        state.mask,
        init.raw(),
        any(&mut command),
        24
    ))
}

/// Changes a QP.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn modify_qp(qp: &Qp, state: QpState) -> Result<(), Errno> {
    let mut command = Scratch::default();
    call!(ibv_cmd_modify_qp(
        qp.head().cast(),
        state.attr,
        state.mask,
        any(&mut command),
        120
    ))
}

/// Destroys a QP.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn destroy_qp(qp: &Qp) -> Result<(), Errno> {
    call!(ibv_cmd_destroy_qp(qp.head().cast()))
}
