// SPDX-License-Identifier: GPL-2.0

//! `rdma link add`, and the registration of a driver.
//!
//! A [`Registration`] adds the driver's link type to the core's list, and unregisters all devices when it is
//! dropped. The core itself handles `rdma link del`: it unregisters the device.
//!
//! `newlink` cannot return an error message: the core passes the name and the netdev, not the request. A driver
//! logs the reason of a failure.
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

/// Registry of the driver `T`.
pub type Registry<T> = super::registry::Registry<T, <T as Driver>::Common>;

/// Registration of the driver as a link type.
///
/// Dropping it removes the link type, unregisters all devices and waits for them: afterwards the core calls no
/// function of the driver. May sleep.
pub struct Registration<T: Driver>(PhantomData<T>);

impl<T: Driver> Registration<T> {
    /// Initialises the driver's registry, and adds its link type to the core's list.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the driver is registered already.
    pub fn new(module: &'static ThisModule, common: Arc<T::Common>) -> Result<Self> {
        let mut ops: bindings::rdma_link_ops = pin_init::zeroed();
        ops.type_ = T::LINK_TYPE.as_char_ptr();
        ops.newlink = Some(newlink::<T>);
        let ops = T::registry().open(module, ops, common)?;
        // SAFETY: `ops` is complete, and part of a static that does not move. `drop` removes it from the list.
        unsafe { bindings::rdma_link_register(ops) };
        Ok(Self(PhantomData))
    }
}

impl<T: Driver> Drop for Registration<T> {
    fn drop(&mut self) {
        let registry = T::registry();
        // SAFETY: `new` registered these operations. The function waits for calls in progress.
        unsafe { bindings::rdma_link_unregister(registry.link_ops()) };
        registry.unregister_all();
        registry.close();
    }
}

/// `rdma_link_ops.newlink`.
///
/// # Safety
///
/// Called by the core as `newlink`: `name` is a C string and `netdev` a held netdev, both valid for the call.
unsafe extern "C" fn newlink<T: Driver>(
    name: *const c_char,
    netdev: *mut bindings::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: The caller guarantees both: the string and the netdev are valid for the call, and
        // `NetDev::from_raw` takes its own reference.
        let (name, netdev) = unsafe { (CStr::from_char_ptr(name), NetDev::from_raw(netdev)) };
        let common = T::registry().common().ok_or(ENODEV)?;
        T::new_link(&common, name, netdev).map(|()| 0)
    })
}
