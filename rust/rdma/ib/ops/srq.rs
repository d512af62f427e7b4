// SPDX-License-Identifier: GPL-2.0

//! Operations on SRQs. `post_srq_recv` runs in any context, the others in process context.

use super::OpsVTable;
use crate::{
    bindings,
    compat::attr,
    errno::EOPNOTSUPP,
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
    sync::{
        new_mutex,
        Arc, //
    }, //
};

/// Attributes by which a process provides the memory of the SRQ itself, which is not supported.
const USER_BUFFER_ATTRS: &[u32] = attr::SRQ_BUFFER;

/// Returns XRC domain and CQ of a new SRQ.
///
/// # Safety
///
/// `attr` is of the type XRC, and both are objects of a device of `T` that have their Rust parts.
unsafe fn xrc_parts<T: Driver>(attr: &bindings::ib_srq_init_attr) -> (Arc<T::Xrcd>, Arc<T::Cq>) {
    // SAFETY: The caller guarantees that both have their Rust parts. The variant of the union is that of the type.
    unsafe {
        let xrcd = attr.ext.__bindgen_anon_1.xrc.xrcd;
        (
            object::Xrcd::<T::Xrcd>::data(xrcd).clone(),
            object::Cq::<T::Cq>::data(attr.ext.cq).cq.clone(),
        )
    }
}

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn create_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call, with a user context of this
            // driver. `srq.device` has its data and `srq.pd` its Rust part. `attr` is valid and not shared.
            let (dev, pd, attr, mut user) = unsafe {
                let user = UserContext::<T::Ucontext>::for_queue(udata, USER_BUFFER_ATTRS)?;
                (
                    Device::<T>::from_raw((*srq).device),
                    object::Pd::<T::Pd>::data((*srq).pd),
                    &mut *attr,
                    user,
                )
            };
            let xrc = match attr.srq_type {
                bindings::ib_srq_type_IB_SRQT_BASIC => None,
                // SAFETY: By the contract in `ops`, the XRC domain and the CQ of a new SRQ of this type are objects of
                // the same device that have their Rust parts.
                bindings::ib_srq_type_IB_SRQT_XRC => Some(unsafe { xrc_parts::<T>(attr) }),
                _ => return Err(EOPNOTSUPP),
            };
            let handle = SrqHandle::new(srq)?;
            let mappings = KBox::pin_init(
                new_mutex!(Mappings::default(), "rdma::Srq::mappings"),
                GFP_KERNEL_ACCOUNT,
            )?;
            let init = SrqInit {
                attr: SrqAttr::from_raw(&attr.attr),
                xrc,
                user: user.as_mut(),
                handle: handle.clone(),
            };
            let (data, created, number) = T::create_srq(dev, pd, init)?;
            created.write_to(&mut attr.attr);
            if let Some(user) = &mut user {
                *mappings.lock() = user.take_mappings();
            }
            let data = SrqData {
                srq: data,
                handle,
                mappings,
            };
            // SAFETY: By the contract in `ops`, `srq` has no Rust part, and is not shared until this returns.
            unsafe {
                if let Some(number) = number {
                    (*srq).ext.__bindgen_anon_1.xrc.srq_num = number;
                }
                object::Srq::<T::Srq>::init(srq, data);
            }
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
            // SAFETY: By the contract in `ops`, `udata` is null or of this call, with a user context of this
            // driver. `srq.device` has its data and `srq` its Rust part. `attr` is valid.
            let (dev, data, (max_wr, limit), mut user) = unsafe {
                let user = UserContext::<T::Ucontext>::with_response_addr(udata)?;
                (
                    Device::<T>::from_raw((*srq).device),
                    object::Srq::<T::Srq>::data(srq),
                    // The core sets no other fields.
                    ((*attr).max_wr, (*attr).srq_limit),
                    user,
                )
            };
            let resizes = mask & bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR != 0;
            let limits = mask & bindings::ib_srq_attr_mask_IB_SRQ_LIMIT != 0;
            // Reject an invalid combination before any of it takes effect.
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
        // SAFETY: By the contract in `ops`, `attr` is valid for writes and not shared; it may be uninitialised, so
        // it is zeroed first. `srq` has its Rust part.
        let (data, attr) = unsafe {
            attr.write(pin_init::zeroed());
            (object::Srq::<T::Srq>::data(srq), &mut *attr)
        };
        T::query_srq(&data.srq).write_to(attr);
        0
    }

    /// Stops the events first.
    pub(super) unsafe extern "C" fn destroy_srq(
        srq: *mut bindings::ib_srq,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `srq.device` has its data and `srq` its Rust part.
        let (dev, data) = unsafe {
            (
                Device::<T>::from_raw((*srq).device),
                object::Srq::<T::Srq>::data(srq),
            )
        };
        // The event handler may be running, and may post to the SRQ.
        data.handle.revoke().wait();
        // SAFETY: By the contract in `ops`, `srq` has its Rust part. No other operation uses it now or later, and
        // the event handler, which might, has ended.
        let data = unsafe { object::Srq::<T::Srq>::take(srq) };
        T::destroy_srq(dev, data.srq);
        0
    }

    pub(super) unsafe extern "C" fn post_srq_recv(
        srq: *mut bindings::ib_srq,
        wr: *const bindings::ib_recv_wr,
        bad: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `srq` has its Rust part, and `wr` is a well-formed list that does not
        // change during the call.
        let (data, mut list) =
            unsafe { (object::Srq::<T::Srq>::data(srq), RecvWrList::from_raw(wr)) };
        let posted = T::post_srq_recv(&data.srq, &mut list);
        if posted.is_err() && !bad.is_null() {
            // SAFETY: By the contract in `ops`, `bad` is valid for writes, as it is not null.
            unsafe { bad.write(list.current()) };
        }
        from_result(|| posted.map(|()| 0))
    }
}
