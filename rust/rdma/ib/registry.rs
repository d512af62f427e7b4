// SPDX-License-Identifier: GPL-2.0

//! The list of a driver's devices.
//!
//! Part of [`link`](super): the only way to find a device. The core's own look-ups by interface and
//! by driver id also find, and are found by, other drivers that share the id. A device can be found
//! from before the core knows it until its data is dropped. Its entry stays a little longer: when
//! the module goes, the entry is what there is to wait for, until the last function of ours has
//! returned.

use crate::{
    bindings,
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
    },
    types::Opaque, //
};

/// Nothing has been put in place.
const EMPTY: u32 = 0;
/// Somebody is putting things in place.
const FILLING: u32 = 1;
/// All is in place, for good.
const READY: u32 = 2;

/// The devices of a driver, each with data of type `T`, and the `C` that they share. A static,
/// which [`Registration`](crate::ib::link::Registration) brings to life.
///
/// # Invariants
///
/// `state` only grows. `FILLING` gives one task exclusive access to `shared`; from `READY` on it is
/// initialised and only shared.
pub struct Registry<T, C> {
    state: Atomic<u32>,
    shared: UnsafeCell<MaybeUninit<RegistryShared<T, C>>>,
}

#[pin_data]
struct RegistryShared<T, C> {
    module: *mut bindings::module,
    ops: Opaque<bindings::rdma_link_ops>,
    #[pin]
    devices: Mutex<KVec<Listed<T>>>,
    /// What the devices share, while the driver is registered.
    #[pin]
    common: Mutex<Option<Arc<C>>>,
}

/// A device on the list.
///
/// # Invariants
///
/// The data of `device` is in place.
struct Listed<T> {
    ib: ARef<IbDevice>,
    /// `None`: the data is being dropped, or has been.
    device: Option<NonNull<Device<T>>>,
}

// SAFETY: A device is used by many tasks.
unsafe impl<T: Send + Sync> Send for Listed<T> {}

impl<T> Listed<T> {
    fn device(&self) -> Option<&Device<T>> {
        // SAFETY: By the invariant.
        self.device.map(|device| unsafe { device.as_ref() })
    }
}

// SAFETY: What is shared is behind a mutex, or never changes.
unsafe impl<T: Send + Sync, C: Send + Sync> Sync for Registry<T, C> {}

impl<T, C> Registry<T, C> {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "for statics only")]
    pub const fn new() -> Self {
        // INVARIANT: Nothing is initialised.
        Self {
            state: Atomic::new(EMPTY),
            shared: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    fn shared(&self) -> Option<&RegistryShared<T, C>> {
        if self.state.load(Acquire) != READY {
            return None;
        }
        // SAFETY: Initialised and only shared, by the invariants.
        Some(unsafe { (*self.shared.get()).assume_init_ref() })
    }

    /// Puts everything in place, the first time. The list entry of `ops` stays where it is then.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another task is doing so, or if `common` is set.
    pub(super) fn open(
        &'static self,
        module: &'static ThisModule,
        ops: bindings::rdma_link_ops,
        common: Arc<C>,
    ) -> Result<*mut bindings::rdma_link_ops> {
        if self.state.cmpxchg(EMPTY, FILLING, Full).is_ok() {
            let init = pin_init!(RegistryShared {
                module: module.as_ptr(),
                ops: Opaque::new(ops),
                devices <- new_mutex!(KVec::new(), "rdma::Registry::devices"),
                common <- new_mutex!(None, "rdma::Registry::common"),
            });
            let slot: *mut RegistryShared<T, C> = self.shared.get().cast();
            // SAFETY: Exclusive access, by the invariants; a static does not move.
            unsafe { pin_init::raw_init(slot, init) };
            self.state.store(READY, Release);
        }
        let shared = self.shared().ok_or(EBUSY)?;
        let mut slot = shared.common.lock();
        if slot.is_some() {
            return Err(EBUSY);
        }
        *slot = Some(common);
        Ok(shared.ops.get())
    }

    /// Lets go what the static holds. All devices are gone.
    pub(super) fn close(&self) {
        if let Some(shared) = self.shared() {
            // A static is never dropped.
            let devices = mem::take(&mut *shared.devices.lock());
            drop(devices);
            let common = shared.common.lock().take();
            drop(common);
        }
    }

    /// What the devices share, while the driver is registered.
    pub(super) fn common(&self) -> Option<Arc<C>> {
        self.shared()?.common.lock().clone()
    }

    /// For `ib_device_ops`.
    pub(crate) fn module(&self) -> *mut bindings::module {
        self.shared()
            .map_or(ptr::null_mut(), |shared| shared.module)
    }

    /// For `rdma_link_register` and `ib_device`.
    pub(crate) fn link_ops(&self) -> *mut bindings::rdma_link_ops {
        self.shared()
            .map_or(ptr::null_mut(), |shared| shared.ops.get())
    }

    /// Adds a device over `netdev` that is about to be registered, and calls `listed`: no event of the interface
    /// comes between what that sees and the first event that the device is told of.
    ///
    /// # Errors
    ///
    /// `EEXIST` if `conflicts` is true for a device on the list; `ENODEV` if the interface is being
    /// unregistered, or the driver is, or it is not in `net` any more; `ENOMEM`.
    pub(crate) fn list(
        &self,
        device: NonNull<Device<T>>,
        (netdev, net): (&NetDevBorrow, NetId),
        conflicts: impl Fn(&T) -> bool,
        listed: impl Fn(&T),
    ) -> Result {
        let shared = self.shared().ok_or(ENODEV)?;
        self.prune();
        // Under this lock, either the end of the interface has begun and is seen here, or the
        // device is on the list when it begins.
        let _rtnl = Rtnl::lock();
        // One that has moved was unregistered in the namespace that the device is in.
        if !netdev.is_registered() || netdev.net_id() != net {
            return Err(ENODEV);
        }
        let mut devices = shared.devices.lock();
        if devices
            .iter()
            .filter_map(Listed::device)
            .any(|other| conflicts(other))
        {
            return Err(EEXIST);
        }
        // SAFETY: The caller's device is valid, and has its data.
        let new = unsafe { device.as_ref() };
        // INVARIANT: It has them until `unlist`.
        let entry = Listed {
            ib: ARef::from(new.ib()),
            device: Some(device),
        };
        devices.push(entry, GFP_KERNEL)?;
        listed(new);
        Ok(())
    }

    /// Hides a device whose data is about to be dropped.
    pub(crate) fn unlist(&self, device: NonNull<Device<T>>) {
        if let Some(shared) = self.shared() {
            for listed in shared.devices.lock().iter_mut() {
                if listed.device == Some(device) {
                    listed.device = None;
                }
            }
        }
    }

    /// Forgets the devices whose data has been dropped. The caller holds no lock.
    fn prune(&self) {
        while let Some(ib) = self.first(|listed| listed.device.is_none()) {
            self.unregister(ib);
        }
    }

    /// Unregisters all devices, and waits until nothing of ours runs for them any more. No more are
    /// added. The caller holds no lock.
    pub(super) fn unregister_all(&self) {
        while let Some(ib) = self.first(|_| true) {
            self.unregister(ib);
        }
    }

    fn first(&self, wanted: impl Fn(&Listed<T>) -> bool) -> Option<ARef<IbDevice>> {
        let devices = self.shared()?.devices.lock();
        let listed = devices.iter().find(|listed| wanted(listed))?;
        Some(listed.ib.clone())
    }

    fn unregister(&self, ib: ARef<IbDevice>) {
        // SAFETY: The memory is kept by `ib`. If another task unregisters the device, or has done
        // so, this waits until `dealloc_driver` has returned to that task.
        unsafe { bindings::ib_unregister_device(ib.as_raw()) };
        if let Some(shared) = self.shared() {
            let mut devices = shared.devices.lock();
            let at = devices
                .iter()
                .position(|listed| listed.ib.as_raw() == ib.as_raw());
            let gone = at.and_then(|at| devices.remove(at).ok());
            drop(devices);
            drop(gone);
        }
    }

    /// Waits until the core has unregistered those devices that it is at. The caller holds no lock that this
    /// needs, such as the RTNL lock.
    ///
    /// For namespaces that go away. Where namespaces share devices, each has an entry for each device. If a
    /// device takes its entry out of a namespace just before that looks, the namespace does not wait for it (Linux
    /// 7.3, `remove_one_compat_dev()`), and the last news of the entry would go to a namespace that is gone.
    pub fn settle(&self) {
        let Some(shared) = self.shared() else {
            return;
        };
        let len = shared.devices.lock().len();
        // From the end: one that moves up meanwhile is looked at twice, and not missed.
        for at in (0..len).rev() {
            let devices = shared.devices.lock();
            let ib = devices.get(at).map(|listed| listed.ib.clone());
            drop(devices);
            if let Some(ib) = ib {
                ib.wait_unregistered();
            }
        }
    }

    /// Calls `f` with each device, also with those that are about to be registered or are being
    /// unregistered. `f` may sleep, but not come back here, nor wait for a device.
    pub fn for_each(&self, f: impl FnMut(&Device<T>)) {
        if let Some(shared) = self.shared() {
            let devices = shared.devices.lock();
            devices.iter().filter_map(Listed::device).for_each(f);
        }
    }
}
