// SPDX-License-Identifier: GPL-2.0

//! Operations on protection domains, regions and windows: see `ops` for the contract.

// The condition of all functions that C calls is the contract.
#![allow(clippy::missing_safety_doc)]

use super::{
    attr::ParentAttr,
    c,
    cmd::{
        self,
        Advice,
        DmaBuf,
        Range, //
    },
    object::{
        give,
        returned,
        take_back,
        Context,
        Mr,
        Mw,
        Object,
        Pd,
        Td, //
    },
    wr::Sge,
};
use crate::{
    mr,
    pd, //
};
use core::ffi::{
    c_int,
    c_void, //
};

pub(super) unsafe extern "C" fn alloc_pd(context: *mut c::Context) -> *mut c::Pd {
    // SAFETY: By the contract, the context is ours.
    give(pd::allocate(unsafe { Context::from_c(context) }))
}

pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut c::Pd) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(pd, |pd: &Pd| pd::deallocate(pd)) }
}

pub(super) unsafe extern "C" fn alloc_td(
    context: *mut c::Context,
    attr: *mut c::TdInitAttr,
) -> *mut c::Td {
    // SAFETY: By the contract, the context is ours, and the attributes may be read.
    give(unsafe { pd::allocate_td(Context::from_c(context), (*attr).comp_mask) })
}

pub(super) unsafe extern "C" fn dealloc_td(td: *mut c::Td) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(td, |td: &Td| td.body().check_none()) }
}

pub(super) unsafe extern "C" fn alloc_parent_domain(
    context: *mut c::Context,
    attr: *mut c::ParentDomainInitAttr,
) -> *mut c::Pd {
    // SAFETY: By the contract, the context is ours, the attributes may be read, and its domains are of the context.
    give(unsafe { pd::allocate_parent(Context::from_c(context), ParentAttr::from_c(attr)) })
}

pub(super) unsafe extern "C" fn import_pd(context: *mut c::Context, handle: u32) -> *mut c::Pd {
    // SAFETY: By the contract, the context is ours.
    give(pd::import(unsafe { Context::from_c(context) }, handle))
}

pub(super) unsafe extern "C" fn unimport_pd(pd: *mut c::Pd) {
    // SAFETY: By the contract, the object is ours, and the program uses it no more. The verb cannot fail: a domain that
    // a parent domain still refers to stays.
    unsafe { take_back(pd, |pd: &Pd| pd.body().users().check_none()) };
}

pub(super) unsafe extern "C" fn reg_mr(
    pd: *mut c::Pd,
    addr: *mut c_void,
    length: usize,
    hca_va: u64,
    access: c_int,
) -> *mut c::Mr {
    let range = Range {
        addr,
        length,
        hca_va,
        access,
    };
    // SAFETY: By the contract, the domain is ours.
    give(mr::register(unsafe { Object::from_c(pd) }, range))
}

pub(super) unsafe extern "C" fn rereg_mr(
    mr: *mut c::Mr,
    flags: c_int,
    pd: *mut c::Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let range = Range {
        addr,
        length,
        hca_va: addr as u64,
        access,
    };
    // SAFETY: By the contract, the region is ours, and so is the domain if there is one.
    let (mr, pd): (&Mr, Option<&Pd>) = unsafe {
        (
            Object::from_c(mr),
            (!pd.is_null()).then(|| Object::from_c(pd)),
        )
    };
    // CAST: The flags are bits.
    returned(cmd::rereg_mr(mr, flags as u32, pd, range))
}

pub(super) unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut c::Pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut c::Mr {
    let buffer = DmaBuf {
        offset,
        length,
        iova,
        fd,
        access,
    };
    // SAFETY: By the contract, the domain is ours.
    give(mr::register_dma_buf(unsafe { Object::from_c(pd) }, buffer))
}

pub(super) unsafe extern "C" fn advise_mr(
    pd: *mut c::Pd,
    advice: u32,
    flags: u32,
    list: *mut Sge,
    count: u32,
) -> c_int {
    let advice = Advice {
        advice,
        flags,
        list,
        count,
    };
    // SAFETY: By the contract, the domain is ours.
    returned(cmd::advise_mr(unsafe { Object::from_c(pd) }, advice))
}

pub(super) unsafe extern "C" fn import_mr(pd: *mut c::Pd, handle: u32) -> *mut c::Mr {
    // SAFETY: By the contract, the domain is ours.
    give(mr::import(unsafe { Object::from_c(pd) }, handle))
}

pub(super) unsafe extern "C" fn unimport_mr(mr: *mut c::Mr) {
    // SAFETY: By the contract, the object is ours, and the program uses it no more. The verb cannot fail.
    unsafe { take_back(mr, |_: &Mr| Ok(())) };
}

pub(super) unsafe extern "C" fn dereg_mr(mr: *mut c::Mr) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(mr, |mr: &Mr| cmd::dereg_mr(mr)) }
}

pub(super) unsafe extern "C" fn alloc_mw(pd: *mut c::Pd, kind: c_int) -> *mut c::Mw {
    // SAFETY: By the contract, the domain is ours.
    give(mr::allocate_window(unsafe { Object::from_c(pd) }, kind))
}

pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut c::Mw) -> c_int {
    // SAFETY: By the contract, the object is ours, and the program uses it no more.
    unsafe { take_back(mw, |mw: &Mw| cmd::dealloc_mw(mw)) }
}
