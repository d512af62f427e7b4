// SPDX-License-Identifier: GPL-2.0

//! RC requesters that share one queue, which marks packets (RED) and drops what does not fit.
//!
//! ```text
//! requester 0 --\
//! requester 1 ---- queue, rate ---- one receiver for each: ACKs, NAKs and CNPs return without a queue
//! requester n --/
//! ```
//!
//! Each requester writes messages without end. The receivers are as simple as those of adapters: they accept packets in
//! order, and acknowledge those that ask for it.

use crate::random::Random;
use roce::{
    access::Obstacle,
    congestion::{
        notification::CnpInterval,
        pacer::Rate,
        Algorithm, //
    },
    id::{
        Msn,
        Qpn,
        Rkey,
        Srqn, //
    },
    message::connection::Connection,
    psn::Psn,
    rc::{
        requester::{
            FlowLimit,
            Requester,
            RequesterConfig,
            ResponseContext, //
        },
        send_window::Slot, //
    },
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            BurstLimit,
            RxPayload,
            SlotIndex, //
        }, //
    },
    status::{
        NakCode,
        WcStatus, //
    },
    time::{
        Duration,
        Instant, //
    },
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        opcode::Service,
        packet::Packet, //
    },
    wr::{
        Remote,
        SendOp,
        SendWr, //
    }, //
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap, //
};

/// Length of each WRITE.
const MESSAGE_BYTES: u32 = 64 << 10;

/// Slots of a send queue.
const SLOTS: usize = 64;

/// What a requester sends in one run, as in the driver.
const BURST: BurstLimit = BurstLimit {
    bytes: 128 << 10,
    packets: 128,
};

/// Bytes of a packet besides its payload.
const OVERHEAD_BYTES: u32 = 82;

/// The queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Rate of the link behind it.
    pub rate: Rate,
    /// Propagation delay in each direction.
    pub delay: Duration,
    /// Bytes that it holds.
    pub limit_bytes: u32,
    /// Bytes from which on packets are marked with rising probability, bytes from which on all are marked, and the
    /// probability there, in percent. `None`: it does not mark.
    pub red: Option<(u32, u32, u32)>,
}

/// What a receiver has seen, and what the queue has done.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Time in microseconds.
    pub micros: u64,
    /// Bytes in the queue.
    pub queue_bytes: u64,
    /// Bytes of payload that each receiver has accepted since the sample before.
    pub accepted: Vec<u64>,
}

/// Sums of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Packets marked.
    pub marked: u64,
    /// Packets dropped by the queue.
    pub dropped: u64,
    /// CNPs sent.
    pub cnps: u64,
}

/// What happens at a time.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    /// A packet arrives at the receiver of a flow.
    Packet {
        flow: usize,
        psn: u32,
        bytes: u32,
        ack_request: bool,
        marked: bool,
    },
    /// An ACK or NAK arrives at the requester.
    Response { flow: usize, nak: bool, psn: u32 },
    /// A CNP arrives.
    Cnp { flow: usize },
}

struct Flow {
    requester: Requester<Vec<Slot>>,
    starts: Instant,
    /// Of the receiver: the PSN that it expects, whether it has told a gap, and when the next CNP may leave.
    expected: Psn,
    told: bool,
    next_cnp: Instant,
    accepted: u64,
}

/// The simulation.
pub struct Bottleneck {
    queue: Queue,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    order: u64,
    /// When the queue is empty.
    empty_at: Instant,
    now: Instant,
    random: Random,
    /// Sums of the run.
    pub totals: Totals,
}

impl Bottleneck {
    /// Creates a simulation of one flow for each start time.
    #[must_use]
    pub fn new(seed: u64, queue: Queue, algorithm: Algorithm, starts: &[Duration]) -> Self {
        let origin = Instant::from_nanos(1_000_000_000);
        let flows = starts
            .iter()
            .map(|start| Flow::new(algorithm, origin.saturating_add(*start)));
        Self {
            queue,
            flows: flows.collect(),
            events: BinaryHeap::new(),
            order: 0,
            empty_at: origin,
            now: origin,
            random: Random::new(seed),
            totals: Totals::default(),
        }
    }

    /// Runs for `time`, and returns a sample for each `interval`.
    pub fn run(&mut self, time: Duration, interval: Duration) -> Vec<Sample> {
        let (start, end) = (self.now, self.now.saturating_add(time));
        let mut samples = Vec::new();
        let mut next_sample = start.saturating_add(interval);
        while self.now < end {
            let next = self.next_time().min(next_sample);
            self.now = next.max(self.now);
            if self.now >= next_sample {
                samples.push(self.sample(start));
                next_sample = next_sample.saturating_add(interval);
            }
            self.process_events();
            for index in 0..self.flows.len() {
                self.send(index);
            }
        }
        samples
    }

    fn next_time(&self) -> Instant {
        let event = self.events.peek().map(|Reverse((at, _, _))| *at);
        let timers = self.flows.iter().map(|flow| match flow.starts > self.now {
            true => Some(flow.starts),
            false => flow.requester.next_wake().at(),
        });
        timers
            .chain([event])
            .flatten()
            .min()
            .unwrap_or(Instant::MAX)
    }

    fn sample(&mut self, start: Instant) -> Sample {
        let backlog = self.empty_at.saturating_since(self.now);
        Sample {
            micros: self.now.saturating_since(start).as_nanos() / 1_000,
            queue_bytes: bytes_in(self.queue.rate, backlog),
            accepted: self
                .flows
                .iter_mut()
                .map(|flow| std::mem::take(&mut flow.accepted))
                .collect(),
        }
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn process_events(&mut self) {
        while self
            .events
            .peek()
            .is_some_and(|Reverse((at, _, _))| *at <= self.now)
        {
            let Some(Reverse((_, _, event))) = self.events.pop() else {
                return;
            };
            match event {
                Event::Packet {
                    flow,
                    psn,
                    bytes,
                    ack_request,
                    marked,
                } => {
                    self.receive(flow, (Psn::new(psn), bytes), ack_request, marked);
                }
                Event::Response { flow, nak, psn } => self.respond(flow, nak, Psn::new(psn)),
                Event::Cnp { flow } => self.flows[flow].requester.congestion().on_cnp(self.now),
            }
        }
    }

    fn receive(&mut self, index: usize, (psn, bytes): (Psn, u32), ack_request: bool, marked: bool) {
        let back = self.now.saturating_add(self.queue.delay);
        let (now, flow) = (self.now, &mut self.flows[index]);
        if marked {
            if let Some(next) = CnpInterval::DEFAULT.on_congestion(flow.next_cnp, now) {
                flow.next_cnp = next;
                self.totals.cnps += 1;
                self.at(back, Event::Cnp { flow: index });
            }
        }
        let flow = &mut self.flows[index];
        let response = if psn == flow.expected {
            (flow.expected, flow.told) = (psn.next(), false);
            flow.accepted += u64::from(bytes);
            ack_request.then_some((false, psn))
        } else if psn.since(flow.expected) < 1 << 23 {
            (!std::mem::replace(&mut flow.told, true)).then_some((true, flow.expected))
        } else {
            Some((false, flow.expected.sub(1)))
        };
        if let Some((nak, psn)) = response {
            self.at(
                back,
                Event::Response {
                    flow: index,
                    nak,
                    psn: psn.get(),
                },
            );
        }
    }

    fn respond(&mut self, index: usize, nak: bool, psn: Psn) {
        let syndrome = match nak {
            true => Syndrome::Nak(NakCode::PsnSequence),
            false => Syndrome::Ack { credits: 0x1f },
        };
        let aeth = Aeth {
            syndrome,
            msn: Msn::new(0),
        };
        let headers = Connection::new(Service::Rc, Qpn::new(0x11))
            .ack(psn, aeth)
            .emit(0);
        // The ICRC is not looked at.
        let bytes = [headers.as_slice(), &[0; 4]].concat();
        let packet = Packet::parse(&bytes, bytes.len()).expect("a valid packet");
        let requester = &mut self.flows[index].requester;
        // A stale response is an error, as on any network.
        let _ = requester.handle_response(self.now, &packet, &mut NoMemory);
    }

    /// Runs a requester as an engine does.
    fn send(&mut self, index: usize) {
        if self.flows[index].starts > self.now {
            return;
        }
        loop {
            let (now, flow) = (self.now, &mut self.flows[index]);
            flow.requester.handle_timeout(now);
            while flow.requester.poll_completion().is_some() {}
            while flow.requester.post(write()).is_some() {}
            let packets: Vec<_> = flow.requester.burst(now, BURST).collect();
            let more = flow.requester.has_work() && !packets.is_empty();
            for desc in packets {
                let bytes = desc.headers.emit(0);
                let packet = Packet::parse(bytes.as_slice(), usize::MAX).expect("a valid packet");
                let psn = packet.psn().get();
                self.enqueue(index, (psn, desc.length), packet.ack_request());
            }
            if !more {
                return;
            }
        }
    }

    fn enqueue(&mut self, flow: usize, (psn, bytes): (u32, u32), ack_request: bool) {
        let queue = self.queue;
        let backlog = bytes_in(queue.rate, self.empty_at.saturating_since(self.now));
        if backlog > queue.limit_bytes.into() {
            self.totals.dropped += 1;
            return;
        }
        let marked = queue.red.is_some_and(|red| self.is_marked(backlog, red));
        self.totals.marked += u64::from(marked);
        let time = queue.rate.time_of(bytes + OVERHEAD_BYTES);
        self.empty_at = self.empty_at.max(self.now).saturating_add(time);
        let event = Event::Packet {
            flow,
            psn,
            bytes,
            ack_request,
            marked,
        };
        self.at(self.empty_at.saturating_add(queue.delay), event);
    }

    fn is_marked(&mut self, backlog: u64, (least, most, percent): (u32, u32, u32)) -> bool {
        if backlog < least.into() {
            return false;
        }
        let span = u64::from(most.saturating_sub(least)).max(1);
        let chance = (backlog - u64::from(least)) * 10 * u64::from(percent) / span;
        backlog >= most.into() || (self.random.below(1_000) as u64) < chance
    }
}

impl Flow {
    fn new(algorithm: Algorithm, starts: Instant) -> Self {
        let mut requester = Requester::new(vec![Slot::EMPTY; SLOTS]);
        requester.init();
        requester.configure(&RequesterConfig {
            connection: Connection::new(Service::Rc, Qpn::new(0x12)),
            first_psn: Psn::new(0),
            path_mtu: Mtu::Mtu4096,
            max_rd_atomic: 1,
            ack_timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            // The limits of the driver.
            flow: FlowLimit {
                bytes: 1 << 20,
                packets: 256,
            },
            initial_window: 32,
            congestion: algorithm,
        });
        requester.start();
        Self {
            requester,
            starts,
            expected: Psn::new(0),
            told: false,
            next_cnp: Instant::from_nanos(0),
            accepted: 0,
        }
    }
}

fn write() -> SendWr {
    SendWr {
        wr_id: 0,
        op: SendOp::Write {
            remote: Remote {
                va: 0,
                rkey: Rkey::new(1),
            },
            imm: None,
        },
        length: MESSAGE_BYTES,
        srqn: Srqn::default(),
        signaled: true,
        solicited: false,
        fence: false,
    }
}

fn bytes_in(rate: Rate, time: Duration) -> u64 {
    (u128::from(rate.bytes_s()) * u128::from(time.as_nanos()) / 1_000_000_000) as u64
}

/// WRITEs have no responses with payload.
struct NoMemory;

impl ResponseContext for NoMemory {
    fn place(&mut self, _: SlotIndex, _: u32, _: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        Ok(())
    }

    fn place_value(&mut self, _: SlotIndex, _: u64) -> Result<(), Obstacle<WcStatus>> {
        Ok(())
    }

    fn invalidate(&mut self, _: Rkey) -> Result<(), WcStatus> {
        Ok(())
    }
}
