// SPDX-License-Identifier: GPL-2.0

//! `rdma link add`, and the registration of a driver.
//!
//! A [`Registration`] adds the link types of the driver's kinds of devices to the core's list, and perhaps that of a
//! driver whose place it takes ([`TakenType`]). It unregisters all devices when it is dropped, and no others: it knows
//! them from the registry, not by their driver id. The core itself handles `rdma link del`: it unregisters the device.
//!
//! `newlink` cannot return an error message: the core passes the name and the netdev, not the request. A driver
//! logs the reason of a failure.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::{
    bindings,
    ib::driver::Driver,
    net::netdev::NetDev,
    util::exclusion::ModuleExclusion, //
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Registry of the driver `T`.
pub type Registry<T> = super::registry::Registry<T, <T as Driver>::Common>;

/// Registration of the driver, with all its link types.
///
/// Dropping it removes the link types, unregisters all devices and waits for them: afterwards the core calls no
/// function of the driver. May sleep.
pub struct Registration<T: Driver> {
    // Dropped in this order: no device is added when the registry is closed, and the owner of the taken type can be
    // loaded when its type is free.
    _taken_type: Option<LinkType>,
    _own_types: KVec<LinkType>,
    _open: OpenRegistry<T>,
    _taken: Option<TakenType>,
}

impl<T: Driver> Registration<T> {
    /// A function for each kind of devices: the core does not tell `newlink` of which link type it is.
    const NEWLINKS: [NewLink; 2] = {
        assert!(matches!(T::KINDS.len(), 1 | 2));
        [newlink::<T, 0>, newlink::<T, 1>]
    };

    /// Initialises the driver's registry, and adds its link types and perhaps a taken one to the core's list.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the driver is registered already, or if the core has one of the link types already; `ENOMEM`.
    pub fn new(
        module: &'static ThisModule,
        common: Arc<T::Common>,
        taken: Option<TakenType>,
    ) -> Result<Self> {
        // On an error what has been made is dropped in the opposite order.
        let open = OpenRegistry::<T>::new(module, common)?;
        let mut own_types = KVec::with_capacity(T::KINDS.len(), GFP_KERNEL)?;
        for (kind, newlink) in T::KINDS.iter().zip(Self::NEWLINKS) {
            own_types.push(LinkType::new(kind.link_type, newlink)?, GFP_KERNEL)?;
        }
        let taken_type = taken
            .as_ref()
            .map(|taken| LinkType::new(taken.name, newlink::<T, 0>))
            .transpose()?;
        Ok(Self {
            _taken_type: taken_type,
            _own_types: own_types,
            _open: open,
            _taken: taken,
        })
    }
}

/// The link type of another driver, which is not loaded, and cannot be loaded while this exists.
pub struct TakenType {
    name: &'static CStr,
    _exclusion: ModuleExclusion,
}

impl TakenType {
    /// Takes the link type `name` from its owner.
    pub fn new(name: &'static CStr, owner: ModuleExclusion) -> Self {
        Self {
            name,
            _exclusion: owner,
        }
    }
}

/// The registry of a driver, from its first link type to its last device.
struct OpenRegistry<T: Driver>(PhantomData<T>);

impl<T: Driver> OpenRegistry<T> {
    fn new(module: &'static ThisModule, common: Arc<T::Common>) -> Result<Self> {
        T::registry().open(module, common)?;
        Ok(Self(PhantomData))
    }
}

impl<T: Driver> Drop for OpenRegistry<T> {
    fn drop(&mut self) {
        let registry = T::registry();
        registry.unregister_all();
        registry.close();
    }
}

/// An entry of the core's list of link types. Devices do not refer to it.
///
/// # Invariants
///
/// The operations are in the list.
struct LinkType(Pin<KBox<Opaque<bindings::rdma_link_ops>>>);

/// `rdma_link_ops.newlink`.
type NewLink = unsafe extern "C" fn(*const c_char, *mut bindings::net_device) -> c_int;

// SAFETY: Only C accesses the operations, under its own lock.
unsafe impl Send for LinkType {}
// SAFETY: As for `Send`.
unsafe impl Sync for LinkType {}

impl LinkType {
    /// Adds the link type `name` to the core's list.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the core has a link type of that name, in which case it also warns; `ENOMEM`.
    fn new(name: &'static CStr, newlink: NewLink) -> Result<Self> {
        let mut ops: bindings::rdma_link_ops = pin_init::zeroed();
        ops.type_ = name.as_char_ptr();
        ops.newlink = Some(newlink);
        let ops = KBox::pin(Opaque::new(ops), GFP_KERNEL)?;
        // SAFETY: The operations are complete and pinned, and their name is static. They are freed here if the core
        // has refused them, else after `drop` has removed them from the list.
        unsafe { bindings::rdma_link_register(ops.get()) };
        // The core returns nothing. What it has refused it has not linked.
        // SAFETY: The operations are valid. Other link types may be added and removed, so the pointer may change, but
        // it does not become null.
        let next = unsafe { ptr::read_volatile(&raw const (*ops.get()).list.next) };
        if next.is_null() {
            return Err(EBUSY);
        }
        // INVARIANT: The operations are linked.
        Ok(Self(ops))
    }
}

impl Drop for LinkType {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the operations are in the list. The function waits for calls in progress.
        unsafe { bindings::rdma_link_unregister(self.0.get()) };
    }
}

/// `rdma_link_ops.newlink` of the kind of devices with that index.
///
/// # Safety
///
/// Called by the core as `newlink`: `name` is a C string and `netdev` a held netdev, both valid for the call.
unsafe extern "C" fn newlink<T: Driver, const KIND: usize>(
    name: *const c_char,
    netdev: *mut bindings::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: The caller guarantees both: the string and the netdev are valid for the call, and
        // `NetDev::from_raw` takes its own reference.
        let (name, netdev) = unsafe { (CStr::from_char_ptr(name), NetDev::from_raw(netdev)) };
        let common = T::registry().common().ok_or(ENODEV)?;
        let kind = T::KINDS.get(KIND).ok_or(ENODEV)?;
        T::new_link(&common, kind, name, netdev).map(|()| 0)
    })
}
