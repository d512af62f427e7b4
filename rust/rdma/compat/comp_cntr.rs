// SPDX-License-Identifier: GPL-2.0

//! Operations on completion counters: since 7.3.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use kernel::prelude::*;

#[cfg(has_comp_cntr)]
pub(crate) use crate::bindings::ib_comp_cntr;

/// The C part of a counter that no core creates.
#[cfg(not(has_comp_cntr))]
#[expect(non_camel_case_types, reason = "as the newest kernel calls it")]
pub(crate) struct ib_comp_cntr {
    pub(crate) device: *mut bindings::ib_device,
}

/// `struct ib_comp_cntr_caps`.
pub(crate) struct RawCaps {
    pub(crate) max_value: u64,
    pub(crate) max_counters: u32,
    pub(crate) ops: u32,
}

/// Operations on completion counters.
pub(crate) trait CompCntrOperations {
    /// The size of the object.
    const SIZE: usize;

    /// What the device says of its counters.
    const CAPS: RawCaps;

    /// Creates a counter of a type: `enum ferroce_comp_cntr_type`, not checked.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn create_comp_cntr(counter: *mut ib_comp_cntr, kind: u32) -> c_int;

    /// Destroys a counter, which is attached to no QP.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn destroy_comp_cntr(counter: *mut ib_comp_cntr) -> c_int;

    /// Changes one of the two values.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn modify_comp_cntr(
        counter: *mut ib_comp_cntr,
        entry: u32,
        op: u32,
        value: u64,
    ) -> c_int;

    /// Reads one of the two values.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn read_comp_cntr(counter: *mut ib_comp_cntr, entry: u32, value: *mut u64) -> c_int;

    /// Attaches a counter to a QP, for operations that are not counted yet.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn qp_attach_comp_cntr(
        qp: *mut bindings::ib_qp,
        counter: *mut ib_comp_cntr,
        ops: u32,
    ) -> c_int;
}

/// Tells the core of the attribute that the driver adds to the creation of a counter.
///
/// # Safety
///
/// `device` is valid and not registered yet, and the caller is its only owner.
pub(crate) unsafe fn add_attributes(device: *mut bindings::ib_device) {
    #[cfg(has_comp_cntr)]
    // SAFETY: The caller guarantees that the field may be written. The table lives as long as the module, and the core
    // reads it while the device is registered.
    unsafe {
        (*device).driver_def = bindings::ferroce_helper_comp_cntr_definition();
    }
    #[cfg(not(has_comp_cntr))]
    let _ = device;
}

/// Returns `ops` with the operations of `O`, if this kernel has them.
pub(super) const fn with_comp_cntrs<O: CompCntrOperations>(
    ops: bindings::ib_device_ops,
) -> bindings::ib_device_ops {
    #[cfg(has_comp_cntr)]
    return trampoline::install::<O>(ops);
    #[cfg(not(has_comp_cntr))]
    {
        // Named, as nothing else here uses them, and what they use.
        let RawCaps {
            max_value,
            max_counters,
            ops: counted,
        } = O::CAPS;
        let _ = (O::SIZE, max_value, max_counters, counted);
        let _ = (O::create_comp_cntr, O::destroy_comp_cntr);
        let _ = (O::modify_comp_cntr, O::read_comp_cntr);
        let _ = O::qp_attach_comp_cntr;
        ops
    }
}

/// The functions that the core calls.
#[cfg(has_comp_cntr)]
mod trampoline {
    use super::*;

    pub(super) const fn install<O: CompCntrOperations>(
        mut ops: bindings::ib_device_ops,
    ) -> bindings::ib_device_ops {
        ops.create_comp_cntr = Some(create::<O>);
        ops.destroy_comp_cntr = Some(destroy::<O>);
        ops.modify_comp_cntr = Some(modify::<O>);
        ops.read_comp_cntr = Some(read::<O>);
        ops.qp_attach_comp_cntr = Some(attach::<O>);
        ops.query_comp_cntr_caps = Some(query_caps::<O>);
        ops.size_ib_comp_cntr = O::SIZE;
        ops
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn create<O: CompCntrOperations>(
        counter: *mut ib_comp_cntr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        let mut kind = 0;
        // SAFETY: By the function's contract, `attrs` are those of the call.
        match unsafe { bindings::ferroce_helper_comp_cntr_type(attrs, &mut kind) } {
            // SAFETY: By the function's contract.
            0 => unsafe { O::create_comp_cntr(counter, kind) },
            error => error,
        }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn destroy<O: CompCntrOperations>(counter: *mut ib_comp_cntr) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::destroy_comp_cntr(counter) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn modify<O: CompCntrOperations>(
        counter: *mut ib_comp_cntr,
        entry: bindings::ib_comp_cntr_entry,
        op: bindings::ib_comp_cntr_modify_op,
        value: u64,
    ) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::modify_comp_cntr(counter, entry, op, value) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn read<O: CompCntrOperations>(
        counter: *mut ib_comp_cntr,
        entry: bindings::ib_comp_cntr_entry,
        value: *mut u64,
    ) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::read_comp_cntr(counter, entry, value) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation: `attr` is valid.
    unsafe extern "C" fn attach<O: CompCntrOperations>(
        qp: *mut bindings::ib_qp,
        counter: *mut ib_comp_cntr,
        attr: *mut bindings::ib_qp_attach_comp_cntr_attr,
    ) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::qp_attach_comp_cntr(qp, counter, (*attr).op_mask) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation: `caps` is valid for writes.
    unsafe extern "C" fn query_caps<O: CompCntrOperations>(
        _dev: *mut bindings::ib_device,
        caps: *mut bindings::ib_comp_cntr_caps,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: By the function's contract.
        unsafe {
            caps.write(bindings::ib_comp_cntr_caps {
                max_value: O::CAPS.max_value,
                max_counters: O::CAPS.max_counters,
                supported_qp_attach_ops: O::CAPS.ops,
            });
        }
        0
    }
}
