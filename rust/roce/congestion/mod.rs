// SPDX-License-Identifier: GPL-2.0

//! Congestion control of a connection: how many packets and bytes may be in flight.
//!
//! The requester reports events (packets sent, ACKs, losses, timeouts, congestion of the local stack) and asks for the
//! window. [`window`] is the congestion window, [`rtt`] scales its limit to the distance of the peer. Neither knows
//! packets or requests. Another algorithm is another file here.
//!
//! May use [`psn`](crate::psn), [`time`](crate::time) and [`segmentation`](crate::segmentation).

pub(crate) mod rtt;
pub(crate) mod window;
