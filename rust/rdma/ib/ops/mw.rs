// SPDX-License-Identifier: GPL-2.0

//! Operations on MWs.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        attr::MwType,
        device::Device,
        driver::Driver,
        object,
        udata, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn alloc_mw(
        mw: *mut bindings::ib_mw,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call. `mw.device` has its data and
            // `mw.pd` its Rust part. The core has set the type.
            let (dev, pd, mw_type) = unsafe {
                udata::expect_none(udata)?;
                (
                    Device::<T>::from_raw((*mw).device),
                    object::Pd::<T::Pd>::data((*mw).pd),
                    (*mw).type_,
                )
            };
            let mw_type = match mw_type {
                bindings::ib_mw_type_IB_MW_TYPE_1 => MwType::One,
                bindings::ib_mw_type_IB_MW_TYPE_2 => MwType::Two,
                _ => return Err(EINVAL),
            };
            let (data, rkey) = T::alloc_mw(dev, pd, mw_type)?;
            // SAFETY: By the contract in `ops`, `mw` has no Rust part, and is not shared until this returns.
            unsafe {
                (*mw).rkey = rkey;
                object::Mw::<T::Mw>::init(mw, data);
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut bindings::ib_mw) -> c_int {
        // SAFETY: By the contract in `ops`, `mw.device` has its data. `mw` has its Rust part, and no other
        // operation uses it now or later.
        unsafe {
            let dev = Device::<T>::from_raw((*mw).device);
            T::dealloc_mw(dev, object::Mw::<T::Mw>::take(mw));
        }
        0
    }
}
