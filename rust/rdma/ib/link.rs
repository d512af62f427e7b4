// SPDX-License-Identifier: GPL-2.0

//! `rdma link add` and `rdma link del`, and the list of a driver's devices.
//!
//! Owns the registration of a driver: a type of link in the core's list, and the end of all devices
//! when it is dropped.
//!
//! `newlink` has no room for an explanation in the answer: the core passes the name and the
//! interface, not the request. A driver logs why it refuses. `dellink` is left to the core, which
//! unregisters the device.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::{
    bindings,
    ib::driver::Driver,
    net::netdev::NetDev, //
};
use core::marker::PhantomData;
use kernel::{
    error::from_result,
    prelude::*,
    sync::Arc, //
};

/// The devices of the driver `T`, in a static.
pub type Registry<T> = super::registry::Registry<T, <T as Driver>::Common>;

/// Makes `rdma link add` know the driver.
///
/// Dropping it takes that back, then unregisters every device and waits for the last one to be
/// gone: afterwards the core calls nothing of the driver any more.
pub struct Registration<T: Driver>(PhantomData<T>);

impl<T: Driver> Registration<T> {
    /// Brings the driver's registry to life and its type of link into the core's list.
    ///
    /// # Errors
    ///
    /// `EBUSY` if that has been done.
    pub fn new(module: &'static ThisModule, common: Arc<T::Common>) -> Result<Self> {
        let mut ops: bindings::rdma_link_ops = pin_init::zeroed();
        ops.type_ = T::LINK_TYPE.as_char_ptr();
        ops.newlink = Some(newlink::<T>);
        let ops = T::registry().open(module, ops, common)?;
        // SAFETY: The structure is complete, and part of a static; `drop` takes it off the list.
        unsafe { bindings::rdma_link_register(ops) };
        Ok(Self(PhantomData))
    }
}

impl<T: Driver> Drop for Registration<T> {
    fn drop(&mut self) {
        let registry = T::registry();
        // SAFETY: `new` has registered it. Waits for calls that are being made.
        unsafe { bindings::rdma_link_unregister(registry.link_ops()) };
        registry.unregister_all();
        registry.close();
    }
}

/// `rdma_link_ops.newlink`.
///
/// # Safety
///
/// The arguments are those of a call that the core makes.
unsafe extern "C" fn newlink<T: Driver>(
    name: *const c_char,
    netdev: *mut bindings::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a string and an interface, and holds both for the call.
        let (name, netdev) = unsafe { (CStr::from_char_ptr(name), NetDev::from_raw(netdev)) };
        let common = T::registry().common().ok_or(ENODEV)?;
        T::new_link(&common, name, netdev).map(|()| 0)
    })
}
