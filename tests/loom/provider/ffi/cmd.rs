// SPDX-License-Identifier: GPL-2.0

//! Replaces `tools/provider/src/ffi/cmd`: the commands of libibverbs, at the model of the kernel.

use super::{
    attr::{
        CqAttrEx,
        QpAttr,
        QpAttrEx, //
    },
    object::{
        Context,
        Cq,
        Pd,
        Qp, //
    },
};
use crate::{
    abi::direct::{
        CreateQpResp,
        Mapping, //
    },
    errno::Errno,
    kernel::current,
};

/// How many completions fit.
#[derive(Clone, Copy)]
pub(crate) struct CqArguments {
    pub(crate) cqe: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct OpenQp;

/// The state that a QP is to have.
#[derive(Clone, Copy)]
pub(crate) struct QpState;

impl QpState {
    pub(crate) fn is_reset(self) -> bool {
        false
    }
}

pub(crate) fn create_cq(
    _context: Context<'_>,
    arguments: CqArguments,
    cq: &mut Cq,
) -> Result<Mapping, Errno> {
    let (handle, mapping) = current().create_cq(arguments.cqe);
    // SAFETY: The head is valid, and the queue is ours alone as yet.
    unsafe { (*cq.head()).cq.handle = handle };
    Ok(mapping)
}

pub(crate) fn create_cq_ex(
    _context: Context<'_>,
    _attr: CqAttrEx<'_>,
    _cq: &mut Cq,
) -> Result<Mapping, Errno> {
    Err(Errno::OPNOTSUPP)
}

pub(crate) fn resize_cq(_cq: &Cq, _cqe: i32) -> Result<Mapping, Errno> {
    Err(Errno::OPNOTSUPP)
}

pub(crate) fn destroy_cq(_cq: &Cq) -> Result<(), Errno> {
    Ok(())
}

pub(crate) fn req_notify_cq(cq: &Cq, _solicited_only: i32) -> Result<(), Errno> {
    // SAFETY: The head is valid, and the handle does not change.
    current().arm(unsafe { (*cq.head()).cq.handle });
    Ok(())
}

pub(crate) fn create_qp(_pd: &Pd, attr: QpAttr<'_>, qp: &mut Qp) -> Result<CreateQpResp, Errno> {
    const RTS: u32 = 3;
    let (handle, send) = current().create_qp(attr.cap().max_send_wr);
    // SAFETY: The head is valid, and the QP is ours alone as yet.
    let head = unsafe { &mut (*qp.head()).qp };
    head.handle = handle;
    head.qp_num = handle;
    head.state = RTS;
    Ok(CreateQpResp {
        receive: Mapping::default(),
        send,
    })
}

pub(crate) fn create_qp_ex(
    _context: Context<'_>,
    _attr: QpAttrEx<'_>,
    _qp: &mut Qp,
) -> Result<(CreateQpResp, usize), Errno> {
    Err(Errno::OPNOTSUPP)
}

pub(crate) fn open_qp(_context: Context<'_>, _target: OpenQp, _qp: &mut Qp) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

pub(crate) fn modify_qp(_qp: &Qp, _state: QpState) -> Result<(), Errno> {
    Ok(())
}

pub(crate) fn destroy_qp(qp: &Qp) -> Result<(), Errno> {
    current().destroy_qp(qp.handle());
    Ok(())
}

impl Cq {
    /// Of `ffi::polling`.
    pub(crate) fn set_readers(&mut self, _wanted: u64) {}
}

impl Qp {
    /// Of `ffi::builder`.
    pub(crate) fn set_builder(&mut self, _wanted: u64, _comp_mask: usize, _is_xrc: bool) {}
}
