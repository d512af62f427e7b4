// SPDX-License-Identifier: GPL-2.0

//! Allocation of a device in a network namespace, if the core's devices belong to one (`rdma system set netns
//! exclusive`), else in the first, from which they are shared: before 7.0 the core puts each into the first.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;

/// Allocates a device of `size` bytes, the first of which are its `ib_device`, for the namespace `net`. Null if there
/// is no memory.
///
/// # Safety
///
/// `size` is at least that of `ib_device`. `net` is valid until the device is freed or registered.
pub(crate) unsafe fn alloc_device(
    size: usize,
    net: *mut bindings::net,
) -> *mut bindings::ib_device {
    #[cfg(has_alloc_device_net)]
    // SAFETY: By the function's contract.
    unsafe {
        bindings::_ib_alloc_device(size, net)
    }
    #[cfg(not(has_alloc_device_net))]
    // SAFETY: By the function's contract. The device is new, so no other code reads its namespace.
    unsafe {
        let device = bindings::_ib_alloc_device(size);
        // A device in the first namespace can be used in another just if devices are shared.
        #[cfg(CONFIG_NET_NS)]
        if !device.is_null() && !bindings::rdma_dev_access_netns(device, net) {
            // The core's part of the device, in a union with its `struct device`.
            let core = (&raw mut (*device).__bindgen_anon_1).cast::<bindings::ib_core_device>();
            (*core).rdma_net.net = net;
        }
        #[cfg(not(CONFIG_NET_NS))]
        let _ = net;
        device
    }
}
