// SPDX-License-Identifier: GPL-2.0

//! What a RoCE provider needs of the network stack.
//!
//! - [`netns`], [`netdev`]: network namespaces and interfaces; [`notifier`]: what happens to them.
//! - [`route`]: the way to an address; [`skb`], [`header`]: packets that go it, in a [`burst`]; [`flight`]:
//!   how much is on its way.
//! - [`rx`]: packets that have come in; [`udp_tunnel`]: the sockets that they come in through;
//!   [`whole`]: bursts that come unsplit; `reserved`: what no process sends there; `hooks`: both in netfilter.
//! - [`multicast`]: groups that an interface takes packets of.

pub mod hook;
pub mod mcast;
pub mod netdev;
pub mod netns;
pub mod notifier;
pub mod route;
pub mod rtnl;
pub mod rx;
pub mod tx;
pub mod tx_inflight;

use crate::bindings;

/// UDP source port for packets of the flow between two queue pairs, as all RoCE drivers of the
/// kernel choose it: from the flow label, or from the queue pair numbers if that is 0. Routers
/// spread flows by it.
///
/// C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
pub fn udp_source_port(flow_label: u32, qpn: u32, dest_qpn: u32) -> u16 {
    // SAFETY: No precondition.
    unsafe { bindings::ferroce_helper_rdma_get_udp_sport(flow_label, qpn, dest_qpn) }
}
