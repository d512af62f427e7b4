// SPDX-License-Identifier: GPL-2.0

//! Devices: how they are made.
//!
//! Owns the time before the core knows a device. A device is made ([`UnregisteredDevice`]), handed
//! to the core, and from then on belongs to the core ([`Device`]). Does not know what devices do.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::{
        device::{
            Device,
            DeviceRef, //
        },
        driver::Driver,
        ops::OpsVTable,
        sysfs, //
    },
    ib_device::IbDevice,
    net::{
        netdev::NetDev,
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

/// A device that the core does not know yet.
///
/// # Invariants
///
/// The device is valid, with its data in place and its operations set, and nobody else knows it. It is in the
/// namespace of the reference.
pub struct UnregisteredDevice<'a, T: Driver>(NonNull<Device<T>>, &'a Net, PhantomData<Device<T>>);

impl<'a, T: Driver> UnregisteredDevice<'a, T> {
    /// Makes a device in `net`, with this GUID of the node. The reference lasts until the core knows the device,
    /// for it is the core that takes devices out of a namespace that goes.
    ///
    /// `init` gets the core's part of the device, for the data to keep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what `init` says.
    pub fn alloc<I: PinInit<T, Error>>(
        net: &'a Net,
        guid: [u8; 8],
        init: impl FnOnce(ARef<IbDevice>) -> Result<I>,
    ) -> Result<Self> {
        const { assert!(align_of::<Device<T>>() <= align_of::<u64>()) };
        // SAFETY: The namespace is valid.
        let raw = unsafe { bindings::_ib_alloc_device(size_of::<Device<T>>(), net.as_raw()) };
        let device = NonNull::new(raw.cast::<Device<T>>()).ok_or(ENOMEM)?;

        // SAFETY: The device is valid.
        let ib = unsafe { IbDevice::from_raw(raw) };
        let filled = init(ARef::from(ib)).and_then(|init| {
            // SAFETY: Uninitialised memory that does not move; the wrapper is transparent.
            unsafe { pin_init::raw_try_init(Device::place_of_data(device), init) }
        });
        if let Err(error) = filled {
            // SAFETY: Not registered. Without operations, nothing of ours is called.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(error);
        }
        // SAFETY: The device is private to us.
        unsafe { Self::set_up(raw, guid) };
        // INVARIANT: All of it was just done.
        Ok(Self(device, net, PhantomData))
    }

    /// # Safety
    ///
    /// `raw` is a device whose data is in place, private to the caller.
    unsafe fn set_up(raw: *mut bindings::ib_device, guid: [u8; 8]) {
        let registry = T::registry();
        let mut ops = OpsVTable::<T>::OPS;
        ops.owner = registry.module();
        ops.device_group = sysfs::group();
        // Every udata is checked, those of destroys as well, and answered by the core's functions.
        ops.set_uverbs_robust_udata(1);
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

    /// Hands the device to the core under `name`, unless it `conflicts` with another device of the
    /// driver that is registered or about to be. No two devices that conflict get past this. `listed` is
    /// called when the device begins to be told what happens to its interface, of which nothing is missed
    /// in between.
    ///
    /// When this returns, the device may be gone again already.
    ///
    /// # Errors
    ///
    /// `EEXIST` for a conflict; `ENODEV` if the interface is being unregistered, or has left the
    /// namespace; those of `ib_register_device`, among them `ENFILE` for a name that is taken. The device
    /// is gone then.
    pub fn register(
        self,
        name: &CStr,
        conflicts: impl Fn(&T) -> bool,
        listed: impl Fn(&T),
    ) -> Result {
        // SAFETY: The device is valid.
        let device = unsafe { self.0.as_ref() };
        let ib: ARef<IbDevice> = ARef::from(device.ib());
        let netdev = device.netdev().ok_or(ENODEV)?;
        T::registry().list(self.0, (&netdev, self.1.id()), conflicts, listed)?;
        // The core is told nothing of the interface, so nobody else keeps it from going.
        drop(netdev);
        // SAFETY: The device is complete. Without a DMA device the core leaves addresses as they
        // are.
        to_result(unsafe {
            bindings::ib_register_device(ib.as_raw(), name.as_char_ptr(), ptr::null_mut())
        })?;
        // The device is the core's now.
        let this = ManuallyDrop::new(self);
        // Its interface may have gone before the core could be asked to unregister the device.
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
        // SAFETY: By the invariants; drops the data through `dealloc_driver`.
        unsafe { bindings::ib_dealloc_device(self.0.cast().as_ptr()) };
    }
}

/// A GUID for a device over `netdev`: the EUI-64 of its Ethernet address, or one that is made up. Connection management
/// takes two machines with the same for one.
pub fn guid_for(netdev: &NetDev) -> [u8; 8] {
    let [a, b, c, d, e, f] = netdev.mac_address().unwrap_or_else(|| {
        let [a, b, c, d] = random::u32().to_ne_bytes();
        let [e, f, ..] = random::u32().to_ne_bytes();
        // Of one machine, and locally administered.
        [a & 0xfc | 2, b, c, d, e, f]
    });
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}
