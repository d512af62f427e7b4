// SPDX-License-Identifier: GPL-2.0

//! From a socket to a queue pair: the sockets of each namespace, the table of queue pair numbers, multicast groups.
//!
//! May use: `port`, `packet`, `qp`.

pub(crate) mod demux;
pub(crate) mod mcast;
pub(crate) mod sockets;
