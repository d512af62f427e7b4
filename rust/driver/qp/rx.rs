// SPDX-License-Identifier: GPL-2.0

//! Receive path of all services: passes the packets of an inbox to an engine, and flushes receives.
//!
//! Process context or softirq. The caller owns the engine.

use crate::{
    packet::{
        path::Path,
        roce_splitter::RoceSplitter,
        rx_parse::{
            is_whole,
            packet,
            wire_len, //
        }, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        congestion::on_cnp,
        engine::{
            push_completion,
            Engine,
            EngineCore,
            RUN_BUDGET, //
        },
        out_of_order::EarlyPackets,
        run::QpRun,
        shared::QpShared, //
    },
    queue::rq::RecvQueue, //
};
use kernel::prelude::*;
use rdma::{
    net::rx::{
        packet::RxPacket,
        queue::SkbQueue,
        skb::RxSkb, //
    },
    sync::{
        exclusive::More,
        timer::now, //
    }, //
};
use roce::{
    access::Taken,
    id::Qpn,
    psn::Psn,
    status::{
        DropReason,
        WcStatus, //
    },
    wake::Wake,
    wire::{
        opcode::Opcode,
        packet::{
            Packet,
            MAX_HEADERS_LEN, //
        }, //
    },
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// What became of the packets of a buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Handled {
    /// They are complete.
    Whole,
    /// One waits for a page fault, and is handled again.
    Paused,
    /// It is a super-packet, whose packets must be handled one by one.
    MustSplit,
    /// Packets before the one with this PSN are missing.
    Early(Psn),
}

/// Passes the packets in `inbox`, and then `skb`, to `engine`, up to the budget, unless one waits for memory. Counts
/// them and their drops. Returns whether there may be more. Those that are left are in the inbox then; a packet that
/// waits for a page fault is at its head.
///
/// Packets that do not come from the other end of the path are dropped. Without a path there is no peer, and all are.
#[inline]
pub(crate) fn process_inbox<E: Engine>(
    engine: &mut E,
    qp: &QpRun<'_>,
    (inbox, mut skb): (&SkbQueue, Option<RxSkb>),
    actions: &mut Actions,
) -> More {
    let mut more = More::No;
    if !engine.core().waits.rx.is_waiting() {
        more = process_buffers(engine, qp, (inbox, &mut skb), actions);
    }
    if let Some(skb) = skb {
        enqueue(qp, inbox, skb);
    }
    if engine.core().early.is_on() && !engine.core().waits.rx.is_waiting() {
        if let Some((missing, _)) = engine.sequence() {
            if engine.core_mut().early.is_gap_over(missing, actions) {
                engine.report_gap();
            }
        }
    }
    more
}

#[inline]
fn process_buffers<E: Engine>(
    engine: &mut E,
    qp: &QpRun<'_>,
    (inbox, arrived): (&SkbQueue, &mut Option<RxSkb>),
    actions: &mut Actions,
) -> More {
    let mut count = RxCount::default();
    let mut more = More::Yes;
    while count.seen < RUN_BUDGET {
        let next = take_kept(engine).or_else(|| inbox.pop());
        let Some(mut skb) = next.or_else(|| arrived.take()) else {
            more = More::No;
            break;
        };
        if let Err(reason) = admit::<E>(engine.core().path.as_deref(), &skb) {
            count.seen = count.seen.saturating_add(skb.packets());
            count.packets = count.packets.wrapping_add(skb.packets());
            count.bytes = count.bytes.wrapping_add(skb.udp_payload_len());
            qp.port().counters().dropped_all(reason, skb.packets());
            continue;
        }
        count.coalesced_buffers = count
            .coalesced_buffers
            .wrapping_add(u32::from(skb.packets() > 1));
        let (index, handled) = process_buffer(engine, (qp, &skb), &mut count, actions);
        match handled {
            Handled::Whole => {}
            Handled::Paused => {
                skb.resume_at(index);
                inbox.push_front(skb);
                more = More::No;
                break;
            }
            Handled::MustSplit => {
                skb.resume_at(index);
                split_buffer(qp, inbox, skb);
            }
            Handled::Early(psn) => {
                // To keep or to drop it costs time, too.
                skb.resume_at(index);
                count.seen = count.seen.saturating_add(skb.current().packets_left());
                engine.core_mut().early.keep(qp.port(), psn, skb);
            }
        }
    }
    if count.packets != 0 {
        let coalesced_buffers = [(Counter::ReceivedGsoLists, count.coalesced_buffers)];
        qp.port().counters().count_all(&coalesced_buffers);
        qp.count_received(count.packets, count.bytes);
    }
    if count.marked != 0 {
        on_marked(qp, count.marked, count.is_paced_marked);
    }
    more
}

/// Puts `skb` into `inbox`. Returns false if that is full: the packets are lost then.
pub(crate) fn enqueue(qp: &QpShared, inbox: &SkbQueue, skb: RxSkb) -> bool {
    let packets = skb.packets();
    let queued = inbox.push(skb);
    if !queued {
        let counters = qp.port().counters();
        counters.dropped_all(DropReason::QueueFull, packets);
        // The peer sends faster than this host receives: the next run sends a CNP.
        qp.note_congestion();
    }
    queued
}

/// Returns a kept buffer whose next packet is to be handled now.
#[inline]
fn take_kept<E: Engine>(engine: &mut E) -> Option<RxSkb> {
    if !engine.core().early.is_on() {
        return None;
    }
    // Taken out, so that the engine can be asked.
    let mut early = core::mem::replace(&mut engine.core_mut().early, EarlyPackets::OFF);
    if engine.awaits_repetition() {
        early.clear();
    }
    let kept = early.take(|psn| engine.is_psn_early(psn));
    engine.core_mut().early = early;
    kept
}

/// Checks that a buffer comes from the peer, if the engine has one.
///
/// # Errors
///
/// The reason to drop it.
#[inline]
fn admit<E: Engine>(path: Option<&Path>, skb: &RxSkb) -> Result<(), DropReason> {
    match path {
        _ if !E::HAS_PEER => Ok(()),
        None => Err(DropReason::WrongQpState),
        Some(path) if path.is_from_peer(&skb.addresses()) => Ok(()),
        Some(_) => Err(DropReason::WrongSource),
    }
}

/// Packets arrived that a queue on the way had marked. If the peer can send fewer of them, the engine sends a CNP, see
/// [`congestion`](crate::qp::congestion). For a marked acknowledgement it would slow down data that met no congestion.
#[cold]
fn on_marked(qp: &QpRun<'_>, packets: u16, paced: bool) {
    let marked = [(Counter::MarkedPackets, packets.into())];
    qp.port().counters().count_all(&marked);
    if paced {
        qp.note_congestion();
    }
}

/// Counts of one call.
#[derive(Default)]
struct RxCount {
    /// Packets examined. Dropped packets count too: each uses up budget.
    seen: u16,
    coalesced_buffers: u32,
    packets: u16,
    bytes: usize,
    /// Valid packets that a queue on the way had marked.
    marked: u16,
    /// Some of them are requests or carry payload.
    is_paced_marked: bool,
}

/// Puts the packets of a super-packet to the front of the inbox. Without memory for them they are lost.
#[cold]
fn split_buffer(qp: &QpRun<'_>, inbox: &SkbQueue, skb: RxSkb) {
    let packets = skb.current().packets_left();
    match skb.split::<RoceSplitter>() {
        Ok(split) => inbox.push_front_all(split),
        Err(error) => {
            let reason = match error == ENOMEM {
                true => DropReason::NoMemory,
                false => DropReason::BadLength,
            };
            qp.port().counters().dropped_all(reason, packets);
        }
    }
}

/// Passes the packets of one buffer to `engine`, which may take several at once. If it does not take all of them,
/// returns the index of the first that it has not taken, and what it said about that one.
#[inline]
fn process_buffer<E: Engine>(
    engine: &mut E,
    (qp, skb): (&QpRun<'_>, &RxSkb),
    count: &mut RxCount,
    actions: &mut Actions,
) -> (u16, Handled) {
    let mut next = Some(skb.current());
    // All packets of a buffer have one IP header.
    let is_marked = skb.is_congestion_experienced();
    // Terminates: an entry is not empty.
    while let Some(first) = next {
        let mut header_buf = [0; MAX_HEADERS_LEN];
        let handled = packet(qp.port(), &first, &mut header_buf).and_then(|packet| {
            // The demux looked at the first packet only. The others must have the same destination QP.
            if first.index() != 0 && packet.dest_qpn() != Qpn::new(qp.number()) {
                return Err(DropReason::UnknownQp);
            }
            let handled = process_packet(engine, qp, (&first, &packet), actions);
            if matches!(handled, Ok(Handled::Whole) | Err(_)) {
                if is_marked {
                    count.marked = count.marked.saturating_add(first.packets());
                    count.is_paced_marked |= packet.opcode().is_paced();
                }
                count.packets = count.packets.saturating_add(first.packets());
                count.bytes = count.bytes.wrapping_add(wire_len(&first, &packet));
            }
            handled
        });
        match handled {
            Ok(Handled::Whole) => {}
            Ok(handled) => return (first.index(), handled),
            Err(reason) => {
                let counters = qp.port().counters();
                counters.dropped_all(reason, first.packets());
            }
        }
        count.seen = count.seen.saturating_add(first.packets().max(1));
        next = first.next();
    }
    (0, Handled::Whole)
}

/// Passes a packet to `engine`. A CNP is for the QP, not for the engine.
#[inline]
fn process_packet<E: Engine>(
    engine: &mut E,
    qp: &QpRun<'_>,
    (source, packet): (&RxPacket<'_>, &Packet<'_>),
    actions: &mut Actions,
) -> Result<Handled, DropReason> {
    if E::HAS_PEER && packet.opcode() == Opcode::CNP {
        on_cnp(qp);
        return Ok(Handled::Whole);
    }
    let early = &engine.core().early;
    if early.admit((packet.psn(), source), || engine.is_early(packet))? {
        return Ok(Handled::Early(packet.psn()));
    }
    let is_whole = match engine.sequence() {
        Some(sequence) => is_whole(packet, sequence),
        None => packet.packets() == 1,
    };
    if !is_whole {
        return Ok(Handled::MustSplit);
    }
    Ok(match engine.handle(qp, (packet, source), actions)? {
        Taken::Whole => {
            engine.core_mut().waits.rx.progress();
            Handled::Whole
        }
        Taken::Paused => Handled::Paused,
    })
}

/// Completes the QP's own receives with a flush error, up to the budget. Returns whether there may be more.
pub(crate) fn flush_receives(
    qp: &QpRun<'_>,
    core: &EngineCore,
    receives: &mut RecvQueue,
    actions: &mut Actions,
) -> More {
    actions.last_wqe |= receives.take_last_wqe_event();
    let more = receives.flush(RUN_BUDGET, |wr_id| {
        let done = Completion::failed(wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
        core.count_received(done.status, 0);
        push_completion(qp, &core.cq, &done, true, actions);
    });
    if more == More::No {
        if let Some(delay_ns) = receives.next_flush_delay_ns() {
            actions.wake_at(Wake::RingPoll, now().saturating_add(delay_ns));
        }
    }
    more
}
