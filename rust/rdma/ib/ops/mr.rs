// SPDX-License-Identifier: GPL-2.0

//! Operations on MRs, the only objects that the driver allocates itself. `map_mr_sg` runs in any context, the
//! others in process context.

use super::{
    into_err_ptr,
    OpsVTable, //
};
use crate::{
    bindings,
    compat::ops::{
        MrOperations,
        UserRange, //
    },
    errno::EOPNOTSUPP,
    ib::{
        attr::{
            DmaBufInit,
            MrChange,
            MrInit,
            MrKeys,
            MrRange, //
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

impl<T: Driver> MrOperations for OpsVTable<T> {
    unsafe fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        range: UserRange,
        has_dmah: bool,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        let init = MrInit {
            start: range.start,
            length: range.length,
            iova: range.iova,
            // CAST: A bit set that the kernel declares as `int`.
            access: range.access as u32,
        };
        // SAFETY: By the contract in `ops`, `pd` and `udata` are those of a call of an operation.
        unsafe { Self::register(pd, has_dmah, udata, |dev, pd| T::reg_user_mr(dev, pd, init)) }
    }

    unsafe fn reg_user_mr_dmabuf(
        pd: *mut bindings::ib_pd,
        range: UserRange,
        fd: c_int,
        has_dmah: bool,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut bindings::ib_mr {
        let init = DmaBufInit {
            fd,
            offset: range.start,
            length: range.length,
            iova: range.iova,
            // CAST: A bit set that the kernel declares as `int`.
            access: range.access as u32,
        };
        // SAFETY: By the contract in `ops`, `attrs` is valid for the call, and so is the udata in it. `pd` is that
        // of a call of an operation.
        unsafe {
            let udata = &raw mut (*attrs).__bindgen_anon_1.hdr.driver_udata;
            Self::register(pd, has_dmah, udata, |dev, pd| {
                T::reg_dmabuf_mr(dev, pd, init)
            })
        }
    }
}

impl<T: Driver> OpsVTable<T> {
    /// Registers an MR that `make` creates, for a process. Rejects requests for features that are not supported.
    ///
    /// # Safety
    ///
    /// As for all operations, see `ops`; the arguments are those of a call of an operation.
    unsafe fn register(
        pd: *mut bindings::ib_pd,
        has_dmah: bool,
        udata: *mut bindings::ib_udata,
        make: impl FnOnce(&Device<T>, &Arc<T::Pd>) -> Result<(Arc<T::Mr>, MrKeys)>,
    ) -> *mut bindings::ib_mr {
        into_err_ptr((|| {
            if has_dmah {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: The caller guarantees the contract of `ops`: `udata` is null or of this call, `pd.device` has
            // its data and `pd` its Rust part.
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
            // SAFETY: By the contract in `ops`, `pd.device` has its data and `pd` its Rust part. `sges` points to
            // `count` elements in memory of the core, which do not change during the call.
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
            // SAFETY: By the contract in `ops`, `pd.device` has its data and `pd` its Rust part.
            let (dev, pd) = unsafe {
                (
                    Device::<T>::from_raw((*pd).device),
                    object::Pd::<T::Pd>::data(pd),
                )
            };
            // SAFETY: The contract is about the offsets with which the memory is accessed later, by safe code of
            // the driver, so it is not proved here but by design. The core calls this operation for ULPs only, so
            // only a ULP or a peer to which the ULP gave the rkey can name this MR, and both are trusted with
            // kernel memory. `Driver::get_dma_mr` obliges the driver to take offsets only from WRs and packets that
            // name it. See "Known exceptions" in Documentation/unsafe.rst.
            let memory = Memory::Kernel(unsafe { KernelMemory::new() });
            // CAST: A bit set that the kernel declares as `int`.
            let (mr, keys) = T::get_dma_mr(dev, pd, access as u32, memory)?;
            Self::new_mr(dev, mr, keys)
        })())
    }

    /// Allocates the C structure of `mr`. If that fails, deregisters `mr`.
    fn new_mr(dev: &Device<T>, mr: Arc<T::Mr>, keys: MrKeys) -> Result<*mut bindings::ib_mr> {
        let object = object::Mr::<T::Mr>::new_boxed(mr.clone()).inspect_err(|_| {
            // No key of it was returned, so no MW is bound to it, and this succeeds.
            let _ = T::dereg_mr(dev, &mr);
        })?;
        let raw: *mut bindings::ib_mr = KBox::into_raw(object).cast();
        // SAFETY: `raw` was just leaked from a box, and is not shared yet.
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
            // SAFETY: By the contract in `ops`, `pd.device` has its data and `pd` its Rust part.
            unsafe {
                let dev = Device::<T>::from_raw((*pd).device);
                let (mr, keys) = T::alloc_mr(dev, object::Pd::<T::Pd>::data(pd), max_num_sg)?;
                Self::new_mr(dev, mr, keys)
            }
        })())
    }

    /// Returns the number of elements used.
    pub(super) unsafe extern "C" fn map_mr_sg(
        mr: *mut bindings::ib_mr,
        list: *mut bindings::scatterlist,
        count: c_int,
        offset: *mut c_uint,
    ) -> c_int {
        from_result(|| {
            let raw = NonNull::new(mr).ok_or(EINVAL)?;
            // SAFETY: By the contract in `ops`, `mr` is an object of `new_mr` with its Rust part. `list` has
            // `count` elements, and `offset` is null or valid. The ULP owns the memory that it lists until it
            // invalidates the MR.
            let (data, list) = unsafe {
                (
                    object::Mr::<T::Mr>::data(mr),
                    ScatterList::from_raw(raw, list, count, offset),
                )
            };
            Ok(c_int::try_from(T::map_mr_sg(data, list)?)?)
        })
    }

    /// Returns null: the MR object stays the same.
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
        // CAST: A bit set that the kernel declares as `int`.
        let has = |flag| flags as u32 & flag != 0;
        into_err_ptr((|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call. `mr.device` has its data, `mr` is
            // an object of `new_mr` with its Rust part, and `pd` has its Rust part.
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
                // CAST: A bit set that the kernel declares as `int`.
                access: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS)
                    .then_some(access as u32),
                range: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some(MrRange {
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
            // SAFETY: By the contract in `ops`, `mr.device` has its data, and `mr` is an object of `new_mr` with
            // its Rust part. After `dereg_mr` succeeded, no other operation uses it: the Rust part is taken out,
            // then the memory freed once, as the box that `new_mr` leaked.
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
