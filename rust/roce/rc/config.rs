// SPDX-License-Identifier: GPL-2.0

//! The requester's attributes and counters: the values a consumer sets with `modify_qp`.
//!
//! Plain data. The setters are methods of [`Requester`](super::requester::Requester).

use crate::{
    congestion::Algorithm,
    id::Qpn,
    message::connection::Connection,
    psn::Psn,
    segmentation::mtu::Mtu,
    wire::opcode::Service, //
};

/// Limit on data in flight in either direction. SENDs and WRITEs count with their payload, READs
/// with the responses they request. One packet, or one part of a split READ, is always allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowLimit {
    /// Bytes of payload.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
}

/// Attributes of a requester for the transition to RTS.
#[derive(Clone, Copy, Debug)]
pub struct RequesterConfig {
    /// Service and peer.
    pub connection: Connection,
    /// PSN of the first packet.
    pub first_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Number of READs, or parts of split READs, that the peer serves at a time. Exact, never
    /// rounded. If 0, a request that awaits a response completes with `IB_WC_LOC_QP_OP_ERR`.
    pub max_rd_atomic: u8,
    /// Local ACK timeout, as a 5-bit code. 0 disables the timeout.
    pub ack_timeout: u8,
    /// Retransmissions before the requester gives up, 0 to 7.
    pub retry_cnt: u8,
    /// Retransmissions to a peer that is not ready, 0 to 6; 7 means no limit.
    pub rnr_retry: u8,
    /// Limit on data in flight to a nearby peer. For a round trip of more than a millisecond the
    /// limit grows in proportion, up to 4 times, while the RTT does not increase and no packet is
    /// lost.
    pub flow: FlowLimit,
    /// Initial congestion window, in packets.
    pub initial_window: u32,
    /// Congestion control.
    pub congestion: Algorithm,
}

/// Event counts since they were last taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequesterStats {
    /// Completed SENDs.
    pub sends: u32,
    /// Responses to packets in flight, including ACKs.
    pub responses: u32,
    /// Retransmissions of all packets in flight.
    pub retries: u32,
    /// Expired ACK timeouts.
    pub timeouts: u32,
    /// RNR NAKs.
    pub rnr_naks: u32,
    /// PSN sequence error NAKs.
    pub sequence_naks: u32,
    /// Responses whose PSN shows that an earlier response is missing.
    pub implied_naks: u32,
    /// Responses that match no packet in flight.
    pub stale_responses: u32,
}

/// The attributes read for each packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) connection: Connection,
    pub(super) max_rd_atomic: u8,
    pub(super) flow: FlowLimit,
}

impl Config {
    /// The attributes of an unconfigured requester.
    pub(super) const NONE: Self = Self {
        connection: Connection::new(Service::Rc, Qpn::GSI),
        max_rd_atomic: 0,
        flow: FlowLimit {
            bytes: 0,
            packets: 0,
        },
    };
}
