// SPDX-License-Identifier: GPL-2.0

//! Creates and registers devices.
//!
//! A device is allocated as an [`UnregisteredDevice`], which has one owner, then registered; from then on it
//! belongs to the core ([`Device`]). Process context.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    compat::{
        alloc_device::alloc_device,
        comp_cntr,
        init,
        mutex, //
    },
    ib::{
        device::{
            Device,
            DeviceRef, //
        },
        driver::Driver,
        ops::OpsVTable, //
    },
    ib_device::IbDevice,
    net::{
        netdev::{
            NetDev,
            MAC_LEN, //
        },
        netns::Net, //
    },
    util::random, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::aref::ARef, //
};

/// A device that is not registered yet.
///
/// # Invariants
///
/// The device is valid, its data is in place and its operations are set. No other reference uses it. It is in the
/// namespace of the reference.
pub struct UnregisteredDevice<'a, T: Driver>(NonNull<Device<T>>, &'a Net, PhantomData<Device<T>>);

impl<'a, T: Driver> UnregisteredDevice<'a, T> {
    /// Allocates a device in `net` with the node GUID `guid`. The reference to the namespace lasts until the device
    /// is registered: from then on the core removes devices from a namespace that ends.
    ///
    /// `init` receives the core's part of the device, which the data may hold.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the errors of `init`.
    pub fn alloc<I: PinInit<T, Error>>(
        net: &'a Net,
        guid: [u8; 8],
        init: impl FnOnce(ARef<IbDevice>) -> Result<I>,
    ) -> Result<Self> {
        const { assert!(align_of::<Device<T>>() <= align_of::<u64>()) };
        // SAFETY: `net` is a valid namespace. The size is at least that of `ib_device`, which is the first field,
        // and the core's allocation is aligned for `u64`.
        let raw = unsafe { alloc_device(size_of::<Device<T>>(), net.as_raw()) };
        let device = NonNull::new(raw.cast::<Device<T>>()).ok_or(ENOMEM)?;

        // SAFETY: `raw` is not null and was just allocated. It stays valid until `ib_dealloc_device`, and a
        // reference that `init` takes keeps the memory.
        let ib = unsafe { IbDevice::from_raw(raw) };
        let filled = init(ARef::from(ib)).and_then(|init| {
            // SAFETY: `data_ptr` returns the place of the data in the new allocation: valid for writes, aligned,
            // not initialised yet, and pinned because the core does not move devices. `ManuallyDrop` is
            // transparent.
            unsafe { init::raw_try_init(Device::data_ptr(device), init) }
        });
        if let Err(error) = filled {
            // SAFETY: `raw` is not registered, and nothing uses it later. It has no operations yet, so the core
            // does not call `dealloc_driver` for data that is not there.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(error);
        }
        // SAFETY: `raw` is valid, its data is in place, and this function is its only owner.
        unsafe { Self::set_up(raw, guid) };
        // INVARIANT: The data is in place and the operations are set. `raw` was allocated in `net`, and this is the
        // only pointer to it that is used.
        Ok(Self(device, net, PhantomData))
    }

    /// Sets the operations and the attributes of a device.
    ///
    /// # Safety
    ///
    /// `raw` is a device whose data is in place, and the caller is its only owner.
    unsafe fn set_up(raw: *mut bindings::ib_device, guid: [u8; 8]) {
        let mut ops = OpsVTable::<T>::FUNCTIONS;
        // SAFETY: The caller guarantees that `raw` is valid, has its data, and is not shared, so its fields may be
        // written: the reference to the device ends with its statement. `ib_set_device_ops` copies the operations.
        unsafe {
            let kind = Device::<T>::from_raw(raw).kind();
            OpsVTable::<T>::complete(&mut ops, kind);
            bindings::ib_set_device_ops(raw, &ops);
            comp_cntr::add_attributes(raw);
            bindings::ferroce_helper_ib_mark_name_assigned_by_user(raw);
            (*raw).node_type = bindings::RDMA_NODE_IB_CA as u8;
            (*raw).phys_port_cnt = 1;
            (*raw).num_comp_vectors = kernel::cpu::nr_cpu_ids() as c_int;
            (*raw).node_guid = u64::from_ne_bytes(guid);
            (*raw).local_dma_lkey = 0;
            // In these ABIs the kernel handles both commands. The core disables them by default.
            (*raw).uverbs_cmd_mask |= 1
                << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
                | 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;
            // The core does not initialize the mutex of the multicast groups of a target that a process opens. Where
            // that crashes the kernel, no process opens one.
            if !mutex::ZEROS_ARE_VALID {
                (*raw).uverbs_cmd_mask &=
                    !(1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_QP);
            }
            let desc = kind.link_type.to_bytes();
            for (to, from) in (*raw).node_desc.iter_mut().zip(desc) {
                *to = *from as c_char;
            }
        }
    }

    /// Registers the device under `name`, unless `conflicts` returns true for another device of the driver that is
    /// registered or about to be. Of two devices that conflict, only one is registered. `on_inserted` is called
    /// when the device begins to receive events of its netdev, none of which is lost.
    ///
    /// The device may be unregistered again when this returns.
    ///
    /// # Errors
    ///
    /// `EEXIST` for a conflict; `ENODEV` if the netdev is being unregistered or has left the namespace; the errors
    /// of `ib_register_device`, for example `ENFILE` if the name is taken. On error the device is freed.
    pub fn register(
        self,
        name: &CStr,
        conflicts: impl Fn(&T) -> bool,
        on_inserted: impl Fn(&T),
    ) -> Result {
        // SAFETY: By the invariants the device is valid and its data is in place. `register` owns it.
        let device = unsafe { self.0.as_ref() };
        let ib: ARef<IbDevice> = ARef::from(device.ib());
        let netdev = device.netdev().ok_or(ENODEV)?;
        T::registry().insert(self.0, (&netdev, self.1.id()), conflicts, on_inserted)?;
        // Registration does not refer to the netdev: release it, so that it can be unregistered.
        drop(netdev);
        // SAFETY: By the invariants the device is complete; the name is a C string, which the core copies. A null
        // DMA device is allowed: addresses are then used as they are.
        to_result(unsafe {
            bindings::ib_register_device(ib.as_raw(), name.as_char_ptr(), ptr::null_mut())
        })?;
        // The device belongs to the core now.
        let this = ManuallyDrop::new(self);
        // The netdev may have been unregistered before the device could be.
        // SAFETY: `ib` keeps the memory of the device.
        match unsafe { DeviceRef::try_get(this.0) } {
            Some(device) if device.netdev().is_none() => {
                device.unregister_and_put();
                Err(ENODEV)
            }
            _ => Ok(()),
        }
    }
}

impl<T: Driver> Drop for UnregisteredDevice<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the invariants the device is valid and not registered, and `self` is its only owner. The core
        // drops the data through `dealloc_driver`.
        unsafe { bindings::ib_dealloc_device(self.0.cast().as_ptr()) };
    }
}

/// Returns a GUID for a device over `netdev`: the EUI-64 of its Ethernet address, as IPv6 forms it
/// (`addrconf_ifid_eui48()`), or a random one if there is no such address or `is_taken` returns true. It must be
/// unique, because connection management identifies a machine by it.
pub fn guid_for(netdev: &NetDev, is_taken: impl FnOnce([u8; 8]) -> bool) -> [u8; 8] {
    let own = netdev
        .mac_address()
        .map(|mac| match netdev.dev_id().to_be_bytes() {
            [0, 0] => eui64(mac),
            // Netdevs that share their address have an identifier instead of 0xfffe, and the bit is not inverted.
            [high, low] => {
                let [a, b, c, d, e, f] = mac;
                [a, b, c, high, low, d, e, f]
            }
        });
    match own {
        Some(guid) if !is_taken(guid) => guid,
        _ => {
            let [a, b, c, d] = random::u32().to_ne_bytes();
            let [e, f, ..] = random::u32().to_ne_bytes();
            // Unicast, and locally administered.
            eui64([a & 0xfc | 2, b, c, d, e, f])
        }
    }
}

/// Returns the EUI-64 of an Ethernet address.
fn eui64([a, b, c, d, e, f]: [u8; MAC_LEN]) -> [u8; 8] {
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}
