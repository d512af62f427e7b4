// SPDX-License-Identifier: GPL-2.0

//! Operations on devices and ports.

use super::OpsVTable;
use crate::{
    bindings,
    ib::{
        device::{
            Device,
            DeviceRef, //
        },
        driver::{
            Driver,
            MAD_LEN, //
        },
        udata, //
    },
    net::netdev::NetDev, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::rcu, //
};

/// Longest management datagram.
const MAX_MAD: u32 = MAD_LEN as u32;

/// Bytes of the description of a device.
const NODE_DESC: usize = bindings::IB_DEVICE_NODE_DESC_MAX as usize;

/// The only port.
const PORT: u32 = 1;

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn query_device(
        dev: *mut bindings::ib_device,
        attr: *mut bindings::ib_device_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the head of `ops`.
            let (dev, attr) = unsafe {
                udata::expect_none(udata)?;
                (Device::<T>::from_raw(dev), &mut *attr)
            };
            T::query_device(dev).write_to(attr);
            Ok(0)
        })
    }

    /// Gives the device another description, as `rdma-ndd` does when the host gets another name.
    pub(super) unsafe extern "C" fn modify_device(
        dev: *mut bindings::ib_device,
        mask: c_int,
        attr: *mut bindings::ib_device_modify,
    ) -> c_int {
        from_result(|| {
            // CAST: One bit.
            if mask != bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC as c_int {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: See the head of `ops`. Raw, since the core reads the description at any time,
            // and has no lock for it.
            let (to, from) = unsafe { (&raw mut (*dev).node_desc, &raw const (*attr).node_desc) };
            let (to, from) = (to.cast::<c_char>(), from.cast::<c_char>());
            for at in 0..NODE_DESC {
                // SAFETY: Both have so many bytes.
                unsafe { to.add(at).write_volatile(from.add(at).read()) };
            }
            Ok(0)
        })
    }

    /// May be called after [`dealloc_driver`](Self::dealloc_driver), by who reads in sysfs of another namespace. When
    /// that ends, or is to see no devices any more, the core forgets what it has of the device there before it waits
    /// for readers, so the end of the device does not wait for them (Linux 7.3, `remove_one_compat_dev()`). What keeps
    /// the device's memory meanwhile, and this code, are the locks under which that is done: the end of a namespace
    /// excludes `unregister_pernet_subsys()`, which the module has to call, and the rest the end of a registration.
    pub(super) unsafe extern "C" fn query_port(
        dev: *mut bindings::ib_device,
        port: u32,
        attr: *mut bindings::ib_port_attr,
    ) -> c_int {
        from_result(|| {
            if port != PORT {
                return Err(EINVAL);
            }
            let this = NonNull::new(dev.cast::<Device<T>>()).ok_or(EINVAL)?;
            // SAFETY: See the head of `ops`; the core keeps the memory, as said above.
            if let Some(device) = unsafe { DeviceRef::try_get(this) } {
                T::refresh_port(&device);
            }
            let guard = rcu::read_lock();
            // SAFETY: As above, and the data was put in place before the core had the device.
            let device = unsafe { Device::<T>::if_whole(dev, &guard) }.ok_or(ENODEV)?;
            // SAFETY: See the head of `ops`.
            T::query_port(device)?.write_to(unsafe { &mut *attr });
            Ok(0)
        })
    }

    /// As late as [`query_port`](Self::query_port).
    pub(super) unsafe extern "C" fn query_pkey(
        _dev: *mut bindings::ib_device,
        port: u32,
        index: u16,
        pkey: *mut u16,
    ) -> c_int {
        from_result(|| {
            if port != PORT {
                return Err(EINVAL);
            }
            let found = T::query_pkey(index)?;
            // SAFETY: See the head of `ops`.
            unsafe { pkey.write(found) };
            Ok(0)
        })
    }

    /// What came with the datagram does not matter: everybody may read counters.
    pub(super) unsafe extern "C" fn process_mad(
        dev: *mut bindings::ib_device,
        _flags: c_int,
        port: u32,
        _wc: *const bindings::ib_wc,
        _grh: *const bindings::ib_grh,
        request: *const bindings::ib_mad,
        answer: *mut bindings::ib_mad,
        _answer_len: *mut usize,
        _answer_pkey_index: *mut u16,
    ) -> c_int {
        if port != PORT {
            return bindings::ib_mad_result_IB_MAD_RESULT_FAILURE as c_int;
        }
        const { assert!(size_of::<bindings::ib_mad>() == MAD_LEN) };
        // SAFETY: See the head of `ops`. Any bytes are a datagram, and the other way round.
        let answered = unsafe {
            let request = &*request.cast::<[u8; MAD_LEN]>();
            T::process_mad(Device::<T>::from_raw(dev), request)
        };
        let mut result = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS;
        if let Some(bytes) = answered {
            // SAFETY: As above.
            unsafe { answer.cast::<[u8; MAD_LEN]>().write(bytes) };
            result |= bindings::ib_mad_result_IB_MAD_RESULT_REPLY;
        }
        // CAST: A set of bits.
        result as c_int
    }

    /// Called once, while the device is being registered.
    pub(super) unsafe extern "C" fn get_port_immutable(
        dev: *mut bindings::ib_device,
        port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> c_int {
        from_result(|| {
            let mut attr: bindings::ib_port_attr = pin_init::zeroed();
            // SAFETY: See the head of `ops`. These two come first, because the core's query looks
            // at them.
            unsafe {
                (*immutable).core_cap_flags = bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
                (*immutable).max_mad_size = MAX_MAD;
                to_result(bindings::ib_query_port(dev, port, &mut attr))?;
                (*immutable).pkey_tbl_len = attr.pkey_tbl_len.into();
                (*immutable).gid_tbl_len = attr.gid_tbl_len;
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn get_link_layer(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> bindings::rdma_link_layer {
        bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }

    /// The caller gives the reference back with `dev_put`.
    ///
    /// May be called after [`dealloc_driver`](Self::dealloc_driver): where a registration ends for lack of memory, the
    /// core goes on to look for the interfaces of new addresses until it forgets the device (Linux 7.3,
    /// `ib_cache_setup_one()`).
    pub(super) unsafe extern "C" fn get_netdev(
        dev: *mut bindings::ib_device,
        port: u32,
    ) -> *mut bindings::net_device {
        if port != PORT {
            return ptr::null_mut();
        }
        let guard = rcu::read_lock();
        // SAFETY: See the head of `ops`: without its data, it is a device that the core has not forgotten yet.
        let dev = unsafe { Device::<T>::if_whole(dev, &guard) };
        dev.and_then(|dev| dev.netdev())
            .map_or(ptr::null_mut(), NetDev::into_raw)
    }

    /// The device can be found from now on: it was registered, or has come back after it moved to another
    /// namespace. What happened to its interface meanwhile was told to nobody.
    pub(super) unsafe extern "C" fn enable_driver(dev: *mut bindings::ib_device) -> c_int {
        // SAFETY: See the head of `ops`.
        let device = unsafe { Device::<T>::from_raw(dev) };
        match device.netdev() {
            Some(netdev) => device.dispatch_port_state(&netdev),
            None => device.unregister_queued(),
        }
        0
    }

    /// The last operation of all, but for those that say so.
    pub(super) unsafe extern "C" fn dealloc_driver(dev: *mut bindings::ib_device) {
        if let Some(device) = NonNull::new(dev.cast::<Device<T>>()) {
            T::registry().unlist(device);
            // SAFETY: See the head of `ops`. Nobody calls another operation any more, and nobody finds
            // the device on the list.
            unsafe { Device::<T>::drop_data(device) };
        }
    }
}
