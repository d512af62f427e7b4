// SPDX-License-Identifier: GPL-2.0

//! The half of a queue pair that takes requests and answers them.
//!
//! Owns the responder, the receive queue and the way back to the peer. In one turn it handles the
//! requests that have arrived, as a run, and then sends what they call for: read responses, and
//! one acknowledgement for all. Does not decide when it gets a turn.

use crate::{
    common::{
        Aftermath,
        Common, //
    },
    counters::Counter,
    cq::Cq,
    frame::Loan,
    half::{
        flush_receives,
        report,
        take_from_peer,
        Half,
        BURST, //
    },
    paging::Paging,
    path::Path,
    rq::Receives,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    event::QpEvent,
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
    id::Rkey,
    rc::{
        replay::Answer,
        responder::{
            Fatal,
            RequestHost,
            Responder, //
        }, //
    },
    segment::{
        Payload,
        Segment,
        Source, //
    },
    status::WcStatus,
    wr::{
        AtomicOp,
        BadRecv,
        Completion,
        FlushScope,
        Placement,
        RecvWr,
        Remote, //
    }, //
};

/// Storage of the responder: one entry for each READ or atomic that the peer may have in flight.
pub(crate) struct Answers(KVVec<Answer>);

impl Answers {
    /// Room for `count` answers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: u8) -> Result<Self> {
        let answers = KVVec::from_elem(Answer::EMPTY, usize::from(count), GFP_KERNEL_ACCOUNT)?;
        Ok(Self(answers))
    }
}

impl AsRef<[Answer]> for Answers {
    #[inline]
    fn as_ref(&self) -> &[Answer] {
        &self.0
    }
}

impl AsMut<[Answer]> for Answers {
    #[inline]
    fn as_mut(&mut self) -> &mut [Answer] {
        &mut self.0
    }
}

/// The half that answers requests.
pub(crate) struct ReceiveHalf {
    responder: Responder<Answers>,
    queue: Receives,
    cq: Arc<Cq>,
    path: Option<Path>,
    paging: Paging,
}

impl ReceiveHalf {
    /// The half in RESET, consuming `queue`.
    pub(crate) fn new(responder: Responder<Answers>, queue: Receives, cq: Arc<Cq>) -> Self {
        Self {
            responder,
            queue,
            cq,
            path: None,
            paging: Paging::default(),
        }
    }

    /// The protocol machine, for `modify_qp`.
    pub(crate) fn responder(&mut self) -> &mut Responder<Answers> {
        &mut self.responder
    }

    /// Replaces the protocol machine: another number of answers is to be kept.
    pub(crate) fn replace_responder(
        &mut self,
        responder: Responder<Answers>,
    ) -> Responder<Answers> {
        core::mem::replace(&mut self.responder, responder)
    }

    /// Sets the way to the peer.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = Some(path);
    }

    /// Takes the requests that have arrived. Says whether there may be more.
    fn take_requests(&mut self, qp: &Common, inbox: &SkbQueue, after: &mut Aftermath) -> Again {
        take_from_peer(qp, inbox, self.path.as_ref(), |skb, packet| {
            let mut host = Host {
                qp,
                queue: &mut self.queue,
                cq: &self.cq,
                skb,
                after,
                paging: &mut self.paging,
            };
            let taken = self.responder.handle_request(packet, &mut host)?;
            if taken == Taken::Whole {
                self.paging.progress();
            }
            Ok(taken)
        })
    }

    /// Sends the answers that are due, as far as the budget goes.
    fn transmit(&mut self, qp: &Common) {
        let Some(path) = &mut self.path else {
            return;
        };
        let mut refused = None;
        for segment in self.responder.burst(BURST) {
            if let Err(obstacle) = send(&segment, path, qp, &mut self.paging) {
                refused = Some(obstacle);
                break;
            }
        }
        path.flush(qp.way());
        match refused {
            None => {}
            Some(Obstacle::Absent) => self.responder.unsend(),
            // The refusal leaves with the next burst.
            Some(Obstacle::Refused(error)) => self.responder.abort_read(error),
        }
    }

    /// Completes every receive, begun or not, with a flush error.
    fn flush(&mut self, qp: &Common, after: &mut Aftermath) {
        self.responder.fail();
        if let Some(done) = self.responder.abandon() {
            report(qp, &self.cq, &done, true, after);
        }
        flush_receives(qp, &self.cq, &mut self.queue, after);
    }
}

impl Half for ReceiveHalf {
    fn turn(&mut self, qp: &Common, inbox: &SkbQueue, after: &mut Aftermath) -> Again {
        let arrived = self.take_requests(qp, inbox, after);
        if !self.paging.is_waiting() {
            self.transmit(qp);
        }
        let stats = self.responder.take_stats();
        qp.port().counters().count_all(&[
            (Counter::Duplicates, stats.duplicates),
            (Counter::OutOfSequence, stats.out_of_sequence),
            (Counter::SentRnr, stats.rnr_naks),
        ]);
        if let Some(fatal) = self.responder.take_event() {
            after.fail(match fatal {
                Fatal::AccessError => Some(QpEvent::AccessError),
                Fatal::RequestError => Some(QpEvent::RequestError),
                Fatal::LocalError => None,
            });
        }
        if qp.is_failed() {
            self.flush(qp, after);
        }
        if arrived == Again::Yes || self.responder.has_work() {
            Again::Yes
        } else {
            Again::No
        }
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.queue.clear();
        self.responder.reset();
        self.path = None;
    }

    fn paging(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn waits(&mut self, qp: &Common) {
        let Some(path) = &mut self.path else {
            return;
        };
        if self.paging.is_slow() {
            let patience = self.responder.stall();
            // It names no memory, so there is nothing that could be absent.
            let _ = send(&patience, path, qp, &mut self.paging);
            path.flush(qp.way());
        }
    }
}

/// Sends one packet. Loss is none of our business.
///
/// Read responses are copied: the owner of the memory may write to it while it is being read,
/// which must not break the ICRC.
///
/// # Errors
///
/// What is wrong with the memory that the peer reads: it was checked when the request came, but
/// may be gone, or absent.
fn send(
    segment: &Segment,
    path: &mut Path,
    qp: &Common,
    paging: &mut Paging,
) -> Result<(), Obstacle<AccessError>> {
    // CAST: At most one path MTU.
    let len = segment.length as usize;
    let Some(mut frame) = path.frame(&segment.headers, len, Loan::Copy) else {
        return Ok(());
    };
    let whole = match segment.source {
        Source::Remote(remote) => {
            let copied = qp.space().read_remote(remote, segment.length, &mut frame);
            let whole = paging.judge(copied, AccessError::Fault)?;
            paging.progress();
            whole
        }
        _ => true,
    };
    if whole {
        path.send(qp.way(), frame);
    }
    Ok(())
}

/// What the responder needs while it handles one request.
struct Host<'a> {
    qp: &'a Common,
    queue: &'a mut Receives,
    cq: &'a Cq,
    skb: &'a RxSkb,
    after: &'a mut Aftermath,
    paging: &'a mut Paging,
}

impl RequestHost for Host<'_> {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        self.queue.take()
    }

    fn place_receive(&mut self, offset: u32, payload: Payload) -> Result<(), Obstacle<WcStatus>> {
        let space = self.qp.space_of(self.queue.pd());
        let placed = space.scatter(self.queue.current(), offset, self.skb, payload);
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

    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        let found = self.qp.space().atomic(remote, op);
        self.paging.judge(found, AccessError::Fault)
    }

    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: Payload,
    ) -> Result<(), Obstacle<AccessError>> {
        let placed = self.qp.space().write_whole(remote, self.skb, payload);
        self.paging.judge(placed, AccessError::Fault)
    }

    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), AccessError> {
        // What processors have written is visible to all processors and devices already.
        self.qp
            .space()
            .check_flush(remote, scope, placement.access())
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        self.qp.space().invalidate(rkey, true)
    }

    fn complete_receive(&mut self, done: Completion, solicited: bool) {
        report(self.qp, self.cq, &done, solicited, self.after);
    }
}
