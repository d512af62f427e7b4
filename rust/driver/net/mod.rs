// SPDX-License-Identifier: GPL-2.0

//! The receive path from a UDP socket to a QP.
//!
//! - [`sockets`]: the UDP sockets of each namespace. [`demux`]: finds the QP of a packet.
//! - [`mcast`]: multicast groups, and the copies for attached QPs.
//!
//! May use `limits`, `abi`, `mem`, `queue`, `port`, `packet` and `qp`.

pub(crate) mod demux;
pub(crate) mod mcast;
pub(crate) mod sockets;
