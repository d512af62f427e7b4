// SPDX-License-Identifier: GPL-2.0

//! What the halves of queue pairs do alike, whatever their service.
//!
//! Owns how many packets one turn takes and sends, and how packets are taken, payload is fetched and
//! completions are reported. Does not know what a packet or a request is for.

use crate::{
    arrival::packet,
    common::{
        Aftermath,
        Common, //
    },
    cq::Cq,
    frame::Frame,
    paging::Paging,
    path::Path,
    rq::Receives,
    sq::Body, //
};
use rdma::{
    event::QpEvent,
    net::rx::{
        RxSkb,
        SkbQueue, //
    },
    timer::now,
    turn::{
        Again,
        Turn, //
    },
    wc::Wc, //
};
use roce::{
    access::{
        Obstacle,
        Taken, //
    },
    segment::BurstLimit,
    status::{
        DropReason,
        WcStatus, //
    },
    wire::packet::Packet,
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// Most packets and bytes that one turn sends before it looks at what has arrived.
pub(crate) const BURST: BurstLimit = BurstLimit {
    bytes: 60 << 10,
    packets: 64,
};

/// Most packets or requests that one turn takes before it looks at the rest of its work.
pub(crate) const BATCH: usize = 64;

/// What a queue pair does in one direction. One context at a time has it.
pub(crate) trait Half: Send + Unpin + 'static {
    /// Does what there is to do: with the packets in `inbox`, with what was posted, with what the
    /// state of `qp` asks for. What it cannot do itself it leaves in `after`.
    fn turn(&mut self, qp: &Common, inbox: &SkbQueue, after: &mut Aftermath) -> Again;

    /// Goes to RESET: forgets what was posted, sent and received.
    fn reset(&mut self, inbox: &SkbQueue);

    /// The memory that the half waits for. While it does, it gets no turn, but in the error state.
    fn paging(&mut self) -> &mut Paging;

    /// There is work while the half waits for memory: a peer may have to be told to be patient.
    fn waits(&mut self, _qp: &Common) {}
}

/// The half that sends requests.
pub(crate) trait SendingHalf: Half {
    /// Goes to INIT: what is posted waits.
    fn init(&mut self);

    /// Goes to SQD: begins no further request. `notify`: the consumer is to be told when those that
    /// were begun are complete.
    fn drain(&mut self, notify: bool);

    /// Goes back to RTS, from SQD or SQE.
    fn resume(&mut self);
}

/// Gives `half` a turn, unless it waits for memory. A queue pair that has failed does not wait.
pub(crate) fn give_turn(
    half: &mut impl Half,
    qp: &Common,
    inbox: &SkbQueue,
    after: &mut Aftermath,
) -> Again {
    if qp.is_failed() {
        half.paging().reset();
    }
    if half.paging().is_waiting() {
        half.waits(qp);
        return Again::No;
    }
    let again = half.turn(qp, inbox, after);
    if half.paging().is_waiting() {
        after.absent = true;
        return Again::No;
    }
    again
}

/// Brings the memory that a half waits for. Sleeps.
pub(crate) fn bring<H: Half>(half: &Turn<H>, qp: &Common) {
    // Who is called afterwards looks whether there is more to do.
    let (wanted, _) = half.control(|half| half.paging().begin());
    if let Some((want, turn)) = wanted {
        let brought = want.bring(qp.port().keys());
        let _ = half.control(|half| half.paging().end(turn, brought));
    }
}

/// Hands the packets in `inbox` to `handle`, as far as the budget goes, and counts those that are
/// dropped. Says whether there may be more. A packet that has to wait for memory stays the first.
#[inline]
pub(crate) fn take_packets(
    qp: &Common,
    inbox: &SkbQueue,
    mut handle: impl FnMut(&RxSkb, &Packet<'_>) -> Result<Taken, DropReason>,
) -> Again {
    for _ in 0..BATCH {
        let Some(skb) = inbox.pop() else {
            return Again::No;
        };
        match packet(&skb).and_then(|packet| handle(&skb, &packet)) {
            Ok(Taken::Whole) => {}
            Ok(Taken::Paused) => {
                inbox.unpop(skb);
                return Again::No;
            }
            Err(reason) => qp.port().counters().dropped(reason),
        }
    }
    Again::Yes
}

/// As [`take_packets`], of those that come from the other end of `path`. Without a path there is no
/// peer, and what has come is for nobody.
#[inline]
pub(crate) fn take_from_peer(
    qp: &Common,
    inbox: &SkbQueue,
    path: Option<&Path>,
    mut handle: impl FnMut(&RxSkb, &Packet<'_>) -> Result<Taken, DropReason>,
) -> Again {
    let Some(path) = path else {
        inbox.purge();
        return Again::No;
    };
    take_packets(qp, inbox, |skb, packet| {
        if path.is_from_peer(&skb.addresses()) {
            handle(skb, packet)
        } else {
            Err(DropReason::WrongSource)
        }
    })
}

/// Appends `len` bytes at `offset` of the message in `body` to `frame`. `false`: no memory for it.
///
/// # Errors
///
/// The status that the request completes with when its own memory cannot be read; or that it is
/// absent, and the half waits for it.
#[inline]
pub(crate) fn append_body(
    frame: &mut Frame,
    qp: &Common,
    body: Body<'_>,
    offset: u32,
    len: u32,
    paging: &mut Paging,
) -> Result<bool, Obstacle<WcStatus>> {
    match body {
        Body::Inline(bytes) => {
            // CAST: `u32` to `usize`, on 64 bits.
            let (start, end) = (offset as usize, offset.saturating_add(len) as usize);
            let bytes = bytes.get(start..end);
            Ok(bytes.is_some_and(|bytes| frame.append_bytes(bytes)))
        }
        Body::Scatter(sges) => {
            let copied = qp.space().gather(sges, offset, len, frame);
            let whole = paging.judge(copied, WcStatus::LocProtErr)?;
            paging.progress();
            Ok(whole)
        }
        Body::Local(_) => Err(WcStatus::LocQpOpErr.into()),
    }
}

/// Puts a completion where the consumer finds it. `solicited`: whether it is to wake one who waits
/// for such only; failures always do.
#[inline]
pub(crate) fn report(
    qp: &Common,
    cq: &Cq,
    done: &Completion,
    solicited: bool,
    after: &mut Aftermath,
) {
    let urgent = solicited || done.status != WcStatus::Success;
    report_as(cq, &qp.completion(done), urgent, after);
}

/// As [`report`], of a completion that says more.
#[inline]
pub(crate) fn report_as(cq: &Cq, wc: &Wc, urgent: bool, after: &mut Aftermath) {
    if cq.push(wc, urgent).is_err() {
        after.fail(Some(QpEvent::Fatal));
    }
}

/// Completes every receive that is the queue pair's own with a flush error.
pub(crate) fn flush_receives(qp: &Common, cq: &Cq, receives: &mut Receives, after: &mut Aftermath) {
    let last = receives.flush(|wr_id| {
        let done = Completion::failed(wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
        report(qp, cq, &done, true, after);
    });
    after.last_wqe |= last;
    if let Some(later) = receives.flush_again_in() {
        after.wake_at = Some(now().saturating_add(later));
    }
}
