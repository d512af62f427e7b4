// SPDX-License-Identifier: GPL-2.0

//! The list of a driver's devices: the only way to find one.
//!
//! The core's lookups by netdev and by driver id also return devices of other drivers with the same id. A device
//! can be found from shortly before its registration until its data is dropped. Its entry stays longer: at module
//! unload, [`Registration`](crate::ib::link::Registration) waits for the devices of all entries, until the last
//! function of this crate has returned.
//!
//! Process context. The list is under a mutex, which nests inside the RTNL lock.

use crate::{
    bindings,
    compat::init,
    ib::device::Device,
    ib_device::IbDevice,
    net::{
        netdev::NetDevBorrow,
        netns::NetId,
        rtnl::Rtnl, //
    }, //
};
use core::{
    cell::UnsafeCell,
    mem::{
        self,
        MaybeUninit, //
    },
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
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
    }, //
};

/// Not initialised.
const UNINIT: u32 = 0;
/// One task initialises it.
const INITIALISING: u32 = 1;
/// Initialised. This is final.
const READY: u32 = 2;

/// The devices of a driver, each with data of type `T`, and the data `C` that they share. A static, which
/// [`Registration`](crate::ib::link::Registration) initialises.
///
/// # Invariants
///
/// `state` only increases. The task that set it to `INITIALISING` has exclusive access to `shared` until it sets
/// `READY`. From then on `shared` is initialised, and only shared references to it exist.
pub struct Registry<T, C> {
    state: Atomic<u32>,
    shared: UnsafeCell<MaybeUninit<RegistryShared<T, C>>>,
}

#[pin_data]
struct RegistryShared<T, C> {
    module: *mut bindings::module,
    #[pin]
    devices: Mutex<KVec<RegistryEntry<T>>>,
    /// Data that the devices share, while the driver is registered.
    #[pin]
    common: Mutex<Option<Arc<C>>>,
}

/// An entry of the list.
///
/// # Invariants
///
/// If `device` is not `None`, its data is in place.
struct RegistryEntry<T> {
    ib: ARef<IbDevice>,
    /// `None` once the data is dropped or about to be.
    device: Option<NonNull<Device<T>>>,
}

// SAFETY: An entry gives shared access to a device, which any task may use if `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for RegistryEntry<T> {}

impl<T> RegistryEntry<T> {
    fn device(&self) -> Option<&Device<T>> {
        // SAFETY: By the invariant of `RegistryEntry` the device and its data are valid. `remove` clears the
        // pointer before the data is dropped, under the mutex that the caller's borrow of the entry needs.
        self.device.map(|device| unsafe { device.as_ref() })
    }
}

// SAFETY: `state` is atomic and guards `shared`, see the invariants. The fields of `RegistryShared` are behind
// mutexes or do not change.
unsafe impl<T: Send + Sync, C: Send + Sync> Sync for Registry<T, C> {}

impl<T, C> Registry<T, C> {
    /// Creates an uninitialised registry.
    #[expect(clippy::new_without_default, reason = "for statics only")]
    pub const fn new() -> Self {
        // INVARIANT: `UNINIT` requires nothing of `shared`.
        Self {
            state: Atomic::new(UNINIT),
            shared: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    fn shared(&self) -> Option<&RegistryShared<T, C>> {
        if self.state.load(Acquire) != READY {
            return None;
        }
        // SAFETY: The load of `READY` (acquire) comes after the initialisation. By the invariants only shared
        // references exist from then on.
        Some(unsafe { (*self.shared.get()).assume_init_ref() })
    }

    /// Initialises the registry on the first call, and sets the shared data.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another task is initialising it, or if the driver is registered already.
    pub(super) fn open(&'static self, module: &'static ThisModule, common: Arc<C>) -> Result {
        if self.state.cmpxchg(UNINIT, INITIALISING, Full).is_ok() {
            let init = pin_init!(RegistryShared {
                module: module.as_ptr(),
                devices <- new_mutex!(KVec::new(), "rdma::Registry::devices"),
                common <- new_mutex!(None, "rdma::Registry::common"),
            });
            let slot: *mut RegistryShared<T, C> = self.shared.get().cast();
            // SAFETY: This task set `INITIALISING`, so by the invariants it has exclusive access. `slot` is valid
            // for writes, and pinned because a static does not move. The initialiser does not fail.
            unsafe { init::raw_init(slot, init) };
            self.state.store(READY, Release);
        }
        let shared = self.shared().ok_or(EBUSY)?;
        let mut slot = shared.common.lock();
        if slot.is_some() {
            return Err(EBUSY);
        }
        *slot = Some(common);
        Ok(())
    }

    /// Drops the contents, since a static is never dropped. All devices must be unregistered.
    pub(super) fn close(&self) {
        if let Some(shared) = self.shared() {
            let devices = mem::take(&mut *shared.devices.lock());
            drop(devices);
            let common = shared.common.lock().take();
            drop(common);
        }
    }

    /// Returns the data that the devices share, while the driver is registered.
    pub(super) fn common(&self) -> Option<Arc<C>> {
        self.shared()?.common.lock().clone()
    }

    /// Returns the owner for `ib_device_ops`.
    pub(crate) fn module(&self) -> *mut bindings::module {
        self.shared()
            .map_or(ptr::null_mut(), |shared| shared.module)
    }

    /// Adds a device over `netdev` that is about to be registered, and calls `on_inserted`. No event of the netdev
    /// is lost: what `on_inserted` reads of the netdev is older than the first event that the device receives.
    ///
    /// # Errors
    ///
    /// `EEXIST` if `conflicts` returns true for another device; `ENODEV` if the netdev is being unregistered or has
    /// left `net`, or if the driver is being unregistered; `ENOMEM`.
    pub(crate) fn insert(
        &self,
        device: NonNull<Device<T>>,
        (netdev, net): (&NetDevBorrow, NetId),
        conflicts: impl Fn(&T) -> bool,
        on_inserted: impl Fn(&T),
    ) -> Result {
        let shared = self.shared().ok_or(ENODEV)?;
        self.prune();
        // With the RTNL lock held, either the unregistration of the netdev has begun and is seen here, or the
        // device is in the list when it begins.
        let _rtnl = Rtnl::lock();
        // A netdev that moved to another namespace was unregistered in the namespace of the device.
        if !netdev.is_registered() || netdev.net_id() != net {
            return Err(ENODEV);
        }
        let mut devices = shared.devices.lock();
        if devices
            .iter()
            .filter_map(RegistryEntry::device)
            .any(|other| conflicts(other))
        {
            return Err(EEXIST);
        }
        // SAFETY: The caller owns the device, whose data is in place.
        let new = unsafe { device.as_ref() };
        // INVARIANT: The data is in place until `remove`, which precedes its drop.
        let entry = RegistryEntry {
            ib: ARef::from(new.ib()),
            device: Some(device),
        };
        devices.push(entry, GFP_KERNEL)?;
        on_inserted(new);
        Ok(())
    }

    /// Clears the entry of a device whose data is about to be dropped, so that it is no longer found.
    pub(crate) fn remove(&self, device: NonNull<Device<T>>) {
        if let Some(shared) = self.shared() {
            for entry in shared.devices.lock().iter_mut() {
                if entry.device == Some(device) {
                    entry.device = None;
                }
            }
        }
    }

    /// Removes the entries of devices whose data is dropped. The caller holds no lock.
    fn prune(&self) {
        while let Some(ib) = self.first(|entry| entry.device.is_none()) {
            self.unregister(ib);
        }
    }

    /// Unregisters all devices and waits until no function of this crate runs for them. No device may be added
    /// meanwhile. The caller holds no lock.
    pub(super) fn unregister_all(&self) {
        while let Some(ib) = self.first(|_| true) {
            self.unregister(ib);
        }
    }

    /// Returns the device of the first entry for which `wanted` returns true.
    fn first(&self, wanted: impl Fn(&RegistryEntry<T>) -> bool) -> Option<ARef<IbDevice>> {
        let devices = self.shared()?.devices.lock();
        let entry = devices.iter().find(|entry| wanted(entry))?;
        Some(entry.ib.clone())
    }

    /// Unregisters the device, or waits until another task has done so, and removes its entry. The caller holds no
    /// lock.
    pub fn unregister(&self, ib: ARef<IbDevice>) {
        // SAFETY: `ib` keeps the memory of the device, and no lock is held. If another task unregisters the device
        // or has done so, this waits until `dealloc_driver` has returned in that task.
        unsafe { bindings::ib_unregister_device(ib.as_raw()) };
        if let Some(shared) = self.shared() {
            let mut devices = shared.devices.lock();
            let at = devices
                .iter()
                .position(|entry| entry.ib.as_raw() == ib.as_raw());
            let removed = at.and_then(|at| devices.remove(at).ok());
            drop(devices);
            drop(removed);
        }
    }

    /// Waits for the unregistrations that the core has in progress. The caller must hold no lock that they need,
    /// such as the RTNL lock.
    ///
    /// Called when a namespace ends. Where namespaces share devices, each has an entry for each device. A device
    /// may remove its entry from a namespace just before the namespace looks for it; then the namespace does not
    /// wait for the device (Linux 7.3, `remove_one_compat_dev()`), and the last event of the entry would go to a
    /// freed namespace.
    pub fn wait_unregistered(&self) {
        let Some(shared) = self.shared() else {
            return;
        };
        let len = shared.devices.lock().len();
        // From the end: an entry that moves up meanwhile is seen twice, not missed.
        for at in (0..len).rev() {
            let devices = shared.devices.lock();
            let ib = devices.get(at).map(|entry| entry.ib.clone());
            drop(devices);
            if let Some(ib) = ib {
                ib.wait_unregistered();
            }
        }
    }

    /// Calls `f` with each device, including those that are about to be registered or are being unregistered. `f`
    /// may sleep, but must not use the registry or wait for a device.
    pub fn for_each(&self, f: impl FnMut(&Device<T>)) {
        if let Some(shared) = self.shared() {
            let devices = shared.devices.lock();
            devices.iter().filter_map(RegistryEntry::device).for_each(f);
        }
    }
}
