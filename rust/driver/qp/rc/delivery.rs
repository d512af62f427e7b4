// SPDX-License-Identifier: GPL-2.0

//! How the packets of an RC QP reach its peer: over the network, or by loopback. Packets of one kind must not overtake
//! those of the other.
//!
//! Plain values, changed by the owner of the engine that has them.

/// How the requests of the last burst were sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RequestDelivery {
    /// Over the network, to a peer on another host.
    Network,
    /// Over the network, to a peer on this host. Loopback resumes when nothing is in flight, so every message requests
    /// an ACK.
    LocalNetwork,
    /// By loopback. Earlier packets in the network, if any, were acknowledged.
    Loopback {
        /// The peer had more responses at the end of the pass.
        peer_has_work: bool,
    },
}

impl RequestDelivery {
    /// A QP that has sent nothing.
    pub(super) const INITIAL: Self = Self::Loopback {
        peer_has_work: false,
    };
}

/// How the responses since the last loopback pass were sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResponseDelivery {
    /// At least one was sent over the network.
    Network,
    /// None was sent over the network.
    Loopback,
}
