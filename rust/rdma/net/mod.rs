// SPDX-License-Identifier: GPL-2.0

//! The network stack as a RoCE provider uses it.
//!
//! - [`netns`], [`netdev`], [`notifier`], [`rtnl`], [`route`], [`mcast`]: the base, which does not depend on
//!   packets.
//! - `skb_data`: the bytes of an skb. [`super_packet`]: several packets in one skb.
//! - [`rx`]: received packets; [`tx`]: packets to send; [`tx_inflight`]: bytes that the stack has not freed
//!   yet.
//! - [`hook`]: UDP tunnel sockets and netfilter hooks, where packets arrive.
//!
//! May use `util` and `sync`; `rx` and `tx` also `mm`.

pub mod hook;
pub mod mcast;
pub mod netdev;
pub mod netns;
pub mod notifier;
pub mod route;
pub mod rtnl;
pub mod rx;
mod skb_data;
pub mod super_packet;
pub mod tx;
pub mod tx_inflight;

use crate::bindings;

/// Returns whether networking may write one more message to the kernel log now: ten may come in five seconds.
pub fn may_log() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::net_ratelimit() != 0 }
}

/// Returns the UDP source port for packets between two QPs, computed as in the kernel's other RoCE drivers:
/// from the flow label, or from the QP numbers if that is 0. Routers use it for ECMP.
pub fn udp_source_port(flow_label: u32, qpn: u32, dest_qpn: u32) -> u16 {
    // SAFETY: A function of its arguments, without preconditions.
    unsafe { bindings::ferroce_helper_rdma_get_udp_sport(flow_label, qpn, dest_qpn) }
}
