// SPDX-License-Identifier: GPL-2.0

//! Callbacks of a message receiver, for any connected service.

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

/// Callbacks of a message receiver: take a receive WR, place payload, check an rkey, complete.
pub trait RecvContext {
    /// Takes the next receive WR. Its scatter list becomes the receive in progress. Returns `None`
    /// if no receive is posted, [`BadRecv`] if the receive was taken but cannot be used.
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>>;

    /// Copies `payload` of the current packet to the receive in progress, at `offset` bytes. The
    /// copy does not exceed the length of the receive.
    ///
    /// # Errors
    ///
    /// The status with which the receive must complete, for example [`WcStatus::LocProtErr`]; or
    /// [`Obstacle::Absent`] if its memory is not present.
    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>>;

    /// Checks that the key grants `access` to `length` bytes at `remote`. Not called for 0 bytes
    /// (C9-88).
    ///
    /// # Errors
    ///
    /// The access error; or [`Obstacle::Absent`] if the memory is not present.
    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>>;

    /// Checks the key as [`check_remote`](Self::check_remote) does, and copies `payload` of the current packet to
    /// `remote`. The memory of a message of several packets was checked when the message started, but may have been
    /// deregistered since; that of a message of one packet may have not been checked before. `left` is the length of
    /// the message from `remote` on, `payload` included.
    ///
    /// # Errors
    ///
    /// The access error; or [`Obstacle::Absent`] if the memory is not present.
    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
        left: u32,
    ) -> Result<(), Obstacle<AccessError>>;

    /// An RDMA WRITE of `length` bytes is complete: all of it is placed.
    fn on_written(&mut self, _length: u32) {}

    /// Completes a receive. `solicited` is set if the peer requests a completion event. No ACK of
    /// the message is sent before this returns.
    fn complete_receive(&mut self, completion: Completion, solicited: bool);
}
