// SPDX-License-Identifier: GPL-2.0

//! Operations on completion counters: see `ops` for the contract.

// The condition of all functions that C calls is the contract.
#![allow(clippy::missing_safety_doc)]

use super::{
    c::{
        self,
        Function, //
    },
    cmd::{
        self,
        AttachAttr,
        CapsQuery,
        CntrChange,
        CntrValue, //
    },
    object::{
        give,
        returned,
        take_back,
        CompCntr,
        Context,
        Object,
        Qp, //
    },
};
use crate::{
    abi::ops::Op,
    comp_cntr,
    errno::Errno, //
};
use core::ffi::c_int;

/// Number of operations.
pub(super) const COUNT: usize = 10;

/// Returns the operations, with their functions.
pub(super) fn table() -> [(Op, Function); COUNT] {
    [
        (Op::CreateCompCntr, create_comp_cntr as Function),
        (Op::DestroyCompCntr, destroy_comp_cntr as Function),
        (Op::IncCompCntr, inc_comp_cntr as Function),
        (Op::IncErrCompCntr, inc_err_comp_cntr as Function),
        (Op::QpAttachCompCntr, qp_attach_comp_cntr as Function),
        (Op::QueryCompCntrCaps, query_comp_cntr_caps as Function),
        (Op::ReadCompCntr, read_comp_cntr as Function),
        (Op::ReadErrCompCntr, read_err_comp_cntr as Function),
        (Op::SetCompCntr, set_comp_cntr as Function),
        (Op::SetErrCompCntr, set_err_comp_cntr as Function),
    ]
}

unsafe extern "C" fn query_comp_cntr_caps(
    context: *mut c::Context,
    caps: *mut c::CompCntrCaps,
    size: usize,
) -> c_int {
    // SAFETY: By the contract, the context is ours.
    let context = unsafe { Context::from_c(context) };
    returned(cmd::query_comp_cntr_caps(context, CapsQuery { caps, size }))
}

unsafe extern "C" fn create_comp_cntr(
    context: *mut c::Context,
    attr: *mut c::CompCntrInitAttr,
) -> *mut c::CompCntr {
    // SAFETY: By the contract, the context is ours, and the attributes may be read.
    give(unsafe { comp_cntr::create(Context::from_c(context), &*attr) })
}

unsafe extern "C" fn destroy_comp_cntr(counter: *mut c::CompCntr) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe {
        take_back(counter, |counter: &CompCntr| {
            cmd::destroy_comp_cntr(counter)
        })
    }
}

/// Changes a value.
///
/// # Safety
///
/// By the contract, the counter is ours.
unsafe fn change(counter: *mut c::CompCntr, change: CntrChange) -> c_int {
    // SAFETY: By the contract, the counter is ours.
    returned(cmd::change_comp_cntr(
        unsafe { Object::from_c(counter) },
        change,
    ))
}

unsafe extern "C" fn set_comp_cntr(counter: *mut c::CompCntr, value: u64) -> c_int {
    // SAFETY: By the contract.
    unsafe { change(counter, CntrChange::Set(value)) }
}

unsafe extern "C" fn set_err_comp_cntr(counter: *mut c::CompCntr, value: u64) -> c_int {
    // SAFETY: By the contract.
    unsafe { change(counter, CntrChange::SetErr(value)) }
}

unsafe extern "C" fn inc_comp_cntr(counter: *mut c::CompCntr, amount: u64) -> c_int {
    // SAFETY: By the contract.
    unsafe { change(counter, CntrChange::Inc(amount)) }
}

unsafe extern "C" fn inc_err_comp_cntr(counter: *mut c::CompCntr, amount: u64) -> c_int {
    // SAFETY: By the contract.
    unsafe { change(counter, CntrChange::IncErr(amount)) }
}

/// Reads a value.
///
/// # Safety
///
/// By the contract, the counter is ours, and the value may be written.
unsafe fn read(
    counter: *mut c::CompCntr,
    value: *mut u64,
    read: fn(&CompCntr, CntrValue) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: By the contract, the counter is ours.
    returned(read(unsafe { Object::from_c(counter) }, CntrValue(value)))
}

unsafe extern "C" fn read_comp_cntr(counter: *mut c::CompCntr, value: *mut u64) -> c_int {
    // SAFETY: By the contract.
    unsafe { read(counter, value, cmd::read_comp_cntr) }
}

unsafe extern "C" fn read_err_comp_cntr(counter: *mut c::CompCntr, value: *mut u64) -> c_int {
    // SAFETY: By the contract.
    unsafe { read(counter, value, cmd::read_err_comp_cntr) }
}

unsafe extern "C" fn qp_attach_comp_cntr(
    qp: *mut c::VerbsQp,
    counter: *mut c::CompCntr,
    attr: *mut c::AttachCompCntrAttr,
) -> c_int {
    // SAFETY: By the contract, both objects are ours.
    let (qp, counter): (&Qp, &CompCntr) = unsafe { (Object::from_c(qp), Object::from_c(counter)) };
    returned(cmd::attach_comp_cntr(qp, counter, AttachAttr(attr)))
}
