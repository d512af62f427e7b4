// SPDX-License-Identifier: GPL-2.0

//! The half of an unreliable connected queue pair that receives.
//!
//! Owns where receives come from, and the address of the peer. What is not for us or cannot be carried
//! out is dropped and counted; nobody is told.

use crate::{
    common::{
        Aftermath,
        Common, //
    },
    cq::Cq,
    half::{
        flush_receives,
        report,
        take_from_peer,
        Half, //
    },
    paging::Paging,
    path::Path,
    rq::Receives, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::rx::{
        RxSkb,
        SkbQueue, //
    },
    turn::Again, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle,
        Taken, //
    },
    host::MessageHost,
    segment::Payload,
    status::WcStatus,
    uc::receiver::Receiver,
    wr::{
        BadRecv,
        Completion,
        RecvWr,
        Remote, //
    }, //
};

/// The half that receives.
pub(crate) struct ReceiveHalf {
    receiver: Receiver,
    receives: Receives,
    cq: Arc<Cq>,
    path: Option<Path>,
    paging: Paging,
}

impl ReceiveHalf {
    /// The half in RESET.
    pub(crate) fn new(receives: Receives, cq: Arc<Cq>) -> Self {
        Self {
            receiver: Receiver::new(),
            receives,
            cq,
            path: None,
            paging: Paging::default(),
        }
    }

    /// The protocol machine, for `modify_qp`.
    pub(crate) fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Sets who the peer is.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = Some(path);
    }

    /// Completes every receive, begun or not, with a flush error.
    fn flush(&mut self, qp: &Common, after: &mut Aftermath) {
        self.receiver.fail();
        if let Some(done) = self.receiver.abandon() {
            report(qp, &self.cq, &done, true, after);
        }
        flush_receives(qp, &self.cq, &mut self.receives, after);
    }
}

impl Half for ReceiveHalf {
    fn turn(&mut self, qp: &Common, inbox: &SkbQueue, after: &mut Aftermath) -> Again {
        if qp.is_failed() {
            inbox.purge();
            self.flush(qp, after);
            return Again::No;
        }
        let again = take_from_peer(qp, inbox, self.path.as_ref(), |skb, packet| {
            let mut host = Host {
                qp,
                receives: &mut self.receives,
                cq: &self.cq,
                skb,
                after,
                paging: &mut self.paging,
            };
            let taken = self.receiver.handle(packet, &mut host);
            if taken != Ok(Taken::Paused) {
                self.paging.progress();
            }
            taken
        });
        if self.receiver.take_failure() {
            after.fail(None);
        }
        again
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.receives.clear();
        self.receiver.reset();
        self.path = None;
    }

    fn paging(&mut self) -> &mut Paging {
        &mut self.paging
    }
}

/// What the protocol machine needs while it handles one packet.
struct Host<'a> {
    qp: &'a Common,
    receives: &'a mut Receives,
    cq: &'a Cq,
    skb: &'a RxSkb,
    after: &'a mut Aftermath,
    paging: &'a mut Paging,
}

impl MessageHost for Host<'_> {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        self.receives.take()
    }

    fn place_receive(&mut self, offset: u32, payload: Payload) -> Result<(), Obstacle<WcStatus>> {
        let space = self.qp.space_of(self.receives.pd());
        let placed = space.scatter(self.receives.current(), offset, self.skb, payload);
        self.paging.judge(placed, WcStatus::LocProtErr)
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        let ahead = self.paging.is_first_try();
        let checked = self.qp.space().check(remote, length, access, ahead);
        self.paging.judge(checked, AccessError::Fault)
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: Payload,
    ) -> Result<(), Obstacle<AccessError>> {
        let placed = self.qp.space().write_remote(remote, self.skb, payload);
        self.paging.judge(placed, AccessError::Fault)
    }

    fn complete_receive(&mut self, done: Completion, solicited: bool) {
        report(self.qp, self.cq, &done, solicited, self.after);
    }
}
