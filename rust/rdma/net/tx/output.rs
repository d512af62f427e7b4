// SPDX-License-Identifier: GPL-2.0

//! Passes an skb with IP and UDP headers to IP.

use crate::{
    bindings,
    net::route::Route, //
};
use kernel::sync::rcu;

/// The result of a transmission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Xmit {
    /// The stack accepted the packets.
    Sent,
    /// The stack accepted the packets, or dropped others for them; the sender should slow down
    /// (`NET_XMIT_CN`).
    Congested,
    /// The packets were dropped.
    Lost,
}

/// Sends `skb` on `route`, of the same address family, with this traffic class and priority. A priority of 0 means that
/// the traffic class decides. Packets of one flow leave by one transmit queue of the netdev, which keeps their order.
/// For any context except hard interrupts.
///
/// # Safety
///
/// `skb` must be valid, begin with the headers of that family and a UDP header, and be owned. This function takes it
/// over.
pub(super) unsafe fn output(
    skb: *mut bindings::sk_buff,
    route: &Route,
    (traffic_class, priority): (u8, u8),
) -> Xmit {
    let v4 = route.is_v4();
    let ethertype = match v4 {
        true => bindings::ETH_P_IP,
        false => bindings::ETH_P_IPV6,
    };
    let _guard = rcu::read_lock();
    // CAST: An EtherType has 16 bits.
    let ethertype = (ethertype as u16).to_be();
    // SAFETY: By the function's contract the skb is owned, and has headers of the family of the route; C consumes it in
    // any case. RCU and `route` keep the `dst`, which the skb refers to without a reference.
    let result = unsafe {
        let dst = route.as_raw();
        let priority = match priority {
            0 => bindings::ferroce_helper_rt_tos2priority(traffic_class),
            priority => priority.into(),
        };
        bindings::ferroce_helper_skb_set_output(skb, dst, ethertype, priority);
        if v4 {
            bindings::ferroce_helper_ip_local_out(skb)
        } else {
            bindings::ferroce_helper_ip6_local_out(skb)
        }
    };
    match u32::try_from(result) {
        Ok(bindings::NET_XMIT_SUCCESS) => Xmit::Sent,
        Ok(bindings::NET_XMIT_CN) => Xmit::Congested,
        _ => Xmit::Lost,
    }
}
