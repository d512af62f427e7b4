// SPDX-License-Identifier: GPL-2.0

//! The functions of `struct ibv_qp_ex`, with which a program builds requests.
//!
//! Between `wr_start` and `wr_complete` or `wr_abort` the thread that builds holds the lock of the send queue: only
//! that thread may call the functions in between, so says the contract of verbs.

// The condition of all functions that C calls is the contract.
#![allow(clippy::missing_safety_doc)]

use super::{
    c::{
        self,
        Function, //
    },
    object::{
        Object,
        Qp, //
    },
    wr::{
        ah_number,
        list,
        Bind,
        Sge,
        UserBytes, //
    },
};
use crate::{
    errno::Errno,
    post::SendQueue,
    qp,
    wqe::{
        flag,
        opcode,
        Head,
        Operands,
        Target, //
    },
};
use core::{
    ffi::{
        c_int,
        c_void, //
    },
    mem::offset_of,
    slice, //
};

/// Bit of `comp_mask` of `struct verbs_qp`.
const VERBS_QP_EX: u32 = 1 << 1;

/// Places in [`c::VerbsQp::functions`], which begins at the first function.
mod place {
    pub(super) const ATOMIC_CMP_SWP: usize = 0;
    pub(super) const ATOMIC_FETCH_ADD: usize = 1;
    pub(super) const BIND_MW: usize = 2;
    pub(super) const LOCAL_INV: usize = 3;
    pub(super) const RDMA_READ: usize = 4;
    pub(super) const RDMA_WRITE: usize = 5;
    pub(super) const RDMA_WRITE_IMM: usize = 6;
    pub(super) const SEND: usize = 7;
    pub(super) const SEND_IMM: usize = 8;
    pub(super) const SEND_INV: usize = 9;
    pub(super) const SET_UD_ADDR: usize = 11;
    pub(super) const SET_XRC_SRQN: usize = 12;
    pub(super) const SET_INLINE_DATA: usize = 13;
    pub(super) const SET_INLINE_DATA_LIST: usize = 14;
    pub(super) const SET_SGE: usize = 15;
    pub(super) const SET_SGE_LIST: usize = 16;
    pub(super) const START: usize = 17;
    pub(super) const COMPLETE: usize = 18;
    pub(super) const ABORT: usize = 19;
    pub(super) const ATOMIC_WRITE: usize = 20;
    pub(super) const FLUSH: usize = 21;
}

impl Qp {
    /// Gives a QP that C does not know yet the functions of the operations that a program wants, of `enum
    /// ibv_qp_create_send_ops_flags`. `comp_mask` is the offset of the mask: the functions end before. `is_xrc`:
    /// requests name an SRQ.
    pub(crate) fn set_builder(&mut self, wanted: u64, comp_mask: usize, is_xrc: bool) {
        let operations: [(u32, usize, Function); 12] = [
            (0, place::RDMA_WRITE, wr_rdma_write as Function),
            (1, place::RDMA_WRITE_IMM, wr_rdma_write_imm as Function),
            (2, place::SEND, wr_send as Function),
            (3, place::SEND_IMM, wr_send_imm as Function),
            (4, place::RDMA_READ, wr_rdma_read as Function),
            (5, place::ATOMIC_CMP_SWP, wr_atomic_cmp_swp as Function),
            (6, place::ATOMIC_FETCH_ADD, wr_atomic_fetch_add as Function),
            (7, place::LOCAL_INV, wr_local_inv as Function),
            (8, place::BIND_MW, wr_bind_mw as Function),
            (9, place::SEND_INV, wr_send_inv as Function),
            (11, place::FLUSH, wr_flush as Function),
            (12, place::ATOMIC_WRITE, wr_atomic_write as Function),
        ];
        let setters: [(usize, Function); 8] = [
            (place::SET_UD_ADDR, wr_set_ud_addr as Function),
            (place::SET_INLINE_DATA, wr_set_inline_data as Function),
            (
                place::SET_INLINE_DATA_LIST,
                wr_set_inline_data_list as Function,
            ),
            (place::SET_SGE, wr_set_sge as Function),
            (place::SET_SGE_LIST, wr_set_sge_list as Function),
            (place::START, wr_start as Function),
            (place::COMPLETE, wr_complete as Function),
            (place::ABORT, wr_abort as Function),
        ];
        let wanted = |&(bit, _, _): &(u32, usize, Function)| (wanted >> bit) & 1 != 0;
        let chosen = operations
            .into_iter()
            .filter(wanted)
            .map(|(_, place, function)| (place, function));
        let xrc = is_xrc.then_some((place::SET_XRC_SRQN, wr_set_xrc_srqn as Function));
        let head = self.head();
        for (place, function) in chosen.chain(setters).chain(xrc) {
            let offset = offset_of!(c::VerbsQp, functions).wrapping_add(place.wrapping_mul(8));
            if offset < comp_mask {
                // SAFETY: The offset is before the mask, which is inside the structure, and aligned. The QP is ours
                // alone as yet.
                unsafe { head.byte_add(offset).cast::<Function>().write(function) };
            }
        }
        // SAFETY: The offset is that of a word inside the structure. The QP is ours alone as yet.
        unsafe { *head.byte_add(comp_mask).cast::<u32>() |= VERBS_QP_EX };
    }
}

/// Calls `f` with the send queue that the thread builds requests of.
///
/// # Safety
///
/// `qp` is a QP of ours, and the thread has called `wr_start` of it.
#[inline]
unsafe fn building(qp: *mut c::VerbsQp, f: impl FnOnce(&mut SendQueue)) {
    // SAFETY: The caller guarantees that the QP is ours.
    let object: &Qp = unsafe { Object::from_c(qp) };
    // SAFETY: The caller guarantees that `wr_start` has acquired the lock in this thread, and there is no other
    // reference, since each function of this file ends before the next is called.
    if let Some(queue) = unsafe { object.body().send.held() } {
        f(queue);
    }
}

/// Begins a request with the identifier and the flags that the program has set.
///
/// # Safety
///
/// As [`building`].
#[inline]
unsafe fn begin(qp: *mut c::VerbsQp, opcode: u8, imm_or_key: u32, target: Target) {
    // SAFETY: The caller guarantees all that `head` and `building` demand.
    unsafe {
        let head = head(qp, opcode, imm_or_key);
        building(qp, |queue| queue.begin(head, target));
    }
}

/// Returns the head of a request, with the identifier and the flags that the program has set.
///
/// # Safety
///
/// `qp` is a QP of ours.
#[inline]
unsafe fn head(qp: *mut c::VerbsQp, opcode: u8, imm_or_key: u32) -> Head {
    // SAFETY: The caller guarantees that the QP is ours, and the program sets the fields in the thread that builds.
    let (wr_id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
    Head {
        wr_id,
        opcode,
        // CAST: The mask has eight bits.
        flags: (flags & u32::from(flag::COMMON)) as u8,
        imm_or_key,
    }
}

// The functions of this file are called by programs, with a QP whose `struct ibv_qp_ex` they have, and in the order
// that verbs demand. That is what the SAFETY comments below call the contract.

unsafe extern "C" fn wr_start(qp: *mut c::VerbsQp) {
    // SAFETY: By the contract, the QP is ours.
    let object: &Qp = unsafe { Object::from_c(qp) };
    object.body().send.acquire();
    // SAFETY: The lock was just acquired.
    unsafe { building(qp, SendQueue::start) };
}

unsafe extern "C" fn wr_complete(qp: *mut c::VerbsQp) -> c_int {
    let (mut call, mut result) = (false, Err(Errno::INVAL));
    // SAFETY: By the contract, the QP is ours and the thread builds.
    let object: &Qp = unsafe {
        let object: &Qp = Object::from_c(qp);
        building(qp, |queue| {
            if !qp::may_send(object) {
                queue.start();
                return;
            }
            result = queue.finish().map(|published| {
                call = qp::needs_doorbell(object, queue, published);
            });
        });
        object.body().send.release();
        object
    };
    if call {
        result = qp::ring_doorbell(object);
    }
    result.map_or_else(|error| error.0, |()| 0)
}

unsafe extern "C" fn wr_abort(qp: *mut c::VerbsQp) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe {
        building(qp, SendQueue::start);
        let object: &Qp = Object::from_c(qp);
        object.body().send.release();
    }
}

unsafe extern "C" fn wr_send(qp: *mut c::VerbsQp) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin(qp, opcode::SEND, 0, Target::None) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut c::VerbsQp, imm: u32) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin(qp, opcode::SEND_WITH_IMM, imm, Target::None) };
}

unsafe extern "C" fn wr_send_inv(qp: *mut c::VerbsQp, key: u32) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin(qp, opcode::SEND_WITH_INV, key, Target::None) };
}

unsafe extern "C" fn wr_local_inv(qp: *mut c::VerbsQp, key: u32) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin(qp, opcode::LOCAL_INV, key, Target::None) };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut c::VerbsQp, rkey: u32, remote_addr: u64) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin(qp, opcode::RDMA_READ, 0, Target::Rdma { remote_addr, rkey }) };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut c::VerbsQp, rkey: u32, remote_addr: u64) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe {
        begin(
            qp,
            opcode::RDMA_WRITE,
            0,
            Target::Rdma { remote_addr, rkey },
        )
    };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut c::VerbsQp, rkey: u32, remote_addr: u64, imm: u32) {
    let target = Target::Rdma { remote_addr, rkey };
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin(qp, opcode::RDMA_WRITE_WITH_IMM, imm, target) };
}

/// Begins a request that has operands.
///
/// # Safety
///
/// As [`building`].
unsafe fn begin_operands(qp: *mut c::VerbsQp, opcode: u8, target: (u64, u32), operands: Operands) {
    let (remote_addr, rkey) = target;
    // SAFETY: The caller guarantees all that both demand.
    unsafe {
        begin(qp, opcode, 0, Target::Rdma { remote_addr, rkey });
        building(qp, |queue| queue.set_operands(operands));
    }
}

unsafe extern "C" fn wr_atomic_cmp_swp(
    qp: *mut c::VerbsQp,
    rkey: u32,
    remote_addr: u64,
    compare: u64,
    swap: u64,
) {
    let operands = Operands::Atomic {
        compare_add: compare,
        swap,
    };
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe {
        begin_operands(
            qp,
            opcode::ATOMIC_CMP_AND_SWP,
            (remote_addr, rkey),
            operands,
        )
    };
}

unsafe extern "C" fn wr_atomic_fetch_add(
    qp: *mut c::VerbsQp,
    rkey: u32,
    remote_addr: u64,
    add: u64,
) {
    let operands = Operands::Atomic {
        compare_add: add,
        swap: 0,
    };
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe {
        begin_operands(
            qp,
            opcode::ATOMIC_FETCH_AND_ADD,
            (remote_addr, rkey),
            operands,
        )
    };
}

unsafe extern "C" fn wr_atomic_write(
    qp: *mut c::VerbsQp,
    rkey: u32,
    remote_addr: u64,
    value: *const c_void,
) {
    // SAFETY: By the contract, there are eight bytes, aligned in some way.
    let value = unsafe { value.cast::<u64>().read_unaligned() };
    let operands = Operands::AtomicWrite { value };
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin_operands(qp, opcode::ATOMIC_WRITE, (remote_addr, rkey), operands) };
}

unsafe extern "C" fn wr_flush(
    qp: *mut c::VerbsQp,
    rkey: u32,
    remote_addr: u64,
    length: usize,
    placement: u8,
    level: u8,
) {
    // A length that the wire cannot express is refused by the kernel, as more than a region can have.
    let operands = Operands::Flush {
        length: u32::try_from(length).unwrap_or(u32::MAX),
        placement,
        level,
    };
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { begin_operands(qp, opcode::FLUSH, (remote_addr, rkey), operands) };
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut c::VerbsQp,
    mw: *mut c::Mw,
    rkey: u32,
    info: *const c::MwBindInfo,
) {
    // SAFETY: By the contract, the QP is ours and the thread builds, window and attributes are valid, and the region
    // is valid or null.
    unsafe {
        let head = head(qp, opcode::BIND_MW, 0);
        let bind = Bind::new((*mw).rkey, rkey, &*info);
        building(qp, |queue| queue.begin_bind(head, bind));
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut c::VerbsQp, ah: *mut c::Ah, qpn: u32, qkey: u32) {
    // SAFETY: By the contract, the QP is ours and the thread builds, and the address handle is valid.
    unsafe {
        let ah = ah_number(ah).unwrap_or_default();
        building(qp, |queue| {
            queue.set_target(Target::Datagram { qpn, qkey, ah })
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut c::VerbsQp, remote_srqn: u32) {
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { building(qp, |queue| queue.set_srqn(remote_srqn)) };
}

unsafe extern "C" fn wr_set_sge(qp: *mut c::VerbsQp, lkey: u32, addr: u64, length: u32) {
    let sge = Sge { addr, length, lkey };
    // SAFETY: By the contract, the QP is ours and the thread builds.
    unsafe { building(qp, |queue| queue.set_list(&[sge])) };
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut c::VerbsQp, entries: usize, at: *const Sge) {
    // A longer list than any queue can have is refused all the same.
    let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
    // SAFETY: By the contract, the QP is ours and the thread builds, and the list has so many entries.
    unsafe {
        building(qp, |queue| match list(at, entries) {
            Some(list) => queue.set_list(list),
            None => queue.fail(Errno::INVAL),
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut c::VerbsQp, at: *mut c_void, length: usize) {
    // SAFETY: By the contract, the QP is ours and the thread builds, and the bytes may be read.
    unsafe {
        let bytes = UserBytes::from_c(at, length);
        building(qp, |queue| queue.set_inline([bytes].into_iter()));
    }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut c::VerbsQp,
    buffers: usize,
    at: *const c::DataBuf,
) {
    // SAFETY: By the contract, the QP is ours and the thread builds, and so many buffers may be read.
    unsafe {
        let parts: &[c::DataBuf] = match at.is_null() {
            true => &[],
            false => slice::from_raw_parts(at, buffers),
        };
        let message = parts
            .iter()
            .map(|part| UserBytes::from_c(part.addr, part.length));
        building(qp, |queue| queue.set_inline(message));
    }
}
