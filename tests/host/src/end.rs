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
    id::{
        Pkey,
        Qpn,
        Rkey, //
    },
    num::u32_as_usize,
    psn::Psn,
    rc::{
        replay::Answer,
        requester::{
            Requester,
            RequesterConfig,
            ResponseHost, //
        },
        responder::{
            Fatal,
            RequestHost,
            Responder,
            ResponderConfig, //
        },
        window::Slot, //
    },
    segment::{
        BurstLimit,
        Payload,
        Segment,
        SlotIndex,
        Source,
        MAX_PSNS, //
    },
    status::{
        DropReason,
        WcStatus, //
    },
    time::Instant,
    wire::packet::Packet,
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
    },
};
use std::collections::VecDeque;

mod host;

use host::Host;

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
    pub responder: Responder<Vec<Answer>>,
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

/// The receives of a host.
#[derive(Default)]
struct ReceiveQueue {
    posted: VecDeque<Posted>,
    in_progress: Option<Posted>,
}

impl End {
    /// Makes host `which`, whose requests start at `send_psn` and whose peer's at `recv_psn`.
    #[must_use]
    pub fn new(setup: &Setup, which: usize, send_psn: Psn, recv_psn: Psn) -> Self {
        let dest_qpn = Qpn::new(0x11 + 1 - which as u32);
        let mut requester = Requester::new(vec![Slot::EMPTY; setup.slots]);
        requester.init();
        requester.configure(&RequesterConfig {
            dest_qpn,
            pkey: Pkey::DEFAULT,
            first_psn: send_psn,
            path_mtu: setup.mtu,
            max_rd_atomic: setup.max_rd_atomic,
            ack_timeout: setup.ack_timeout,
            retry_cnt: setup.retry_cnt,
            rnr_retry: setup.rnr_retry,
            flow: setup.flow,
        });
        requester.start();
        let room = usize::from(setup.max_dest_rd_atomic);
        let mut responder = Responder::new(vec![Answer::EMPTY; room]);
        responder.init();
        responder.configure(&ResponderConfig {
            dest_qpn,
            pkey: Pkey::DEFAULT,
            expected_psn: recv_psn,
            path_mtu: setup.mtu,
            access: setup.access,
            min_rnr_timer: setup.min_rnr_timer,
        });
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

    /// Takes a frame, without its ICRC; again, as long as memory is absent.
    pub fn deliver(&mut self, now: Instant, frame: &[u8]) {
        while self.take(now, frame) == Some(Taken::Paused) {
            self.report();
        }
        self.report();
    }

    fn take(&mut self, now: Instant, frame: &[u8]) -> Option<Taken> {
        let outcome = Packet::parse(frame, frame.len() + 4).and_then(|packet| {
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
            match packet.opcode().is_response() {
                true => self.requester.handle_response(now, &packet, &mut host),
                false => self.responder.handle_request(&packet, &mut host),
            }
        });
        self.dropped.extend(outcome.err());
        self.fatal = self.fatal.or(self.responder.take_event());
        outcome.ok()
    }

    /// Does what there is to do, as far as one burst of each half goes. Returns the frames to
    /// send, from the BTH to the pad.
    pub fn turn(&mut self, now: Instant, limit: BurstLimit) -> Vec<Vec<u8>> {
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
        let mut frames = Vec::new();
        // What finds memory absent is planned again.
        while self.request(now, limit, &mut frames) {
            self.requester.unsend();
        }
        let mut refused = None;
        while self.respond(limit, &mut frames, &mut refused) {
            self.responder.unsend();
        }
        if let Some(error) = refused {
            self.responder.abort_read(error);
            self.fatal = self.fatal.or(self.responder.take_event());
            // The refusal is still to be sent.
            frames.extend(
                self.responder
                    .burst(limit)
                    .map(|segment| frame(&segment, &[])),
            );
        }
        self.report();
        frames
    }

    /// Plans requests. Returns whether the last found memory absent.
    fn request(&mut self, now: Instant, limit: BurstLimit, frames: &mut Vec<Vec<u8>>) -> bool {
        for segment in self.requester.burst(now, limit) {
            let value;
            let bytes = match segment.source {
                Source::Value(number) => {
                    value = number.to_ne_bytes();
                    &value[..]
                }
                Source::Slot(_) if self.absences.strike() => return true,
                Source::Slot(slot) => match self.locals[u32_as_usize(slot.0)] {
                    Some(va) => self
                        .memory
                        .get(va + u64::from(segment.offset), u32_as_usize(segment.length)),
                    None => {
                        self.requester.abort(slot, WcStatus::LocProtErr);
                        return false;
                    }
                },
                _ => &[],
            };
            frames.push(frame(&segment, bytes));
        }
        false
    }

    /// Plans answers. Returns whether the last found memory absent.
    fn respond(
        &mut self,
        limit: BurstLimit,
        frames: &mut Vec<Vec<u8>>,
        refused: &mut Option<AccessError>,
    ) -> bool {
        for segment in self.responder.burst(limit) {
            let bytes = match segment.source {
                Source::Remote(_) if self.absences.strike() => return true,
                Source::Remote(remote) => {
                    let access = Access::REMOTE_READ;
                    if let Err(error) = self.memory.check(remote, segment.length, access) {
                        *refused = Some(error);
                        return false;
                    }
                    self.memory.get(remote.va, u32_as_usize(segment.length))
                }
                _ => &[],
            };
            frames.push(frame(&segment, bytes));
        }
        false
    }

    /// Checks what must hold at any time.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn check(&self) {
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
        let (flight, flow) = (requester.flight(), self.setup.flow);
        assert!(flight.reads <= u32::from(self.setup.max_rd_atomic));
        // One packet may exceed what may be in flight, and so may one READ, by what it asks for.
        let within = flight.packets <= flow.packets && flight.bytes <= flow.bytes;
        let one = flight.packets == 1 || flight.reads == 1;
        assert!(within || one, "{flight:?}");
        assert_eq!(
            flight.packets == 0,
            next == una,
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

/// Returns a frame from the BTH to the pad.
fn frame(segment: &Segment, payload: &[u8]) -> Vec<u8> {
    assert_eq!(payload.len(), u32_as_usize(segment.length));
    let headers = segment.headers.emit(payload.len());
    let mut frame = headers.as_slice().to_vec();
    frame.extend_from_slice(payload);
    frame.resize(frame.len().next_multiple_of(4), 0);
    frame
}
