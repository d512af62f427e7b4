// SPDX-License-Identifier: GPL-2.0

//! What the requester keeps of one work request.
//!
//! Owns the request, the packet sequence numbers it was given and how it ended. Does not know
//! the requests before and after it.

use super::read_split::ReadSplit;
use crate::{
    psn::Psn,
    status::WcStatus,
    wr::{
        Completion,
        LocalOp,
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
    /// Number of PSNs; 0 until they are assigned, and for what takes no packet.
    pub(super) packets: u32,
    /// In which parts a READ is asked for, since it has PSNs.
    pub(super) parts: ReadSplit,
    /// How it ended, or, while it is not complete, how it shall end instead of being sent.
    pub(super) status: Option<WcStatus>,
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
    pub(super) const fn new(wr: SendWr, opcode: WcOpcode, status: Option<WcStatus>) -> Self {
        Self {
            wr,
            opcode,
            first: Psn::new(0),
            packets: 0,
            parts: ReadSplit::WHOLE,
            status,
        }
    }

    /// Returns what to tell the consumer; `None` for the success of a request that was not signaled.
    pub(super) fn completion(&self) -> Option<Completion> {
        match self.status.unwrap_or(WcStatus::Success) {
            WcStatus::Success => self.wr.signaled.then_some(Completion {
                wr_id: self.wr.wr_id,
                status: WcStatus::Success,
                opcode: self.opcode,
                byte_len: self.wr.length,
                imm: None,
                invalidated: None,
            }),
            failed => Some(Completion::failed(self.wr.wr_id, self.opcode, failed)),
        }
    }

    /// Returns whether it was a SEND, and succeeded.
    #[inline]
    pub(super) fn was_sent(&self) -> bool {
        let succeeded = matches!(self.status, None | Some(WcStatus::Success));
        succeeded && self.opcode == WcOpcode::Send
    }

    /// Returns the PSN after the last one.
    #[inline]
    pub(super) const fn end(&self) -> Psn {
        self.first.add(self.packets)
    }

    /// Returns whether only its own response, and no acknowledgement, can complete it.
    #[inline]
    pub(super) const fn awaits_response(&self) -> bool {
        self.wr.op.awaits_response()
    }

    /// Returns whether it takes no packet.
    #[inline]
    pub(super) const fn is_local(&self) -> bool {
        matches!(self.wr.op, SendOp::Local(_))
    }

    /// Returns whether it waits for everything before it: to be carried out, or for the consumer to be told.
    #[inline]
    pub(super) const fn waits_for_others(&self) -> bool {
        match self.wr.op {
            SendOp::Local(LocalOp::Invalidate) => true,
            SendOp::Local(_) => self.wr.signaled,
            _ => false,
        }
    }

    /// Returns how many bytes of payload its response has.
    #[inline]
    pub(super) const fn response_length(&self) -> u32 {
        match self.wr.op.is_read() {
            true => self.wr.length,
            false => 0,
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::EMPTY
    }
}
