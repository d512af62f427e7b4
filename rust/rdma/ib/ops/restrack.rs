// SPDX-License-Identifier: GPL-2.0

//! Operations by which the core requests details of an object. Process context.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        device::Device,
        driver::Driver,
        object,
        restrack::RestrackEntry, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> OpsVTable<T> {
    /// The core does not call these for an object that is being destroyed.
    pub(super) unsafe extern "C" fn fill_res_qp_entry(
        msg: *mut bindings::sk_buff,
        qp: *mut bindings::ib_qp,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `qp` has its Rust part, and `msg` is a netlink message of this
            // call.
            unsafe {
                let data = object::Qp::<T::Qp>::data(qp);
                RestrackEntry::write(msg, |entry| T::describe_qp(&data.qp, entry))?;
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn fill_res_cq_entry(
        msg: *mut bindings::sk_buff,
        cq: *mut bindings::ib_cq,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `cq` has its Rust part, and `msg` is a netlink message of this
            // call.
            unsafe {
                let data = object::Cq::<T::Cq>::data(cq);
                RestrackEntry::write(msg, |entry| T::describe_cq(&data.cq, entry))?;
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn fill_res_srq_entry(
        msg: *mut bindings::sk_buff,
        srq: *mut bindings::ib_srq,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `srq` has its Rust part, and `msg` is a netlink message of this
            // call.
            unsafe {
                let data = object::Srq::<T::Srq>::data(srq);
                RestrackEntry::write(msg, |entry| T::describe_srq(&data.srq, entry))?;
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn fill_res_mr_entry(
        msg: *mut bindings::sk_buff,
        mr: *mut bindings::ib_mr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `mr.device` has its data, `mr` is an object of `new_mr` with its
            // Rust part, and `msg` is a netlink message of this call.
            unsafe {
                let dev = Device::<T>::from_raw((*mr).device);
                let data = object::Mr::<T::Mr>::data(mr);
                RestrackEntry::write(msg, |entry| T::describe_mr(dev, data, entry))?;
            }
            Ok(0)
        })
    }
}
