// SPDX-License-Identifier: GPL-2.0

//! Operations on memory regions, the only objects that a driver allocates itself.

use super::{
    into_err_ptr,
    OpsVTable, //
};
use crate::{
    attr::{
        MrInit,
        MrKeys, //
    },
    bindings,
    device::handle::Device,
    driver::Driver,
    object,
    udata,
    umem::{
        KernelMemory,
        Memory, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::Arc, //
};

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: c_int,
        dmah: *mut bindings::ib_dmah,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        let init = MrInit {
            start,
            length,
            iova,
            // CAST: A set of bits.
            access: access as u32,
        };
        into_err_ptr((|| {
            if !dmah.is_null() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: See the head of `ops`.
            unsafe {
                udata::expect_none(udata)?;
                let dev = Device::<T>::from_raw((*pd).device);
                let (mr, keys) = T::reg_user_mr(dev, object::Pd::<T::Pd>::data(pd), init)?;
                Self::new_mr(dev, mr, keys)
            }
        })())
    }

    pub(super) unsafe extern "C" fn get_dma_mr(
        pd: *mut bindings::ib_pd,
        access: c_int,
    ) -> *mut bindings::ib_mr {
        into_err_ptr((|| {
            // SAFETY: See the head of `ops`.
            unsafe {
                let dev = Device::<T>::from_raw((*pd).device);
                let pd = object::Pd::<T::Pd>::data(pd);
                // The core gives such regions to consumers in the kernel only.
                let memory = Memory::Kernel(KernelMemory::new());
                // CAST: A set of bits.
                let (mr, keys) = T::get_dma_mr(dev, pd, access as u32, memory)?;
                Self::new_mr(dev, mr, keys)
            }
        })())
    }

    /// The C structure for `mr`, which is taken back if there is no memory for it.
    fn new_mr(dev: &Device<T>, mr: Arc<T::Mr>, keys: MrKeys) -> Result<*mut bindings::ib_mr> {
        let object =
            object::Mr::<T::Mr>::new_boxed(mr.clone()).inspect_err(|_| T::dereg_mr(dev, mr))?;
        let raw: *mut bindings::ib_mr = KBox::into_raw(object).cast();
        // SAFETY: Just made, and ours alone.
        unsafe {
            (*raw).lkey = keys.lkey;
            (*raw).rkey = keys.rkey;
        }
        Ok(raw)
    }

    pub(super) unsafe extern "C" fn dereg_mr(
        mr: *mut bindings::ib_mr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`; `new_mr` has made it.
            unsafe {
                udata::expect_none(udata)?;
                let dev = Device::<T>::from_raw((*mr).device);
                T::dereg_mr(dev, object::Mr::<T::Mr>::take(mr));
                drop(KBox::from_raw(mr.cast::<object::Mr<T::Mr>>()));
            }
            Ok(0)
        })
    }
}
