// SPDX-License-Identifier: GPL-2.0

//! What the halves of queue pairs do alike, whatever their service.
//!
//! Owns how many packets one turn takes and sends, and how packets are taken, payload is fetched and
//! completions are reported. Does not know what a packet or a request is for.

use crate::{
    mem::{
        page_fault::FaultWait,
        payload::PayloadSink, //
    },
    packet::{
        path::Path,
        rx_parse::packet,
        segmenter::{
            Segmenter,
            Unsent, //
        }, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        shared::QpShared, //
    },
    queue::{
        cq::Cq,
        rq::RecvQueue,
        sq::{
            SendBody,
            SendQueue, //
        }, //
    }, //
};
use kernel::sync::{
    rcu,
    Arc, //
};
use rdma::{
    ib::{
        event::QpEvent,
        wc::Wc, //
    },
    net::rx::{
        coalesced::CoalescedPackets,
        queue::SkbQueue,
        skb::RxSkb, //
    },
    sync::{
        exclusive::{
            Exclusive, //
            More,
            Pending,
        },
        timer::now, //
    }, //
};
use roce::{
    access::{
        Obstacle,
        Taken, //
    },
    id::Qpn,
    segmentation::tx_desc::{
        BurstLimit,
        Mtu,
        TxDesc,
        TxPayload, //
    },
    status::{
        DropReason,
        WcStatus, //
    },
    wire::packet::{
        Packet,
        MAX_HEADERS, //
    },
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// Most packets and bytes that one turn sends before it looks at what has arrived.
pub(crate) const TX_BURST: BurstLimit = BurstLimit {
    bytes: 60 << 10,
    packets: 64,
};

/// Most packets or requests that one turn takes before it looks at the rest of its work.
pub(crate) const RX_BATCH_PACKETS: u16 = 64;

/// What a queue pair does in one direction. One context at a time has it.
pub(crate) trait Engine: Send + Unpin + 'static {
    /// Does what there is to do: with the packets in `inbox`, with what was posted, with what the
    /// state of `qp` asks for. What it cannot do itself it leaves in `actions`.
    fn run(&mut self, qp: &QpShared, inbox: &SkbQueue, actions: &mut Actions) -> More;

    /// Goes to RESET: forgets what was posted, sent and received.
    fn reset(&mut self, inbox: &SkbQueue);

    /// The memory that the half waits for. While it does, it gets no turn, but in the error state.
    fn fault_wait(&mut self) -> &mut FaultWait;

    /// Where it reports what is complete.
    fn cq(&self) -> &Arc<Cq>;

    /// The way to the peer, where that stays the same.
    fn path(&mut self) -> Option<&mut Path> {
        None
    }

    /// Goes to ERR because the consumer wants it: what the half would still say remains unsaid.
    fn abort_replies(&mut self) {}

    /// A thread has run since the half wanted one to ([`Actions::wants_yield`]).
    fn on_yield(&mut self) {}

    /// What a visitor has left to be done, once.
    fn take_deferred(&mut self) -> Actions {
        Actions::default()
    }

    /// Packets have come while the half waits for memory: a peer may have to be told to be patient.
    fn waits(&mut self, _qp: &QpShared) {}
}

/// The half that sends requests.
pub(crate) trait SendEngine: Engine {
    /// Goes to INIT: what is posted waits.
    fn init(&mut self);

    /// Goes to SQD: begins no further request. `notify`: the consumer is to be told when those that
    /// were begun are complete.
    fn drain(&mut self, notify: bool);

    /// Goes back to RTS, from SQD or SQE.
    fn resume(&mut self);
}

/// Gives `engine` a turn, unless it waits for memory. A queue pair that has failed does not wait.
pub(crate) fn poll_engine(
    engine: &mut impl Engine,
    qp: &QpShared,
    inbox: &SkbQueue,
    actions: &mut Actions,
) -> More {
    actions.merge(&engine.take_deferred());
    if qp.is_failed() {
        engine.fault_wait().reset();
    }
    let mut again = More::No;
    if engine.fault_wait().is_waiting() {
        // Not for a timer, nor for the network of this machine.
        if engine.fault_wait().notices(inbox.buffers()) {
            engine.waits(qp);
        }
    } else {
        again = engine.run(qp, inbox, actions);
        if engine.fault_wait().is_waiting() {
            let _ = engine.fault_wait().notices(inbox.buffers());
            actions.absent = true;
            again = More::No;
        }
    }
    actions.take_effect(qp);
    again
}

/// Does what a half waits for. Sleeps, for as long as memory takes to come. `run` gives the half a turn.
pub(crate) fn service_fault<H: Engine>(engine: &Exclusive<H>, qp: &QpShared, run: impl Fn()) {
    // The end of a queue pair does not wait for us, but it does for a grace period. Who is in a turn by then has also
    // set the timer that the turn wants, which is taken back after that.
    let run = || {
        let _guard = rcu::read_lock();
        run();
    };
    let (wanted, left) = engine.enter(|engine| engine.fault_wait().begin());
    if let Some((work, serial)) = wanted {
        // Somebody came while we looked. It may be that the queue pair has failed, which is not to wait for memory.
        if left == Pending::Work {
            run();
        }
        let brought = work.carry_out(qp.port().keys());
        let _ = engine.enter(|engine| engine.fault_wait().end(serial, work, brought));
    }
    run();
}

/// Hands the packets in `inbox` to `handle`, as far as the budget goes, and counts them, and those that are
/// dropped. Says whether there may be more. A packet that has to wait for memory stays the first.
#[inline]
pub(crate) fn take_packets(
    qp: &QpShared,
    inbox: &SkbQueue,
    mut handle: impl FnMut(&mut CoalescedPackets<'_>, &Packet<'_>) -> Result<Taken, DropReason>,
) -> More {
    take_buffers(qp, inbox, |_| true, &mut handle)
}

/// As [`take_packets`], of the buffers that `admit` lets in. The others come from a wrong source.
#[inline]
fn take_buffers(
    qp: &QpShared,
    inbox: &SkbQueue,
    admit: impl Fn(&RxSkb) -> bool,
    handle: &mut impl FnMut(&mut CoalescedPackets<'_>, &Packet<'_>) -> Result<Taken, DropReason>,
) -> More {
    let mut tally = RxCount::default();
    let mut again = More::Yes;
    while tally.seen < RX_BATCH_PACKETS {
        let Some(mut skb) = inbox.pop() else {
            again = More::No;
            break;
        };
        if !admit(&skb) {
            tally.seen = tally.seen.saturating_add(skb.packets());
            tally.packets = tally.packets.wrapping_add(skb.packets());
            tally.bytes = tally.bytes.wrapping_add(skb.udp_payload_len());
            let counters = qp.port().counters();
            counters.dropped_all(DropReason::WrongSource, skb.packets());
            continue;
        }
        tally.bursts = tally.bursts.wrapping_add(u32::from(skb.packets() > 1));
        if let Some(index) = take_buffer(qp, &skb, &mut tally, handle) {
            skb.resume_at(index);
            inbox.unpop(skb);
            again = More::No;
            break;
        }
    }
    let bursts = [(Counter::ReceivedBursts, tally.bursts)];
    qp.port().counters().count_all(&bursts);
    qp.received(tally.packets, tally.bytes);
    again
}

/// What was taken in.
#[derive(Default)]
struct RxCount {
    /// Packets that were looked at, also those that were dropped: others may bring them as fast as that.
    seen: u16,
    bursts: u32,
    packets: u16,
    bytes: usize,
}

/// Hands the packets in one buffer to `handle`, which may join several. Returns the index of one that has to
/// wait for memory.
#[inline]
fn take_buffer(
    qp: &QpShared,
    skb: &RxSkb,
    tally: &mut RxCount,
    handle: &mut impl FnMut(&mut CoalescedPackets<'_>, &Packet<'_>) -> Result<Taken, DropReason>,
) -> Option<u16> {
    let mut next = Some(skb.current());
    // Ends: a buffer has 64 packets at most.
    while let Some(from) = next {
        let mut room = [0; MAX_HEADERS];
        let mut run = CoalescedPackets::new(from);
        let taken = packet(&from, &mut room).and_then(|packet| {
            // The first is why the buffer is here; the others have to be of the same flow.
            if from.index() != 0 && packet.dest_qpn() != Qpn::new(qp.number()) {
                return Err(DropReason::UnknownQp);
            }
            let taken = handle(&mut run, &packet);
            if taken != Ok(Taken::Paused) {
                tally.packets = tally.packets.wrapping_add(run.packets());
                tally.bytes = tally.bytes.wrapping_add(run.udp_payload_len());
            }
            taken
        });
        match taken {
            Ok(Taken::Whole) => {}
            Ok(Taken::Paused) => return Some(from.index()),
            Err(reason) => {
                let counters = qp.port().counters();
                counters.dropped_all(reason, run.packets());
            }
        }
        tally.seen = tally.seen.wrapping_add(run.packets());
        next = run.next();
    }
    None
}

/// Drops what has come: the queue pair is in no state in which it takes packets. Says whether there may be
/// more.
pub(crate) fn refuse_packets(qp: &QpShared, inbox: &SkbQueue) -> More {
    take_packets(qp, inbox, |_, _| Err(DropReason::WrongQpState))
}

/// As [`take_packets`], of those that come from the other end of `path`. Without a path there is no
/// peer, and what has come is for nobody.
#[inline]
pub(crate) fn take_from_peer(
    qp: &QpShared,
    inbox: &SkbQueue,
    path: Option<&Path>,
    mut handle: impl FnMut(&mut CoalescedPackets<'_>, &Packet<'_>) -> Result<Taken, DropReason>,
) -> More {
    let Some(path) = path else {
        return refuse_packets(qp, inbox);
    };
    let from_peer = |skb: &RxSkb| path.is_from_peer(&skb.addresses());
    take_buffers(qp, inbox, from_peer, &mut handle)
}

/// Appends `len` bytes at `offset` of the message in `body` to `to`. `false`: no memory for it.
///
/// # Errors
///
/// The status that the request completes with when its own memory cannot be read; or that it is
/// absent, and the half waits for it.
#[inline]
pub(crate) fn append_body(
    to: &mut impl PayloadSink,
    qp: &QpShared,
    body: SendBody<'_>,
    offset: u32,
    len: u32,
    fault_wait: &mut FaultWait,
) -> Result<bool, Obstacle<WcStatus>> {
    match body {
        SendBody::Inline(bytes) => {
            // CAST: `u32` to `usize`, on 64 bits.
            let (start, end) = (offset as usize, offset.saturating_add(len) as usize);
            let bytes = bytes.get(start..end);
            Ok(bytes.is_some_and(|bytes| to.append_bytes(bytes).is_ok()))
        }
        SendBody::Scatter(sges) => {
            let copied = qp.qp_memory().gather(sges, offset, len, to);
            let whole = fault_wait.resolve(copied, WcStatus::LocProtErr)?;
            fault_wait.progress();
            Ok(whole)
        }
        SendBody::LocalRequest(_) => Err(WcStatus::LocQpOpErr.into()),
    }
}

/// Sends the packets of a request in `queue` that `segment` stands for. Loss is none of our business.
///
/// # Errors
///
/// As [`append_body`], and how many packets were not sent.
pub(crate) fn send_request(
    (segment, mtu): (&TxDesc, Mtu),
    queue: &SendQueue,
    path: &mut Path,
    qp: &QpShared,
    fault_wait: &mut FaultWait,
) -> Result<(), Unsent<WcStatus>> {
    let body = match segment.source {
        TxPayload::Slot(slot) => Some(queue.body(slot)),
        _ => None,
    };
    let mut segmenter = Segmenter::new(path, qp.way(), (segment, mtu));
    let sent = match (segment.source, body) {
        (_, Some(body)) => append_body(
            &mut segmenter,
            qp,
            body,
            segment.offset,
            segment.length,
            fault_wait,
        )
        .map(drop),
        (TxPayload::Value(value), _) => {
            let _ = segmenter.append_bytes(&value.to_ne_bytes());
            Ok(())
        }
        _ => {
            let _ = segmenter.finish();
            Ok(())
        }
    };
    if segmenter.left() != segment.packets {
        fault_wait.progress();
    }
    segmenter.end(sent)
}

/// Carries out the request in `body`, which is about keys.
///
/// # Errors
///
/// The status that it completes with.
pub(crate) fn perform(qp: &QpShared, body: SendBody<'_>) -> Result<(), WcStatus> {
    match body {
        SendBody::LocalRequest(local) => qp.qp_memory().perform(local),
        _ => Err(WcStatus::LocQpOpErr),
    }
}

/// Puts a completion where the consumer finds it. `solicited`: whether it is to wake one who waits
/// for such only; failures always do.
#[inline]
pub(crate) fn report(
    qp: &QpShared,
    cq: &Cq,
    done: &Completion,
    solicited: bool,
    actions: &mut Actions,
) {
    let urgent = solicited || done.status != WcStatus::Success;
    report_as(cq, &qp.completion(done), urgent, actions);
}

/// As [`report`], of a completion that says more.
#[inline]
pub(crate) fn report_as(cq: &Cq, wc: &Wc, urgent: bool, actions: &mut Actions) {
    if cq.push(wc, urgent).is_err() {
        actions.fail(Some(QpEvent::Fatal));
    }
}

/// Completes receives that are the queue pair's own with a flush error, as far as the budget goes. Says whether
/// there may be more.
pub(crate) fn flush_receives(
    qp: &QpShared,
    cq: &Cq,
    receives: &mut RecvQueue,
    actions: &mut Actions,
) -> More {
    actions.last_wqe |= receives.take_last();
    let again = receives.flush(RX_BATCH_PACKETS, |wr_id| {
        let done = Completion::failed(wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
        report(qp, cq, &done, true, actions);
    });
    if again == More::No {
        if let Some(later) = receives.flush_again_in() {
            actions.wake_at = Some(now().saturating_add(later));
        }
    }
    again
}
