// SPDX-License-Identifier: GPL-2.0

//! What the requester has asked the peer to acknowledge, and what not.
//!
//! Owns the account. What is asked for, and when, is the subject of `ask`.

use crate::{
    psn::Psn,
    time::Instant, //
};

/// How often packets ask for an acknowledgement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AckRequestMode {
    /// At the end of each message.
    EveryMessage,
    /// Where one is waited for.
    WhenNeeded,
}

/// What was sent since an acknowledgement was last asked for; or how much may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SinceRequest {
    pub(super) packets: u32,
    pub(super) bytes: u32,
    pub(super) messages: u32,
}

/// What was asked for, and what was not.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRequests {
    pub(super) unasked: SinceRequest,
    /// The next packet has to ask.
    pub(super) overdue: bool,
    /// The PSN after the last one that was asked for.
    pub(super) asked: Psn,
    /// What that was before the last question.
    pub(super) before: Psn,
    /// When a request was last sent.
    pub(super) sent: Instant,
    /// The peer has acknowledged something.
    pub(super) heard: bool,
}

impl AckRequests {
    /// Those of a connection whose first PSN is `first`.
    pub(super) fn new(first: Psn) -> Self {
        Self {
            unasked: SinceRequest::default(),
            overdue: false,
            asked: first,
            before: first,
            sent: Instant::from_nanos(0),
            heard: false,
        }
    }
}
