// SPDX-License-Identifier: GPL-2.0

//! Division of messages into packets.
//!
//! [`mtu`] holds the path MTU and its arithmetic. [`tx_desc`] describes one packet to send, or
//! several consecutive ones (a super-packet). [`gso`] splits such a description into packets. [`super_packet`] is the
//! form in which a super-packet travels unsplit, [`gso_loss`] finds routes that lose it.
//! Payload is described, never accessed.
//!
//! May use: the value types, `wire` and `wr`.

pub mod gso;
pub mod gso_loss;
pub mod mtu;
pub mod super_packet;
pub mod tx_desc;
