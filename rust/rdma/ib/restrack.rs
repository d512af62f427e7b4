// SPDX-License-Identifier: GPL-2.0

//! What `rdma resource show ... -dd` tells of an object beyond what the core knows.
//!
//! Owns the table of names and values in the core's netlink message. The core keeps the object for the
//! call.
//!
//! C header: [`include/rdma/restrack.h`](srctree/include/rdma/restrack.h)

use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Names and values that go into a message.
///
/// # Invariants
///
/// `msg` is valid, with the table open.
pub struct Details {
    msg: *mut bindings::sk_buff,
    written: Result,
}

impl Details {
    /// Writes a table into `msg` that `fill` fills.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE`: there is no room. The message is as it was then.
    ///
    /// # Safety
    ///
    /// `msg` is a message of the core's, valid for the call.
    pub(crate) unsafe fn write(
        msg: *mut bindings::sk_buff,
        fill: impl FnOnce(&mut Self),
    ) -> Result {
        let kind = bindings::rdma_nldev_attr_RDMA_NLDEV_ATTR_DRIVER;
        // SAFETY: As the function requires.
        let table = unsafe { bindings::ferroce_helper_nla_nest_start(msg, kind as c_int) };
        if table.is_null() {
            return Err(EMSGSIZE);
        }
        // INVARIANT: Just opened.
        let mut details = Self {
            msg,
            written: Ok(()),
        };
        fill(&mut details);
        // SAFETY: As the function requires; the table was opened above.
        unsafe {
            match details.written {
                Ok(()) => bindings::ferroce_helper_nla_nest_end(msg, table),
                Err(_) => bindings::ferroce_helper_nla_nest_cancel(msg, table),
            }
        }
        details.written.map_err(|_| EMSGSIZE)
    }

    /// Adds a value.
    pub fn put(&mut self, name: &'static CStr, value: u64) {
        if self.written.is_ok() {
            // SAFETY: By the invariant; C copies the name.
            self.written = to_result(unsafe {
                bindings::rdma_nl_put_driver_u64(self.msg, name.as_char_ptr(), value)
            });
        }
    }
}
