// SPDX-License-Identifier: GPL-2.0

//! The half of a queue pair that sends requests and takes responses.
//!
//! Owns the requester, the send queue and the way to the peer, and does in one turn whatever
//! there is to do: take what has arrived, look at the clock, fetch what was posted, send as much
//! as the window allows, report what is complete. Does not decide when it gets a turn.

use crate::{
    abi::Local,
    common::{
        Aftermath,
        Common, //
    },
    counters::Counter,
    cq::Cq,
    frame::Loan,
    half::{
        append_body,
        report,
        take_from_peer,
        Half,
        SendingHalf,
        BURST, //
    },
    paging::Paging,
    path::Path,
    space::Space,
    sq::{
        Body,
        SendQueue,
        Slots, //
    }, //
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
    timer::now,
    turn::Again,
};
use roce::{
    access::{
        Obstacle,
        Taken, //
    },
    id::Rkey,
    rc::requester::{
        Requester,
        ResponseHost, //
    },
    segment::{
        Payload,
        Segment,
        SlotIndex,
        Source, //
    },
    status::WcStatus,
    time::Instant,
};

/// The half that sends requests.
pub(crate) struct SendHalf {
    requester: Requester<Slots>,
    queue: SendQueue,
    cq: Arc<Cq>,
    path: Option<Path>,
    /// The consumer wants to know when the queue has drained.
    tell_drained: bool,
    paging: Paging,
}

impl SendHalf {
    /// The half in RESET, consuming `queue`.
    pub(crate) fn new(requester: Requester<Slots>, queue: SendQueue, cq: Arc<Cq>) -> Self {
        Self {
            requester,
            queue,
            cq,
            path: None,
            tell_drained: false,
            paging: Paging::default(),
        }
    }

    /// The protocol machine, for `modify_qp`.
    pub(crate) fn requester(&mut self) -> &mut Requester<Slots> {
        &mut self.requester
    }

    /// Sets the way to the peer.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = Some(path);
    }

    /// Takes the responses that have arrived. Says whether there may be more.
    fn take_responses(&mut self, qp: &Common, inbox: &SkbQueue, now: Instant) -> Again {
        take_from_peer(qp, inbox, self.path.as_ref(), |skb, packet| {
            let mut host = Host {
                space: qp.space(),
                queue: &self.queue,
                skb,
                paging: &mut self.paging,
            };
            let taken = self.requester.handle_response(now, packet, &mut host)?;
            if taken == Taken::Whole {
                self.paging.progress();
            }
            Ok(taken)
        })
    }

    /// Sends what the window allows, as far as the budget goes.
    fn transmit(&mut self, qp: &Common, now: Instant) {
        let Some(path) = &mut self.path else {
            return;
        };
        perform(&mut self.requester, &self.queue, qp);
        let mut refused = None;
        for segment in self.requester.burst(now, BURST) {
            if let Err(obstacle) = send(&segment, &self.queue, path, qp, &mut self.paging) {
                refused = Some((segment.source, obstacle));
                break;
            }
        }
        path.flush(qp.way());
        match refused {
            Some((_, Obstacle::Absent)) => self.requester.unsend(),
            Some((Source::Slot(slot), Obstacle::Refused(status))) => {
                self.requester.abort(slot, status);
            }
            _ => {}
        }
    }

    /// Reports what is complete and gives its elements of the ring back.
    fn report(&mut self, qp: &Common, after: &mut Aftermath) {
        let mut released = 0u32;
        while let Some(retired) = self.requester.poll_completion() {
            released = released.wrapping_add(1);
            let Some(done) = retired.completion else {
                continue;
            };
            // Before the completion is visible: who sees it may post at once, into this element.
            self.queue.release(released);
            released = 0;
            match done.status {
                WcStatus::RetryExcErr => qp.port().counters().count(Counter::RetryExceeded),
                WcStatus::RnrRetryExcErr => qp.port().counters().count(Counter::RnrRetryExceeded),
                _ => {}
            }
            report(qp, &self.cq, &done, false, after);
        }
        self.queue.release(released);
        if self.requester.error().is_some() && !qp.is_failed() {
            after.fail(None);
        }
    }

    /// Adds what happened in this turn to the counters of the port.
    fn count(&mut self, qp: &Common) {
        let stats = self.requester.take_stats();
        qp.port().counters().count_all(&[
            (Counter::Retries, stats.retries),
            (Counter::Timeouts, stats.timeouts),
            (Counter::ReceivedRnr, stats.rnr_naks),
            (Counter::ReceivedSequence, stats.sequence_naks),
        ]);
    }
}

impl Half for SendHalf {
    fn turn(&mut self, qp: &Common, inbox: &SkbQueue, after: &mut Aftermath) -> Again {
        if qp.is_failed() {
            self.requester.fail();
        }
        let now = Instant::from_nanos(now());
        let arrived = self.take_responses(qp, inbox, now);
        if !self.paging.is_waiting() {
            // While we wait, it is not the peer's fault that time passes.
            self.requester.handle_timeout(now);
            self.queue.fetch(&mut self.requester);
            self.transmit(qp, now);
        }
        self.report(qp, after);
        self.count(qp);
        if self.tell_drained && self.requester.is_drained() {
            self.tell_drained = false;
            after.drained = true;
        }
        if self.paging.is_waiting() {
            return Again::No;
        }
        if let Some(at) = self.requester.poll_timeout() {
            after.wake_at = Some(at.as_nanos());
        }
        if arrived == Again::Yes || self.requester.has_work() {
            Again::Yes
        } else {
            Again::No
        }
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.queue.clear();
        self.requester.reset();
        self.requester.align(self.queue.next_slot());
        self.path = None;
    }

    fn paging(&mut self) -> &mut Paging {
        &mut self.paging
    }
}

impl SendingHalf for SendHalf {
    fn init(&mut self) {
        self.requester.init();
    }

    fn drain(&mut self, notify: bool) {
        self.requester.drain();
        self.tell_drained = notify;
    }

    fn resume(&mut self) {
        self.requester.resume();
    }
}

/// Carries out what needs no packet and whose turn has come.
fn perform(requester: &mut Requester<Slots>, queue: &SendQueue, qp: &Common) {
    // Ends: each is carried out once, and there are no more than slots.
    while requester.perform_local(|slot, _| match queue.body(slot) {
        Body::Local(local) => qp.space().perform(local),
        _ => Err(WcStatus::LocQpOpErr),
    }) {}
}

/// Sends one packet. Loss is none of our business.
///
/// # Errors
///
/// The status that the request completes with when its own memory cannot be read; or that it is
/// absent.
fn send(
    segment: &Segment,
    queue: &SendQueue,
    path: &mut Path,
    qp: &Common,
    paging: &mut Paging,
) -> Result<(), Obstacle<WcStatus>> {
    // CAST: At most one path MTU.
    let len = segment.length as usize;
    let Some(mut frame) = path.frame(&segment.headers, len, Loan::Pages) else {
        return Ok(());
    };
    let whole = match segment.source {
        Source::Slot(slot) => {
            let body = queue.body(slot);
            append_body(&mut frame, qp, body, segment.offset, segment.length, paging)?
        }
        Source::Value(value) => frame.append_bytes(&value.to_ne_bytes()),
        _ => true,
    };
    if whole {
        path.send(qp.way(), frame);
    }
    Ok(())
}

/// What the requester needs while it handles one response.
struct Host<'a> {
    space: Space<'a>,
    queue: &'a SendQueue,
    skb: &'a RxSkb,
    paging: &'a mut Paging,
}

impl ResponseHost for Host<'_> {
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: Payload,
    ) -> Result<(), Obstacle<WcStatus>> {
        let Body::Scatter(sges) = self.queue.body(slot) else {
            return Err(WcStatus::LocQpOpErr.into());
        };
        let placed = self.space.scatter(sges, offset, self.skb, payload);
        self.paging.judge(placed, WcStatus::LocProtErr)
    }

    fn place_value(&mut self, slot: SlotIndex, found: u64) -> Result<(), Obstacle<WcStatus>> {
        let Body::Scatter(sges) = self.queue.body(slot) else {
            return Err(WcStatus::LocQpOpErr.into());
        };
        let placed = self.space.scatter_bytes(sges, 0, &found.to_ne_bytes());
        self.paging.judge(placed, WcStatus::LocProtErr)
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus> {
        self.space.perform(&Local::Invalidate(rkey))
    }
}
