// SPDX-License-Identifier: GPL-2.0

//! Receive path of all services: passes the packets of an inbox to an engine, and flushes receives.
//!
//! Process context or softirq. The caller owns the engine.

use crate::{
    packet::{
        path::Path,
        roce_splitter::RoceSplitter,
        rx_parse::{
            coalesce,
            packet,
            wire_len, //
        }, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        congestion::on_cnp,
        early::EarlyPackets,
        engine::{
            push_completion,
            Engine,
            RUN_BUDGET, //
        },
        run::QpRun, //
    },
    queue::{
        cq::Cq,
        rq::RecvQueue, //
    }, //
};
use kernel::prelude::*;
use rdma::{
    net::rx::{
        coalesced::CoalescedPackets,
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

/// Passes the packets in `inbox` to `engine`, up to the budget, unless one waits for memory. Counts them and their
/// drops. Returns whether there may be more. A packet that waits for a page fault stays at the head of the inbox.
///
/// Packets that do not come from the other end of the path are dropped. Without a path there is no peer, and all are.
#[inline]
pub(crate) fn process_inbox<E: Engine>(
    engine: &mut E,
    qp: &QpRun<'_>,
    inbox: &SkbQueue,
    actions: &mut Actions,
) -> More {
    if engine.core().waits.rx.is_waiting() {
        return More::No;
    }
    let more = process_buffers(engine, qp, inbox, actions);
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
    inbox: &SkbQueue,
    actions: &mut Actions,
) -> More {
    let mut count = RxCount::default();
    let mut more = More::Yes;
    while count.seen < RUN_BUDGET {
        let Some(mut skb) = take_kept(engine).or_else(|| inbox.pop()) else {
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
            Handled::MustSplit => split_buffer(qp, inbox, skb),
            Handled::Early(psn) => {
                // To keep or to drop it costs time, too.
                count.seen = count
                    .seen
                    .saturating_add(skb.packets().saturating_sub(index));
                skb.resume_at(index);
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
    let packets = skb.packets();
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
    // Packets with different marks are not in one buffer: neither GRO nor `GsoList` joins them.
    let is_marked = skb.is_congestion_experienced();
    // Terminates: a buffer has at most 64 packets.
    while let Some(first) = next {
        let mut header_buf = [0; MAX_HEADERS_LEN];
        let mut coalesced = CoalescedPackets::new(first);
        let handled = packet(qp.port(), &first, &mut header_buf).and_then(|packet| {
            // The demux looked at the first packet only. The others must have the same destination QP.
            if first.index() != 0 && packet.dest_qpn() != Qpn::new(qp.number()) {
                return Err(DropReason::UnknownQp);
            }
            let handled = process_packet(engine, qp, (&mut coalesced, &packet), actions);
            if matches!(handled, Ok(Handled::Whole) | Err(_)) {
                if is_marked {
                    count.marked = count.marked.wrapping_add(coalesced.packets());
                    count.is_paced_marked |= packet.opcode().is_paced();
                }
                count.packets = count.packets.wrapping_add(coalesced.packets());
                count.bytes = count.bytes.wrapping_add(wire_len(&coalesced, &packet));
            }
            handled
        });
        match handled {
            Ok(Handled::Whole) => {}
            Ok(handled) => return (first.index(), handled),
            Err(reason) => {
                let counters = qp.port().counters();
                counters.dropped_all(reason, coalesced.packets());
            }
        }
        count.seen = count.seen.wrapping_add(coalesced.packets());
        next = coalesced.next();
    }
    (0, Handled::Whole)
}

/// Passes a packet, the first of the sequence, to `engine`, and with it those that continue its message, which are
/// added to the sequence. A CNP is for the QP, not for the engine.
#[inline]
fn process_packet<E: Engine>(
    engine: &mut E,
    qp: &QpRun<'_>,
    (coalesced, packet): (&mut CoalescedPackets<'_>, &Packet<'_>),
    actions: &mut Actions,
) -> Result<Handled, DropReason> {
    if E::HAS_PEER && packet.opcode() == Opcode::CNP {
        on_cnp(qp);
        return Ok(Handled::Whole);
    }
    let early = &engine.core().early;
    if early.admit((packet.psn(), coalesced), || engine.is_early(packet))? {
        return Ok(Handled::Early(packet.psn()));
    }
    let joined = match engine.sequence() {
        Some(sequence) => coalesce(qp.port(), coalesced, packet, sequence),
        None => (packet.packets() == 1).then_some(*packet),
    };
    let Some(packet) = joined else {
        return Ok(Handled::MustSplit);
    };
    Ok(match engine.handle(qp, (&packet, coalesced), actions)? {
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
    cq: &Cq,
    receives: &mut RecvQueue,
    actions: &mut Actions,
) -> More {
    actions.last_wqe |= receives.take_last_wqe_event();
    let more = receives.flush(RUN_BUDGET, |wr_id| {
        let done = Completion::failed(wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
        push_completion(qp, cq, &done, true, actions);
    });
    if more == More::No {
        if let Some(delay_ns) = receives.next_flush_delay_ns() {
            actions.wake_at(Wake::RingPoll, now().saturating_add(delay_ns));
        }
    }
    more
}
