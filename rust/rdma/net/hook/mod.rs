// SPDX-License-Identifier: GPL-2.0

//! Where packets of the RoCE port arrive and leave: UDP tunnel sockets ([`udp_tunnel`]), and the netfilter hooks that
//! keep processes from sending to the port (`port_guard`), which `nf_hooks` registers. [`split_offload`] splits
//! super-packets for devices.
//!
//! May use the rest of `net`.

pub(crate) mod nf_hooks;
pub(crate) mod port_guard;
pub mod split_offload;
pub mod udp_tunnel;
