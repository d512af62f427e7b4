// SPDX-License-Identifier: GPL-2.0

//! `struct ib_device_ops` for a [`Driver`]: every function that the core calls.
//!
//! Owns the table and, in the modules below, the trampolines. One pattern: raw pointers become
//! references and values, the trait's function is called, the result becomes an errno. Rules of the
//! core that a driver should not have to know are kept here: what a udata may hold, which
//! attributes are refused for all drivers, when a handle is cut, what is freed by whom. A destroy
//! does not fail, it waits; only a region may have to stay. Nor does it look at its udata: no process can give it one,
//! and what the core passes where it takes back an object that it could not tell of is the udata of the create, which
//! the process may have changed since.
//!
//! # Safety
//!
//! Of every trampoline: the arguments are those of a call that the core makes, on a device or an
//! object of `T`. In particular an object has its Rust part between create and destroy.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

#![allow(
    clippy::missing_safety_doc,
    reason = "the same for all trampolines, see the head of this file"
)]

use crate::{
    bindings,
    ib::{
        driver::Driver,
        hw_stats::HwCounters,
        mmap,
        object, //
    }, //
};
use core::marker::PhantomData;
use kernel::prelude::*;

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

/// The operations of the driver `T`.
pub(crate) struct OpsVTable<T: Driver>(PhantomData<T>);

impl<T: Driver> OpsVTable<T> {
    /// The table; the owner and the attributes are added when a device is made.
    pub(crate) const OPS: bindings::ib_device_ops = bindings::ib_device_ops {
        driver_id: T::DRIVER_ID,
        uverbs_abi_ver: T::ABI_VERSION,

        advise_mr: Some(Self::advise_mr),
        alloc_hw_port_stats: Some(HwCounters::<T>::alloc),
        alloc_mr: Some(Self::alloc_mr),
        alloc_mw: Some(Self::alloc_mw),
        alloc_pd: Some(Self::alloc_pd),
        alloc_ucontext: Some(Self::alloc_ucontext),
        attach_mcast: Some(Self::attach_mcast),
        counter_alloc_stats: Some(Self::counter_alloc_stats),
        counter_bind_qp: Some(Self::counter_bind_qp),
        counter_dealloc: Some(Self::counter_dealloc),
        counter_init: Some(Self::counter_init),
        counter_unbind_qp: Some(Self::counter_unbind_qp),
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
        pre_destroy_cq: Some(Self::pre_destroy_cq),
        process_mad: Some(Self::process_mad),
        query_ah: Some(Self::query_ah),
        query_device: Some(Self::query_device),
        query_pkey: Some(Self::query_pkey),
        query_port: Some(Self::query_port),
        query_qp: Some(Self::query_qp),
        query_srq: Some(Self::query_srq),
        reg_user_mr: Some(Self::reg_user_mr),
        reg_user_mr_dmabuf: Some(Self::reg_user_mr_dmabuf),
        req_notify_cq: Some(Self::req_notify_cq),
        resize_user_cq: Some(Self::resize_user_cq),
        rereg_user_mr: Some(Self::rereg_user_mr),

        size_ib_ah: object::Ah::<T::Ah>::SIZE,
        size_ib_cq: object::Cq::<T::Cq>::SIZE,
        size_ib_mw: object::Mw::<T::Mw>::SIZE,
        size_ib_pd: object::Pd::<T::Pd>::SIZE,
        size_ib_qp: object::Qp::<T::Qp>::SIZE,
        size_ib_srq: object::Srq::<T::Srq>::SIZE,
        size_ib_ucontext: object::Ucontext::<T::Ucontext>::SIZE,
        size_rdma_counter: size_of::<bindings::rdma_counter>(),

        ..pin_init::zeroed()
    };
}

/// What the core takes for a pointer: an object or an errno.
fn into_err_ptr<P>(result: Result<*mut P>) -> *mut P {
    match result {
        Ok(object) => object,
        Err(error) => error.to_ptr(),
    }
}
