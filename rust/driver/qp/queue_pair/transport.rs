// SPDX-License-Identifier: GPL-2.0

//! What makes a queue pair one of RC, UC, or UD.
//!
//! Owns the terms between the frame of a queue pair and the service that it gives: its two halves, and what
//! they take from the attributes that a consumer sets.
//!
//! Does not know who runs a half, and when: that is what pair.rs is for.

use crate::qp::engine::{
    Engine,
    SendEngine, //
};
use crate::qp::queue_pair::Qp;
use kernel::prelude::*;
use rdma::ib::qp_attr::{
    QpAttr,
    QpAttrMask, //
};
use roce::psn::Psn;

/// One of the two ways of what a queue pair does.
pub(crate) enum Direction {
    /// Its requests, and what answers them.
    Send,
    /// The peer's requests, and its answers.
    Receive,
}

/// The service that a queue pair gives.
pub(crate) trait Transport: Sized + Send + Sync + 'static {
    /// The half that sends requests, and takes what answers them.
    type Sender: SendEngine;
    /// The half that takes requests, and answers them.
    type Receiver: Engine;
    /// Where a consumer in the kernel posts sends.
    type Sends: Send + Sync;

    /// Most bytes of packets that wait for one half, as the memory counts that they take.
    const INBOX_BYTES: i32;

    /// Which half is held back by what the network has yet to let go of, and goes on when it has.
    const RESUMED: Direction;

    /// INIT to RTR: the receiver learns whom it listens to.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an address that cannot be; `ENOMEM`. Nothing has changed then.
    fn ready_to_receive(qp: &Qp<Self>, attr: &QpAttr) -> Result;

    /// RTR to RTS: the sender may start.
    ///
    /// # Errors
    ///
    /// As [`Transport::ready_to_receive`].
    fn ready_to_send(qp: &Qp<Self>, attr: &QpAttr) -> Result;

    /// In SQD: another way to the peer, and room for another number of its requests, as far as `mask` names
    /// them.
    ///
    /// # Errors
    ///
    /// As [`Transport::ready_to_receive`].
    fn redirect(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask) -> Result;

    /// Sets what may change while the queue pair works: those attributes that `mask` names.
    fn adjust(qp: &Qp<Self>, attr: &QpAttr, mask: QpAttrMask);

    /// The PSN that is sent next, and whether requests that were begun before SQD are under way.
    fn sending(engine: &mut Self::Sender) -> (Psn, bool);

    /// The PSN that is expected next. `None`: any.
    fn expecting(engine: &mut Self::Receiver) -> Option<Psn>;
}
