// SPDX-License-Identifier: GPL-2.0

//! Devices, and references to them.
//!
//! Owns `struct ib_device` with the driver's data behind it, and the references to it. A device
//! belongs to the core, which drops the driver's data when the device has been unregistered and
//! everybody has let go. Does not know how devices are made and found, nor what they do.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib_device::IbDevice,
    net::netdev::NetDevBorrow,
    sync::quiesce::synchronize_rcu_expedited, //
};
use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    rcu, //
};

/// A device of the driver `T`. Dereferences to the driver's data.
#[repr(C)]
pub struct Device<T> {
    ib: IbDevice,
    /// Whether the data is about to be dropped. C has filled it with zeros.
    going: Atomic<bool>,
    data: ManuallyDrop<T>,
}

impl<T> Deref for Device<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> Device<T> {
    /// # Safety
    ///
    /// `raw` is a device of `T` whose data is in place for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *const bindings::ib_device) -> &'a Self {
        // SAFETY: As the function requires; the C part is the first field.
        unsafe { &*raw.cast() }
    }

    /// The device, unless its data was dropped or is about to be.
    ///
    /// # Safety
    ///
    /// `raw` is a device of `T` whose data was in place, and whose memory is kept for all of `'g`.
    pub(crate) unsafe fn if_whole<'g>(
        raw: *const bindings::ib_device,
        _guard: &'g rcu::Guard,
    ) -> Option<&'g Self> {
        let this: *const Self = raw.cast();
        // SAFETY: As the function requires; the flag stays when the data goes.
        let going = unsafe { (*this).going.load(Relaxed) };
        // SAFETY: `drop_data` had not waited for RCU yet, and does so before it drops the data.
        (!going).then(|| unsafe { &*this })
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.ib.as_raw()
    }

    /// The core's part of the device.
    #[inline]
    pub fn ib(&self) -> &IbDevice {
        &self.ib
    }

    /// A reference that keeps the device registered until it is dropped. `None` before the device
    /// is registered, and once it is being unregistered.
    pub fn try_get(&self) -> Option<DeviceRef<T>> {
        // SAFETY: The device is valid.
        unsafe { DeviceRef::try_get(NonNull::from(self)) }
    }

    /// Begins to unregister the device, in a task of the core's. For callers that hold locks, such
    /// as the RTNL lock. Does nothing to a device that is not registered.
    pub fn unregister_queued(&self) {
        if let Some(device) = self.try_get() {
            // SAFETY: The device is registered, and its operations have `dealloc_driver`.
            unsafe { bindings::ib_unregister_device_queued(device.as_raw()) };
        }
    }

    /// Tells consumers that the port has changed between up and down, if it has: the state is
    /// that of `netdev`, which has to be the interface below the port. Nobody hears of a device that is
    /// not registered.
    pub fn dispatch_port_state(&self, netdev: &NetDevBorrow) {
        // The core queues work with a plain pointer. It flushes that after the last reference has gone.
        let Some(_registered) = self.try_get() else {
            return;
        };
        // SAFETY: Both are valid.
        unsafe { bindings::ib_dispatch_port_state_event(self.as_raw(), netdev.as_raw()) };
    }

    /// The place of the driver's data. Only an address is computed.
    ///
    /// # Safety
    ///
    /// `this` is a device of `T`, with or without its data.
    pub(crate) unsafe fn place_of_data(this: NonNull<Self>) -> *mut T {
        // SAFETY: As the function requires; the wrapper is transparent.
        unsafe { (&raw mut (*this.as_ptr()).data).cast() }
    }

    /// Drops the driver's data. Sleeps.
    ///
    /// # Safety
    ///
    /// The device is no longer reachable but by [`Device::if_whole`], and its data was in place.
    pub(crate) unsafe fn drop_data(this: NonNull<Self>) {
        // SAFETY: As the function requires. Only the flag is referred to, for others look at it.
        unsafe { (*this.as_ptr()).going.store(true, Relaxed) };
        synchronize_rcu_expedited();
        // SAFETY: As the function requires. Whoever has not seen the flag is done.
        unsafe { Self::place_of_data(this).drop_in_place() };
    }
}

/// A reference to a device that keeps it registered.
///
/// # Invariants
///
/// The registration count of the device is held.
pub struct DeviceRef<T>(NonNull<Device<T>>);

// SAFETY: A device is used by many tasks.
unsafe impl<T> Send for DeviceRef<T> {}
// SAFETY: See `Send`.
unsafe impl<T> Sync for DeviceRef<T> {}

impl<T> Deref for DeviceRef<T> {
    type Target = Device<T>;

    fn deref(&self) -> &Device<T> {
        // SAFETY: By the invariant the device is registered, so its data is in place.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DeviceRef<T> {
    /// See [`Device::try_get`].
    ///
    /// # Safety
    ///
    /// `device` is a device of `T` whose memory is kept, with or without its data.
    pub(crate) unsafe fn try_get(device: NonNull<Device<T>>) -> Option<Self> {
        // SAFETY: As the function requires. The count is not 0 only while the data is in place.
        let got = unsafe { bindings::ferroce_helper_ib_device_try_get(device.cast().as_ptr()) };
        // INVARIANT: The count was just raised. If it was not, there must be nothing to drop, which would
        // lower it: so not `then_some`.
        got.then(|| Self(device))
    }

    /// Unregisters the device and waits until that is done. The caller holds no lock.
    pub fn unregister_and_put(self) {
        let device = ManuallyDrop::new(self);
        // SAFETY: The count that is held goes to the function.
        unsafe { bindings::ib_unregister_device_and_put(device.as_raw()) };
    }
}

impl<T> Drop for DeviceRef<T> {
    fn drop(&mut self) {
        // SAFETY: The count is held, by the invariant.
        unsafe { bindings::ib_device_put(self.as_raw()) };
    }
}
