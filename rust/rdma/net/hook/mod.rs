// SPDX-License-Identifier: GPL-2.0

//! Where packets of the RoCE port arrive and leave: UDP tunnel sockets ([`udp_tunnel`]), the netfilter hook that
//! receives GSO lists ([`gso_rx`]), and the one that keeps processes from sending to the port (`port_guard`);
//! `nf_hooks` registers both. [`split_offload`] splits super-packets for devices.
//!
//! May use the rest of `net`.

pub mod gso_rx;
pub(crate) mod nf_hooks;
pub(crate) mod port_guard;
pub mod split_offload;
pub mod udp_tunnel;
