// SPDX-License-Identifier: GPL-2.0

//! Driver-specific details of an object, for `rdma resource show ... -dd`.
//!
//! Written as a nested attribute into the core's netlink message. The core keeps the object for the call. Process
//! context.
//!
//! C header: [`include/rdma/restrack.h`](srctree/include/rdma/restrack.h)

use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The driver's part of an entry in the core's message: names and values.
///
/// # Invariants
///
/// `msg` is a valid message with an open nested attribute.
pub struct RestrackEntry {
    msg: *mut bindings::sk_buff,
    result: Result,
}

impl RestrackEntry {
    /// Adds a nested attribute to `msg`, which `fill` fills.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the message is full; it is unchanged then.
    ///
    /// # Safety
    ///
    /// `msg` is a netlink message of the core, valid and not shared for the call.
    pub(crate) unsafe fn write(
        msg: *mut bindings::sk_buff,
        fill: impl FnOnce(&mut Self),
    ) -> Result {
        let kind = bindings::rdma_nldev_attr_RDMA_NLDEV_ATTR_DRIVER;
        // SAFETY: The caller guarantees that `msg` is a valid netlink message.
        let nest = unsafe { bindings::ferroce_helper_nla_nest_start(msg, kind as c_int) };
        if nest.is_null() {
            return Err(EMSGSIZE);
        }
        // INVARIANT: The nested attribute was just opened.
        let mut entry = Self {
            msg,
            result: Ok(()),
        };
        fill(&mut entry);
        // SAFETY: The caller guarantees that `msg` is valid. `nest` was opened in it above, and is closed or
        // cancelled once.
        unsafe {
            match entry.result {
                Ok(()) => bindings::ferroce_helper_nla_nest_end(msg, nest),
                Err(_) => bindings::ferroce_helper_nla_nest_cancel(msg, nest),
            }
        }
        entry.result.map_err(|_| EMSGSIZE)
    }

    /// Adds a value. If the message is full, this and later values are dropped.
    pub fn put(&mut self, name: &'static CStr, value: u64) {
        if self.result.is_ok() {
            // SAFETY: By the invariant `msg` is valid, with an open nested attribute. C copies the name.
            self.result = to_result(unsafe {
                bindings::rdma_nl_put_driver_u64(self.msg, name.as_char_ptr(), value)
            });
        }
    }
}
