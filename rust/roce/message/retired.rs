// SPDX-License-Identifier: GPL-2.0

//! A send work request that has ended, of any connected service.

use crate::{
    segmentation::tx_desc::SlotIndex,
    status::WcStatus,
    wr::{
        Completion,
        SendWr,
        WcOpcode, //
    }, //
};
use core::borrow::Borrow;

/// A retired request, reported or not. Its slot is free. `W` is a [`SendWr`], or refers to one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retired<W> {
    /// The slot.
    pub slot: SlotIndex,
    /// What it was.
    pub opcode: WcOpcode,
    /// How it ended.
    pub status: WcStatus,
    wr: W,
}

impl<W: Borrow<SendWr>> Retired<W> {
    /// Retires `wr`, whose completion has `opcode` and `status`.
    #[inline]
    pub(crate) const fn new(slot: SlotIndex, wr: W, opcode: WcOpcode, status: WcStatus) -> Self {
        Self {
            slot,
            opcode,
            status,
            wr,
        }
    }

    /// Returns the length of the message in bytes, whatever the status.
    #[inline]
    pub fn length(&self) -> u32 {
        self.wr.borrow().length
    }

    /// Returns the completion to report. `None` if an unsignaled request succeeded.
    #[inline]
    pub fn completion(&self) -> Option<Completion> {
        self.wr.borrow().completion(self.opcode, self.status)
    }
}
