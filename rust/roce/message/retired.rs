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

/// A retired request. Its slot is free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retired {
    /// The slot.
    pub slot: SlotIndex,
    /// What it was, also if it is not reported.
    pub opcode: WcOpcode,
    /// How it ended, also if it is not reported.
    pub status: WcStatus,
    /// Length of the message in bytes, whatever the status.
    pub length: u32,
    /// The completion to report. `None` if an unsignaled request succeeded.
    pub completion: Option<Completion>,
}

impl Retired {
    /// Retires `wr`, whose completion has `opcode` and `status`.
    #[inline]
    pub(crate) fn new(slot: SlotIndex, wr: &SendWr, opcode: WcOpcode, status: WcStatus) -> Self {
        Self {
            slot,
            opcode,
            status,
            length: wr.length,
            completion: wr.completion(opcode, status),
        }
    }
}
