// SPDX-License-Identifier: GPL-2.0

//! Operations on memory regions, the only objects that a driver allocates itself.

use super::{
    into_err_ptr,
    OpsVTable, //
};
use crate::{
    bindings,
    ib::{
        attr::{
            DmaBufInit,
            MrChange,
            MrInit,
            MrKeys,
            MrPlace, //
        },
        device::Device,
        driver::{
            Advice,
            Driver, //
        },
        object,
        udata,
        wr::SgeList, //
    },
    mm::{
        fast_reg::ScatterList,
        memory::{
            KernelMemory,
            Memory, //
        }, //
    }, //
};
use core::ptr::{
    self,
    NonNull, //
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
        // SAFETY: See the head of `ops`.
        unsafe { Self::register(pd, dmah, udata, |dev, pd| T::reg_user_mr(dev, pd, init)) }
    }

    pub(super) unsafe extern "C" fn reg_user_mr_dmabuf(
        pd: *mut bindings::ib_pd,
        offset: u64,
        length: u64,
        iova: u64,
        fd: c_int,
        access: c_int,
        dmah: *mut bindings::ib_dmah,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut bindings::ib_mr {
        let init = DmaBufInit {
            fd,
            offset,
            length,
            iova,
            // CAST: A set of bits.
            access: access as u32,
        };
        // SAFETY: See the head of `ops`.
        unsafe {
            let udata = &raw mut (*attrs).__bindgen_anon_1.hdr.driver_udata;
            Self::register(pd, dmah, udata, |dev, pd| T::reg_dmabuf_mr(dev, pd, init))
        }
    }

    /// Registers what `make` makes, for a process that asks for nothing that nobody knows.
    ///
    /// # Safety
    ///
    /// See the head of `ops`.
    unsafe fn register(
        pd: *mut bindings::ib_pd,
        dmah: *mut bindings::ib_dmah,
        udata: *mut bindings::ib_udata,
        make: impl FnOnce(&Device<T>, &Arc<T::Pd>) -> Result<(Arc<T::Mr>, MrKeys)>,
    ) -> *mut bindings::ib_mr {
        into_err_ptr((|| {
            if !dmah.is_null() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: As the function requires.
            unsafe {
                udata::expect_none(udata)?;
                let dev = Device::<T>::from_raw((*pd).device);
                let (mr, keys) = make(dev, object::Pd::<T::Pd>::data(pd))?;
                Self::new_mr(dev, mr, keys)
            }
        })())
    }

    pub(super) unsafe extern "C" fn advise_mr(
        pd: *mut bindings::ib_pd,
        advice: bindings::ib_uverbs_advise_mr_advice,
        flags: u32,
        sges: *mut bindings::ib_sge,
        count: u32,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        from_result(|| {
            let advice = match advice {
                bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH => {
                    Advice::Prefetch
                }
                bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE => {
                    Advice::PrefetchWrite
                }
                bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => {
                    Advice::PrefetchPresent
                }
                _ => return Err(EOPNOTSUPP),
            };
            let flush = bindings::ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
            let count = c_int::try_from(count)?;
            // SAFETY: See the head of `ops`; the list is the core's, and has as many entries.
            unsafe {
                let dev = Device::<T>::from_raw((*pd).device);
                let pd = object::Pd::<T::Pd>::data(pd);
                let sges = SgeList::from_raw(sges, count);
                T::advise_mr(dev, pd, advice, flags & flush != 0, &sges)?;
            }
            Ok(0)
        })
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
        let object = object::Mr::<T::Mr>::new_boxed(mr.clone()).inspect_err(|_| {
            // Nobody knows its key, so nothing is bound to it.
            let _ = T::dereg_mr(dev, &mr);
        })?;
        let raw: *mut bindings::ib_mr = KBox::into_raw(object).cast();
        // SAFETY: Just made, and ours alone.
        unsafe {
            (*raw).lkey = keys.lkey;
            (*raw).rkey = keys.rkey;
        }
        Ok(raw)
    }

    pub(super) unsafe extern "C" fn alloc_mr(
        pd: *mut bindings::ib_pd,
        mr_type: bindings::ib_mr_type,
        max_num_sg: u32,
    ) -> *mut bindings::ib_mr {
        into_err_ptr((|| {
            if mr_type != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: See the head of `ops`.
            unsafe {
                let dev = Device::<T>::from_raw((*pd).device);
                let (mr, keys) = T::alloc_mr(dev, object::Pd::<T::Pd>::data(pd), max_num_sg)?;
                Self::new_mr(dev, mr, keys)
            }
        })())
    }

    /// Returns how many elements were taken.
    pub(super) unsafe extern "C" fn map_mr_sg(
        mr: *mut bindings::ib_mr,
        list: *mut bindings::scatterlist,
        count: c_int,
        offset: *mut c_uint,
    ) -> c_int {
        from_result(|| {
            let raw = NonNull::new(mr).ok_or(EINVAL)?;
            // SAFETY: See the head of `ops`; `new_mr` has made it. Consumers in the kernel own what
            // they list.
            let (data, list) = unsafe {
                (
                    object::Mr::<T::Mr>::data(mr),
                    ScatterList::from_raw(raw, list, count, offset),
                )
            };
            Ok(c_int::try_from(T::map_mr_sg(data, list)?)?)
        })
    }

    /// Returns null: the region is still the same.
    pub(super) unsafe extern "C" fn rereg_user_mr(
        mr: *mut bindings::ib_mr,
        flags: c_int,
        start: u64,
        length: u64,
        iova: u64,
        access: c_int,
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        // CAST: A set of bits.
        let has = |flag| flags as u32 & flag != 0;
        into_err_ptr((|| {
            // SAFETY: See the head of `ops`; `new_mr` has made it.
            let (dev, data, pd) = unsafe {
                udata::expect_none(udata)?;
                (
                    Device::<T>::from_raw((*mr).device),
                    object::Mr::<T::Mr>::data(mr),
                    object::Pd::<T::Pd>::data(pd),
                )
            };
            let change = MrChange {
                pd: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_PD).then_some(pd),
                // CAST: A set of bits.
                access: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS)
                    .then_some(access as u32),
                place: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some(MrPlace {
                    start,
                    length,
                    iova,
                }),
            };
            T::rereg_user_mr(dev, data, change)?;
            Ok(ptr::null_mut())
        })())
    }

    pub(super) unsafe extern "C" fn dereg_mr(
        mr: *mut bindings::ib_mr,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`; `new_mr` has made it.
            unsafe {
                let dev = Device::<T>::from_raw((*mr).device);
                T::dereg_mr(dev, object::Mr::<T::Mr>::data(mr))?;
                drop(object::Mr::<T::Mr>::take(mr));
                drop(KBox::from_raw(mr.cast::<object::Mr<T::Mr>>()));
            }
            Ok(0)
        })
    }
}
