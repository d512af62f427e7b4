// SPDX-License-Identifier: GPL-2.0

//! Receive path of all services: processes the packets of an inbox, drops them, and flushes receives.
//!
//! Called by the `run` methods of the engines, in process context or softirq. The caller owns the engine.

use crate::{
    packet::{
        path::Path,
        roce_splitter::RoceSplitter,
        rx_parse::{
            packet,
            wire_len, //
        }, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            push_completion,
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
    wire::packet::{
        Packet,
        MAX_HEADERS_LEN, //
    },
    wr::{
        Completion,
        WcOpcode, //
    }, //
};

/// What became of a packet that an engine handled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Handled {
    /// It is complete.
    Whole,
    /// It waits for a page fault, and is handled again.
    Paused,
    /// It is a super-packet, whose packets must be handled one by one.
    MustSplit,
    /// Earlier packets are missing. The handler keeps its buffer until they have arrived.
    Early(Psn),
}

impl From<Taken> for Handled {
    #[inline]
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Whole => Self::Whole,
            Taken::Paused => Self::Paused,
        }
    }
}

/// What an engine does with the packets that arrive. A closure suffices where it keeps none.
pub(crate) trait PacketHandler {
    /// Handles `packet`, the first of the sequence, and others that it adds to the sequence.
    ///
    /// # Errors
    ///
    /// The reason to drop them.
    fn handle(
        &mut self,
        coalesced: &mut CoalescedPackets<'_>,
        packet: &Packet<'_>,
    ) -> Result<Handled, DropReason>;

    /// Keeps a buffer, whose next packet has this PSN, after [`Handled::Early`].
    fn keep(&mut self, _psn: Psn, _skb: RxSkb) {}

    /// Returns a kept buffer whose next packet is to be handled now.
    #[inline]
    fn take_kept(&mut self) -> Option<RxSkb> {
        None
    }
}

impl<F> PacketHandler for F
where
    F: FnMut(&mut CoalescedPackets<'_>, &Packet<'_>) -> Result<Handled, DropReason>,
{
    #[inline]
    fn handle(
        &mut self,
        coalesced: &mut CoalescedPackets<'_>,
        packet: &Packet<'_>,
    ) -> Result<Handled, DropReason> {
        self(coalesced, packet)
    }
}

/// Passes the packets in `inbox` to `handle`, up to the budget. Counts them and their drops. Returns whether
/// there may be more. A packet that waits for a page fault stays at the head of the inbox.
#[inline]
pub(crate) fn process_packets(
    qp: &QpRun<'_>,
    inbox: &SkbQueue,
    handle: impl FnMut(&mut CoalescedPackets<'_>, &Packet<'_>) -> Result<Handled, DropReason>,
) -> More {
    process_buffers(qp, inbox, |_| true, handle)
}

/// As [`process_packets`], for the buffers that `admit` accepts. The others count as packets from a wrong
/// source.
#[inline]
fn process_buffers(
    qp: &QpRun<'_>,
    inbox: &SkbQueue,
    admit: impl Fn(&RxSkb) -> bool,
    mut handler: impl PacketHandler,
) -> More {
    let mut count = RxCount::default();
    let mut more = More::Yes;
    while count.seen < RUN_BUDGET {
        let Some(mut skb) = handler.take_kept().or_else(|| inbox.pop()) else {
            more = More::No;
            break;
        };
        if !admit(&skb) {
            count.seen = count.seen.saturating_add(skb.packets());
            count.packets = count.packets.wrapping_add(skb.packets());
            count.bytes = count.bytes.wrapping_add(skb.udp_payload_len());
            let counters = qp.port().counters();
            counters.dropped_all(DropReason::WrongSource, skb.packets());
            continue;
        }
        count.coalesced_buffers = count
            .coalesced_buffers
            .wrapping_add(u32::from(skb.packets() > 1));
        let (index, handled) = process_buffer(qp, &skb, &mut count, &mut handler);
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
                handler.keep(psn, skb);
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

/// Passes the packets of one buffer to `handler`, which may coalesce several. If it does not take all of them, returns
/// the index of the first that it has not taken, and what it said about that one.
#[inline]
fn process_buffer(
    qp: &QpRun<'_>,
    skb: &RxSkb,
    count: &mut RxCount,
    handler: &mut impl PacketHandler,
) -> (u16, Handled) {
    let mut next = Some(skb.current());
    // Packets with different marks are not in one buffer: neither GRO nor `GsoList` joins them.
    let is_marked = skb.is_congestion_experienced();
    // Terminates: a buffer has at most 64 packets.
    while let Some(first) = next {
        let mut header_buf = [0; MAX_HEADERS_LEN];
        let mut coalesced = CoalescedPackets::new(first);
        let handled = packet(&first, &mut header_buf).and_then(|packet| {
            // The demux looked at the first packet only. The others must have the same destination QP.
            if first.index() != 0 && packet.dest_qpn() != Qpn::new(qp.number()) {
                return Err(DropReason::UnknownQp);
            }
            let handled = handler.handle(&mut coalesced, &packet);
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

/// Drops all packets in `inbox`, up to the budget, because of the QP's state. Returns whether there may be
/// more.
pub(crate) fn drop_packets(qp: &QpRun<'_>, inbox: &SkbQueue) -> More {
    process_packets(qp, inbox, |_, _| Err(DropReason::WrongQpState))
}

/// Passes the packets in `inbox` that are from the other end of `path` to `handler`, as [`process_packets`]. Without a
/// path there is no peer, and all packets are dropped.
#[inline]
pub(crate) fn process_from_peer(
    qp: &QpRun<'_>,
    inbox: &SkbQueue,
    path: Option<&Path>,
    handler: impl PacketHandler,
) -> More {
    let Some(path) = path else {
        return drop_packets(qp, inbox);
    };
    let is_from_peer = |skb: &RxSkb| path.is_from_peer(&skb.addresses());
    process_buffers(qp, inbox, is_from_peer, handler)
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
