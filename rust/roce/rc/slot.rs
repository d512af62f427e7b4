// SPDX-License-Identifier: GPL-2.0

//! What the requester keeps of one work request.
//!
//! Owns the request, the packet sequence numbers it was given and how it ended. Does not know
//! the requests before and after it.

use crate::{
    psn::Psn,
    status::WcStatus,
    wr::{
        SendOp,
        SendWr,
        WcOpcode, //
    },
};

/// What the requester keeps of one work request.
///
/// [`Slot::EMPTY`] is for the caller to fill its storage with.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub(super) wr: SendWr,
    pub(super) opcode: WcOpcode,
    /// PSN of the first packet, of the request or of the response to a READ.
    pub(super) first: Psn,
    /// Number of PSNs; 0 until they are assigned.
    pub(super) packets: u32,
    /// How it ended, or, while it is not complete, how it shall end instead of being sent.
    pub(super) verdict: Option<WcStatus>,
}

impl Slot {
    /// A slot without a request.
    pub const EMPTY: Self = Self::new(
        SendWr {
            wr_id: 0,
            op: SendOp::Send { imm: None },
            length: 0,
            signaled: false,
            solicited: false,
            fence: false,
        },
        WcOpcode::Send,
        None,
    );

    /// Makes a slot without PSNs.
    pub(super) const fn new(wr: SendWr, opcode: WcOpcode, verdict: Option<WcStatus>) -> Self {
        Self {
            wr,
            opcode,
            first: Psn::new(0),
            packets: 0,
            verdict,
        }
    }

    /// Returns the PSN after the last one.
    #[inline]
    pub(super) const fn end(&self) -> Psn {
        self.first.add(self.packets)
    }

    /// Returns whether only data, and no acknowledgement, can complete it.
    #[inline]
    pub(super) const fn awaits_data(&self) -> bool {
        matches!(self.wr.op, SendOp::Read { .. })
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::EMPTY
    }
}
