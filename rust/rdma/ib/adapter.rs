// SPDX-License-Identifier: GPL-2.0

//! The RDMA devices of adapters, as far as they affect software over the adapters' interfaces.
//!
//! An adapter that speaks RoCEv2 itself may take the packets to its UDP port before the network stack sees them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib_device::{
        write_byte,
        IbDevice, //
    },
    net::netdev::NetDevBorrow, //
};
use core::ptr::NonNull;
use kernel::{
    fmt,
    prelude::*,
    sync::rcu, //
};

/// A registered RoCEv2 device of an adapter. It has a parent device, for example on the PCI bus; a device in software
/// has none.
///
/// # Invariants
///
/// The device is registered: a count of its registration count is owned.
pub struct Adapter(NonNull<bindings::ib_device>);

impl Adapter {
    /// Returns the adapter with a device on `netdev`, or on a netdev below it.
    pub fn below(netdev: &NetDevBorrow) -> Option<Self> {
        if let Some(own) = Self::of(netdev) {
            return Some(own);
        }
        let mut found: Option<Self> = None;
        let mut context = bindings::netdev_nested_priv {
            flags: 0,
            data: (&raw mut found).cast(),
        };
        let _guard = rcu::read_lock();
        // SAFETY: The netdev is valid while it is borrowed, and RCU is locked. The context is of the kind that `visit`
        // takes, and `found` is not used otherwise during the call.
        unsafe {
            bindings::netdev_walk_all_lower_dev_rcu(netdev.as_raw(), Some(visit), &mut context);
        }
        found
    }

    /// Returns the adapter with a device on `netdev` itself.
    fn of(netdev: &NetDevBorrow) -> Option<Self> {
        let any_driver = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
        // SAFETY: The netdev is valid while it is borrowed; C only compares its address.
        let raw = unsafe { bindings::ib_device_get_by_netdev(netdev.as_raw(), any_driver) };
        // INVARIANT: C has raised the registration count of a device that it returns.
        let device = Self(NonNull::new(raw)?);
        // SAFETY: The device is registered, so it has its first port.
        let speaks_roce = unsafe { bindings::ferroce_helper_rdma_protocol_roce_udp_encap(raw, 1) };
        (speaks_roce && device.parent().is_some()).then_some(device)
    }

    /// Returns the device to which this one belongs, for example on the PCI bus.
    fn parent(&self) -> Option<NonNull<bindings::device>> {
        // SAFETY: The device is registered, hence valid. Its parent does not change while it is.
        NonNull::new(unsafe { (*IbDevice::from_raw(self.0.as_ptr()).as_device()).parent })
    }

    /// Writes the name of the device for a log.
    pub fn name(&self) -> impl fmt::Display + '_ {
        // SAFETY: The device is registered, hence valid.
        unsafe { IbDevice::from_raw(self.0.as_ptr()) }.name()
    }

    /// Writes the name of the adapter for the program `devlink`: bus and device.
    pub fn devlink_handle(&self) -> impl fmt::Display + '_ {
        DevlinkHandle(self)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // SAFETY: By the invariant the count is owned.
        unsafe { bindings::ib_device_put(self.0.as_ptr()) };
    }
}

/// Looks for an adapter with a device on a lower netdev. Returns 1, which ends the search, if there is one.
///
/// # Safety
///
/// `lower` is a valid netdev, and the data of `context` an `Option<Adapter>` that is used by this call only.
unsafe extern "C" fn visit(
    lower: *mut bindings::net_device,
    context: *mut bindings::netdev_nested_priv,
) -> c_int {
    // SAFETY: The caller guarantees both.
    let (netdev, found) = unsafe {
        let found = (*context).data.cast::<Option<Adapter>>();
        (NetDevBorrow::from_raw(lower), &mut *found)
    };
    *found = Adapter::of(netdev);
    c_int::from(found.is_some())
}

/// The name of an adapter for `devlink`.
struct DevlinkHandle<'a>(&'a Adapter);

impl fmt::Display for DevlinkHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.0.parent() else {
            return Ok(());
        };
        let parent = parent.as_ptr();
        // SAFETY: The adapter's device is registered, so it holds its parent. Neither the names of buses nor those of
        // devices on a bus change, and both are C strings.
        let (bus, name) = unsafe {
            (
                CStr::from_char_ptr(bindings::ferroce_helper_dev_bus_name(parent)),
                CStr::from_char_ptr(bindings::ferroce_helper_dev_name(parent)),
            )
        };
        let parts = [bus.to_bytes(), b"/", name.to_bytes()];
        parts
            .into_iter()
            .flatten()
            .try_for_each(|byte| write_byte(f, *byte))
    }
}
