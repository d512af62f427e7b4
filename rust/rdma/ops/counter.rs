// SPDX-License-Identifier: GPL-2.0

//! Operations on counters of queue pairs (`rdma statistic qp`).
//!
//! The core holds the lock of a counter in all of them but those that make it and end it. Nothing of ours
//! hangs on a counter that no queue pair belongs to, so there is nothing to free.

use super::OpsVTable;
use crate::{
    apart::{
        CounterId,
        QpCounts, //
    },
    bindings,
    device::handle::Device,
    driver::Driver,
    object,
    stats::Counters, //
};
use core::ptr;
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> OpsVTable<T> {
    /// The core has filled it with zeros, and knows the rest.
    pub(super) unsafe extern "C" fn counter_init(_counter: *mut bindings::rdma_counter) {}

    pub(super) unsafe extern "C" fn counter_alloc_stats(
        counter: *mut bindings::rdma_counter,
    ) -> *mut bindings::rdma_hw_stats {
        // SAFETY: See the head of `ops`.
        unsafe { Counters::<T>::alloc((*counter).device, (*counter).port) }
    }

    pub(super) unsafe extern "C" fn counter_bind_qp(
        counter: *mut bindings::rdma_counter,
        qp: *mut bindings::ib_qp,
        _port: u32,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            let (dev, data) = unsafe {
                (
                    Device::<T>::from_raw((*qp).device),
                    object::Qp::<T::Qp>::data(qp),
                )
            };
            let (qp_ours, now) = (data.qp.clone(), T::read_qp_counters(&data.qp));
            dev.counted_apart()
                .bind(CounterId(counter.addr()), qp_ours, now)?;
            // SAFETY: The core leaves the field to the driver, under the lock of the counter.
            unsafe { (*qp).counter = counter };
            Ok(0)
        })
    }

    /// Also before a queue pair is destroyed.
    pub(super) unsafe extern "C" fn counter_unbind_qp(
        qp: *mut bindings::ib_qp,
        _port: u32,
    ) -> c_int {
        // SAFETY: See the head of `ops`. The core asks for it only if there is a counter.
        unsafe {
            let dev = Device::<T>::from_raw((*qp).device);
            let data = object::Qp::<T::Qp>::data(qp);
            let counter = ptr::replace(&raw mut (*qp).counter, ptr::null_mut());
            let now = T::read_qp_counters(&data.qp);
            dev.counted_apart()
                .unbind(&data.qp, now, |news| Self::give(counter, news));
        }
        0
    }

    pub(super) unsafe extern "C" fn counter_update_stats(
        counter: *mut bindings::rdma_counter,
    ) -> c_int {
        // SAFETY: See the head of `ops`.
        unsafe {
            let dev = Device::<T>::from_raw((*counter).device);
            let id = CounterId(counter.addr());
            let give = |news| Self::give(counter, news);
            dev.counted_apart().update(id, T::read_qp_counters, give);
        }
        0
    }

    /// No queue pair belongs to it any more.
    pub(super) unsafe extern "C" fn counter_dealloc(
        _counter: *mut bindings::rdma_counter,
    ) -> c_int {
        0
    }

    /// Adds to the values of a counter.
    ///
    /// # Safety
    ///
    /// The counter is valid, and the core holds its lock.
    unsafe fn give(counter: *mut bindings::rdma_counter, news: QpCounts) {
        // SAFETY: `counter_alloc_stats` has made them; with the lock nobody else uses them.
        let values = unsafe { Counters::<T>::values((*counter).stats) };
        Counters::<T>::change(values, news, u64::wrapping_add);
    }
}
