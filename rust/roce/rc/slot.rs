// SPDX-License-Identifier: GPL-2.0

//! One slot of the send window: a work request, its PSNs and its completion status.

use super::read_split::ReadSplit;
use crate::{
    message::retired::Retired,
    psn::Psn,
    segmentation::tx_desc::SlotIndex,
    status::WcStatus,
    wr::{
        LocalOp,
        SendOp,
        SendWr,
        WcOpcode, //
    }, //
};

/// A send work request and its progress.
///
/// The caller fills its storage with [`Slot::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub(super) wr: SendWr,
    pub(super) opcode: WcOpcode,
    /// PSN of the first packet of the request, or of the response to a READ.
    pub(super) first: Psn,
    /// Number of PSNs. 0 until they are assigned, and for a local operation.
    pub(super) packets: u32,
    /// How a READ is split. Set together with its PSNs.
    pub(super) split: ReadSplit,
    /// The completion status. Set on a request that is not complete: the request is aborted, that
    /// is, it is not sent and completes with this status.
    pub(super) status: Option<WcStatus>,
}

impl Slot {
    /// An empty slot.
    pub const EMPTY: Self = Self::new(SendWr::invalid(0), WcOpcode::Send, None);

    /// Returns a slot without PSNs.
    pub(super) const fn new(wr: SendWr, opcode: WcOpcode, status: Option<WcStatus>) -> Self {
        Self {
            wr,
            opcode,
            first: Psn::new(0),
            packets: 0,
            split: ReadSplit::WHOLE,
            status,
        }
    }

    /// Returns the request, which is complete and was in slot `index`.
    #[inline]
    pub(super) fn retired(&self, index: SlotIndex) -> Retired<&SendWr> {
        let status = self.status.unwrap_or(WcStatus::Success);
        Retired::new(index, &self.wr, self.opcode, status)
    }

    /// Returns whether this is a SEND that succeeded.
    #[inline]
    pub(super) fn is_successful_send(&self) -> bool {
        let succeeded = matches!(self.status, None | Some(WcStatus::Success));
        succeeded && self.opcode == WcOpcode::Send
    }

    /// Returns the PSN after the last one.
    #[inline]
    pub(super) const fn end(&self) -> Psn {
        self.first.add(self.packets)
    }

    /// Returns whether only a response of its own, not an ACK, completes the request.
    #[inline]
    pub(super) const fn awaits_response(&self) -> bool {
        self.wr.op.awaits_response()
    }

    /// Returns the number of receives of the peer that the request has used when its packets before packet `end` are
    /// executed, not counting one that is in use.
    #[inline]
    pub(super) fn receives_ended(&self, end: u32) -> u32 {
        u32::from(end == self.packets && self.wr.op.uses_receive())
    }

    /// Returns whether this is a local operation, which uses no packet.
    #[inline]
    pub(super) const fn is_local(&self) -> bool {
        matches!(self.wr.op, SendOp::Local(_))
    }

    /// Returns whether the request waits for all earlier requests to complete, either to be executed
    /// or to report its completion.
    #[inline]
    pub(super) const fn awaits_earlier(&self) -> bool {
        match self.wr.op {
            SendOp::Local(LocalOp::Invalidate) => true,
            SendOp::Local(_) => self.wr.signaled,
            _ => false,
        }
    }

    /// Returns the payload of the response, in bytes.
    #[inline]
    pub(super) const fn response_length(&self) -> u32 {
        match self.wr.op.is_read() {
            true => self.wr.length,
            false => 0,
        }
    }
}

/// Returns the largest power of two that fits in `slots`.
pub(super) fn capacity_of(slots: &[Slot]) -> u32 {
    match u32::try_from(slots.len()).unwrap_or(u32::MAX) {
        0 => 0,
        len => 1_u32.wrapping_shl(len.ilog2()),
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::EMPTY
    }
}
