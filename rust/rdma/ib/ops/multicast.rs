// SPDX-License-Identifier: GPL-2.0

//! Operations on multicast groups.
//!
//! The core lets nothing but datagram queue pairs and multicast addresses through, and destroys no queue
//! pair that is attached.

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
    /// LIDs have no meaning on Ethernet.
    pub(super) unsafe extern "C" fn attach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`. Any bytes are a GID.
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
            // SAFETY: See the head of `ops`. Any bytes are a GID.
            let (dev, data, group) = unsafe {
                let dev = Device::<T>::from_raw((*qp).device);
                (dev, object::Qp::<T::Qp>::data(qp), (*gid).raw)
            };
            T::detach_mcast(dev, &data.qp, &group).map(|()| 0)
        })
    }
}
