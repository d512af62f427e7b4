// SPDX-License-Identifier: GPL-2.0

//! Devices ([`Device`]), and references that keep them registered ([`DeviceRef`]).
//!
//! A device is one allocation of the core: `struct ib_device`, then the driver's data. The core owns it, and drops
//! the data through `dealloc_driver` when the device is unregistered and unused.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    compat::port,
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
    /// Set before the data is dropped. The core's allocation is zeroed, so it starts as false.
    dropping: Atomic<bool>,
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
    /// Returns the device at `raw`.
    ///
    /// # Safety
    ///
    /// `raw` is a device of `T` whose data is in place for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *const bindings::ib_device) -> &'a Self {
        // SAFETY: The caller guarantees that device and data are valid for `'a`. `Device` is `repr(C)`, and the
        // core's part is its first field.
        unsafe { &*raw.cast() }
    }

    /// Returns the device at `raw`, unless its data is dropped or about to be.
    ///
    /// # Safety
    ///
    /// `raw` is a device of `T` whose data was put in place once. Its memory is valid for all of `'g`.
    pub(crate) unsafe fn try_from_raw_rcu<'g>(
        raw: *const bindings::ib_device,
        _guard: &'g rcu::Guard,
    ) -> Option<&'g Self> {
        let this: *const Self = raw.cast();
        // SAFETY: The caller guarantees that the memory is valid. The flag is valid also after the data is dropped.
        let dropping = unsafe { (*this).dropping.load(Relaxed) };
        // SAFETY: The flag was not set, so the grace period of `drop_data` cannot end before `_guard` is dropped,
        // and the data is dropped only after it.
        (!dropping).then(|| unsafe { &*this })
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.ib.as_raw()
    }

    /// Returns the core's part of the device.
    #[inline]
    pub fn ib(&self) -> &IbDevice {
        &self.ib
    }

    /// Returns a reference that keeps the device registered until it is dropped; `None` before the device is
    /// registered, and from the start of its unregistration.
    pub fn try_get(&self) -> Option<DeviceRef<T>> {
        // SAFETY: `self` is a valid device.
        unsafe { DeviceRef::try_get(NonNull::from(self)) }
    }

    /// Unregisters the device from a work item of the core. For callers that hold locks, such as the RTNL lock.
    /// Does nothing if the device is not registered.
    pub fn unregister_queued(&self) {
        if let Some(device) = self.try_get() {
            // SAFETY: `device` keeps the device registered, and `OpsVTable` has `dealloc_driver`, which the
            // function requires.
            unsafe { bindings::ib_unregister_device_queued(device.as_raw()) };
        }
    }

    /// Reports a change of the port state (up or down) to consumers, if there was one. `netdev` must be the netdev
    /// below the port; the state is taken from it. Does nothing if the device is not registered.
    pub fn dispatch_port_state(&self, netdev: &NetDevBorrow) {
        // The core queues a work item that holds no reference to the device. It flushes that work item after the
        // last reference is dropped.
        let Some(_registered) = self.try_get() else {
            return;
        };
        // SAFETY: `_registered` keeps the device registered, and `netdev` is valid while it is borrowed.
        unsafe { port::dispatch_state(self.as_raw(), netdev.as_raw()) };
    }

    /// Returns a pointer to the driver's data, which need not be in place: only an address is computed.
    ///
    /// # Safety
    ///
    /// `this` is the memory of a device of `T`.
    pub(crate) unsafe fn data_ptr(this: NonNull<Self>) -> *mut T {
        // SAFETY: The caller guarantees that `this` is valid memory, so the field offset is in bounds.
        // `ManuallyDrop` is transparent.
        unsafe { (&raw mut (*this.as_ptr()).data).cast() }
    }

    /// Drops the driver's data, after a grace period. May sleep.
    ///
    /// # Safety
    ///
    /// The data of the device is in place, and only [`Device::try_from_raw_rcu`] can still reach it.
    pub(crate) unsafe fn drop_data(this: NonNull<Self>) {
        // SAFETY: The caller guarantees that the memory is valid. The reference covers the flag only, because
        // readers access it concurrently.
        unsafe { (*this.as_ptr()).dropping.store(true, Relaxed) };
        synchronize_rcu_expedited();
        // SAFETY: The caller guarantees that the data is in place and that only `try_from_raw_rcu` reaches it.
        // Readers that found the flag clear have left their RCU critical sections.
        unsafe { Self::data_ptr(this).drop_in_place() };
    }
}

/// A reference to a device, which keeps the device registered.
///
/// # Invariants
///
/// It owns one count of the device's registration count.
pub struct DeviceRef<T>(NonNull<Device<T>>);

// SAFETY: `DeviceRef` gives shared access to the data from another task, and that task may be the last user of it:
// `T: Send + Sync`. The core's part may be used by all tasks.
unsafe impl<T: Send + Sync> Send for DeviceRef<T> {}
// SAFETY: As for `Send`: a shared `DeviceRef` gives what a sent one gives.
unsafe impl<T: Send + Sync> Sync for DeviceRef<T> {}

impl<T> Deref for DeviceRef<T> {
    type Target = Device<T>;

    fn deref(&self) -> &Device<T> {
        // SAFETY: By the invariant the device is registered, so its data is in place until `self` is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DeviceRef<T> {
    /// See [`Device::try_get`].
    ///
    /// # Safety
    ///
    /// `device` is a device of `T` whose memory is valid during the call. Its data need not be in place.
    pub(crate) unsafe fn try_get(device: NonNull<Device<T>>) -> Option<Self> {
        // SAFETY: The caller guarantees that the memory is valid, which is all that the helper needs: it raises the
        // count unless that is 0. The count is 0 whenever the data is not in place.
        let got = unsafe { bindings::ferroce_helper_ib_device_try_get(device.cast().as_ptr()) };
        // INVARIANT: The helper raised the count if it returned true. Not `then_some`: it would build a `Self` in
        // any case, and drop it again, which lowers the count.
        got.then(|| Self(device))
    }

    /// Unregisters the device and waits until that is complete. The caller must hold no lock.
    pub fn unregister_and_put(self) {
        let device = ManuallyDrop::new(self);
        // SAFETY: `device` is registered, and its count passes to the function, since `ManuallyDrop` keeps `self`
        // from lowering it.
        unsafe { bindings::ib_unregister_device_and_put(device.as_raw()) };
    }
}

impl<T> Drop for DeviceRef<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariant `self` owns the count that this drops.
        unsafe { bindings::ib_device_put(self.as_raw()) };
    }
}
