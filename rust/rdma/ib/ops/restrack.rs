// SPDX-License-Identifier: GPL-2.0

//! Operations by which the core asks for details of an object.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        device::Device,
        driver::Driver,
        object,
        restrack::Details, //
    }, //
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

    pub(super) unsafe extern "C" fn fill_res_cq_entry(
        msg: *mut bindings::sk_buff,
        cq: *mut bindings::ib_cq,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            unsafe {
                let data = object::Cq::<T::Cq>::data(cq);
                Details::write(msg, |details| T::describe_cq(&data.cq, details))?;
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn fill_res_srq_entry(
        msg: *mut bindings::sk_buff,
        srq: *mut bindings::ib_srq,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            unsafe {
                let data = object::Srq::<T::Srq>::data(srq);
                Details::write(msg, |details| T::describe_srq(&data.srq, details))?;
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn fill_res_mr_entry(
        msg: *mut bindings::sk_buff,
        mr: *mut bindings::ib_mr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`; `new_mr` has made it.
            unsafe {
                let dev = Device::<T>::from_raw((*mr).device);
                let data = object::Mr::<T::Mr>::data(mr);
                Details::write(msg, |details| T::describe_mr(dev, data, details))?;
            }
            Ok(0)
        })
    }
}
