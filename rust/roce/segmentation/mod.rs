// SPDX-License-Identifier: GPL-2.0

//! How a message is divided into packets, and packets are joined again.
//!
//! [`tx_desc`] describes one packet to be sent, or several consecutive ones (a super-packet); [`gso`] splits such a
//! description into packets and coalesces received ones. No payload is touched here.
//!
//! May use: the values, `wire` and `wr`.

pub mod gso;
pub mod tx_desc;
