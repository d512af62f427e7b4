// SPDX-License-Identifier: GPL-2.0

//! A host: a QP, its memory and its queues, driving the protocol core as the driver does.
//!
//! A host exchanges frames with the network: the bytes of one packet from the BTH to the pad,
//! without ICRC.

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
            RequesterState,
            ResponseContext, //
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
        gso::MAX_COALESCED_PACKETS,
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

mod context;
mod frames;
mod loopback;
mod reorder;
mod state;

use context::{
    PacketContext,
    ReceiveQueue, //
};
use frames::{
    coalesce,
    frame,
    parse_coalesced,
    payload_if_present,
    request_payload,
    split, //
};
use reorder::EarlyFrames;
use state::{
    requester_config,
    responder_config, //
};

/// A posted receive.
#[derive(Clone, Copy, Debug)]
struct Posted {
    wr: RecvWr,
    va: u64,
    /// Error when the receive is taken.
    bad: Option<WcStatus>,
}

/// A host.
pub struct Host {
    /// The send engine.
    pub requester: Requester<Vec<Slot>>,
    /// The receive engine.
    pub responder: Responder<Vec<ReplayEntry>>,
    /// Memory.
    pub memory: Memory,
    /// Completions of sends, in order.
    pub sent: Vec<Completion>,
    /// Completions of receives, and whether each was solicited.
    pub received: Vec<(Completion, bool)>,
    /// Number of WRs that left the send queue, with or without a completion.
    pub retired: u64,
    /// Reasons of dropped packets.
    pub dropped: Vec<DropReason>,
    /// Executed local operations and their slots.
    pub performed: Vec<(SlotIndex, LocalOp)>,
    /// Status of the local operations after this many.
    pub local_fault: Option<(usize, WcStatus)>,
    /// Keys invalidated by the peer or by a READ.
    pub invalidated: Vec<Rkey>,
    /// Executed flushes.
    pub flushed: Vec<(Remote, FlushScope, Placement)>,
    /// Number of executed atomic operations and atomic writes.
    pub atomics: u64,
    /// Why the responder entered the error state.
    pub fatal: Option<Fatal>,
    setup: Setup,
    /// Address of the payload of the request in each slot.
    locals: Vec<Option<u64>>,
    /// Requests that wait for a free slot.
    waiting: VecDeque<(SendWr, Option<u64>)>,
    queue: ReceiveQueue,
    page_faults: PageFaults,
    /// Frames that arrived early, if they are kept.
    early: Option<EarlyFrames>,
    /// Requests sent over the network may still be in flight.
    requests_in_network: bool,
    /// Responses were sent over the network since the last loopback pass of the peer.
    responses_in_network: bool,
}

/// Random page faults. Memory is present at the next access, or the one after.
struct PageFaults {
    random: Random,
    /// Faults in 1000 accesses.
    per_mille: usize,
}

impl PageFaults {
    fn occurs(&mut self) -> bool {
        self.per_mille != 0 && self.random.below(1000) < self.per_mille
    }
}

impl Host {
    /// Creates host `which`. Its requests start at `send_psn`, those of its peer at `recv_psn`.
    #[must_use]
    pub fn new(setup: &Setup, which: usize, send_psn: Psn, recv_psn: Psn) -> Self {
        let mut requester = Requester::new(vec![Slot::EMPTY; setup.slots]);
        requester.init();
        requester.configure(&requester_config(setup, which, send_psn));
        requester.start();
        let entries = usize::from(setup.max_dest_rd_atomic);
        let mut responder = Responder::new(vec![ReplayEntry::EMPTY; entries]);
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
            waiting: VecDeque::new(),
            queue: ReceiveQueue::default(),
            page_faults: PageFaults {
                random: Random::new(setup.seed ^ 0x0dd),
                per_mille: setup.page_faults_per_mille,
            },
            early: setup.reorder_wait.map(EarlyFrames::new),
            requests_in_network: false,
            responses_in_network: false,
        }
    }

    /// Posts a WR as soon as a slot is free.
    pub fn post(&mut self, wr: SendWr, local: Option<u64>) {
        self.waiting.push_back((wr, local));
        self.post_waiting();
    }

    /// Posts a receive. With `bad`, it cannot be used.
    pub fn post_receive(&mut self, wr_id: u64, va: u64, len: usize, bad: Option<WcStatus>) {
        let length = u32::try_from(len).expect("a receive of at most 4 GiB");
        self.queue.posted.push_back(Posted {
            wr: RecvWr { wr_id, length },
            va,
            bad,
        });
    }

    /// Handles consecutive received frames, and those kept that follow them.
    pub fn deliver(&mut self, now: Instant, frames: &[Vec<u8>]) {
        self.handle_frames(now, frames);
        self.check_gaps(now);
    }

    /// Returns the number of frames that were kept because they arrived early.
    #[must_use]
    pub fn frames_kept(&self) -> u64 {
        self.early.as_ref().map_or(0, |early| early.kept)
    }

    /// Returns the time of the next timer.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        let gap = self.early.as_ref().and_then(|early| early.until);
        self.requester.next_wake().at().into_iter().chain(gap).min()
    }

    /// Handles the timers that are due.
    pub fn handle_timers(&mut self, now: Instant) {
        self.check_gaps(now);
        self.requester.handle_timeout(now);
    }

    /// Handles frames. Those of one message are coalesced; a packet is repeated while memory is not present.
    fn handle_frames(&mut self, now: Instant, frames: &[Vec<u8>]) {
        let mut at = 0;
        while let Some(first) = frames.get(at) {
            let Some(packet) = self.parse(first) else {
                at += 1;
                continue;
            };
            if self.keep_early(&packet, first) {
                at += 1;
                continue;
            }
            let expected = match packet.opcode().is_response() {
                true => self.requester.oldest_psn(),
                false => self.responder.expected_psn(),
            };
            let coalesces = self.setup.super_packets && packet.psn() == expected;
            let coalesced = coalesces.then(|| coalesce(&frames[at..], self.setup.mtu));
            let (packet, bytes) = match &coalesced {
                Some((bytes, packets @ 2..)) => {
                    (parse_coalesced(bytes, *packets, self.setup.mtu), bytes)
                }
                _ => (packet, first),
            };
            if self.handle(now, bytes, &packet) != Some(Taken::Paused) {
                at += u32_as_usize(packet.packets());
            }
            self.report();
            while let Some(frame) = self.take_kept() {
                self.handle_frames(now, &[frame]);
            }
        }
    }

    /// Parses a frame.
    fn parse<'a>(&mut self, frame: &'a [u8]) -> Option<Packet<'a>> {
        let parsed = Packet::parse(frame, frame.len() + 4);
        self.dropped.extend(parsed.err());
        parsed.ok()
    }

    /// Handles a packet or super-packet with the given bytes.
    fn handle(&mut self, now: Instant, frame: &[u8], packet: &Packet<'_>) -> Option<Taken> {
        let mut context = PacketContext {
            frame,
            memory: &mut self.memory,
            locals: &self.locals,
            queue: &mut self.queue,
            received: &mut self.received,
            page_faults: &mut self.page_faults,
            invalidated: &mut self.invalidated,
            flushed: &mut self.flushed,
            atomics: &mut self.atomics,
        };
        let outcome = match packet.opcode().is_response() {
            true => self.requester.handle_response(now, packet, &mut context),
            false => self.responder.handle_request(packet, &mut context),
        };
        self.dropped.extend(outcome.err());
        self.fatal = self.fatal.or(self.responder.take_event());
        outcome.ok()
    }

    /// Runs both engines, for one burst each. Returns the frames to send.
    pub fn run_engines(&mut self, now: Instant, limit: BurstLimit) -> Vec<Vec<u8>> {
        self.prepare();
        let mut frames = Vec::new();
        // Packets whose memory is not present are planned again.
        while let Some(packets) = self.send_requests(now, limit, &mut frames) {
            self.requester.unsend(packets);
        }
        self.requests_in_network |= !frames.is_empty();
        let request_frames = frames.len();
        let mut failed_read = None;
        while let Some(packets) = self.send_responses(limit, &mut frames, &mut failed_read) {
            self.responder.unsend(packets);
        }
        if let Some((packets, error)) = failed_read {
            self.responder.abort_read(packets, error);
            self.fatal = self.fatal.or(self.responder.take_event());
            // The NAK must still be sent.
            frames.extend(self.responder.burst(limit).map(|desc| frame(&desc, &[])));
        }
        self.responses_in_network |= frames.len() != request_frames;
        self.report();
        frames
    }

    /// Reports completions, posts waiting requests and executes local operations.
    fn prepare(&mut self) {
        self.report();
        self.post_waiting();
        let (performed, fault) = (&mut self.performed, self.local_fault);
        while self.requester.perform_local(|slot, op| {
            performed.push((slot, op));
            match fault {
                Some((after, status)) if performed.len() > after => Err(status),
                _ => Ok(()),
            }
        }) {}
    }

    /// Sends requests. If memory of the last one is not present, returns the number of packets not
    /// sent.
    fn send_requests(
        &mut self,
        now: Instant,
        limit: BurstLimit,
        frames: &mut Vec<Vec<u8>>,
    ) -> Option<u32> {
        for desc in self.setup.configure(self.requester.burst(now, limit)) {
            let found = request_payload(&desc, &self.memory, &self.locals, &mut self.page_faults);
            let bytes = match found {
                Ok(bytes) => bytes,
                Err(Obstacle::Absent) if desc.packets > 1 => {
                    // The first packets may be present.
                    let sent = self.page_faults.random.below(u32_as_usize(desc.packets));
                    let bytes = payload_if_present(&desc, &self.memory, &self.locals);
                    frames.extend(split(&desc, self.setup.mtu, &bytes).take(sent));
                    return Some(desc.packets - sent as u32);
                }
                Err(obstacle) => return self.abort_unless_absent(obstacle).then_some(1),
            };
            frames.extend(split(&desc, self.setup.mtu, &bytes));
        }
        None
    }

    /// Aborts a request with a local error. Returns whether memory was only not present.
    fn abort_unless_absent(&mut self, obstacle: Obstacle<(SlotIndex, WcStatus)>) -> bool {
        match obstacle {
            Obstacle::Absent => true,
            Obstacle::Refused((slot, status)) => {
                self.requester.abort(slot, status);
                false
            }
        }
    }

    /// Sends responses. If memory of the last one is not present, returns the number of packets not
    /// sent.
    fn send_responses(
        &mut self,
        limit: BurstLimit,
        frames: &mut Vec<Vec<u8>>,
        failed_read: &mut Option<(u32, AccessError)>,
    ) -> Option<u32> {
        let max_packets = if self.setup.super_packets {
            MAX_COALESCED_PACKETS
        } else {
            1
        };
        for desc in self.responder.burst(limit).coalescing(max_packets) {
            let mut sent = desc.packets;
            let bytes = match desc.source {
                TxPayload::Remote(remote, _) => {
                    if self.page_faults.occurs() {
                        sent = self.page_faults.random.below(u32_as_usize(sent)) as u32;
                    }
                    let access = Access::REMOTE_READ;
                    if let Err(error) = self.memory.check(remote, desc.length, access) {
                        *failed_read = Some((desc.packets, error));
                        return None;
                    }
                    self.memory.get(remote.va, u32_as_usize(desc.length))
                }
                _ => &[],
            };
            frames.extend(split(&desc, self.setup.mtu, bytes).take(u32_as_usize(sent)));
            if sent != desc.packets {
                return Some(desc.packets - sent);
            }
        }
        None
    }

    /// Checks the invariants for a peer with a short RTT.
    ///
    /// # Panics
    ///
    /// If an invariant does not hold.
    pub fn check(&self) {
        self.check_within(self.setup.flow);
    }

    /// Checks the invariants for a flow limit of `flow`.
    ///
    /// # Panics
    ///
    /// If an invariant does not hold.
    pub fn check_within(&self, flow: FlowLimit) {
        let requester = &self.requester;
        let (oldest, next, highest) = (
            requester.oldest_psn(),
            requester.next_psn(),
            requester.psn(),
        );
        assert!(
            next.since(oldest) <= highest.since(oldest),
            "{oldest:?} {next:?} {highest:?}"
        );
        assert!(highest.since(oldest) <= MAX_PSNS, "{oldest:?} {highest:?}");
        let flight = requester.flight();
        assert!(flight.reads <= u32::from(self.setup.max_rd_atomic));
        // A single packet may exceed the limit.
        let within = flight.packets <= flow.packets && flight.bytes <= flow.bytes;
        assert!(within || flight.packets == 1, "{flight:?}");
        let active = matches!(
            requester.state(),
            RequesterState::Ready | RequesterState::Draining
        );
        assert!(
            !active || (flight.packets == 0) == (next == oldest),
            "{flight:?} {oldest:?} {next:?}"
        );
    }

    /// Posts waiting requests while slots are free.
    fn post_waiting(&mut self) {
        while let Some(&(wr, local)) = self.waiting.front() {
            let Some(slot) = self.requester.post(wr) else {
                return;
            };
            self.locals[u32_as_usize(slot.0)] = local;
            self.waiting.pop_front();
        }
    }

    fn report(&mut self) {
        while let Some(retired) = self.requester.poll_completion() {
            let slot = self.retired % self.setup.slots as u64;
            assert_eq!(u64::from(retired.slot.0), slot, "slots retire in order");
            self.retired += 1;
            self.sent.extend(retired.completion());
        }
    }
}
