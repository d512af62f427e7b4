// SPDX-License-Identifier: GPL-2.0

//! Operations on shared receive queues.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        attr::SrqAttr,
        device::Device,
        driver::{
            Driver,
            SrqInit, //
        },
        event::SrqHandle,
        mmap::Mappings,
        object::{
            self,
            SrqData, //
        },
        udata::UserContext,
        wr::RecvWrList, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::new_mutex, //
};

/// What would say where in a process's memory the queue is to lie.
const BUFFERS: &[u32] =
    &[bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_BUF_UMEM];

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn create_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            let (dev, pd, attr, mut user) = unsafe {
                let user = UserContext::<T::Ucontext>::for_queue(udata, BUFFERS)?;
                (
                    Device::<T>::from_raw((*srq).device),
                    object::Pd::<T::Pd>::data((*srq).pd),
                    &mut *attr,
                    user,
                )
            };
            if attr.srq_type != bindings::ib_srq_type_IB_SRQT_BASIC {
                return Err(EOPNOTSUPP);
            }
            let handle = SrqHandle::new(srq)?;
            let mappings = KBox::pin_init(
                new_mutex!(Mappings::default(), "rdma::Srq::mappings"),
                GFP_KERNEL_ACCOUNT,
            )?;
            let init = SrqInit {
                attr: SrqAttr::from_raw(&attr.attr),
                user: user.as_mut(),
                handle: handle.clone(),
            };
            let (data, created) = T::create_srq(dev, pd, init)?;
            created.write_to(&mut attr.attr);
            if let Some(user) = &mut user {
                *mappings.lock() = user.take_mappings();
            }
            let data = SrqData {
                srq: data,
                handle,
                mappings,
            };
            // SAFETY: See the head of `ops`.
            unsafe { object::Srq::<T::Srq>::init(srq, data) };
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn modify_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
        mask: bindings::ib_srq_attr_mask,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            let (dev, data, (max_wr, limit), mut user) = unsafe {
                let user = UserContext::<T::Ucontext>::with_answer_at(udata)?;
                (
                    Device::<T>::from_raw((*srq).device),
                    object::Srq::<T::Srq>::data(srq),
                    // The core sets no others.
                    ((*attr).max_wr, (*attr).srq_limit),
                    user,
                )
            };
            let resizes = mask & bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR != 0;
            let limits = mask & bindings::ib_srq_attr_mask_IB_SRQ_LIMIT != 0;
            // An illegal combination: nothing of it happens.
            if resizes && limits && limit > max_wr {
                return Err(EINVAL);
            }
            let mut mappings = data.mappings.lock();
            if resizes {
                T::resize_srq(dev, &data.srq, max_wr, user.as_mut())?;
                if let Some(user) = &mut user {
                    *mappings = user.take_mappings();
                }
            }
            if limits {
                T::set_srq_limit(&data.srq, limit)?;
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn query_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
    ) -> c_int {
        // SAFETY: See the head of `ops`. The memory may be uninitialised.
        let (data, attr) = unsafe {
            attr.write(pin_init::zeroed());
            (object::Srq::<T::Srq>::data(srq), &mut *attr)
        };
        T::query_srq(&data.srq).write_to(attr);
        0
    }

    /// The consumer hears nothing any more from the moment that this begins.
    pub(super) unsafe extern "C" fn destroy_srq(
        srq: *mut bindings::ib_srq,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: See the head of `ops`.
        let (dev, data) = unsafe {
            (
                Device::<T>::from_raw((*srq).device),
                object::Srq::<T::Srq>::data(srq),
            )
        };
        // Its handler may still be at work, and may post to the queue.
        data.handle.sever().wait();
        // SAFETY: See the head of `ops`; now nobody uses it any more.
        let data = unsafe { object::Srq::<T::Srq>::take(srq) };
        T::destroy_srq(dev, data.srq);
        0
    }

    pub(super) unsafe extern "C" fn post_srq_recv(
        srq: *mut bindings::ib_srq,
        wr: *const bindings::ib_recv_wr,
        bad: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        // SAFETY: See the head of `ops`.
        let (data, mut list) =
            unsafe { (object::Srq::<T::Srq>::data(srq), RecvWrList::from_raw(wr)) };
        let posted = T::post_srq_recv(&data.srq, &mut list);
        if posted.is_err() && !bad.is_null() {
            // SAFETY: See the head of `ops`.
            unsafe { bad.write(list.current()) };
        }
        from_result(|| posted.map(|()| 0))
    }
}
