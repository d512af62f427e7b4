// SPDX-License-Identifier: GPL-2.0

//! What whoever receives messages must ask of the holder of memory and receives.
//!
//! Owns the questions that arise for any connected service. Knows neither packets nor peers.

use crate::{
    access::{
        Access,
        AccessError,
        Obstacle, //
    },
    segmentation::tx_desc::RxPayload,
    status::WcStatus,
    wr::{
        BadRecv,
        Completion,
        RecvWr,
        Remote, //
    }, //
};

/// What a receiver of messages must ask of whoever holds the memory and the receive queue.
pub trait RecvContext {
    /// Takes the next receive work request, whose scatter list becomes the receive in progress.
    /// `None` if there is none; [`BadRecv`] if it is taken, but cannot be used.
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>>;

    /// Copies `payload` of the packet at hand into the receive in progress, from byte `offset`
    /// on. It never reaches past the length of that receive.
    ///
    /// # Errors
    ///
    /// The status with which the receive shall complete, for example [`WcStatus::LocProtErr`]; or that
    /// its memory is absent at present.
    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>>;

    /// Checks that the peer may do `access` to `length` bytes at `remote`. Never called for 0
    /// bytes (C9-88).
    ///
    /// # Errors
    ///
    /// Why it may not; or that the memory is absent at present.
    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>>;

    /// Copies `payload` of the packet at hand to `remote`, which lies in a range that was
    /// checked when the message began, though its memory may be gone since.
    ///
    /// # Errors
    ///
    /// Why it cannot; or that the memory is absent at present.
    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>>;

    /// Reports a receive as complete. `solicited` says that the peer asks to wake the consumer.
    /// An acknowledgement cannot leave before this returns.
    fn complete_receive(&mut self, completion: Completion, solicited: bool);
}
