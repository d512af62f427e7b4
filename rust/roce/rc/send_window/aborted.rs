// SPDX-License-Identifier: GPL-2.0

//! Requests that end without being sent, and hold up all that were posted after them.
//!
//! Owns where sending stops. Does not know why a request is condemned.

use super::{
    SendWindow, //
    Slot,
};
use crate::{
    psn::Psn,
    segmentation::tx_desc::SlotIndex,
    status::WcStatus, //
};

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> SendWindow<S> {
    /// Says that the request in slot `place`, if not complete, shall end with `status`, unsent. Returns
    /// the PSN of its first packet, or that of the next that was never sent.
    pub(crate) fn abort_slot(&mut self, place: SlotIndex, status: WcStatus) -> Option<Psn> {
        // The distance from the oldest, on the ring, tells which request has the slot.
        let mask = self.capacity.wrapping_sub(1);
        let index = self
            .acked
            .wrapping_add(place.0.wrapping_sub(self.acked) & mask);
        if index.wrapping_sub(self.acked) >= self.head.wrapping_sub(self.acked) {
            return None;
        }
        let high = self.high;
        let slot = self.slot_mut(index)?;
        slot.status.get_or_insert(status);
        let first = match slot.packets {
            0 => high,
            _ => slot.first,
        };
        self.raise_stop(index);
        Some(first)
    }

    /// Lets nothing be sent from this request on.
    pub(super) fn raise_stop(&mut self, index: u32) {
        let rtt = |index: u32| index.wrapping_sub(self.acked);
        if self.stop_at.is_none_or(|stop_at| rtt(index) < rtt(stop_at)) {
            self.stop_at = Some(index);
        }
    }
}
