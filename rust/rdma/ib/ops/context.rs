// SPDX-License-Identifier: GPL-2.0

//! Operations on user contexts, PDs and AHs.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        device::Device,
        driver::{
            AhInit,
            Driver, //
        },
        object,
        qp_attr::AhAttr,
        udata::{
            self,
            OpenRequest,
            UserContext, //
        }, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn alloc_ucontext(
        context: *mut bindings::ib_ucontext,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is of this call, `context.device` has its data, and
            // `context` has no Rust part and is not shared until this returns.
            unsafe {
                let mut request = OpenRequest::from_raw(udata)?;
                let dev = Device::<T>::from_raw((*context).device);
                let data = T::alloc_ucontext(dev, &mut request)?;
                object::Ucontext::<T::Ucontext>::init(context, data);
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn query_ucontext(
        context: *mut bindings::ib_ucontext,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `context` has its Rust part.
        let data = unsafe { object::Ucontext::<T::Ucontext>::data(context) };
        from_result(|| T::query_ucontext(data).map(|()| 0))
    }

    pub(super) unsafe extern "C" fn dealloc_ucontext(context: *mut bindings::ib_ucontext) {
        // SAFETY: By the contract in `ops`, `context` has its Rust part, and no other operation uses it now or
        // later.
        drop(unsafe { object::Ucontext::<T::Ucontext>::take(context) });
    }

    /// Does nothing: rings are kernel memory, which stays allocated while it is mapped. The operation must exist so
    /// that the core can remove a device that processes use.
    pub(super) unsafe extern "C" fn disassociate_ucontext(_context: *mut bindings::ib_ucontext) {}

    pub(super) unsafe extern "C" fn alloc_pd(
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call, with a user context of this
            // driver. `pd.device` has its data. `pd` has no Rust part and is not shared until this returns.
            unsafe {
                let user = UserContext::<T::Ucontext>::from_raw(udata)?;
                udata::expect_none(udata)?;
                let dev = Device::<T>::from_raw((*pd).device);
                let data = T::alloc_pd(dev, user.as_ref().map(UserContext::ucontext))?;
                object::Pd::<T::Pd>::init(pd, data);
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn dealloc_pd(
        pd: *mut bindings::ib_pd,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `pd` has its Rust part, and no other operation uses it now or later.
        drop(unsafe { object::Pd::<T::Pd>::take(pd) });
        0
    }

    pub(super) unsafe extern "C" fn create_ah(
        ah: *mut bindings::ib_ah,
        init: *mut bindings::rdma_ah_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call, with a user context of this
            // driver. `init` and the address in it are valid, and the core holds the GID entry. `ah.device` has its
            // data and `ah.pd` its Rust part. `ah` has no Rust part and is not shared until this returns.
            unsafe {
                let mut user = UserContext::<T::Ucontext>::from_raw(udata)?;
                let init = AhInit {
                    attr: AhAttr::from_raw(&*(*init).ah_attr),
                    may_sleep: (*init).flags
                        & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE
                        != 0,
                    user: user.as_mut(),
                };
                let dev = Device::<T>::from_raw((*ah).device);
                let pd = object::Pd::<T::Pd>::data((*ah).pd);
                object::Ah::<T::Ah>::init(ah, T::create_ah(dev, pd, init)?);
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn modify_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `attr` is valid, the core holds its GID entry, and `ah` has its
            // Rust part.
            unsafe {
                let attr = AhAttr::from_raw(&*attr);
                T::modify_ah(object::Ah::<T::Ah>::data(ah), attr).map(|()| 0)
            }
        })
    }

    pub(super) unsafe extern "C" fn query_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `attr` is valid for writes and not shared, and initialised by the first
        // statement. `ah` has its Rust part.
        unsafe {
            attr.write(pin_init::zeroed());
            T::query_ah(object::Ah::<T::Ah>::data(ah)).write_to(&mut *attr);
        }
        0
    }

    /// The driver knows from the AH whether it may sleep, so the flags are not needed.
    pub(super) unsafe extern "C" fn destroy_ah(ah: *mut bindings::ib_ah, _flags: u32) -> c_int {
        // SAFETY: By the contract in `ops`, `ah` has its Rust part, and no other operation uses it now or later.
        T::destroy_ah(unsafe { object::Ah::<T::Ah>::take(ah) });
        0
    }
}
