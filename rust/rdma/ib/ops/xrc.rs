// SPDX-License-Identifier: GPL-2.0

//! Operations on XRC domains, and the creation of their target QPs. Process context.
//!
//! The core shares domains between processes, and a target QP between those that open it.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        device::Device,
        driver::{
            Driver,
            QpCreated,
            XrcTargetInit, //
        },
        event::QpHandle,
        object,
        udata, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::Arc, //
};

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn alloc_xrcd(
        xrcd: *mut bindings::ib_xrcd,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call. `xrcd.device` has its data. `xrcd` has
            // no Rust part and is not shared until this returns.
            unsafe {
                udata::expect_none(udata)?;
                let dev = Device::<T>::from_raw((*xrcd).device);
                object::Xrcd::<T::Xrcd>::init(xrcd, T::alloc_xrcd(dev)?);
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn dealloc_xrcd(
        xrcd: *mut bindings::ib_xrcd,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `xrcd` has its Rust part, and no other operation uses it now or later.
        T::dealloc_xrcd(unsafe { object::Xrcd::<T::Xrcd>::take(xrcd) });
        0
    }

    /// Creates a target QP, for `create_qp`. The core passes no udata: a target belongs to its domain.
    ///
    /// # Safety
    ///
    /// As [`create_qp`](Self::create_qp).
    pub(super) unsafe fn create_xrc_target(
        (qp, xrcd): (*mut bindings::ib_qp, *mut bindings::ib_xrcd),
        handle: QpHandle,
    ) -> Result<(Arc<T::Qp>, QpCreated)> {
        if xrcd.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the contract in `ops`, `qp.device` has its data, and the XRC domain of a new QP is an object of
        // the same device that has its Rust part.
        let (dev, xrcd) = unsafe {
            (
                Device::<T>::from_raw((*qp).device),
                object::Xrcd::<T::Xrcd>::data(xrcd).clone(),
            )
        };
        T::create_xrc_target(dev, XrcTargetInit { xrcd, handle })
    }
}
