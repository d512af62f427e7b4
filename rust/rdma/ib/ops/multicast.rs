// SPDX-License-Identifier: GPL-2.0

//! Operations on multicast groups.
//!
//! The core passes only UD QPs and multicast addresses, and does not destroy a QP that is attached.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        device::Device,
        driver::Driver,
        object, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> OpsVTable<T> {
    /// The LID has no meaning on Ethernet.
    pub(super) unsafe extern "C" fn attach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `qp.device` has its data, `qp` its Rust part, and `gid` is valid.
            // All bytes are valid in a GID.
            let (dev, data, group) = unsafe {
                let dev = Device::<T>::from_raw((*qp).device);
                (dev, object::Qp::<T::Qp>::data(qp), (*gid).raw)
            };
            T::attach_mcast(dev, &data.qp, &group).map(|()| 0)
        })
    }

    pub(super) unsafe extern "C" fn detach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `qp.device` has its data, `qp` its Rust part, and `gid` is valid.
            // All bytes are valid in a GID.
            let (dev, data, group) = unsafe {
                let dev = Device::<T>::from_raw((*qp).device);
                (dev, object::Qp::<T::Qp>::data(qp), (*gid).raw)
            };
            T::detach_mcast(dev, &data.qp, &group).map(|()| 0)
        })
    }
}
