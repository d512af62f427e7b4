// SPDX-License-Identifier: GPL-2.0

//! One host: a QP, its memory and its queues, around the core as a driver is.
//!
//! Owns what a driver owns and does what a driver does, in the plainest way. Knows no network:
//! it takes frames and gives frames.

use crate::{
    memory::Memory,
    pair::Setup,
    random::Random, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle,
        Taken, //
    },
    id::Rkey,
    num::u32_as_usize,
    psn::Psn,
    rc::{
        replay::ReplayEntry,
        requester::{
            FlowLimit,
            Requester,
            RequesterState, //
            ResponseContext,
        },
        responder::{
            Fatal,
            RequestContext,
            Responder, //
        },
        send_window::Slot, //
    },
    recv_context::RecvContext,
    segmentation::{
        gso::MAX_GSO_PACKETS,
        mtu::{
            Mtu,
            MAX_PSNS, //
        },
        tx_desc::{
            BurstLimit,
            RxPayload,
            SlotIndex,
            TxDesc,
            TxPayload, //
        }, //
    },
    status::{
        DropReason,
        WcStatus, //
    },
    time::Instant,
    wire::{
        emit::HeaderBuf,
        packet::Packet, //
    },
    wr::{
        AtomicOp,
        BadRecv,
        Completion,
        FlushScope,
        LocalOp,
        Placement,
        RecvWr,
        Remote,
        SendWr, //
    }, //
};
use std::collections::VecDeque;

mod frames;
mod host;
mod state;
mod visit;

use frames::{
    all_of_it,
    frame,
    join,
    request_payload, //
    split,
};
use host::{
    Host,
    ReceiveQueue, //
};
use state::{
    requester_config,
    responder_config, //
};

/// A receive that waits for a message.
#[derive(Clone, Copy, Debug)]
struct Posted {
    wr: RecvWr,
    va: u64,
    bad: Option<WcStatus>,
}

/// One host.
pub struct End {
    /// The half that sends.
    pub requester: Requester<Vec<Slot>>,
    /// The half that receives.
    pub responder: Responder<Vec<ReplayEntry>>,
    /// The memory.
    pub memory: Memory,
    /// Completions of what was sent, in the order in which they were reported.
    pub sent: Vec<Completion>,
    /// Completions of what was received, and whether each was solicited.
    pub received: Vec<(Completion, bool)>,
    /// Work requests that left the send queue, reported or not.
    pub retired: u64,
    /// Packets dropped, by reason.
    pub dropped: Vec<DropReason>,
    /// Local operations, as they were carried out: which slot, and what.
    pub performed: Vec<(SlotIndex, LocalOp)>,
    /// What the local operations after this many end with.
    pub local_fault: Option<(usize, WcStatus)>,
    /// Keys that were taken back at the wish of the peer or of a READ.
    pub invalidated: Vec<Rkey>,
    /// Flushes that were carried out.
    pub flushed: Vec<(Remote, FlushScope, Placement)>,
    /// Atomic operations and writes that were carried out.
    pub atomics: u64,
    /// Why the responder went to the error state.
    pub fatal: Option<Fatal>,
    setup: Setup,
    /// Where the bytes of the request in each slot are.
    locals: Vec<Option<u64>>,
    backlog: VecDeque<(SendWr, Option<u64>)>,
    queue: ReceiveQueue,
    absences: Absences,
    /// Requests went by the wire that may not be answered yet.
    by_wire: bool,
    /// Answers went by the wire since the peer was here.
    answered: bool,
}

/// When memory is found absent: it is there at the next try, or the one after.
struct Absences {
    chances: Random,
    /// In 1000.
    chance: usize,
}

impl Absences {
    fn strike(&mut self) -> bool {
        self.chance != 0 && self.chances.below(1000) < self.chance
    }
}

impl End {
    /// Makes host `which`, whose requests start at `send_psn` and whose peer's at `recv_psn`.
    #[must_use]
    pub fn new(setup: &Setup, which: usize, send_psn: Psn, recv_psn: Psn) -> Self {
        let mut requester = Requester::new(vec![Slot::EMPTY; setup.slots]);
        requester.init();
        requester.configure(&requester_config(setup, which, send_psn));
        requester.start();
        let room = usize::from(setup.max_dest_rd_atomic);
        let mut responder = Responder::new(vec![ReplayEntry::EMPTY; room]);
        responder.init();
        responder.configure(&responder_config(setup, which, recv_psn));
        responder.start();
        Self {
            requester,
            responder,
            memory: Memory::new((which as u64 + 1) << 40),
            sent: Vec::new(),
            received: Vec::new(),
            retired: 0,
            dropped: Vec::new(),
            performed: Vec::new(),
            local_fault: None,
            invalidated: Vec::new(),
            flushed: Vec::new(),
            atomics: 0,
            fatal: None,
            setup: *setup,
            locals: vec![None; setup.slots],
            backlog: VecDeque::new(),
            queue: ReceiveQueue::default(),
            absences: Absences {
                chances: Random::new(setup.seed ^ 0x0dd),
                chance: setup.absent,
            },
            by_wire: false,
            answered: false,
        }
    }

    /// Posts a work request, as soon as there is a slot for it.
    pub fn post(&mut self, wr: SendWr, local: Option<u64>) {
        self.backlog.push_back((wr, local));
        self.fetch();
    }

    /// Posts a receive; `bad` says that it cannot be used.
    pub fn post_receive(&mut self, wr_id: u64, va: u64, len: usize, bad: Option<WcStatus>) {
        let length = u32::try_from(len).expect("a receive of at most 4 GiB");
        self.queue.posted.push_back(Posted {
            wr: RecvWr { wr_id, length },
            va,
            bad,
        });
    }

    /// Takes frames that have come in one behind the other, without their ICRCs. Those that go on with a
    /// message are taken as one; again, as long as memory is absent.
    pub fn deliver(&mut self, now: Instant, frames: &[Vec<u8>]) {
        let mut at = 0;
        while let Some(first) = frames.get(at) {
            let Some(packet) = self.parse(first) else {
                at += 1;
                continue;
            };
            let due = match packet.opcode().is_response() {
                true => self.requester.oldest_psn(),
                false => self.responder.expected_psn(),
            };
            let joins = self.setup.runs && packet.psn() == due;
            let most = if joins { frames.len() } else { at + 1 };
            let (packet, bytes) = join(packet, first, &frames[at + 1..most], self.setup.mtu);
            if self.take(now, &bytes, &packet) != Some(Taken::Paused) {
                at += u32_as_usize(packet.packets());
            }
            self.report();
        }
    }

    /// Takes a frame apart.
    fn parse<'a>(&mut self, frame: &'a [u8]) -> Option<Packet<'a>> {
        let parsed = Packet::parse(frame, frame.len() + 4);
        self.dropped.extend(parsed.err());
        parsed.ok()
    }

    /// Takes a packet, which may stand for several, with the bytes of all.
    fn take(&mut self, now: Instant, frame: &[u8], packet: &Packet<'_>) -> Option<Taken> {
        let mut host = Host {
            frame,
            memory: &mut self.memory,
            locals: &self.locals,
            queue: &mut self.queue,
            received: &mut self.received,
            absences: &mut self.absences,
            invalidated: &mut self.invalidated,
            flushed: &mut self.flushed,
            atomics: &mut self.atomics,
        };
        let outcome = match packet.opcode().is_response() {
            true => self.requester.handle_response(now, packet, &mut host),
            false => self.responder.handle_request(packet, &mut host),
        };
        self.dropped.extend(outcome.err());
        self.fatal = self.fatal.or(self.responder.take_event());
        outcome.ok()
    }

    /// Does what there is to do, as far as one burst of each half goes. Returns the frames to
    /// send, from the BTH to the pad.
    pub fn turn(&mut self, now: Instant, limit: BurstLimit) -> Vec<Vec<u8>> {
        self.prepare();
        let mut frames = Vec::new();
        // What finds memory absent is planned again.
        while let Some(packets) = self.request(now, limit, &mut frames) {
            self.requester.unsend(packets);
        }
        self.by_wire |= !frames.is_empty();
        let requests = frames.len();
        let mut refused = None;
        while let Some(packets) = self.respond(limit, &mut frames, &mut refused) {
            self.responder.unsend(packets);
        }
        if let Some((packets, error)) = refused {
            self.responder.abort_read(packets, error);
            self.fatal = self.fatal.or(self.responder.take_event());
            // The refusal is still to be sent.
            frames.extend(
                self.responder
                    .burst(limit)
                    .map(|segment| frame(&segment, &[])),
            );
        }
        self.answered |= frames.len() != requests;
        self.report();
        frames
    }

    /// Reports, fetches, and does what needs no packet.
    fn prepare(&mut self) {
        self.report();
        self.fetch();
        let (performed, fault) = (&mut self.performed, self.local_fault);
        while self.requester.perform_local(|slot, op| {
            performed.push((slot, op));
            match fault {
                Some((after, status)) if performed.len() > after => Err(status),
                _ => Ok(()),
            }
        }) {}
    }

    /// Plans requests. If the last found memory absent, returns how many of its packets.
    fn request(
        &mut self,
        now: Instant,
        limit: BurstLimit,
        frames: &mut Vec<Vec<u8>>,
    ) -> Option<u32> {
        for segment in self.setup.applied_to(self.requester.burst(now, limit)) {
            let found = request_payload(&segment, &self.memory, &self.locals, &mut self.absences);
            let bytes = match found {
                Ok(bytes) => bytes,
                Err(Obstacle::Absent) if segment.packets > 1 => {
                    // The first packets of it may be there.
                    let sent = self.absences.chances.below(u32_as_usize(segment.packets));
                    let bytes = all_of_it(&segment, &self.memory, &self.locals);
                    frames.extend(split(&segment, self.setup.mtu, &bytes).take(sent));
                    return Some(segment.packets - sent as u32);
                }
                Err(obstacle) => return self.stopped_by(obstacle).then_some(1),
            };
            frames.extend(split(&segment, self.setup.mtu, &bytes));
        }
        None
    }

    /// Ends a request whose own memory is bad. Returns whether its memory was only absent.
    fn stopped_by(&mut self, obstacle: Obstacle<(SlotIndex, WcStatus)>) -> bool {
        match obstacle {
            Obstacle::Absent => true,
            Obstacle::Refused((slot, status)) => {
                self.requester.abort(slot, status);
                false
            }
        }
    }

    /// Plans answers. If the last found memory absent, returns how many of its packets.
    fn respond(
        &mut self,
        limit: BurstLimit,
        frames: &mut Vec<Vec<u8>>,
        refused: &mut Option<(u32, AccessError)>,
    ) -> Option<u32> {
        let run = if self.setup.runs { MAX_GSO_PACKETS } else { 1 };
        for segment in self.responder.burst(limit).coalescing(run) {
            let mut sent = segment.packets;
            let bytes = match segment.source {
                TxPayload::Remote(remote) => {
                    if self.absences.strike() {
                        sent = self.absences.chances.below(u32_as_usize(sent)) as u32;
                    }
                    let access = Access::REMOTE_READ;
                    if let Err(error) = self.memory.check(remote, segment.length, access) {
                        *refused = Some((segment.packets, error));
                        return None;
                    }
                    self.memory.get(remote.va, u32_as_usize(segment.length))
                }
                _ => &[],
            };
            frames.extend(split(&segment, self.setup.mtu, bytes).take(u32_as_usize(sent)));
            if sent != segment.packets {
                return Some(segment.packets - sent);
            }
        }
        None
    }

    /// Checks what must hold at any time, if the peer is near.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn check(&self) {
        self.check_within(self.setup.flow);
    }

    /// Checks what must hold at any time, if so much may be in flight.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn check_within(&self, flow: FlowLimit) {
        let requester = &self.requester;
        let (una, next, high) = (
            requester.oldest_psn(),
            requester.next_psn(),
            requester.psn(),
        );
        assert!(
            next.since(una) <= high.since(una),
            "{una:?} {next:?} {high:?}"
        );
        assert!(high.since(una) <= MAX_PSNS, "{una:?} {high:?}");
        let flight = requester.flight();
        assert!(flight.reads <= u32::from(self.setup.max_rd_atomic));
        // One packet may exceed what may be in flight.
        let within = flight.packets <= flow.packets && flight.bytes <= flow.bytes;
        assert!(within || flight.packets == 1, "{flight:?}");
        let active = matches!(
            requester.state(),
            RequesterState::Ready | RequesterState::Draining
        );
        assert!(
            !active || (flight.packets == 0) == (next == una),
            "{flight:?} {una:?} {next:?}"
        );
    }

    /// Hands posted requests to the core while it has slots.
    fn fetch(&mut self) {
        while let Some(&(wr, local)) = self.backlog.front() {
            let Some(slot) = self.requester.post(wr) else {
                return;
            };
            self.locals[u32_as_usize(slot.0)] = local;
            self.backlog.pop_front();
        }
    }

    fn report(&mut self) {
        while let Some(retired) = self.requester.poll_completion() {
            let slot = self.retired % self.setup.slots as u64;
            assert_eq!(
                u64::from(retired.slot.0),
                slot,
                "slots retire in their order"
            );
            self.retired += 1;
            self.sent.extend(retired.completion);
        }
    }
}
