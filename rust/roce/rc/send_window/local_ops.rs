// SPDX-License-Identifier: GPL-2.0

//! Requests among those in flight that take no packet.
//!
//! Owns how the window goes past them: one that was carried out counts as begun, has no PSN, and is
//! complete when everything before it is. Does not know whose turn it may be.

use super::{
    SendWindow, //
    Slot,
};
use crate::{
    segmentation::tx_desc::SlotIndex,
    status::WcStatus, //
};

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> SendWindow<S> {
    /// Returns the local operation whose turn it is, if it is one's, with its place, and whether
    /// everything before it is complete.
    #[inline]
    pub(crate) fn current_local(&self) -> Option<(&Slot, SlotIndex, bool)> {
        let (slot, place, begun) = self.current()?;
        let turn = slot.is_local() && begun.is_none();
        turn.then_some((slot, place, self.acked == self.cursor))
    }

    /// Returns whether the request after the current one waits for it.
    #[inline]
    pub(crate) fn is_before_waiting(&self) -> bool {
        let next = self.cursor.wrapping_add(1);
        let posted = self.cursor != self.head && next != self.head;
        posted && self.slot(next).is_some_and(Slot::waits_for_others)
    }

    /// Notes that the local operation whose turn it was is carried out, and how that went. It is
    /// complete when everything before it is.
    pub(crate) fn performed(&mut self, place: SlotIndex, result: Result<(), WcStatus>) {
        let first = self.free;
        let Some(slot) = self.slot_mut(self.cursor) else {
            return;
        };
        (slot.first, slot.packets) = (first, 0);
        match result {
            Ok(()) => {
                self.begun = self.begun.wrapping_add(1);
                self.cursor = self.begun;
            }
            Err(status) => {
                let _ = self.abort_slot(place, status);
            }
        }
        self.complete_local();
    }

    /// Completes local operations that are carried out and the oldest of all.
    pub(super) fn complete_local(&mut self) {
        // Each round completes a request, of which there are at most `capacity`.
        while let Some((slot, true)) = self.oldest() {
            if !slot.is_local() || slot.status.is_some() {
                return;
            }
            self.complete_oldest(WcStatus::Success);
        }
    }

    /// Moves on past local operations that are carried out already.
    pub(super) fn skip_local(&mut self) {
        // At most as far as to `begun`.
        while self.cursor != self.begun && self.slot(self.cursor).is_some_and(Slot::is_local) {
            self.cursor = self.cursor.wrapping_add(1);
        }
    }

    /// Returns the last request before the current one that takes packets.
    pub(super) fn last_with_packets(&self) -> u32 {
        let mut index = self.cursor.wrapping_sub(1);
        // At most as far back as to `acked`.
        while index != self.acked && self.slot(index).is_some_and(Slot::is_local) {
            index = index.wrapping_sub(1);
        }
        index
    }
}
