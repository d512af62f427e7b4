// SPDX-License-Identifier: GPL-2.0

//! Replaces `tools/provider/src/ffi/libc.rs`: system calls, and waiting.

use crate::{
    errno::Errno,
    kernel::current, //
};

pub(crate) fn post_send(_fd: i32, qp_handle: u32) -> Result<(), Errno> {
    current().ring_doorbell(qp_handle);
    Ok(())
}

pub(crate) fn invoke_post_send(fd: i32, _driver_id: u32, qp_handle: u32) -> Result<(), Errno> {
    post_send(fd, qp_handle)
}

pub(crate) fn yield_now() {
    loom::thread::yield_now();
}

pub(crate) fn set_errno(_error: Errno) {}
