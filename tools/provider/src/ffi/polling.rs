// SPDX-License-Identifier: GPL-2.0

//! The functions of `struct ibv_cq_ex`, with which a program reads completions field by field.
//!
//! From `start_poll`, if it succeeds, to `end_poll` the thread that polls holds the lock of the queue: only that
//! thread may call the functions in between, so says the contract of verbs.

// The condition of all functions that C calls is the contract.
#![allow(clippy::missing_safety_doc)]

use super::{
    c::{
        self,
        Function, //
    },
    libc,
    object::{
        Cq,
        Object, //
    },
};
use crate::{
    cq::{
        self,
        Polling, //
    },
    cqe::Cqe,
    errno::Errno, //
};
use core::ffi::c_int;

/// Version 0 of `struct ibv_poll_cq_attr` has no attribute but its mask.
const NO_ATTRIBUTES: u32 = 0;

impl Cq {
    /// Gives a queue that C does not know yet the functions that a program wants, of `enum ibv_create_cq_wc_flags`.
    pub(crate) fn set_readers(&mut self, wanted: u64) {
        // The bit, and the place in `c::CqEx::functions`. RoCE has no SLID, SL and path bits: they read as 0.
        let readers: [(u32, usize, Function); 9] = [
            (0, 5, read_byte_len as Function),
            (1, 6, read_imm_data as Function),
            (2, 7, read_qp_num as Function),
            (3, 8, read_src_qp as Function),
            (4, 10, read_nothing as Function),
            (5, 11, read_nothing as Function),
            (6, 12, read_nothing as Function),
            (7, 13, read_completion_ts as Function),
            (11, 17, read_completion_wallclock_ns as Function),
        ];
        let always: [(usize, Function); 6] = [
            (0, start_poll as Function),
            (1, next_poll as Function),
            (2, end_poll as Function),
            (3, read_opcode as Function),
            (4, read_vendor_err as Function),
            (9, read_wc_flags as Function),
        ];
        let wanted = |&(bit, _, _): &(u32, usize, Function)| (wanted >> bit) & 1 != 0;
        let chosen = readers
            .into_iter()
            .filter(wanted)
            .map(|(_, place, function)| (place, function));
        // SAFETY: The head is valid, and the queue is ours alone as yet.
        let functions = unsafe { &mut (*self.head()).functions };
        for (place, function) in chosen.chain(always) {
            if let Some(slot) = functions.get_mut(place) {
                *slot = function;
            }
        }
    }
}

/// Calls `f` with the queue that the thread polls.
///
/// # Safety
///
/// `cq` is a queue of ours, and the lock was acquired in this thread.
#[inline]
unsafe fn polling<R>(cq: *mut c::CqEx, f: impl FnOnce(&Cq, &mut Polling) -> R) -> R {
    // SAFETY: The caller guarantees that the queue is ours.
    let object: &Cq = unsafe { Object::from_c(cq) };
    // SAFETY: The caller guarantees that this thread has the lock. There is no other reference, since each function
    // of this file ends before the next is called.
    f(object, unsafe { object.body().polling.held() })
}

/// Shows the program what it reads of a completion without a function.
fn show(cq: &Cq, cqe: &Cqe) {
    cq.set_current(cqe.status, cqe.wr_id);
}

// The functions of this file are called by programs, with a queue whose `struct ibv_cq_ex` they have, and in the order
// that verbs demand. That is what the SAFETY comments below call the contract.

unsafe extern "C" fn start_poll(cq: *mut c::CqEx, attr: *const u32) -> c_int {
    // SAFETY: By the contract, the attributes have a mask at least.
    if unsafe { attr.as_ref() }.is_some_and(|&mask| mask != NO_ATTRIBUTES) {
        return Errno::INVAL.0;
    }
    // SAFETY: By the contract, the queue is ours.
    let object: &Cq = unsafe { Object::from_c(cq) };
    object.body().polling.acquire();
    // SAFETY: The lock was just acquired.
    let started = unsafe { polling(cq, |object, polling| cq::start(object.body(), polling)) };
    match started {
        Ok(()) => {
            // SAFETY: As above.
            unsafe { polling(cq, |object, polling| show(object, &polling.current.cqe)) };
            0
        }
        Err(error) => {
            // SAFETY: As above; `end` is the last use.
            unsafe {
                polling(cq, |_, polling| polling.end());
                object.body().polling.release();
            }
            error.0
        }
    }
}

unsafe extern "C" fn next_poll(cq: *mut c::CqEx) -> c_int {
    let next = |object: &Cq, polling: &mut Polling| {
        if !polling.next() {
            return Errno::NOENT.0;
        }
        show(object, &polling.current.cqe);
        0
    };
    // SAFETY: By the contract, the queue is ours and the thread polls.
    unsafe { polling(cq, next) }
}

unsafe extern "C" fn end_poll(cq: *mut c::CqEx) {
    // SAFETY: By the contract, the queue is ours and the thread polls. It uses the queue no more.
    unsafe {
        polling(cq, |_, polling| polling.end());
        let object: &Cq = Object::from_c(cq);
        object.body().polling.release();
    }
}

/// Declares functions that return a field of the completion.
macro_rules! readers {
    ($($name:ident -> $result:ty: $field:ident;)+) => {
        $(
            unsafe extern "C" fn $name(cq: *mut c::CqEx) -> $result {
                // SAFETY: By the contract, the queue is ours and the thread polls.
                unsafe { polling(cq, |_, polling| polling.current.cqe.$field) }
            }
        )+
    };
}

readers! {
    read_opcode -> u32: opcode;
    read_vendor_err -> u32: vendor_err;
    read_byte_len -> u32: byte_len;
    read_imm_data -> u32: imm_or_key;
    read_qp_num -> u32: qp_num;
    read_src_qp -> u32: src_qp;
    read_wc_flags -> u32: wc_flags;
}

extern "C" fn read_nothing(_cq: *mut c::CqEx) -> u32 {
    0
}

unsafe extern "C" fn read_completion_ts(cq: *mut c::CqEx) -> u64 {
    // SAFETY: By the contract, the queue is ours and the thread polls.
    unsafe { polling(cq, |_, polling| polling.current.timestamp) }
}

unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut c::CqEx) -> u64 {
    let now = |clock: Result<libc::Timespec, Errno>| clock.unwrap_or_default().nanoseconds();
    let (before, wall, after) = (
        now(libc::raw_clock()),
        now(libc::wall_clock()),
        now(libc::raw_clock()),
    );
    // The thread may have been preempted in between.
    let raw = before.wrapping_add(after.wrapping_sub(before) / 2);
    // SAFETY: By the contract, the queue is ours and the thread polls.
    unsafe { polling(cq, |_, polling| polling.current.wallclock(raw, wall)) }
}
