// SPDX-License-Identifier: GPL-2.0

//! Hardware counters of a port, as `rdma statistic` and sysfs show them.
//!
//! The table of names that the core needs is built at compile time from [`Driver::HW_COUNTERS`]. The core calls
//! these operations in process context, under the lock of the statistics.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::{
        device::Device,
        driver::Driver,
        qp_counters::{
            QpCounts,
            MAX_QP_COUNTERS, //
        }, //
    }, //
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    prelude::*,
    str::as_char_ptr_in_const_context, //
};

/// Maximum number of counters of a driver.
const MAX_HW_COUNTERS: usize = 64;

/// Time for which the core may show the same values, in milliseconds.
const LIFESPAN_MS: c_ulong = 10;

/// The hardware counters of the driver `T`.
pub(crate) struct HwCounters<T: Driver>(PhantomData<T>);

impl<T: Driver> HwCounters<T> {
    const COUNT: usize = T::HW_COUNTERS.len();

    const DESCS: [bindings::rdma_stat_desc; MAX_HW_COUNTERS] = {
        assert!(Self::COUNT <= MAX_HW_COUNTERS && T::QP_COUNTERS.len() <= MAX_QP_COUNTERS);
        let mut descs = [const { pin_init::zeroed::<bindings::rdma_stat_desc>() }; MAX_HW_COUNTERS];
        let mut at = 0;
        while at < Self::COUNT {
            descs[at].name = as_char_ptr_in_const_context(T::HW_COUNTERS[at]);
            at += 1;
        }
        descs
    };

    /// `ib_device_ops.alloc_hw_port_stats`. The core frees what this returns.
    ///
    /// # Safety
    ///
    /// As for all operations, see `ops`.
    pub(crate) unsafe extern "C" fn alloc(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        if Self::COUNT == 0 {
            return ptr::null_mut();
        }
        let descs: &'static [bindings::rdma_stat_desc; MAX_HW_COUNTERS] = &Self::DESCS;
        // SAFETY: The table and its names are static, and the table has at least `COUNT` entries, which the
        // assertion in `DESCS` checks.
        unsafe {
            bindings::rdma_alloc_hw_stats_struct(descs.as_ptr(), Self::COUNT as c_int, LIFESPAN_MS)
        }
    }

    /// `ib_device_ops.get_hw_stats`: reads all counters.
    ///
    /// # Safety
    ///
    /// As for all operations, see `ops`.
    pub(crate) unsafe extern "C" fn get(
        dev: *mut bindings::ib_device,
        stats: *mut bindings::rdma_hw_stats,
        port: u32,
        _index: c_int,
    ) -> c_int {
        if port == 0 || stats.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: The core calls this for a device of `T` that is registered, so its data is in place.
        let dev = unsafe { Device::<T>::from_raw(dev) };
        // SAFETY: `alloc` returned `stats`, and the core holds their lock for the call.
        let values = unsafe { Self::values(stats) };
        for (index, value) in values.iter_mut().enumerate() {
            *value = T::read_counter(dev, index);
        }
        // The core adds the values of bound QPs again. Read them after the port's: so the sum never decreases.
        let bound = dev.qp_counters().total(T::read_qp_counters);
        Self::apply_qp_counts(values, bound, u64::saturating_sub);
        Self::COUNT as c_int
    }

    /// Applies `op` to each value in `values` that QPs maintain too, and the corresponding value in `counts`.
    pub(crate) fn apply_qp_counts(values: &mut [u64], counts: QpCounts, op: fn(u64, u64) -> u64) {
        for (&index, count) in T::QP_COUNTERS.iter().zip(counts) {
            if let Some(value) = values.get_mut(index) {
                *value = op(*value, count);
            }
        }
    }

    /// Returns the values, in the order of [`Driver::HW_COUNTERS`].
    ///
    /// # Safety
    ///
    /// `alloc` returned `stats`, and no other code uses them for all of `'a`.
    pub(crate) unsafe fn values<'a>(stats: *mut bindings::rdma_hw_stats) -> &'a mut [u64] {
        // SAFETY: The caller guarantees that `alloc` returned `stats`, so the core allocated `COUNT` values, and
        // that the caller has exclusive access for `'a`.
        unsafe { core::slice::from_raw_parts_mut((*stats).value.as_mut_ptr(), Self::COUNT) }
    }
}
