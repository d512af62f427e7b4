// SPDX-License-Identifier: GPL-2.0

//! The commands of protection domains, memory regions and memory windows.

use super::{
    any,
    call,
    Scratch, //
};
use crate::{
    errno::Errno,
    ffi::{
        object::{
            Context,
            Mr,
            Mw,
            Pd, //
        },
        symbols,
        wr::Sge, //
    },
};
use core::{
    ffi::{
        c_int,
        c_void, //
    },
    ptr, //
};

/// Allocates a protection domain.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn alloc_pd(context: Context<'_>, pd: &mut Pd) -> Result<(), Errno> {
    let (mut command, mut resp) = (Scratch::default(), [0_u32; 1]);
    call!(ibv_cmd_alloc_pd(
        context.raw(),
        pd.head(),
        any(&mut command),
        16,
        any(&mut resp),
        4
    ))
}

/// Frees a protection domain.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn dealloc_pd(pd: &Pd) -> Result<(), Errno> {
    call!(ibv_cmd_dealloc_pd(pd.head()))
}

/// Memory of the program that is registered.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(in crate::ffi) addr: *mut c_void,
    pub(in crate::ffi) length: usize,
    pub(in crate::ffi) hca_va: u64,
    pub(in crate::ffi) access: c_int,
}

/// Registers memory.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn reg_mr(pd: &Pd, range: Range, mr: &mut Mr) -> Result<(), Errno> {
    let (mut command, mut resp) = (Scratch::default(), [0_u32; 3]);
    call!(ibv_cmd_reg_mr(
        pd.head(),
        range.addr,
        range.length,
        range.hca_va,
        range.access,
        mr.head(),
        any(&mut command),
        48,
        any(&mut resp),
        12
    ))
}

/// Registers other memory, or with other rights, in the place of a region.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn rereg_mr(mr: &Mr, flags: u32, pd: Option<&Pd>, range: Range) -> Result<(), Errno> {
    let (mut command, mut resp) = (Scratch::default(), [0_u32; 2]);
    call!(ibv_cmd_rereg_mr(
        mr.head(),
        flags,
        range.addr,
        range.length,
        range.hca_va,
        range.access,
        pd.map_or(ptr::null_mut(), Pd::head),
        any(&mut command),
        56,
        any(&mut resp),
        8
    ))
}

/// A range of a DMA buffer that is registered.
#[derive(Clone, Copy)]
pub(crate) struct DmaBuf {
    pub(in crate::ffi) offset: u64,
    pub(in crate::ffi) length: usize,
    pub(in crate::ffi) iova: u64,
    pub(in crate::ffi) fd: c_int,
    pub(in crate::ffi) access: c_int,
}

/// Registers a range of a DMA buffer.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn reg_dmabuf_mr(pd: &Pd, buffer: DmaBuf, mr: &mut Mr) -> Result<(), Errno> {
    call!(ibv_cmd_reg_dmabuf_mr(
        pd.head(),
        buffer.offset,
        buffer.length,
        buffer.iova,
        buffer.fd,
        buffer.access,
        mr.head(),
        ptr::null_mut()
    ))
}

/// Advice of a program about memory.
#[derive(Clone, Copy)]
pub(crate) struct Advice {
    pub(in crate::ffi) advice: u32,
    pub(in crate::ffi) flags: u32,
    pub(in crate::ffi) list: *mut Sge,
    pub(in crate::ffi) count: u32,
}

/// Advises the kernel about memory.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn advise_mr(pd: &Pd, advice: Advice) -> Result<(), Errno> {
    call!(ibv_cmd_advise_mr(
        pd.head(),
        advice.advice,
        advice.flags,
        advice.list,
        advice.count
    ))
}

/// Makes `mr` the region of the kernel with this handle.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_mr(pd: &Pd, handle: u32, mr: &mut Mr) -> Result<(), Errno> {
    call!(ibv_cmd_query_mr(pd.head(), mr.head(), handle))
}

/// Ends a registration.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn dereg_mr(mr: &Mr) -> Result<(), Errno> {
    call!(ibv_cmd_dereg_mr(mr.head()))
}

/// Allocates a memory window.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn alloc_mw(pd: &Pd, kind: c_int, mw: &mut Mw) -> Result<(), Errno> {
    let (mut command, mut resp) = (Scratch::default(), [0_u32; 2]);
    call!(ibv_cmd_alloc_mw(
        pd.head(),
        kind,
        mw.head(),
        any(&mut command),
        24,
        any(&mut resp),
        8
    ))
}

/// Frees a memory window.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn dealloc_mw(mw: &Mw) -> Result<(), Errno> {
    call!(ibv_cmd_dealloc_mw(mw.head()))
}
