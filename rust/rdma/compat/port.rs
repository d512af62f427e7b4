// SPDX-License-Identifier: GPL-2.0

//! Events of the port state, and the speed of a port: the core takes both from the netdev since 6.14 and 7.0.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
#[cfg(has_port_speed)]
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*, //
};

/// Tells consumers the state of port 1 of `device`, which is that of `netdev`. Since 6.14, only if it has changed.
///
/// # Safety
///
/// `device` is registered until this returns, and `netdev` is valid.
pub(crate) unsafe fn dispatch_state(
    device: *mut bindings::ib_device,
    netdev: *mut bindings::net_device,
) {
    #[cfg(has_port_state_event)]
    // SAFETY: By the function's contract.
    unsafe {
        bindings::ib_dispatch_port_state_event(device, netdev)
    };
    #[cfg(not(has_port_state_event))]
    // SAFETY: By the function's contract. The core copies the event.
    unsafe {
        let is_active = bindings::ferroce_helper_netif_running(netdev)
            && bindings::ferroce_helper_netif_carrier_ok(netdev);
        let mut event: bindings::ib_event = pin_init::zeroed();
        event.device = device;
        event.element.port_num = 1;
        event.event = match is_active {
            true => bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
            false => bindings::ib_event_type_IB_EVENT_PORT_ERR,
        };
        bindings::ib_dispatch_event(&event);
    };
}

/// `ib_device_ops.query_port_speed`, in units of 100 Mb/s. What `query_port` has reported is enough.
///
/// # Safety
///
/// Only the core may call this, with a device of this driver and a `speed` that is valid for writes.
#[cfg(has_port_speed)]
pub(super) unsafe extern "C" fn query_port_speed(
    device: *mut bindings::ib_device,
    port: u32,
    speed: *mut u64,
) -> c_int {
    from_result(|| {
        let mut attr: bindings::ib_port_attr = pin_init::zeroed();
        let mut info: bindings::ib_port_speed_info = pin_init::zeroed();
        // SAFETY: By the function's contract. The functions of the core keep no pointer.
        unsafe {
            to_result(bindings::ib_query_port(device, port, &mut attr))?;
            to_result(bindings::ib_port_attr_to_speed_info(&mut attr, &mut info))?;
            speed.write(info.rate.try_into()?);
        }
        Ok(0)
    })
}
