// SPDX-License-Identifier: GPL-2.0

//! Commands of completion counters, which only the newest libibverbs has.

use super::call_if_there;
use crate::{
    errno::Errno,
    ffi::{
        c,
        object::{
            CompCntr,
            Context,
            Qp, //
        },
        symbols, //
    },
};
use core::ptr;

/// Where a program wants what a device says of its counters.
#[derive(Clone, Copy)]
pub(crate) struct CapsQuery {
    pub(in crate::ffi) caps: *mut c::CompCntrCaps,
    pub(in crate::ffi) size: usize,
}

/// Queries what the device says of its counters.
///
/// # Errors
///
/// `EOPNOTSUPP` before Linux 7.3; the kernel's.
pub(crate) fn query_comp_cntr_caps(context: Context<'_>, query: CapsQuery) -> Result<(), Errno> {
    let queried = call_if_there!(ibv_cmd_query_comp_cntr_caps(
        context.raw(),
        query.caps,
        query.size
    ));
    queried.map_err(Errno::of_missing_method)
}

/// Creates a counter of requests.
///
/// # Errors
///
/// As [`query_comp_cntr_caps`].
pub(crate) fn create_comp_cntr(context: Context<'_>, counter: &mut CompCntr) -> Result<(), Errno> {
    let created = call_if_there!(ibv_cmd_create_comp_cntr(
        context.raw(),
        counter.head(),
        ptr::null_mut()
    ));
    created.map_err(Errno::of_missing_method)
}

/// Destroys a counter.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn destroy_comp_cntr(counter: &CompCntr) -> Result<(), Errno> {
    call_if_there!(ibv_cmd_destroy_comp_cntr(counter.head()))
}

/// How a value of a counter is changed: that of successes, or (`Err`) that of failures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CntrChange {
    /// It becomes this.
    Set(u64),
    /// This is added.
    Inc(u64),
    /// As `Set`, of failures.
    SetErr(u64),
    /// As `Inc`, of failures.
    IncErr(u64),
}

/// Changes a value of a counter.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn change_comp_cntr(counter: &CompCntr, change: CntrChange) -> Result<(), Errno> {
    let head = counter.head();
    match change {
        CntrChange::Set(value) => call_if_there!(ibv_cmd_set_comp_cntr(head, value)),
        CntrChange::Inc(amount) => call_if_there!(ibv_cmd_inc_comp_cntr(head, amount)),
        CntrChange::SetErr(value) => call_if_there!(ibv_cmd_set_err_comp_cntr(head, value)),
        CntrChange::IncErr(amount) => call_if_there!(ibv_cmd_inc_err_comp_cntr(head, amount)),
    }
}

/// Where a program wants a value.
#[derive(Clone, Copy)]
pub(crate) struct CntrValue(pub(in crate::ffi) *mut u64);

/// Reads the successes.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn read_comp_cntr(counter: &CompCntr, value: CntrValue) -> Result<(), Errno> {
    call_if_there!(ibv_cmd_read_comp_cntr(counter.head(), value.0))
}

/// Reads the failures.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn read_err_comp_cntr(counter: &CompCntr, value: CntrValue) -> Result<(), Errno> {
    call_if_there!(ibv_cmd_read_err_comp_cntr(counter.head(), value.0))
}

/// What a QP is to count, as a program passes it.
#[derive(Clone, Copy)]
pub(crate) struct AttachAttr(pub(in crate::ffi) *mut c::AttachCompCntrAttr);

/// Attaches a counter to a QP.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn attach_comp_cntr(qp: &Qp, counter: &CompCntr, attr: AttachAttr) -> Result<(), Errno> {
    call_if_there!(ibv_cmd_qp_attach_comp_cntr(
        qp.head().cast(),
        counter.head(),
        attr.0
    ))
}
