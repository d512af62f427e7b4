// SPDX-License-Identifier: GPL-2.0

//! Operations whose names and arguments differ between kernels. The driver implements those of the newest.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    compat::comp_cntr::{
        with_comp_cntrs,
        CompCntrOperations, //
    }, //
};
use core::marker::PhantomData;
use kernel::prelude::*;

/// Operations on counters.
pub(crate) trait CounterOperations {
    /// Binds a QP to a counter. The core passes the port, too, since 6.18.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn counter_bind_qp(
        counter: *mut bindings::rdma_counter,
        qp: *mut bindings::ib_qp,
    ) -> c_int;

    /// Unbinds a QP from its counter.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn counter_unbind_qp(qp: *mut bindings::ib_qp) -> c_int;
}

/// Operations on CQs.
pub(crate) trait CqOperations {
    /// Stops the notifications of a ULP before this returns: the core then waits for the last work item that the
    /// completion handler has queued. Older kernels, such as 6.12.95, lack it: see [`end_polling`].
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    #[cfg_attr(
        not(has_pre_destroy_cq),
        expect(dead_code, reason = "this core does not call it")
    )]
    unsafe fn pre_destroy_cq(cq: *mut bindings::ib_cq) -> c_int;

    /// Resizes a CQ. Before 7.1 the operation is `resize_cq`, and the number of entries is an `int`.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        entries: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int;
}

/// Operations on MRs. Handles of DMA (`has_dmah`) exist since 6.17.
pub(crate) trait MrOperations {
    /// Registers memory of a process.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        range: UserRange,
        has_dmah: bool,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr;

    /// Registers a DMA buffer, of which `range.start` is an offset.
    ///
    /// # Safety
    ///
    /// By the contract in `ib::ops`.
    unsafe fn reg_user_mr_dmabuf(
        pd: *mut bindings::ib_pd,
        range: UserRange,
        fd: c_int,
        has_dmah: bool,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut bindings::ib_mr;
}

/// The range of a region to register, as a process passes it.
pub(crate) struct UserRange {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) iova: u64,
    pub(crate) access: c_int,
}

/// Returns `ops` with the operations of `O` in the form of this kernel, and with those that only some kernels have.
pub(crate) const fn with_operations<O>(ops: bindings::ib_device_ops) -> bindings::ib_device_ops
where
    O: CompCntrOperations + CounterOperations + CqOperations + MrOperations,
{
    let mut ops = with_comp_cntrs::<O>(ops);
    ops.counter_bind_qp = Some(Trampoline::<O>::counter_bind_qp);
    ops.counter_unbind_qp = Some(Trampoline::<O>::counter_unbind_qp);
    ops.reg_user_mr = Some(Trampoline::<O>::reg_user_mr);
    ops.reg_user_mr_dmabuf = Some(Trampoline::<O>::reg_user_mr_dmabuf);
    #[cfg(has_resize_user_cq)]
    {
        ops.resize_user_cq = Some(Trampoline::<O>::resize_user_cq);
    }
    #[cfg(not(has_resize_user_cq))]
    {
        ops.resize_cq = Some(Trampoline::<O>::resize_cq);
    }
    #[cfg(has_pre_destroy_cq)]
    {
        ops.pre_destroy_cq = Some(Trampoline::<O>::pre_destroy_cq);
    }
    // Before, the core allocates a counter without asking.
    #[cfg(has_counter_init)]
    {
        ops.counter_init = Some(counter_init);
        ops.size_rdma_counter = size_of::<bindings::rdma_counter>();
    }
    #[cfg(has_port_speed)]
    {
        ops.query_port_speed = Some(super::port::query_port_speed);
    }
    ops
}

/// Switches adaptive moderation of the device off, which the core looks at when the CQ is created. Without
/// `pre_destroy_cq`, a work item that polls a CQ late would use what the core has freed of it.
///
/// # Safety
///
/// `cq` must be in `create_cq`, and so have a valid device.
pub(crate) unsafe fn avoid_adaptive_moderation(cq: *mut bindings::ib_cq) {
    #[cfg(not(has_pre_destroy_cq))]
    // SAFETY: By the function's contract. The other bits of the word do not change while the device is registered.
    unsafe {
        let device = (*cq).device;
        if (*device).use_cq_dim() != 0 {
            (*device).set_use_cq_dim(0);
        }
    }
    #[cfg(has_pre_destroy_cq)]
    let _ = cq;
}

/// Waits for the work item that polls the CQ of a ULP. Without `pre_destroy_cq`, the core has waited for it before the
/// notifications have stopped, so one of them may have queued it again. Process context.
///
/// An `irq_poll` needs no such wait: the core has disabled it.
///
/// # Safety
///
/// `cq` must be valid and about to be destroyed, and its completion handler must have ended.
pub(crate) unsafe fn end_polling(cq: *mut bindings::ib_cq) {
    #[cfg(not(has_pre_destroy_cq))]
    // SAFETY: By the function's contract. The core has initialised `work` in a CQ that is polled from a work queue.
    unsafe {
        use bindings::{
            ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE as UNBOUND,
            ib_poll_context_IB_POLL_WORKQUEUE as BOUND, //
        };

        if matches!((*cq).poll_ctx, BOUND | UNBOUND) {
            bindings::cancel_work_sync((&raw mut (*cq).__bindgen_anon_1.work).cast());
        }
    }
    #[cfg(has_pre_destroy_cq)]
    let _ = cq;
}

/// Tells the core that all operations check their udata, also destroys, and respond through its functions: since 7.2.
pub(crate) fn set_robust_udata(ops: &mut bindings::ib_device_ops) {
    #[cfg(has_robust_udata)]
    ops.set_uverbs_robust_udata(1);
    #[cfg(not(has_robust_udata))]
    let _ = ops;
}

/// Does nothing: the core has zeroed the counter, and id 0 stands for none. The core may free it without calling
/// `counter_dealloc`.
///
/// # Safety
///
/// None.
#[cfg(has_counter_init)]
unsafe extern "C" fn counter_init(_counter: *mut bindings::rdma_counter) {}

/// The functions that the core calls.
struct Trampoline<O>(PhantomData<O>);

impl<O: CounterOperations + CqOperations + MrOperations> Trampoline<O> {
    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn counter_bind_qp(
        counter: *mut bindings::rdma_counter,
        qp: *mut bindings::ib_qp,
        #[cfg(has_counter_port)] _port: u32,
    ) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::counter_bind_qp(counter, qp) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn counter_unbind_qp(
        qp: *mut bindings::ib_qp,
        #[cfg(has_counter_port)] _port: u32,
    ) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::counter_unbind_qp(qp) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: c_int,
        #[cfg(has_dmah)] dmah: *mut bindings::ib_dmah,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        let range = UserRange {
            start,
            length,
            iova,
            access,
        };
        #[cfg(not(has_dmah))]
        let dmah = core::ptr::null::<c_void>();
        // SAFETY: By the function's contract.
        unsafe { O::reg_user_mr(pd, range, !dmah.is_null(), udata) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    unsafe extern "C" fn reg_user_mr_dmabuf(
        pd: *mut bindings::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        fd: c_int,
        access: c_int,
        #[cfg(has_dmah)] dmah: *mut bindings::ib_dmah,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut bindings::ib_mr {
        let range = UserRange {
            start,
            length,
            iova,
            access,
        };
        #[cfg(not(has_dmah))]
        let dmah = core::ptr::null::<c_void>();
        // SAFETY: By the function's contract.
        unsafe { O::reg_user_mr_dmabuf(pd, range, fd, !dmah.is_null(), attrs) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    #[cfg(has_pre_destroy_cq)]
    unsafe extern "C" fn pre_destroy_cq(cq: *mut bindings::ib_cq) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::pre_destroy_cq(cq) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    #[cfg(has_resize_user_cq)]
    unsafe extern "C" fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        entries: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: By the function's contract.
        unsafe { O::resize_user_cq(cq, entries, udata) }
    }

    /// # Safety
    ///
    /// Only the core may call this, by the contract of the operation.
    #[cfg(not(has_resize_user_cq))]
    unsafe extern "C" fn resize_cq(
        cq: *mut bindings::ib_cq,
        entries: c_int,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        match c_uint::try_from(entries) {
            // SAFETY: By the function's contract.
            Ok(entries) => unsafe { O::resize_user_cq(cq, entries, udata) },
            Err(_) => EINVAL.to_errno(),
        }
    }
}
