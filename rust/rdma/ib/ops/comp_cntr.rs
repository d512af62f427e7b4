// SPDX-License-Identifier: GPL-2.0

//! Operations on completion counters. Process context.
//!
//! The core destroys a counter only when no QP uses it, and detaches it when a QP is destroyed. It excludes
//! modifications of a QP while it attaches a counter, and refuses operations that are counted already.

use super::OpsVTable;
use crate::{
    bindings,
    compat::comp_cntr::{
        ib_comp_cntr,
        CompCntrOperations,
        RawCaps, //
    },
    errno::EOPNOTSUPP,
    ib::{
        comp_cntr::{
            CompCntrCaps,
            CompCntrChange,
            CompCntrEntry,
            CompCntrOps,
            CompCntrUnit, //
        },
        device::Device,
        driver::Driver,
        object,
        qp_attr::IbQpState, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Driver> CompCntrOperations for OpsVTable<T> {
    const SIZE: usize = object::CompCntr::<T::CompCntr>::SIZE;

    const CAPS: RawCaps = {
        let CompCntrCaps {
            max_value,
            max_counters,
            ops,
        } = T::COMP_CNTR_CAPS;
        RawCaps {
            max_value,
            max_counters,
            ops: ops.as_raw(),
        }
    };

    unsafe fn create_comp_cntr(counter: *mut ib_comp_cntr, kind: u32) -> c_int {
        from_result(|| {
            let unit = CompCntrUnit::from_raw(kind)?;
            // SAFETY: By the contract in `ops`, `counter.device` has its data. `counter` has no Rust part and is not
            // shared until this returns.
            unsafe {
                let dev = Device::<T>::from_raw((*counter).device);
                let data = T::create_comp_cntr(dev, unit)?;
                object::CompCntr::<T::CompCntr>::init(counter, data);
            }
            Ok(0)
        })
    }

    unsafe fn destroy_comp_cntr(counter: *mut ib_comp_cntr) -> c_int {
        // SAFETY: By the contract in `ops`, `counter` has its Rust part, and no other operation uses it now or later.
        drop(unsafe { object::CompCntr::<T::CompCntr>::take(counter) });
        0
    }

    unsafe fn modify_comp_cntr(
        counter: *mut ib_comp_cntr,
        entry: u32,
        op: u32,
        value: u64,
    ) -> c_int {
        from_result(|| {
            let entry = CompCntrEntry::from_raw(entry)?;
            let change = CompCntrChange::from_raw(op, value)?;
            // SAFETY: By the contract in `ops`, `counter` has its Rust part.
            let data = unsafe { object::CompCntr::<T::CompCntr>::data(counter) };
            T::change_comp_cntr(data, entry, change);
            Ok(0)
        })
    }

    unsafe fn read_comp_cntr(counter: *mut ib_comp_cntr, entry: u32, value: *mut u64) -> c_int {
        from_result(|| {
            let entry = CompCntrEntry::from_raw(entry)?;
            // SAFETY: By the contract in `ops`, `counter` has its Rust part, and `value` is valid for writes.
            unsafe {
                let data = object::CompCntr::<T::CompCntr>::data(counter);
                value.write(T::read_comp_cntr(data, entry));
            }
            Ok(0)
        })
    }

    unsafe fn qp_attach_comp_cntr(
        qp: *mut bindings::ib_qp,
        counter: *mut ib_comp_cntr,
        ops: u32,
    ) -> c_int {
        from_result(|| {
            let ops = CompCntrOps::from_raw(ops);
            if !T::COMP_CNTR_CAPS.ops.contains(ops) {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the contract in `ops`, both have their Rust parts.
            let (data, counter) = unsafe {
                (
                    object::Qp::<T::Qp>::data(qp),
                    object::CompCntr::<T::CompCntr>::data(counter),
                )
            };
            let _guard = data.modify.lock();
            match T::qp_state(&data.qp) {
                IbQpState::Reset | IbQpState::Init => {}
                _ => return Err(EINVAL),
            }
            T::attach_comp_cntr(&data.qp, counter, ops)?;
            Ok(0)
        })
    }
}
