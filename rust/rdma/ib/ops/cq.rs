// SPDX-License-Identifier: GPL-2.0

//! Operations on CQs. `poll_cq` and `req_notify_cq` run in any context, the others in process context.

use super::OpsVTable;
use crate::{
    bindings,
    compat::{
        attr::CQ_BUFFER,
        ops::{
            avoid_adaptive_moderation,
            end_polling,
            CqOperations, //
        }, //
    },
    errno::EOPNOTSUPP,
    ib::{
        device::Device,
        driver::{
            CqFlags,
            CqInit,
            Driver, //
        },
        event::{
            CqHandle,
            Notify, //
        },
        mmap::Mappings,
        object::{
            self,
            CqData, //
        },
        udata::UserContext,
        wc::WcSink, //
    }, //
};
use kernel::{
    cpu::nr_cpu_ids,
    error::from_result,
    prelude::*,
    sync::new_mutex, //
};

impl CqFlags {
    fn from_raw(raw: u32) -> Result<Self> {
        use bindings::{
            ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN as IGNORE_OVERRUN,
            ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION as TIMESTAMPS, //
        };
        if raw & !(TIMESTAMPS | IGNORE_OVERRUN) != 0 {
            return Err(EOPNOTSUPP);
        }
        Ok(Self {
            timestamps: raw & TIMESTAMPS != 0,
            ignore_overrun: raw & IGNORE_OVERRUN != 0,
        })
    }
}

impl<T: Driver> CqOperations for OpsVTable<T> {
    unsafe fn pre_destroy_cq(cq: *mut bindings::ib_cq) -> c_int {
        // SAFETY: By the contract in `ops`, `cq` has its Rust part.
        let data = unsafe { object::Cq::<T::Cq>::data(cq) };
        data.handle.close();
        0
    }

    unsafe fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        entries: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `cq.device` has its data and `cq` its Rust part. `udata` is of this
            // call, with a user context of this driver.
            let (dev, data, user) = unsafe {
                (
                    Device::<T>::from_raw((*cq).device),
                    object::Cq::<T::Cq>::data(cq),
                    UserContext::<T::Ucontext>::from_raw(udata)?,
                )
            };
            let mut user = user.ok_or(EINVAL)?;
            // Not every core checks it.
            if entries == 0 {
                return Err(EINVAL);
            }
            let mut mappings = data.mappings.lock();
            let entries = T::resize_cq(dev, &data.cq, entries, &mut user)?;
            let new = user.take_mappings();
            if !new.is_empty() {
                *mappings = new;
            }
            // CAST: Queues have far fewer entries.
            // SAFETY: By the contract in `ops`, `cq` is valid. Only this operation writes the field after create,
            // and it holds the mutex.
            unsafe { (*cq).cqe = entries as c_int };
            Ok(0)
        })
    }
}

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn create_cq(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `attrs` is null for a ULP, otherwise valid for the call, and so is
            // the udata in it, which has a user context of this driver. `cq.device` has its data, and `attr` is
            // valid and not shared.
            let (dev, attr, mut user) = unsafe {
                let udata = match attrs.is_null() {
                    true => core::ptr::null_mut(),
                    false => &raw mut (*attrs).__bindgen_anon_1.__bindgen_anon_1.driver_udata,
                };
                let user = UserContext::<T::Ucontext>::for_queue(udata, CQ_BUFFER)?;
                (Device::<T>::from_raw((*cq).device), &*attr, user)
            };
            let flags = CqFlags::from_raw(attr.flags)?;
            // The completion of a ULP has no place for a time.
            if user.is_none() && flags != CqFlags::default() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: The core creates `cq`.
            unsafe { avoid_adaptive_moderation(cq) };
            // The core checks the vector of a process, but not that of a ULP. There is one vector per CPU.
            if attr.cqe == 0 || attr.comp_vector >= nr_cpu_ids() {
                return Err(EINVAL);
            }
            // The handler of a process may run on any CPU, that of a ULP must run on the CPU of the vector.
            let handler_cpu = user.is_none().then_some(attr.comp_vector);
            let handle = CqHandle::new(cq, handler_cpu)?;
            let mappings = KBox::pin_init(
                new_mutex!(Mappings::default(), "rdma::Cq::mappings"),
                GFP_KERNEL_ACCOUNT,
            )?;
            let init = CqInit {
                entries: attr.cqe,
                comp_vector: attr.comp_vector,
                flags,
                user: user.as_mut(),
                handle: handle.clone(),
            };
            let (data, entries) = T::create_cq(dev, init)?;
            if let Some(user) = &mut user {
                *mappings.lock() = user.take_mappings();
            }
            let data = CqData {
                cq: data,
                handle,
                mappings,
            };
            // SAFETY: By the contract in `ops`, `cq` has no Rust part, and is not shared until this returns.
            unsafe {
                // CAST: A CQ has far fewer entries than `c_int::MAX`.
                (*cq).cqe = entries as c_int;
                object::Cq::<T::Cq>::init(cq, data);
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn modify_cq(
        cq: *mut bindings::ib_cq,
        count: u16,
        period: u16,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `cq` has its Rust part.
        let data = unsafe { object::Cq::<T::Cq>::data(cq) };
        T::moderate_cq(&data.cq, count, period);
        0
    }

    /// Stops the notifications first.
    pub(super) unsafe extern "C" fn destroy_cq(
        cq: *mut bindings::ib_cq,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `cq.device` has its data and `cq` its Rust part.
        let (dev, data) = unsafe {
            (
                Device::<T>::from_raw((*cq).device),
                object::Cq::<T::Cq>::data(cq),
            )
        };
        // The completion handler may be running, and may poll the CQ.
        data.handle.close();
        // SAFETY: By the contract in `ops`, the core destroys `cq`, and its handler has ended.
        unsafe { end_polling(cq) };
        // SAFETY: By the contract in `ops`, `cq` has its Rust part. No other operation uses it now or later, and
        // `close` has ended the completion handler, which might.
        let data = unsafe { object::Cq::<T::Cq>::take(cq) };
        T::destroy_cq(dev, data.cq);
        0
    }

    pub(super) unsafe extern "C" fn poll_cq(
        cq: *mut bindings::ib_cq,
        count: c_int,
        wc: *mut bindings::ib_wc,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `cq` has its Rust part, and `wc` has room for `count` completions that
        // are not shared.
        let (data, mut sink) =
            unsafe { (object::Cq::<T::Cq>::data(cq), WcSink::from_raw(wc, count)) };
        T::poll_cq(&data.cq, &mut sink);
        // CAST: At most `count`, a `c_int`.
        sink.filled() as c_int
    }

    pub(super) unsafe extern "C" fn req_notify_cq(
        cq: *mut bindings::ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `cq` has its Rust part.
        let data = unsafe { object::Cq::<T::Cq>::data(cq) };
        let notify = match flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK {
            bindings::ib_cq_notify_flags_IB_CQ_SOLICITED => Notify::Solicited,
            _ => Notify::Any,
        };
        let waiting = T::req_notify(&data.cq, notify);
        let report_missed = flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
        (waiting && report_missed).into()
    }
}
