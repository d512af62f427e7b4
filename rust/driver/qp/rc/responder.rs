// SPDX-License-Identifier: GPL-2.0

//! The half of a queue pair that takes requests and answers them.
//!
//! Owns the responder, the receive queue and the way back to the peer. In one turn it handles the
//! requests that have arrived, as a run, and then sends what they call for: read responses, and
//! one acknowledgement for all. Does not decide when it gets a turn.

use crate::{
    mem::{
        page_fault::FaultWait,
        payload::PayloadSource, //
    },
    packet::{
        path::Path,
        rx_parse::coalesce,
        segmenter::{
            Segmenter,
            Unsent, //
        }, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            flush_receives,
            report,
            take_from_peer,
            Engine,
            TX_BURST, //
        },
        recv_context::QpRecvContext,
        shared::QpShared, //
    },
    queue::{
        cq::Cq,
        rq::RecvQueue, //
    }, //
};
use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::event::QpEvent,
    net::{
        route::Addresses,
        rx::queue::SkbQueue, //
    },
    sync::{
        exclusive::More,
        timer::now, //
    },
    util::alloc::gfp_user, //
};
use roce::{
    access::{
        AccessError,
        Obstacle,
        Taken, //
    },
    id::Qpn,
    rc::{
        replay::ReplayEntry,
        responder::{
            Fatal,
            Responder, //
        }, //
    },
    segmentation::{
        gso::MAX_GSO_PACKETS,
        tx_desc::{
            Mtu,
            TxDesc,
            TxPayload, //
        }, //
    },
    status::DropReason,
    wire::packet::Packet, //
};

/// How many turns in a row may leave work behind before a thread has to have had its turn. READs of a few requests'
/// lengths are answered by then.
const MANY_TURNS: u32 = 128;

/// Most memory of answers to READs that the network of this machine may hold, in bytes: some ten bursts. One more may
/// be added.
const MOST_UNDER_WAY: i64 = 1 << 20;

/// What lets go of nothing for so long, in nanoseconds, may be stuck. In this time a burst leaves by an interface of
/// 10 Mbit/s that nobody else uses.
const PATIENCE: u64 = 100_000_000;

/// The last wait of who has failed for what lets go of nothing, in nanoseconds.
const LAST_PATIENCE: u64 = 8 * PATIENCE;

/// Longest wait for what lets go of nothing, in nanoseconds.
const MOST_PATIENCE: u64 = 64 * PATIENCE;

/// Storage of the responder: one entry for each READ or atomic that the peer may have in flight.
pub(crate) struct ReplayStorage(KVVec<ReplayEntry>);

impl ReplayStorage {
    /// Room for `count` answers, or for as many as the next power of two: what rdma_rxe asks for at a time when it
    /// is told `count`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: u8) -> Result<Self> {
        let room = match count {
            0 => 0,
            _ => usize::from(count).next_power_of_two(),
        };
        let answers = KVVec::from_elem(ReplayEntry::EMPTY, room, gfp_user())?;
        Ok(Self(answers))
    }
}

impl AsRef<[ReplayEntry]> for ReplayStorage {
    #[inline]
    fn as_ref(&self) -> &[ReplayEntry] {
        &self.0
    }
}

impl AsMut<[ReplayEntry]> for ReplayStorage {
    #[inline]
    fn as_mut(&mut self) -> &mut [ReplayEntry] {
        &mut self.0
    }
}

/// The half that answers requests.
pub(crate) struct RcRecvEngine {
    pub(super) responder: Responder<ReplayStorage>,
    queue: RecvQueue,
    cq: Arc<Cq>,
    path: Option<Path>,
    pub(super) fault_wait: FaultWait,
    /// A packet of the peer has been taken.
    met: bool,
    /// Answers went by the wire since the peer was here.
    pub(super) answered: bool,
    /// What visits of the peer have left to be done.
    pub(super) left: Actions,
    /// How many turns in a row have left work behind, since a thread was last waited for.
    unfinished: u32,
    /// The CPU that has sent the answers that are on their way.
    sent_by: u32,
    /// Answers wait for the network of this machine, which has let go of none since then, in nanoseconds, as far as
    /// anybody has looked. `None`: they do not wait.
    held: Option<u64>,
    /// For how long the network may let go of none, in nanoseconds.
    patience: u64,
    /// How many bytes of what is on its way have been found to be stuck.
    stuck: i64,
}

impl RcRecvEngine {
    /// The half in RESET, consuming `queue`.
    pub(crate) fn new(responder: Responder<ReplayStorage>, queue: RecvQueue, cq: Arc<Cq>) -> Self {
        Self {
            responder,
            queue,
            cq,
            path: None,
            fault_wait: FaultWait::default(),
            met: false,
            answered: false,
            left: Actions::default(),
            unfinished: 0,
            sent_by: CpuId::current().as_u32(),
            held: None,
            patience: PATIENCE,
            stuck: 0,
        }
    }

    /// The protocol machine, for `modify_qp`.
    pub(crate) fn responder(&mut self) -> &mut Responder<ReplayStorage> {
        &mut self.responder
    }

    /// Replaces the protocol machine: another number of answers is to be kept.
    pub(crate) fn replace_responder(
        &mut self,
        responder: Responder<ReplayStorage>,
    ) -> Responder<ReplayStorage> {
        core::mem::replace(&mut self.responder, responder)
    }

    /// Sets the way to the peer.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = Some(path);
    }

    /// Whether requests from `from` may be the peer's, and answers go to the queue pair with this number.
    pub(super) fn is_peer(&self, from: &Addresses, number: u32) -> bool {
        let path = self.path.as_ref();
        path.is_some_and(|path| path.is_from_peer(from))
            && self.responder.dest_qpn() == Qpn::new(number)
    }

    /// Takes one request of the peer.
    ///
    /// # Errors
    ///
    /// As [`Responder::handle_request`].
    #[inline]
    pub(super) fn take(
        &mut self,
        qp: &QpShared,
        (packet, bytes): (&Packet<'_>, &impl PayloadSource),
        actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        let mut host = QpRecvContext {
            qp,
            queue: &mut self.queue,
            cq: &self.cq,
            bytes,
            actions,
            fault_wait: &mut self.fault_wait,
        };
        let taken = self.responder.handle_request(packet, &mut host)?;
        if taken == Taken::Whole {
            self.fault_wait.progress();
            actions.established |= !self.met && qp.only_receives();
            self.met = true;
        }
        Ok(taken)
    }

    /// Whether to send nothing now, because the network of this machine has yet to let go of earlier answers: no peer
    /// acknowledges them, and queues of interfaces are longer than anybody is to fill for a few requests. Nor are any
    /// overtaken: a link within the machine keeps those of one CPU in order, and no others. Then it is in `actions` when
    /// to look again.
    ///
    /// What is stuck there holds nothing up for ever: one burst goes all the same, nor does any on another CPU wait for
    /// the same bytes again; and a queue pair that has `failed` gives up in the end what it owes, or its receives would
    /// not be flushed. What only seems to be stuck, as the interface is slow, grows by no more than a few bursts: the
    /// next wait takes twice as long.
    fn is_held(&mut self, qp: &QpShared, failed: bool, actions: &mut Actions) -> bool {
        if !self.responder.has_work() {
            self.held = None;
            return false;
        }
        let (under_way, here) = (qp.tx_inflight().bytes(), CpuId::current().as_u32());
        self.stuck = self.stuck.min(under_way);
        let all_but_stuck = self.stuck.saturating_add(1).min(MOST_UNDER_WAY);
        let (begins_below, resume_below) = match self.sent_by == here {
            true => (MOST_UNDER_WAY, MOST_UNDER_WAY / 2),
            false => (all_but_stuck, all_but_stuck),
        };
        if under_way < self.held.map_or(begins_below, |_| resume_below) {
            (self.held, self.patience, self.sent_by) = (None, PATIENCE, here);
            return false;
        }
        let now = now();
        let moves = qp.tx_inflight().take_delay().is_some();
        let since = self.held.filter(|_| !moves).unwrap_or(now);
        self.held = Some(since);
        let patience = match failed {
            true => self.patience.min(LAST_PATIENCE),
            false => self.patience,
        };
        if now.saturating_sub(since) >= patience {
            (self.held, self.stuck, self.sent_by) = (Some(now), under_way, here);
            if failed && patience >= LAST_PATIENCE {
                self.responder.abort_replies();
            }
            if under_way >= MOST_UNDER_WAY {
                self.patience = self.patience.saturating_mul(2).min(MOST_PATIENCE);
            }
            return false;
        }
        actions.resume_below = Some(resume_below);
        actions.wake_at = Some(since.saturating_add(patience));
        true
    }

    /// Sends the answers that are due, as far as the budget goes. `failed`: the queue pair had failed before this turn.
    fn transmit(&mut self, qp: &QpShared, failed: bool) {
        let Some(path) = &mut self.path else {
            return;
        };
        let mut refused = None;
        let mut long = false;
        let mtu = self.responder.path_mtu();
        for segment in self.responder.burst(TX_BURST).coalescing(MAX_GSO_PACKETS) {
            self.answered = true;
            // An acknowledgement is no more than what asked for it.
            long |= matches!(segment.source, TxPayload::Remote(_));
            path.set_counts(long);
            if let Err(unsent) = send((&segment, mtu), path, qp, &mut self.fault_wait) {
                refused = Some(unsent);
                break;
            }
        }
        path.flush(qp.way());
        let Some(Unsent { why, packets }) = refused else {
            return;
        };
        match why {
            // Nobody would wait for it.
            Obstacle::Absent if failed => {
                self.fault_wait.reset();
                self.responder.abort_read(packets, AccessError::Fault);
            }
            Obstacle::Absent => self.responder.unsend(packets),
            // The refusal leaves with the next burst.
            Obstacle::Refused(error) => self.responder.abort_read(packets, error),
        }
    }

    /// Counts what has happened, and notes if it was the end.
    pub(super) fn account(&mut self, qp: &QpShared, actions: &mut Actions) {
        let stats = self.responder.take_stats();
        qp.port().counters().count_all(&[
            (Counter::RecvQueue, stats.receives),
            (Counter::Duplicates, stats.duplicates),
            (Counter::OutOfSequence, stats.out_of_sequence),
            (Counter::SentRnr, stats.rnr_naks),
        ]);
        if let Some(fatal) = self.responder.take_event() {
            actions.fail(match fatal {
                Fatal::AccessError => Some(QpEvent::AccessError),
                Fatal::RequestError => Some(QpEvent::RequestError),
                Fatal::LocalError => None,
            });
        }
    }

    /// Completes receives, begun or not, with a flush error. Says whether there may be more.
    fn flush(&mut self, qp: &QpShared, actions: &mut Actions) -> More {
        if let Some(done) = self.responder.flush_receive() {
            report(qp, &self.cq, &done, true, actions);
        }
        flush_receives(qp, &self.cq, &mut self.queue, actions)
    }
}

impl Engine for RcRecvEngine {
    fn run(&mut self, qp: &QpShared, inbox: &SkbQueue, actions: &mut Actions) -> More {
        let failed = qp.is_failed();
        if failed {
            self.responder.fail();
        }
        // For the time of the walk, the way stands beside the rest.
        let path = self.path.take();
        let arrived = take_from_peer(qp, inbox, path.as_ref(), |run, packet| {
            let (due, mtu) = (self.responder.expected_psn(), self.responder.path_mtu());
            let packet = coalesce(run, packet, due, mtu);
            self.take(qp, (&packet, run), actions)
        });
        self.path = path;
        let waits = self.fault_wait.is_waiting();
        let held = !waits && self.is_held(qp, failed, actions);
        if !waits && !held {
            self.transmit(qp, failed);
        }
        self.account(qp, actions);
        // Whoever sees that all is flushed may do with the memory what it likes, so the last answers come before.
        if failed && !self.responder.has_work() {
            self.unfinished = 0;
            return arrived.or(self.flush(qp, actions));
        }
        if arrived == More::No && (held || !self.responder.has_work()) {
            // What is held gives way to others meanwhile.
            self.unfinished = 0;
            return More::No;
        }
        self.unfinished = self.unfinished.saturating_add(1);
        actions.wants_yield |= self.unfinished > MANY_TURNS;
        More::Yes
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.queue.clear();
        self.responder.reset();
        self.path = None;
        self.left = Actions::default();
        (self.held, self.patience) = (None, PATIENCE);
        (self.met, self.answered, self.unfinished) = (false, false, 0);
    }

    fn on_yield(&mut self) {
        self.unfinished = 0;
    }

    fn abort_replies(&mut self) {
        self.responder.abort_replies();
    }

    fn take_deferred(&mut self) -> Actions {
        core::mem::take(&mut self.left)
    }

    fn path(&mut self) -> Option<&mut Path> {
        self.path.as_mut()
    }

    fn fault_wait(&mut self) -> &mut FaultWait {
        &mut self.fault_wait
    }

    fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }

    fn waits(&mut self, qp: &QpShared) {
        let Some(path) = &mut self.path else {
            return;
        };
        if self.fault_wait.is_slow() {
            let patience = self.responder.fault_rnr_nak();
            let mtu = self.responder.path_mtu();
            // It names no memory, so there is nothing that could be absent.
            let _ = send((&patience, mtu), path, qp, &mut self.fault_wait);
            path.flush(qp.way());
        }
    }
}

/// Sends the packets that `segment` stands for. Loss is none of our business.
///
/// # Errors
///
/// What is wrong with the memory that the peer reads: it was checked when the request came, but
/// may be gone, or absent. And how many packets were not sent.
fn send(
    (segment, mtu): (&TxDesc, Mtu),
    path: &mut Path,
    qp: &QpShared,
    fault_wait: &mut FaultWait,
) -> Result<(), Unsent<AccessError>> {
    let mut segmenter = Segmenter::new(path, qp.way(), (segment, mtu));
    let TxPayload::Remote(remote) = segment.source else {
        let _ = segmenter.finish();
        return segmenter.end(Ok(()));
    };
    let copied = qp
        .qp_memory()
        .read_remote(remote, segment.length, &mut segmenter);
    let sent = fault_wait.resolve(copied, AccessError::Fault);
    if sent.is_ok() || segmenter.left() != segment.packets {
        fault_wait.progress();
    }
    segmenter.end(sent)
}
