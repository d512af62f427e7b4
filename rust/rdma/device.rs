// SPDX-License-Identifier: GPL-2.0

//! Devices: their making, their references, their end.
//!
//! Owns `struct ib_device` with the driver's data behind it. A device is made
//! ([`UnregisteredDevice`]), handed to the core, and from then on belongs to the core, which drops
//! the driver's data when the device has been unregistered and everybody has let go. Does not
//! know how devices are found ([`link`](crate::link)) nor what they do ([`ops`](crate::ops)).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    driver::Driver,
    net::netdev::NetDev,
    ops::OpsVTable, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

/// The core's part of a device (`struct ib_device`).
///
/// A reference keeps the memory, not the registration: what needs a device that is in use takes a
/// [`Device`].
#[repr(transparent)]
pub struct IbDevice(Opaque<bindings::ib_device>);

// SAFETY: The structure is made for use by many tasks, and the core locks what it has to.
unsafe impl Send for IbDevice {}
// SAFETY: See `Send`.
unsafe impl Sync for IbDevice {}

// SAFETY: The reference count of the embedded `struct device` keeps the memory.
unsafe impl AlwaysRefCounted for IbDevice {
    fn inc_ref(&self) {
        // SAFETY: A reference means that the count is not 0.
        unsafe { bindings::get_device(self.as_device()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference, so the structure is valid until it is given back.
        unsafe { bindings::put_device(obj.as_ref().as_device()) };
    }
}

impl IbDevice {
    /// # Safety
    ///
    /// `raw` is a valid device for all of `'a`.
    pub(crate) unsafe fn from_raw<'a>(raw: *const bindings::ib_device) -> &'a Self {
        // SAFETY: As the function requires; the representation is transparent.
        unsafe { &*raw.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    fn as_device(&self) -> *mut bindings::device {
        // SAFETY: The structure is valid; only an address is taken.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    /// Speed and width of the port, as the interface has it (`enum ib_port_speed`,
    /// `enum ib_port_width`).
    ///
    /// Takes the RTNL lock. Logs a warning each time that the interface cannot tell, so ask once.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an interface.
    pub fn ethernet_speed(&self) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The structure is valid, and so are the places for the results.
        to_result(unsafe { bindings::ib_get_eth_speed(self.as_raw(), 1, &mut speed, &mut width) })?;
        Ok((speed, width))
    }
}

/// Something that happened to the port (`enum ib_event_type`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum PortEvent {
    /// Packets can be carried.
    Active = bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
    /// Packets can no longer be carried.
    Err = bindings::ib_event_type_IB_EVENT_PORT_ERR,
    /// The GID table has changed.
    GidChange = bindings::ib_event_type_IB_EVENT_GID_CHANGE,
}

/// A device of the driver `T`. Dereferences to the driver's data.
#[repr(C)]
pub struct Device<T: Driver> {
    ib: IbDevice,
    data: ManuallyDrop<T>,
}

impl<T: Driver> Deref for Device<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T: Driver> Device<T> {
    /// # Safety
    ///
    /// `raw` is a device of `T` whose data is in place for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *const bindings::ib_device) -> &'a Self {
        // SAFETY: As the function requires; the C part is the first field.
        unsafe { &*raw.cast() }
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
        // SAFETY: The structure is valid.
        let got = unsafe { bindings::ferroce_helper_ib_device_try_get(self.as_raw()) };
        // INVARIANT: The count was just raised.
        got.then_some(DeviceRef(NonNull::from(self)))
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
    /// that of [`Driver::netdev`].
    pub fn dispatch_port_state(&self, netdev: &NetDev) {
        // SAFETY: Both are valid.
        unsafe { bindings::ib_dispatch_port_state_event(self.as_raw(), netdev.as_raw()) };
    }

    /// Raises an event of the port.
    pub fn dispatch_event(&self, what: PortEvent) {
        let mut event: bindings::ib_event = pin_init::zeroed();
        event.device = self.as_raw();
        event.event = what as u32;
        event.element.port_num = 1;
        // SAFETY: The event is complete, and the device valid.
        unsafe { bindings::ib_dispatch_event(&event) };
    }

    /// Drops the driver's data.
    ///
    /// # Safety
    ///
    /// The device is no longer reachable, and its data was in place.
    pub(crate) unsafe fn drop_data(raw: *mut bindings::ib_device) {
        let this: *mut Self = raw.cast();
        // SAFETY: As the function requires.
        unsafe { ManuallyDrop::drop(&mut (*this).data) };
    }
}

/// A reference to a device that keeps it registered.
///
/// # Invariants
///
/// The registration count of the device is held.
pub struct DeviceRef<T: Driver>(NonNull<Device<T>>);

// SAFETY: A device is used by many tasks.
unsafe impl<T: Driver> Send for DeviceRef<T> {}
// SAFETY: See `Send`.
unsafe impl<T: Driver> Sync for DeviceRef<T> {}

impl<T: Driver> Deref for DeviceRef<T> {
    type Target = Device<T>;

    fn deref(&self) -> &Device<T> {
        // SAFETY: By the invariant the device is registered, so its data is in place.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Driver> DeviceRef<T> {
    /// Unregisters the device and waits until that is done. The caller holds no lock.
    pub fn unregister_and_put(self) {
        let device = ManuallyDrop::new(self);
        // SAFETY: The count that is held goes to the function.
        unsafe { bindings::ib_unregister_device_and_put(device.as_raw()) };
    }
}

impl<T: Driver> Drop for DeviceRef<T> {
    fn drop(&mut self) {
        // SAFETY: The count is held, by the invariant.
        unsafe { bindings::ib_device_put(self.as_raw()) };
    }
}

/// A device that the core does not know yet.
///
/// # Invariants
///
/// The device is valid, with its data in place and its operations set, and nobody else knows it.
pub struct UnregisteredDevice<T: Driver>(NonNull<Device<T>>, PhantomData<Device<T>>);

impl<T: Driver> UnregisteredDevice<T> {
    /// Makes a device in the network namespace of `netdev`.
    ///
    /// `init` gets the core's part of the device, for the data to keep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what `init` says.
    pub fn alloc<I: PinInit<T, Error>>(
        netdev: &NetDev,
        init: impl FnOnce(ARef<IbDevice>) -> Result<I>,
    ) -> Result<Self> {
        const { assert!(align_of::<Device<T>>() <= align_of::<u64>()) };
        // SAFETY: The interface is valid; its namespace lives as long as the reference to it.
        let raw = unsafe {
            let net = bindings::ferroce_helper_dev_net(netdev.as_raw());
            bindings::_ib_alloc_device(size_of::<Device<T>>(), net)
        };
        let device = NonNull::new(raw.cast::<Device<T>>()).ok_or(ENOMEM)?;

        // SAFETY: The device is valid.
        let ib = unsafe { IbDevice::from_raw(raw) };
        let filled = init(ARef::from(ib)).and_then(|init| {
            // SAFETY: Uninitialised memory that does not move; the wrapper is transparent.
            unsafe {
                let data: *mut T = (&raw mut (*device.as_ptr()).data).cast();
                pin_init::raw_try_init(data, init)
            }
        });
        if let Err(error) = filled {
            // SAFETY: Not registered. Without operations, nothing of ours is called.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(error);
        }
        // SAFETY: The device is private to us.
        unsafe { Self::set_up(raw, netdev) };
        // INVARIANT: All of it was just done.
        Ok(Self(device, PhantomData))
    }

    /// # Safety
    ///
    /// `raw` is a device whose data is in place, private to the caller.
    unsafe fn set_up(raw: *mut bindings::ib_device, netdev: &NetDev) {
        let registry = T::registry();
        let mut ops = OpsVTable::<T>::OPS;
        ops.owner = registry.module();
        let guid = guid_of(netdev.mac_address());
        // SAFETY: As the function requires. The operations are copied.
        unsafe {
            bindings::ib_set_device_ops(raw, &ops);
            bindings::ferroce_helper_ib_mark_name_assigned_by_user(raw);
            (*raw).node_type = bindings::RDMA_NODE_IB_CA as u8;
            (*raw).phys_port_cnt = 1;
            (*raw).num_comp_vectors = kernel::cpu::nr_cpu_ids() as c_int;
            (*raw).node_guid = u64::from_ne_bytes(guid);
            (*raw).local_dma_lkey = 0;
            // Both are answered by the kernel in these ABIs; the core leaves them off by default.
            (*raw).uverbs_cmd_mask |= 1
                << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
                | 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;
            (*raw).link_ops = registry.link_ops();
            let desc = T::LINK_TYPE.to_bytes();
            for (to, from) in (*raw).node_desc.iter_mut().zip(desc) {
                *to = *from as c_char;
            }
        }
    }

    /// Hands the device to the core, under `name`.
    ///
    /// When this returns, the device may be gone again already.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the interface is being unregistered; those of `ib_register_device`, among them
    /// `ENFILE` for a name that is taken. The device is gone then.
    pub fn register(self, name: &CStr) -> Result {
        self.register_unless(name, |_| false)
    }

    /// As [`UnregisteredDevice::register`], unless `conflicts` with another device of the driver
    /// that is registered or about to be. No two devices that conflict get past this.
    ///
    /// # Errors
    ///
    /// `EEXIST` for a conflict.
    pub fn register_unless(self, name: &CStr, conflicts: impl Fn(&T) -> bool) -> Result {
        let raw: *mut bindings::ib_device = self.0.cast().as_ptr();
        // SAFETY: The device is valid.
        let ib = ARef::from(unsafe { IbDevice::from_raw(raw) });
        T::registry().list(self.0, conflicts)?;
        // SAFETY: The device is complete. Without a DMA device the core leaves addresses as they
        // are.
        to_result(unsafe {
            bindings::ib_register_device(raw, name.as_char_ptr(), ptr::null_mut())
        })?;
        // The device is the core's now.
        let this = ManuallyDrop::new(self);
        // The interface may have gone before the core could be asked to unregister the device.
        // SAFETY: `ib` keeps the memory. The count can only be raised while the data is in place.
        let got = unsafe { bindings::ferroce_helper_ib_device_try_get(ib.as_raw()) };
        if got {
            // INVARIANT: The count was just raised.
            let device = DeviceRef(this.0);
            if device.netdev().is_none() {
                device.unregister_and_put();
                return Err(ENODEV);
            }
        }
        Ok(())
    }
}

impl<T: Driver> Drop for UnregisteredDevice<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariants; drops the data through `dealloc_driver`.
        unsafe { bindings::ib_dealloc_device(self.0.cast().as_ptr()) };
    }
}

/// The EUI-64 of a port with the Ethernet address `mac`, as it stands in a GUID.
fn guid_of(mac: [u8; 6]) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac;
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}
