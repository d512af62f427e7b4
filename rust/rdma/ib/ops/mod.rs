// SPDX-License-Identifier: GPL-2.0

//! `struct ib_device_ops` for a [`Driver`]: the functions that the core calls.
//!
//! This file has the table; the files below have the trampolines, one file per kind of object. A trampoline turns
//! raw pointers into references and values, calls the function of the trait, and turns the result into an errno. It
//! also applies the rules that are the same for all drivers: contents of a udata, unsupported attributes, the point
//! at which the consumer's callbacks stop.
//!
//! A destroy operation waits and does not fail, except for an MR to which an MW is bound. Destroy ignores its
//! udata: on a failed create the core passes the create's udata, which user space may have modified.
//!
//! # Safety
//!
//! A trampoline is called by the core only, as an operation of a device of `T`. The core then guarantees:
//!
//! - *Device.* A device pointer, and the `device` field of an object, is a [`Device<T>`](super::device::Device)
//!   whose data is in place. Operations that may run after `dealloc_driver` say so.
//! - *Objects.* The core allocated the object with the size that the table states, except MRs, which `new_mr`
//!   allocates. Before create it has no Rust part, and no other call uses it. From a successful create to destroy
//!   it has one, and so have the objects that it was created from (PD, CQs, SRQ, XRC domain). Destroy succeeds once,
//!   and no other operation uses the object meanwhile, unless a handler of the consumer is still running and calls it.
//! - *Fields.* Before create the core has set `device`, `pd`, `uobject`, the QP type and the consumer's handlers;
//!   for an MR, after it; the completion handler of a CQ, before the CQ is armed for the first time. Until destroy
//!   they do not change, except the PD of an MR, and for a target of XRC, before it is known, all but the type.
//! - *Arguments.* Pointers to attributes and results are valid for the call, of the type in the prototype, and no
//!   other CPU accesses what they point to. Results may be uninitialised.
//! - *udata.* It is null for a ULP. Otherwise it belongs to the call, and its user context, if it has one, to this
//!   driver.
//! - *GID entries.* `sgid_attr` of an address is null or an entry that the core holds for the call.
//! - *Work requests.* A list of a ULP is well-formed (`ib_post_send`, `ib_post_recv`), and does not change during
//!   the call.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

#![allow(
    clippy::missing_safety_doc,
    reason = "the same for all trampolines, see the head of this file"
)]

use crate::{
    bindings,
    compat::ops::{
        set_robust_udata,
        with_operations, //
    },
    ib::{
        driver::Driver,
        hw_stats::HwCounters,
        kind::DeviceKind,
        mmap,
        object,
        sysfs, //
    }, //
};
use core::marker::PhantomData;
use kernel::prelude::*;

mod comp_cntr;
mod context;
mod counter;
mod cq;
mod device;
mod mr;
mod multicast;
mod mw;
mod qp;
mod restrack;
mod srq;
mod xrc;

/// The operation table of the driver `T`.
pub(crate) struct OpsVTable<T: Driver>(PhantomData<T>);

impl<T: Driver> OpsVTable<T> {
    /// The functions, which are the same for all kinds of devices.
    pub(crate) const FUNCTIONS: bindings::ib_device_ops =
        with_operations::<Self>(bindings::ib_device_ops {
            add_gid: Some(Self::add_gid),
            advise_mr: Some(Self::advise_mr),
            alloc_hw_port_stats: Some(HwCounters::<T>::alloc),
            alloc_mr: Some(Self::alloc_mr),
            alloc_mw: Some(Self::alloc_mw),
            alloc_pd: Some(Self::alloc_pd),
            alloc_ucontext: Some(Self::alloc_ucontext),
            alloc_xrcd: Some(Self::alloc_xrcd),
            attach_mcast: Some(Self::attach_mcast),
            counter_alloc_stats: Some(Self::counter_alloc_stats),
            counter_dealloc: Some(Self::counter_dealloc),
            counter_update_stats: Some(Self::counter_update_stats),
            create_ah: Some(Self::create_ah),
            create_cq: Some(Self::create_cq),
            create_qp: Some(Self::create_qp),
            create_srq: Some(Self::create_srq),
            create_user_ah: Some(Self::create_ah),
            dealloc_driver: Some(Self::dealloc_driver),
            dealloc_mw: Some(Self::dealloc_mw),
            dealloc_pd: Some(Self::dealloc_pd),
            dealloc_ucontext: Some(Self::dealloc_ucontext),
            dealloc_xrcd: Some(Self::dealloc_xrcd),
            del_gid: Some(Self::del_gid),
            dereg_mr: Some(Self::dereg_mr),
            destroy_ah: Some(Self::destroy_ah),
            destroy_cq: Some(Self::destroy_cq),
            destroy_qp: Some(Self::destroy_qp),
            detach_mcast: Some(Self::detach_mcast),
            destroy_srq: Some(Self::destroy_srq),
            disassociate_ucontext: Some(Self::disassociate_ucontext),
            enable_driver: Some(Self::enable_driver),
            fill_res_cq_entry: Some(Self::fill_res_cq_entry),
            fill_res_mr_entry: Some(Self::fill_res_mr_entry),
            fill_res_qp_entry: Some(Self::fill_res_qp_entry),
            fill_res_srq_entry: Some(Self::fill_res_srq_entry),
            get_dma_mr: Some(Self::get_dma_mr),
            get_hw_stats: Some(HwCounters::<T>::get),
            get_link_layer: Some(Self::get_link_layer),
            get_netdev: Some(Self::get_netdev),
            get_port_immutable: Some(Self::get_port_immutable),
            map_mr_sg: Some(Self::map_mr_sg),
            mmap: Some(mmap::mmap),
            mmap_free: Some(mmap::mmap_free),
            modify_ah: Some(Self::modify_ah),
            modify_cq: Some(Self::modify_cq),
            modify_device: Some(Self::modify_device),
            modify_qp: Some(Self::modify_qp),
            modify_srq: Some(Self::modify_srq),
            poll_cq: Some(Self::poll_cq),
            post_recv: Some(Self::post_recv),
            post_send: Some(Self::post_send),
            post_srq_recv: Some(Self::post_srq_recv),
            process_mad: Some(Self::process_mad),
            query_ah: Some(Self::query_ah),
            query_device: Some(Self::query_device),
            query_pkey: Some(Self::query_pkey),
            query_port: Some(Self::query_port),
            query_qp: Some(Self::query_qp),
            query_srq: Some(Self::query_srq),
            query_ucontext: Some(Self::query_ucontext),
            req_notify_cq: Some(Self::req_notify_cq),
            rereg_user_mr: Some(Self::rereg_user_mr),

            size_ib_ah: object::Ah::<T::Ah>::SIZE,
            size_ib_cq: object::Cq::<T::Cq>::SIZE,
            size_ib_mw: object::Mw::<T::Mw>::SIZE,
            size_ib_pd: object::Pd::<T::Pd>::SIZE,
            size_ib_qp: object::Qp::<T::Qp>::SIZE,
            size_ib_srq: object::Srq::<T::Srq>::SIZE,
            size_ib_ucontext: object::Ucontext::<T::Ucontext>::SIZE,
            size_ib_xrcd: object::Xrcd::<T::Xrcd>::SIZE,

            ..pin_init::zeroed()
        });

    /// Adds what else is in the table of a device of this kind. In place: a copy would be large for the stack.
    pub(crate) fn complete(ops: &mut bindings::ib_device_ops, kind: &DeviceKind<T::Abi>) {
        ops.owner = T::registry().module();
        ops.driver_id = kind.driver_id;
        ops.uverbs_abi_ver = kind.abi_version;
        ops.device_group = sysfs::group();
        set_robust_udata(ops);
    }
}

/// Encodes a result as the core expects it: a pointer to the object, or an errno (`ERR_PTR`).
fn into_err_ptr<P>(result: Result<*mut P>) -> *mut P {
    match result {
        Ok(object) => object,
        Err(error) => error.to_ptr(),
    }
}
