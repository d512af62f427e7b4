// SPDX-License-Identifier: GPL-2.0

//! Operations on completion queues.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        device::Device,
        driver::{
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

/// What would say where in a process's memory the queue is to lie.
const BUFFERS: &[u32] = &[
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_VA,
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH,
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_FD,
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET,
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUF_UMEM,
];

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn create_cq(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`; null for a caller in the kernel.
            let (dev, attr, mut user) = unsafe {
                let udata = match attrs.is_null() {
                    true => core::ptr::null_mut(),
                    false => &raw mut (*attrs).__bindgen_anon_1.__bindgen_anon_1.driver_udata,
                };
                let user = UserContext::<T::Ucontext>::for_queue(udata, BUFFERS)?;
                (Device::<T>::from_raw((*cq).device), &*attr, user)
            };
            if attr.flags != 0 {
                return Err(EOPNOTSUPP);
            }
            // The core asks processes for a vector that there is, but not consumers in the kernel. Each CPU has one.
            if attr.cqe == 0 || attr.comp_vector >= nr_cpu_ids() {
                return Err(EINVAL);
            }
            // A process is woken wherever it sleeps; a consumer in the kernel polls where it is told.
            let home = user.is_none().then_some(attr.comp_vector);
            let handle = CqHandle::new(cq, home)?;
            let mappings = KBox::pin_init(
                new_mutex!(Mappings::default(), "rdma::Cq::mappings"),
                GFP_KERNEL_ACCOUNT,
            )?;
            let init = CqInit {
                entries: attr.cqe,
                comp_vector: attr.comp_vector,
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
            // SAFETY: See the head of `ops`.
            unsafe {
                // CAST: Queues have far fewer entries.
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
        // SAFETY: See the head of `ops`.
        let data = unsafe { object::Cq::<T::Cq>::data(cq) };
        T::moderate_cq(&data.cq, count, period);
        0
    }

    pub(super) unsafe extern "C" fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        entries: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            let (dev, data, user) = unsafe {
                (
                    Device::<T>::from_raw((*cq).device),
                    object::Cq::<T::Cq>::data(cq),
                    UserContext::<T::Ucontext>::from_raw(udata)?,
                )
            };
            let mut user = user.ok_or(EINVAL)?;
            let mut mappings = data.mappings.lock();
            let entries = T::resize_cq(dev, &data.cq, entries, &mut user)?;
            let new = user.take_mappings();
            if !new.is_empty() {
                *mappings = new;
            }
            // CAST: Queues have far fewer entries.
            // SAFETY: See the head of `ops`; nobody else writes it while we hold the lock.
            unsafe { (*cq).cqe = entries as c_int };
            Ok(0)
        })
    }

    /// A consumer in the kernel hears nothing any more when this returns: the core is about to wait for the
    /// last work item that its handler has queued.
    pub(super) unsafe extern "C" fn pre_destroy_cq(cq: *mut bindings::ib_cq) -> c_int {
        // SAFETY: See the head of `ops`.
        let data = unsafe { object::Cq::<T::Cq>::data(cq) };
        data.handle.end();
        0
    }

    /// The consumer hears nothing any more from the moment that this begins.
    pub(super) unsafe extern "C" fn destroy_cq(
        cq: *mut bindings::ib_cq,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: See the head of `ops`.
        let (dev, data) = unsafe {
            (
                Device::<T>::from_raw((*cq).device),
                object::Cq::<T::Cq>::data(cq),
            )
        };
        // Its handler may still be at work, and may poll the queue.
        data.handle.end();
        // SAFETY: See the head of `ops`; now nobody uses it any more.
        let data = unsafe { object::Cq::<T::Cq>::take(cq) };
        T::destroy_cq(dev, data.cq);
        0
    }

    pub(super) unsafe extern "C" fn poll_cq(
        cq: *mut bindings::ib_cq,
        count: c_int,
        wc: *mut bindings::ib_wc,
    ) -> c_int {
        // SAFETY: See the head of `ops`.
        let (data, mut sink) =
            unsafe { (object::Cq::<T::Cq>::data(cq), WcSink::from_raw(wc, count)) };
        T::poll_cq(&data.cq, &mut sink);
        // CAST: At most `count`.
        sink.filled() as c_int
    }

    pub(super) unsafe extern "C" fn req_notify_cq(
        cq: *mut bindings::ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> c_int {
        // SAFETY: See the head of `ops`.
        let data = unsafe { object::Cq::<T::Cq>::data(cq) };
        let what = match flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK {
            bindings::ib_cq_notify_flags_IB_CQ_SOLICITED => Notify::Solicited,
            _ => Notify::Any,
        };
        let waiting = T::req_notify(&data.cq, what);
        let asked = flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
        (waiting && asked).into()
    }
}
