// SPDX-License-Identifier: GPL-2.0

//! Operations on counters of queue pairs (`rdma statistic qp`).
//!
//! The core holds the lock of a counter in all of them but those that make it and end it. A counter is ours
//! from its first queue pair on, when it gets its number: the core tells only of the end of those that have
//! had one.

use super::OpsVTable;
use crate::{
    bindings,
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

impl<T: Driver> OpsVTable<T> {
    /// The core has filled it with zeros, which stand for no number; and it may drop it without a word.
    pub(super) unsafe extern "C" fn counter_init(_counter: *mut bindings::rdma_counter) {}

    pub(super) unsafe extern "C" fn counter_alloc_stats(
        counter: *mut bindings::rdma_counter,
    ) -> *mut bindings::rdma_hw_stats {
        // SAFETY: See the head of `ops`.
        unsafe { HwCounters::<T>::alloc((*counter).device, (*counter).port) }
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
            // SAFETY: As above. Only this writes it, before anybody else knows the counter.
            let number = unsafe { (*counter).id };
            let counted = (number != 0).then_some(CounterId(number));
            // SAFETY: The core leaves both fields to the driver. The number is written under the lock of the
            // counter, the other where no other of these operations is.
            let tell = |CounterId(number)| unsafe {
                if counted.is_none() {
                    (*counter).id = number;
                }
                (*qp).counter = counter;
            };
            dev.counted_apart().bind(counted, qp_ours, now, tell)?;
            Ok(0)
        })
    }

    /// The core takes a reference away from the counter if this has succeeded; before a queue pair is destroyed, in any
    /// case.
    pub(super) unsafe extern "C" fn counter_unbind_qp(
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
            // SAFETY: It belongs to a counter, which is valid until all have left it, and this is where it leaves. The
            // core holds the lock of that which it found, before it had the lock; of another, to which the queue
            // pair was bound meanwhile, it should (Linux 7.3, `rdma_counter_unbind_qpn()`).
            let give = |news| unsafe {
                let counter = ptr::replace(&raw mut (*qp).counter, ptr::null_mut());
                Self::give(counter, news);
            };
            let now = T::read_qp_counters(&data.qp);
            dev.counted_apart().unbind(&data.qp, now, give)?;
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn counter_update_stats(
        counter: *mut bindings::rdma_counter,
    ) -> c_int {
        // SAFETY: See the head of `ops`.
        unsafe {
            let dev = Device::<T>::from_raw((*counter).device);
            let id = CounterId((*counter).id);
            let give = |news| Self::give(counter, news);
            dev.counted_apart().update(id, T::read_qp_counters, give);
        }
        0
    }

    /// No queue pair belongs to it any more, and the core has taken it off its list.
    pub(super) unsafe extern "C" fn counter_dealloc(counter: *mut bindings::rdma_counter) -> c_int {
        // SAFETY: See the head of `ops`.
        unsafe {
            let dev = Device::<T>::from_raw((*counter).device);
            dev.counted_apart().end(CounterId((*counter).id));
        }
        0
    }

    /// Adds to the values of a counter.
    ///
    /// # Safety
    ///
    /// The counter is valid, and the core holds its lock.
    unsafe fn give(counter: *mut bindings::rdma_counter, news: QpCounts) {
        // SAFETY: `counter_alloc_stats` has made them; with the lock nobody else uses them.
        let values = unsafe { HwCounters::<T>::values((*counter).stats) };
        HwCounters::<T>::change(values, news, u64::wrapping_add);
    }
}
