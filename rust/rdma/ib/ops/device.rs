// SPDX-License-Identifier: GPL-2.0

//! Operations on devices and ports.

use super::OpsVTable;
use crate::{
    bindings,
    errno::EOPNOTSUPP,
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
    net::netdev::{
        NetDev,
        NetDevBorrow, //
    }, //
};
use core::{
    ffi::c_void,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::rcu, //
};

/// Maximum size of a management datagram, in bytes.
const MAX_MAD_BYTES: u32 = MAD_LEN as u32;

/// Size of the description of a device, in bytes.
const NODE_DESC_BYTES: usize = bindings::IB_DEVICE_NODE_DESC_MAX as usize;

/// Number of the only port.
const PORT_NUM: u32 = 1;

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn query_device(
        dev: *mut bindings::ib_device,
        attr: *mut bindings::ib_device_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call, `dev` has its data, and `attr` is
            // valid and not shared.
            let (dev, attr) = unsafe {
                udata::expect_none(udata)?;
                (Device::<T>::from_raw(dev), &mut *attr)
            };
            T::query_device(dev).write_to(attr);
            Ok(0)
        })
    }

    /// Sets the description of the device. `rdma-ndd` does so when the host name changes.
    pub(super) unsafe extern "C" fn modify_device(
        dev: *mut bindings::ib_device,
        mask: c_int,
        attr: *mut bindings::ib_device_modify,
    ) -> c_int {
        from_result(|| {
            // CAST: The flag is one bit.
            if mask != bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC as c_int {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the contract in `ops`, `dev` and `attr` are valid; only addresses are computed. No
            // references, because the core reads the description at any time without a lock.
            let (to, from) = unsafe { (&raw mut (*dev).node_desc, &raw const (*attr).node_desc) };
            let (to, from) = (to.cast::<c_char>(), from.cast::<c_char>());
            for at in 0..NODE_DESC_BYTES {
                // SAFETY: Both arrays have `NODE_DESC_BYTES` bytes. The source is not shared. The destination may
                // be read at the same time: hence volatile.
                unsafe { to.add(at).write_volatile(from.add(at).read()) };
            }
            Ok(0)
        })
    }

    /// May run after [`dealloc_driver`](Self::dealloc_driver): a task reads sysfs in another namespace. When that
    /// namespace ends, or loses access to the device, the core removes its entry of the device there before it
    /// waits for readers, so unregistering the device does not wait for them (Linux 7.3,
    /// `remove_one_compat_dev()`). The locks under which the core does so keep the memory of the device and this
    /// code meanwhile: the end of a namespace excludes `unregister_pernet_subsys()`, which module unload calls, and
    /// the other case excludes the end of a registration.
    pub(super) unsafe extern "C" fn query_port(
        dev: *mut bindings::ib_device,
        port: u32,
        attr: *mut bindings::ib_port_attr,
    ) -> c_int {
        from_result(|| {
            if port != PORT_NUM {
                return Err(EINVAL);
            }
            let this = NonNull::new(dev.cast::<Device<T>>()).ok_or(EINVAL)?;
            // SAFETY: The core keeps the memory of the device for the call, see above. The data need not be in
            // place.
            if let Some(device) = unsafe { DeviceRef::try_get(this) } {
                T::refresh_port(&device);
            }
            let guard = rcu::read_lock();
            // SAFETY: The core keeps the memory of the device for the call, and the data was put in place before
            // the device was registered.
            let device = unsafe { Device::<T>::try_from_raw_rcu(dev, &guard) }.ok_or(ENODEV)?;
            // SAFETY: By the contract in `ops`, `attr` is valid and not shared; the core has initialised it.
            T::query_port(device)?.write_to(unsafe { &mut *attr });
            Ok(0)
        })
    }

    /// May run after [`dealloc_driver`](Self::dealloc_driver), as [`query_port`](Self::query_port).
    pub(super) unsafe extern "C" fn query_pkey(
        _dev: *mut bindings::ib_device,
        port: u32,
        index: u16,
        pkey: *mut u16,
    ) -> c_int {
        from_result(|| {
            if port != PORT_NUM {
                return Err(EINVAL);
            }
            let found = T::query_pkey(index)?;
            // SAFETY: By the contract in `ops`, `pkey` is valid for writes.
            unsafe { pkey.write(found) };
            Ok(0)
        })
    }

    /// The work completion and the GRH do not matter: any peer may read the counters.
    pub(super) unsafe extern "C" fn process_mad(
        dev: *mut bindings::ib_device,
        _flags: c_int,
        port: u32,
        _wc: *const bindings::ib_wc,
        _grh: *const bindings::ib_grh,
        request: *const bindings::ib_mad,
        result_mad: *mut bindings::ib_mad,
        _result_len: *mut usize,
        _result_pkey_index: *mut u16,
    ) -> c_int {
        if port != PORT_NUM {
            return bindings::ib_mad_result_IB_MAD_RESULT_FAILURE as c_int;
        }
        const { assert!(size_of::<bindings::ib_mad>() == MAD_LEN) };
        // SAFETY: By the contract in `ops`, `dev` has its data, and `request` is a valid MAD, of which all bytes
        // are initialised. The types have the same size.
        let response = unsafe {
            let request = &*request.cast::<[u8; MAD_LEN]>();
            T::process_mad(Device::<T>::from_raw(dev), request)
        };
        let mut result = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS;
        if let Some(bytes) = response {
            // SAFETY: By the contract in `ops`, `result_mad` is valid for writes and has the size of a MAD. All
            // byte values are valid in a MAD.
            unsafe { result_mad.cast::<[u8; MAD_LEN]>().write(bytes) };
            result |= bindings::ib_mad_result_IB_MAD_RESULT_REPLY;
        }
        // CAST: A bit set that the kernel declares as `int`.
        result as c_int
    }

    /// Called once, during the registration of the device.
    pub(super) unsafe extern "C" fn get_port_immutable(
        dev: *mut bindings::ib_device,
        port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> c_int {
        from_result(|| {
            let mut attr: bindings::ib_port_attr = pin_init::zeroed();
            // SAFETY: By the contract in `ops`, `immutable` is valid and not shared, and `dev` is valid: the core
            // calls this during its registration. The first two fields are written first, because `ib_query_port`
            // reads them.
            unsafe {
                (*immutable).core_cap_flags = bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
                (*immutable).max_mad_size = MAX_MAD_BYTES;
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

    /// The caller drops the reference with `dev_put`.
    ///
    /// May run after [`dealloc_driver`](Self::dealloc_driver): if a registration fails for lack of memory, the core
    /// still looks up the netdevs of new addresses until it frees the device (Linux 7.3, `ib_cache_setup_one()`).
    pub(super) unsafe extern "C" fn get_netdev(
        dev: *mut bindings::ib_device,
        port: u32,
    ) -> *mut bindings::net_device {
        if port != PORT_NUM {
            return ptr::null_mut();
        }
        let guard = rcu::read_lock();
        // SAFETY: The core keeps the memory of the device until it frees it, after this call; the data was put in
        // place before.
        let dev = unsafe { Device::<T>::try_from_raw_rcu(dev, &guard) };
        dev.and_then(|dev| dev.netdev())
            .map_or(ptr::null_mut(), NetDev::into_raw)
    }

    /// Called before an address becomes a GID of the device.
    ///
    /// May run after [`dealloc_driver`](Self::dealloc_driver), as [`get_netdev`](Self::get_netdev).
    pub(super) unsafe extern "C" fn add_gid(
        attr: *const bindings::ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        from_result(|| {
            let guard = rcu::read_lock();
            // SAFETY: By the contract in `ops`, `attr` is valid. The core keeps the memory of its device for the call,
            // and the data was put in place before.
            let (dev, netdev) = unsafe {
                let dev = Device::<T>::try_from_raw_rcu((*attr).device, &guard).ok_or(ENODEV)?;
                let netdev = NonNull::new((*attr).ndev).ok_or(EINVAL)?;
                // The entry holds a reference to the netdev, and the core deletes no entry during the call.
                (dev, NetDevBorrow::from_raw(netdev.as_ptr()))
            };
            dev.serves(netdev).then_some(0).ok_or(EXDEV)
        })
    }

    /// Nothing was allocated in [`add_gid`](Self::add_gid). The core calls the former only if it has this one.
    pub(super) unsafe extern "C" fn del_gid(
        _attr: *const bindings::ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        0
    }

    /// Called when the device can be found: it was registered, or moved to another namespace. Events of its netdev
    /// that occurred before were not delivered.
    pub(super) unsafe extern "C" fn enable_driver(dev: *mut bindings::ib_device) -> c_int {
        // SAFETY: By the contract in `ops`, `dev` is registered, so its data is in place.
        let device = unsafe { Device::<T>::from_raw(dev) };
        match device.netdev() {
            Some(netdev) => device.dispatch_port_state(&netdev),
            None => device.unregister_queued(),
        }
        0
    }

    /// The last operation, except for those whose documentation says that they may run later.
    pub(super) unsafe extern "C" fn dealloc_driver(dev: *mut bindings::ib_device) {
        if let Some(device) = NonNull::new(dev.cast::<Device<T>>()) {
            T::registry().remove(device);
            // SAFETY: By the contract in `ops`, the data is in place, and the core calls no operation any more,
            // except those that use `try_from_raw_rcu`. Lookups in the registry do not find the device any more.
            unsafe { Device::<T>::drop_data(device) };
        }
    }
}
