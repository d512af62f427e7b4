// SPDX-License-Identifier: GPL-2.0

//! Operations on counters of QPs (`rdma statistic qp`).
//!
//! The core holds the lock of the counter in all of them, except those that create and delete it. A counter gets
//! its id when its first QP is bound: the core reports the deletion only of counters that had a QP.

use super::OpsVTable;
use crate::{
    bindings,
    compat::ops::CounterOperations,
    ib::{
        device::Device,
        driver::Driver,
        hw_stats::HwCounters,
        object,
        qp_counters::{
            CounterId,
            QpCounts, //
        }, //
    }, //
};
use core::ptr;
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> CounterOperations for OpsVTable<T> {
    unsafe fn counter_bind_qp(
        counter: *mut bindings::rdma_counter,
        qp: *mut bindings::ib_qp,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `qp.device` has its data and `qp` its Rust part.
            let (dev, data) = unsafe {
                (
                    Device::<T>::from_raw((*qp).device),
                    object::Qp::<T::Qp>::data(qp),
                )
            };
            let (driver_qp, now) = (data.qp.clone(), T::read_qp_counters(&data.qp));
            // SAFETY: By the contract in `ops`, `counter` is valid, and the core holds its lock. Only this
            // operation writes the id, under that lock.
            let raw_id = unsafe { (*counter).id };
            let id = (raw_id != 0).then_some(CounterId(raw_id));
            // SAFETY: By the contract in `ops`, both are valid, and the core leaves both fields to the driver. The
            // id is written under the lock of the counter. `qp.counter` is written under the mutex of `QpCounters`,
            // as in `counter_unbind_qp`.
            let set_counter = |CounterId(new_id)| unsafe {
                if id.is_none() {
                    (*counter).id = new_id;
                }
                (*qp).counter = counter;
            };
            dev.qp_counters().bind(id, driver_qp, now, set_counter)?;
            Ok(0)
        })
    }

    /// The core drops a reference of the counter if this succeeds; before a QP is destroyed, in any case.
    unsafe fn counter_unbind_qp(qp: *mut bindings::ib_qp) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `qp.device` has its data and `qp` its Rust part.
            let (dev, data) = unsafe {
                (
                    Device::<T>::from_raw((*qp).device),
                    object::Qp::<T::Qp>::data(qp),
                )
            };
            // SAFETY: By the contract in `ops`, `qp` is valid. It is bound, so `qp.counter` is, too: a counter
            // lives until all its QPs are unbound. The core holds the lock of the counter that it found before it
            // took that lock. If the QP was bound to another one meanwhile, it does not hold that one's lock, which
            // is a bug of the core (Linux 7.3, `rdma_counter_unbind_qpn()`).
            let add = |delta| unsafe {
                let counter = ptr::replace(&raw mut (*qp).counter, ptr::null_mut());
                Self::add(counter, delta);
            };
            let now = T::read_qp_counters(&data.qp);
            dev.qp_counters().unbind(&data.qp, now, add)?;
            Ok(0)
        })
    }
}

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn counter_alloc_stats(
        counter: *mut bindings::rdma_counter,
    ) -> *mut bindings::rdma_hw_stats {
        // SAFETY: By the contract in `ops`, `counter` is valid. `alloc` uses neither argument.
        unsafe { HwCounters::<T>::alloc((*counter).device, (*counter).port) }
    }

    pub(super) unsafe extern "C" fn counter_update_stats(
        counter: *mut bindings::rdma_counter,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `counter` is valid, its lock is held, and its device has its data.
        unsafe {
            let dev = Device::<T>::from_raw((*counter).device);
            let id = CounterId((*counter).id);
            let add = |delta| Self::add(counter, delta);
            dev.qp_counters().update(id, T::read_qp_counters, add);
        }
        0
    }

    /// No QP is bound to it any more, and the core has removed it from its list.
    pub(super) unsafe extern "C" fn counter_dealloc(counter: *mut bindings::rdma_counter) -> c_int {
        // SAFETY: By the contract in `ops`, `counter` is valid, and its device has its data.
        unsafe {
            let dev = Device::<T>::from_raw((*counter).device);
            dev.qp_counters().remove(CounterId((*counter).id));
        }
        0
    }

    /// Adds `delta` to the values of a counter.
    ///
    /// # Safety
    ///
    /// The counter is valid, and the core holds its lock.
    unsafe fn add(counter: *mut bindings::rdma_counter, delta: QpCounts) {
        // SAFETY: The caller guarantees that the counter is valid and its lock held. `counter_alloc_stats`
        // allocated the values, which are accessed under that lock only.
        let values = unsafe { HwCounters::<T>::values((*counter).stats) };
        HwCounters::<T>::apply_qp_counts(values, delta, u64::wrapping_add);
    }
}
