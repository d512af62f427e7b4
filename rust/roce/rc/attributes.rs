// SPDX-License-Identifier: GPL-2.0

//! The attributes of a requester, and what it counts.
//!
//! Owns what a consumer sets by modifying the QP. Does not know what is made of it.

use crate::{
    id::{
        Pkey,
        Qpn, //
    },
    psn::Psn,
    segmentation::tx_desc::Mtu, //
};

/// How much may be in flight, either way: SENDs and WRITEs with their payload, READs with the
/// responses that they ask for. At least one packet, or one part of a READ, always may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowLimit {
    /// Bytes of payload.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
}

/// The attributes of a requester, as they stand on the way to RTS.
#[derive(Clone, Copy, Debug)]
pub struct RequesterConfig {
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// Partition key to send.
    pub pkey: Pkey,
    /// PSN of the first packet.
    pub first_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// How many READs, or parts of them, the peer is ready to serve at a time; exact, never rounded. With 0, a request
    /// that awaits a response completes with `IB_WC_LOC_QP_OP_ERR`.
    pub max_rd_atomic: u8,
    /// Local ACK timeout, as a code of five bits; 0 waits for ever.
    pub ack_timeout: u8,
    /// How often to send again before giving up, 0 to 7.
    pub retry_cnt: u8,
    /// How often to send again to a peer that is not ready, 0 to 6; 7 never gives up.
    pub rnr_retry: u8,
    /// How much may be in flight to a peer that is near. To one that is farther away than a millisecond it becomes
    /// more, in proportion, up to 4 times as much, as long as the way becomes no longer and nothing gets lost.
    pub flow: FlowLimit,
    /// How many packets may be in flight before any is acknowledged. The rest is earned.
    pub initial_window: u32,
}

/// How often things happened since the counts were last taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequesterStats {
    /// SENDs that are complete.
    pub sends: u32,
    /// Responses to what is in flight, acknowledgements among them.
    pub responses: u32,
    /// Times everything in flight was sent again.
    pub retries: u32,
    /// Times the peer did not answer.
    pub timeouts: u32,
    /// Refusals as "receiver not ready".
    pub rnr_naks: u32,
    /// Reports of a missing request.
    pub sequence_naks: u32,
    /// Responses that showed by their PSN that an earlier one is missing.
    pub implied_naks: u32,
    /// Requests that failed for good by a refusal.
    pub fatal_naks: u32,
    /// Responses to nothing in flight.
    pub stale_responses: u32,
}

/// The attributes that are looked at with each packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) dest_qpn: Qpn,
    pub(super) pkey: Pkey,
    pub(super) max_rd_atomic: u8,
    pub(super) flow: FlowLimit,
}

impl Config {
    /// Those of a requester that has none.
    pub(super) const NONE: Self = Self {
        dest_qpn: Qpn::GSI,
        pkey: Pkey::DEFAULT,
        max_rd_atomic: 0,
        flow: FlowLimit {
            bytes: 0,
            packets: 0,
        },
    };
}
