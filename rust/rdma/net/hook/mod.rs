// SPDX-License-Identifier: GPL-2.0

//! Where packets enter: the UDP tunnel sockets, and the netfilter hooks beside them.
//!
//! May use: the rest of `net`.

pub mod gso_rx;
pub(crate) mod nf_hooks;
pub(crate) mod port_guard;
pub mod udp_tunnel;
