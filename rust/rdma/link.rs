// SPDX-License-Identifier: GPL-2.0

//! The devices of a driver, and `rdma link add` and `rdma link del`.
//!
//! Owns the list of a driver's devices. It is the only way to find one: the core's own look-ups by
//! interface and by driver id also find, and are found by, other drivers that share the id. A
//! device is listed from before the core knows it until its data is dropped.
//!
//! `newlink` has no room for an explanation in the answer: the core passes the name and the
//! interface, not the request. A driver logs why it refuses.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::{
    bindings,
    device::{
        Device,
        DeviceRef,
        IbDevice, //
    },
    driver::Driver,
    net::netdev::NetDev, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            ordering::{
                Acquire,
                Full,
                Release, //
            },
            Atomic, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
    types::Opaque, //
};

/// Nothing has been put in place.
const EMPTY: u32 = 0;
/// Somebody is putting things in place.
const FILLING: u32 = 1;
/// All is in place, for good.
const READY: u32 = 2;

/// The devices of a driver. A static, which [`Registration`] brings to life.
///
/// # Invariants
///
/// `state` only grows. `FILLING` gives one task exclusive access to `shared`; from `READY` on it is
/// initialised and only shared.
pub struct Registry<T: Driver> {
    state: Atomic<u32>,
    shared: UnsafeCell<MaybeUninit<Shared<T>>>,
}

#[pin_data]
struct Shared<T: Driver> {
    module: *mut bindings::module,
    ops: Opaque<bindings::rdma_link_ops>,
    #[pin]
    devices: Mutex<KVec<Listed<T>>>,
    /// What the devices share, while the driver is registered.
    #[pin]
    common: Mutex<Option<Arc<T::Common>>>,
}

/// A device on the list.
///
/// # Invariants
///
/// The data of the device is in place.
struct Listed<T: Driver>(NonNull<Device<T>>);

// SAFETY: A device is used by many tasks.
unsafe impl<T: Driver> Send for Listed<T> {}

// SAFETY: What is shared is behind a mutex, or never changes.
unsafe impl<T: Driver> Sync for Registry<T> {}

impl<T: Driver> Registry<T> {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "for statics only")]
    pub const fn new() -> Self {
        // INVARIANT: Nothing is initialised.
        Self {
            state: Atomic::new(EMPTY),
            shared: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    fn shared(&self) -> Option<&Shared<T>> {
        if self.state.load(Acquire) != READY {
            return None;
        }
        // SAFETY: Initialised and only shared, by the invariants.
        Some(unsafe { (*self.shared.get()).assume_init_ref() })
    }

    /// Puts everything in place, once.
    fn fill(&'static self, module: &'static ThisModule) -> Result<&'static Shared<T>> {
        if self.state.cmpxchg(EMPTY, FILLING, Full).is_ok() {
            let mut ops: bindings::rdma_link_ops = pin_init::zeroed();
            ops.type_ = T::LINK_TYPE.as_char_ptr();
            ops.newlink = Some(newlink::<T>);
            let init = pin_init!(Shared {
                module: module.as_ptr(),
                ops: Opaque::new(ops),
                devices <- new_mutex!(KVec::new(), "rdma::Registry::devices"),
                common <- new_mutex!(None, "rdma::Registry::common"),
            });
            // SAFETY: Exclusive access, by the invariants; a static does not move.
            unsafe { pin_init::raw_init(self.shared.get().cast::<Shared<T>>(), init) };
            self.state.store(READY, Release);
        }
        self.shared().ok_or(EBUSY)
    }

    /// For `ib_device_ops`.
    pub(crate) fn module(&self) -> *mut bindings::module {
        self.shared()
            .map_or(ptr::null_mut(), |shared| shared.module)
    }

    /// For `ib_device`: tells the type of the link.
    pub(crate) fn link_ops(&self) -> *const bindings::rdma_link_ops {
        self.shared()
            .map_or(ptr::null_mut(), |shared| shared.ops.get())
    }

    /// Adds a device that is about to be registered.
    pub(crate) fn list(
        &self,
        device: NonNull<Device<T>>,
        conflicts: impl Fn(&T) -> bool,
    ) -> Result {
        let shared = self.shared().ok_or(ENODEV)?;
        let _rtnl = Rtnl::lock();
        // SAFETY: The caller's device, with its data in place.
        let netdev = unsafe { device.as_ref() }.netdev().ok_or(ENODEV)?;
        // Under the lock, either the interface's end has begun and is seen here, or the device is
        // on the list when it begins.
        if !netdev.is_registered() {
            return Err(ENODEV);
        }
        let mut devices = shared.devices.lock();
        // SAFETY: By the invariant of `Listed`.
        if devices
            .iter()
            .any(|other| conflicts(unsafe { other.0.as_ref() }))
        {
            return Err(EEXIST);
        }
        devices.push(Listed(device), GFP_KERNEL)?;
        Ok(())
    }

    /// Removes a device whose data is about to be dropped.
    pub(crate) fn unlist(&self, device: NonNull<Device<T>>) {
        if let Some(shared) = self.shared() {
            shared.devices.lock().retain(|listed| listed.0 != device);
        }
    }

    /// Calls `f` with each device, also with those that are about to be registered or are being
    /// unregistered. `f` may sleep, but not come back here.
    pub fn for_each(&self, mut f: impl FnMut(&Device<T>)) {
        if let Some(shared) = self.shared() {
            for listed in shared.devices.lock().iter() {
                // SAFETY: By the invariant of `Listed`.
                f(unsafe { listed.0.as_ref() });
            }
        }
    }

    /// The first registered device that `wanted` is true for.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<DeviceRef<T>> {
        let devices = self.shared()?.devices.lock();
        devices.iter().find_map(|listed| {
            // SAFETY: By the invariant of `Listed`.
            let device = unsafe { listed.0.as_ref() };
            wanted(device).then(|| device.try_get())?
        })
    }

    fn first(&self) -> Option<ARef<IbDevice>> {
        let devices = self.shared()?.devices.lock();
        // SAFETY: By the invariant of `Listed`.
        let device = unsafe { devices.first()?.0.as_ref() };
        Some(ARef::from(device.ib()))
    }
}

/// Makes `rdma link add` know the driver.
///
/// Dropping it takes that back, then unregisters every device and waits for the last one to be
/// gone: afterwards the core calls nothing of the driver any more.
pub struct Registration<T: Driver>(&'static Shared<T>, PhantomData<T>);

// SAFETY: What is shared never changes, or is behind a mutex.
unsafe impl<T: Driver> Send for Registration<T> {}
// SAFETY: See `Send`.
unsafe impl<T: Driver> Sync for Registration<T> {}

impl<T: Driver> Registration<T> {
    /// Brings the driver's registry to life and the link type into the core's list.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another task is doing so.
    pub fn new(module: &'static ThisModule, common: Arc<T::Common>) -> Result<Self> {
        let shared = T::registry().fill(module)?;
        *shared.common.lock() = Some(common);
        // SAFETY: The structure is complete, and part of a static; `drop` takes it off the list.
        unsafe { bindings::rdma_link_register(shared.ops.get()) };
        Ok(Self(shared, PhantomData))
    }
}

impl<T: Driver> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: `new` has registered it. Waits for calls that are being made.
        unsafe { bindings::rdma_link_unregister(self.0.ops.get()) };
        while let Some(device) = T::registry().first() {
            // SAFETY: The memory is held. The function waits for any other task that unregisters
            // the same device; the last thing it does is to take it off our list.
            unsafe { bindings::ib_unregister_device(device.as_raw()) };
        }
        // A static is never dropped, so what it owns is let go here.
        drop(core::mem::take(&mut *self.0.devices.lock()));
        drop(self.0.common.lock().take());
    }
}

/// The RTNL lock, held.
struct Rtnl;

impl Rtnl {
    fn lock() -> Self {
        // SAFETY: May be called where sleeping is allowed.
        unsafe { bindings::rtnl_lock() };
        Self
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: Taken by `lock`.
        unsafe { bindings::rtnl_unlock() };
    }
}

/// `rdma_link_ops.newlink`.
unsafe extern "C" fn newlink<T: Driver>(
    name: *const c_char,
    netdev: *mut bindings::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a string and an interface, and holds both for the call.
        let (name, netdev) = unsafe { (CStr::from_char_ptr(name), NetDev::from_raw(netdev)) };
        let common = T::registry()
            .shared()
            .and_then(|shared| shared.common.lock().clone())
            .ok_or(ENODEV)?;
        T::new_link(&common, name, netdev).map(|()| 0)
    })
}
