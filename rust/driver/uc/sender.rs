// SPDX-License-Identifier: GPL-2.0

//! The half of an unreliable connected queue pair that sends.
//!
//! Owns the send queue and the way to the peer, and hands one request after the other to the protocol
//! machine. A request is done with when its last packet has been given to the network, whatever
//! becomes of it there; so payload is copied, and its owner may change it at once.

use crate::{
    common::{
        Aftermath,
        Common, //
    },
    cq::Cq,
    frame::Loan,
    half::{
        append_body,
        report,
        Half,
        SendingHalf,
        BATCH,
        BURST, //
    },
    paging::Paging,
    path::Path,
    sq::SendQueue, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::rx::SkbQueue,
    turn::Again, //
};
use roce::{
    access::Obstacle,
    segment::{
        BurstLimit,
        Segment,
        Source, //
    },
    status::WcStatus,
    uc::sender::{
        Sender,
        SenderConfig, //
    },
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// The half that sends.
pub(crate) struct SendHalf {
    sender: Sender,
    queue: SendQueue,
    cq: Arc<Cq>,
    path: Option<Path>,
    /// The consumer wants to know when the queue has drained.
    tell_drained: bool,
    paging: Paging,
}

impl SendHalf {
    /// The half in RESET, consuming `queue`.
    pub(crate) fn new(queue: SendQueue, cq: Arc<Cq>) -> Self {
        Self {
            sender: Sender::new(),
            queue,
            cq,
            path: None,
            tell_drained: false,
            paging: Paging::default(),
        }
    }

    /// Goes to RTS, over `path`.
    pub(crate) fn start(&mut self, path: Path, config: &SenderConfig) {
        self.path = Some(path);
        self.sender.configure(config);
        self.sender.start();
    }

    /// Sends or flushes what was posted, as far as the budget goes. Says whether there may be more.
    fn work(&mut self, qp: &Common, after: &mut Aftermath) -> Again {
        let mut limit = BURST;
        for _ in 0..BATCH {
            if !self.sender.is_busy() && !self.fetch() {
                return Again::No;
            }
            match self.transmit(qp, &mut limit) {
                Ok(()) => {}
                Err(Obstacle::Absent) => {
                    self.sender.unsend();
                    return Again::No;
                }
                Err(Obstacle::Refused(status)) => self.sender.abort(status),
            }
            let Some(done) = self.sender.poll_completion() else {
                // There was more of it than the budget allows.
                return Again::Yes;
            };
            // Before the completion is visible: who sees it may post at once, into this element.
            self.queue.release(1);
            if let Some(done) = done {
                self.report(qp, &done, after);
            }
        }
        Again::Yes
    }

    /// Hands the next request to the protocol machine. `false`: there is none, or it takes none.
    fn fetch(&mut self) -> bool {
        if !self.sender.takes() {
            return false;
        }
        match self.queue.take_request() {
            None => return false,
            Some((slot, Ok(wr))) => self.sender.post(slot, wr),
            Some((slot, Err(refused))) => {
                self.sender
                    .reject(slot, refused.wr_id, WcOpcode::Send, refused.status);
            }
        }
        true
    }

    /// Sends packets of the request at hand, as far as `limit` goes.
    fn transmit(&mut self, qp: &Common, limit: &mut BurstLimit) -> Result<(), Obstacle<WcStatus>> {
        let Some(path) = &mut self.path else {
            return Ok(());
        };
        self.sender
            .burst(limit)
            .try_for_each(|segment| send(&segment, &self.queue, path, qp, &mut self.paging))
    }

    fn report(&self, qp: &Common, done: &Completion, after: &mut Aftermath) {
        if !matches!(done.status, WcStatus::Success | WcStatus::WrFlushErr) {
            qp.fail_sends();
        }
        report(qp, &self.cq, done, false, after);
    }
}

impl Half for SendHalf {
    fn turn(&mut self, qp: &Common, _inbox: &SkbQueue, after: &mut Aftermath) -> Again {
        if qp.flushes_sends() {
            self.sender.fail();
        }
        let again = self.work(qp, after);
        if let Some(path) = &mut self.path {
            path.flush(qp.way());
        }
        if self.tell_drained && self.sender.is_drained() {
            self.tell_drained = false;
            after.drained = true;
        }
        again
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.queue.clear();
        self.sender.reset();
        self.path = None;
        self.tell_drained = false;
    }

    fn paging(&mut self) -> &mut Paging {
        &mut self.paging
    }
}

impl SendingHalf for SendHalf {
    fn init(&mut self) {}

    fn drain(&mut self, notify: bool) {
        self.sender.drain();
        self.tell_drained = notify;
    }

    fn resume(&mut self) {
        self.sender.resume();
        self.tell_drained = false;
    }
}

/// Sends one packet. Loss is none of our business.
///
/// # Errors
///
/// The status that the request completes with when its memory cannot be read; or that it is absent.
fn send(
    segment: &Segment,
    queue: &SendQueue,
    path: &mut Path,
    qp: &Common,
    paging: &mut Paging,
) -> Result<(), Obstacle<WcStatus>> {
    // CAST: At most one path MTU.
    let len = segment.length as usize;
    let Some(mut frame) = path.frame(&segment.headers, len, Loan::Copy) else {
        return Ok(());
    };
    let whole = match segment.source {
        Source::Slot(slot) => {
            let body = queue.body(slot);
            append_body(&mut frame, qp, body, segment.offset, segment.length, paging)?
        }
        _ => true,
    };
    if whole {
        path.send(qp.way(), frame);
    }
    Ok(())
}
