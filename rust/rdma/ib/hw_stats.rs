// SPDX-License-Identifier: GPL-2.0

//! Hardware counters, as `rdma statistic` and sysfs show them.
//!
//! Owns the table of names that the core wants, made from [`Driver::HW_COUNTERS`] when the driver
//! is compiled.
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

/// Most counters of a driver.
const MAX: usize = 64;

/// How long the core may show the same values, milliseconds.
const LIFESPAN: c_ulong = 10;

/// The counters of the driver `T`.
pub(crate) struct HwCounters<T: Driver>(PhantomData<T>);

impl<T: Driver> HwCounters<T> {
    const COUNT: usize = T::HW_COUNTERS.len();

    const DESCS: [bindings::rdma_stat_desc; MAX] = {
        assert!(Self::COUNT <= MAX && T::QP_COUNTERS.len() <= MAX_QP_COUNTERS);
        let mut descs = [const { pin_init::zeroed::<bindings::rdma_stat_desc>() }; MAX];
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
    /// That of the operation.
    pub(crate) unsafe extern "C" fn alloc(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        if Self::COUNT == 0 {
            return ptr::null_mut();
        }
        let descs: &'static [bindings::rdma_stat_desc; MAX] = &Self::DESCS;
        // SAFETY: The names live for ever, and there are at least so many.
        unsafe {
            bindings::rdma_alloc_hw_stats_struct(descs.as_ptr(), Self::COUNT as c_int, LIFESPAN)
        }
    }

    /// `ib_device_ops.get_hw_stats`: fills in all counters.
    ///
    /// # Safety
    ///
    /// That of the operation.
    pub(crate) unsafe extern "C" fn get(
        dev: *mut bindings::ib_device,
        stats: *mut bindings::rdma_hw_stats,
        port: u32,
        _index: c_int,
    ) -> c_int {
        if port == 0 || stats.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: A registered device of `T`.
        let dev = unsafe { Device::<T>::from_raw(dev) };
        // SAFETY: `alloc` has made it; the core holds its lock.
        let values = unsafe { Self::values(stats) };
        for (index, value) in values.iter_mut().enumerate() {
            *value = T::read_counter(dev, index);
        }
        // The core adds what is counted apart, once more. Asked after the port, so that the sum never
        // goes down.
        let apart = dev.counted_apart().total(T::read_qp_counters);
        Self::change(values, apart, u64::saturating_sub);
        Self::COUNT as c_int
    }

    /// Changes the values that stand for `counts` of queue pairs, each by its count.
    pub(crate) fn change(values: &mut [u64], counts: QpCounts, by: fn(u64, u64) -> u64) {
        for (&index, count) in T::QP_COUNTERS.iter().zip(counts) {
            if let Some(value) = values.get_mut(index) {
                *value = by(*value, count);
            }
        }
    }

    /// The values, in the order of [`Driver::HW_COUNTERS`].
    ///
    /// # Safety
    ///
    /// `alloc` has made `stats`, and for all of `'a` nobody else uses them.
    pub(crate) unsafe fn values<'a>(stats: *mut bindings::rdma_hw_stats) -> &'a mut [u64] {
        // SAFETY: As the function requires: there is room for so many.
        unsafe { core::slice::from_raw_parts_mut((*stats).value.as_mut_ptr(), Self::COUNT) }
    }
}
