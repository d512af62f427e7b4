// SPDX-License-Identifier: GPL-2.0

//! Congestion control of a connection: how many packets may be in flight.
//!
//! A requester reports what happens ([`window`]: acknowledgements, losses, time-outs; [`rtt`]: round trips)
//! and asks for the window. Neither file knows packets or requests. Another algorithm is another file here.
//!
//! May use: `psn`, `time`.

pub(crate) mod rtt;
pub(crate) mod window;
