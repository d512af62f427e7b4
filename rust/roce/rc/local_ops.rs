// SPDX-License-Identifier: GPL-2.0

//! Requests that concern nobody but their own host: when they are carried out.
//!
//! Owns their fences. What they do is for the caller to know.
//!
//! IBA: section 10.8.3.3, ordering rules of the send queue.

use super::{
    requester::{
        Requester,
        RequesterState, //
    },
    slot::Slot, //
};
use crate::{
    segmentation::tx_desc::SlotIndex,
    status::WcStatus,
    wr::{
        LocalOp,
        SendOp, //
    }, //
};

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Lets `perform` carry out the request that takes no packet and whose turn has come, if there
    /// is one. Returns whether there was.
    ///
    /// It is carried out once, and completes in its turn; [`LocalOp::Invalidate`] waits for
    /// everything before it. What `perform` cannot do takes the QP to the error state when everything
    /// before is complete, and nothing after it is sent.
    pub fn perform_local(
        &mut self,
        perform: impl FnOnce(SlotIndex, LocalOp) -> Result<(), WcStatus>,
    ) -> bool {
        let Some((place, op)) = self.local_turn() else {
            return false;
        };
        self.window.performed(place, perform(place, op));
        self.settle();
        true
    }

    /// Returns the request that is carried out without a packet, and now.
    pub(super) fn local_turn(&self) -> Option<(SlotIndex, LocalOp)> {
        let (slot, place, alone) = self.window.current_local()?;
        let SendOp::Local(op) = slot.wr.op else {
            return None;
        };
        let fenced = slot.wr.fence && self.window.flight().reads != 0;
        let waits = match op {
            LocalOp::Invalidate => !alone,
            LocalOp::Bind | LocalOp::Register => fenced,
        };
        (self.state == RequesterState::Ready && !waits).then_some((place, op))
    }
}
