// SPDX-License-Identifier: GPL-2.0

//! Operations by which the core asks for details of an object.

use super::OpsVTable;
use crate::{
    bindings,
    driver::Driver,
    object,
    restrack::Details, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> OpsVTable<T> {
    /// The core asks for nothing that is being destroyed.
    pub(super) unsafe extern "C" fn fill_res_qp_entry(
        msg: *mut bindings::sk_buff,
        qp: *mut bindings::ib_qp,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            unsafe {
                let data = object::Qp::<T::Qp>::data(qp);
                Details::write(msg, |details| T::describe_qp(&data.qp, details))?;
            }
            Ok(0)
        })
    }
}
