// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: two hosts with work requests of every kind and a network controlled by the fuzzer. At
//! the end the network has no faults; then every request has been executed exactly once, in order,
//! with the right bytes and status.
//!
//! Requests are chosen in `work`, the expected results computed in `model`.
//! [`states`](super::states) changes the states of the QPs.

use super::bytes::Bytes;
use crate::{
    host::Host,
    pair::{
        pattern,
        Setup,
        A,
        ALL_ACCESS,
        B, //
    }, //
};
use roce::{
    id::Rkey,
    psn::Psn,
    qp::state::QpState,
    rc::requester::FlowLimit,
    segmentation::{
        mtu::Mtu,
        tx_desc::BurstLimit, //
    },
    time::{
        Duration,
        Instant, //
    },
    wire::packet::Packet, //
};
use std::collections::VecDeque;

mod model;
mod work;

use model::Side;

/// Length of the memory that each host shares with its peer, in bytes.
const SHARED_BYTES: usize = 4096;

/// Maximum number of requests of a host.
const MAX_REQUESTS: usize = 48;

/// Maximum number of steps until all requests are complete without faults.
const MAX_STEPS: usize = 20_000;

/// Retry count.
const RETRY_CNT: u8 = 7;

/// Start time.
const START: Instant = Instant::from_nanos(1_000_000);

/// Two hosts and the network.
pub(super) struct World<'a> {
    pub(super) bytes: Bytes<'a>,
    setup: Setup,
    now: Instant,
    pub(super) hosts: [Host; 2],
    pub(super) states: [QpState; 2],
    /// Requests of each host, and expected results.
    pub(super) sides: [Side; 2],
    /// Frames in flight to each host.
    network: [VecDeque<Vec<u8>>; 2],
    /// Address and key of the memory that each host shares.
    shared: [(u64, Rkey); 2],
    /// Number of faults that may cause a retry: of the network, or of the clock.
    faults_seen: u32,
    /// One QP was reset and the other was not: the results of the messages cannot be predicted.
    pub(super) reset_in_use: bool,
    next_wr: u64,
}

/// Drives two hosts with `data`.
///
/// # Panics
///
/// If a property is violated.
pub fn pair(data: &[u8]) {
    let mut world = World::new(Bytes::new(data));
    for at in [A, B] {
        for next in [QpState::Init, QpState::Rtr, QpState::Rts] {
            world.modify(at, next);
        }
    }
    while !world.bytes.is_empty() {
        let kind = world.bytes.below(16);
        world.act(kind);
    }
    world.finish();
}

impl<'a> World<'a> {
    /// Creates two hosts with QPs in RESET.
    pub(super) fn new(mut bytes: Bytes<'a>) -> Self {
        let setup = setup(&mut bytes);
        let mut hosts = [A, B].map(|at| Host::new(&setup, at, Psn::new(0), Psn::new(0)));
        let shared = [A, B].map(|at| {
            let memory = &mut hosts[at].memory;
            let va = memory.store(&pattern(at as u64, SHARED_BYTES));
            (va, memory.register(va, SHARED_BYTES, ALL_ACCESS))
        });
        let mut world = Self {
            bytes,
            setup,
            now: START,
            hosts,
            states: [QpState::Rts; 2],
            sides: [A, B].map(|_| Side::default()),
            network: Default::default(),
            shared,
            faults_seen: 0,
            reset_in_use: false,
            next_wr: 0,
        };
        for at in [A, B] {
            world.modify(at, QpState::Reset);
        }
        world
    }

    /// Performs one action, chosen by `kind`, which is below 16.
    pub(super) fn act(&mut self, kind: usize) {
        match kind {
            0..=3 => self.post_valid(),
            4 => {
                let at = self.bytes.below(2);
                self.post_receive(at);
            }
            5..=7 => {
                let from = self.bytes.below(2);
                let limit = BurstLimit {
                    bytes: self.bytes.number(self.setup.mtu.bytes()),
                    packets: u32::from(self.bytes.byte()),
                };
                self.run_engines(from, limit);
            }
            8..=11 => self.deliver(),
            12 => self.wait(),
            13 => {
                let from = self.bytes.below(2);
                self.loopback_pass(from);
            }
            14 => drop(self.exchange()),
            _ => self.post_invalid(),
        }
        self.check();
    }

    // The network.

    /// Runs the engines of a host, which puts frames on the network.
    fn run_engines(&mut self, from: usize, limit: BurstLimit) -> bool {
        let no_requests = self.may_not_send(from);
        let frames = self.hosts[from].run_engines(self.now, limit);
        for frame in &frames {
            let packet = Packet::parse(frame, frame.len() + 4).expect("a packet");
            if packet.opcode().is_request() {
                assert!(!no_requests, "a request in {:?}", self.states[from]);
            } else {
                assert!(self.states[from] != QpState::Reset && self.states[from] != QpState::Init);
            }
        }
        let sent = !frames.is_empty();
        self.network[1 - from].extend(frames);
        self.apply_errors(from);
        sent
    }

    /// Returns whether the host must not send requests.
    fn may_not_send(&self, from: usize) -> bool {
        match self.states[from] {
            QpState::Rts => false,
            QpState::Sqd => self.hosts[from].requester.is_drained(),
            _ => true,
        }
    }

    /// Decides the fate of frames in one direction.
    fn deliver(&mut self) {
        let choice = self.bytes.byte();
        let to = usize::from(choice & 1);
        let count = 1 + usize::from(choice >> 4);
        let frames = &mut self.network[to];
        let Some(first) = frames.pop_front() else {
            return;
        };
        let kind = (choice >> 1) & 7;
        if kind > 3 {
            self.faults_seen += 1;
        }
        match kind {
            0..=3 => {
                frames.push_front(first);
                self.arrive(to, count);
            }
            4 => {
                frames.push_back(first.clone());
                frames.push_front(first);
                self.arrive(to, 1);
            }
            // A frame with a bit error is dropped as well: its ICRC is wrong.
            5 => drop(first),
            6 => frames.push_back(first),
            _ => {
                let other = count.min(frames.len());
                frames.insert(other, first);
            }
        }
    }

    /// Delivers the next `count` frames.
    fn arrive(&mut self, to: usize, count: usize) {
        let count = count.min(self.network[to].len());
        let frames: Vec<_> = self.network[to].drain(..count).collect();
        if !self.executes_requests(to) {
            self.faults_seen += 1;
        }
        self.hosts[to].deliver(self.now, &frames);
        self.apply_errors(to);
    }

    /// Returns whether the host executes requests.
    fn executes_requests(&self, at: usize) -> bool {
        matches!(self.states[at], QpState::Rtr | QpState::Rts | QpState::Sqd)
    }

    /// Advances the clock, even with frames in flight.
    fn wait(&mut self) {
        let choice = self.bytes.byte();
        self.faults_seen += 1;
        let deadline = self.hosts[usize::from(choice & 1)].next_timer();
        if let (Some(deadline), true) = (deadline, choice & 2 != 0) {
            self.now = self.now.max(deadline);
        } else {
            let nanos = u64::from(self.bytes.number(1 << 16));
            self.now = self.now.saturating_add(Duration::from_nanos(nanos));
        }
        for at in [A, B] {
            if choice & (4 << at) != 0 {
                self.hosts[at].handle_timers(self.now);
                self.apply_errors(at);
            }
        }
    }

    /// Performs a loopback pass, if it cannot overtake frames in flight.
    fn loopback_pass(&mut self, from: usize) {
        let [a, b] = &mut self.hosts;
        let (host, peer) = if from == A { (a, b) } else { (b, a) };
        let both_in_rts =
            self.states[from] == QpState::Rts && self.states[1 - from] == QpState::Rts;
        if both_in_rts && host.can_use_loopback(peer) {
            host.loopback_pass(self.now, self.setup.burst, peer);
            self.apply_errors(A);
            self.apply_errors(B);
        }
    }

    /// Runs both hosts and delivers all frames. Returns whether there was any work.
    fn exchange(&mut self) -> bool {
        let mut busy = false;
        for from in [A, B] {
            let retired = self.hosts[from].retired;
            while self.run_engines(from, self.setup.burst) {
                busy = true;
            }
            busy |= self.hosts[from].retired != retired;
            while !self.network[1 - from].is_empty() {
                self.arrive(1 - from, 16);
                busy = true;
            }
        }
        busy
    }

    // The states.

    /// Moves a QP to another state. Returns whether the transition is legal.
    pub(super) fn modify(&mut self, at: usize, next: QpState) -> bool {
        let Some(transition) = self.states[at].to(next) else {
            return false;
        };
        self.states[at] = next;
        let first = Psn::new(self.setup.first_psn);
        let psns = [(first, first.add(1 << 23)), (first.add(1 << 23), first)];
        self.hosts[at].modify(transition, at, psns[at]);
        self.apply_errors(at);
        true
    }

    /// Moves the QP to the error state if one of its engines is there, and flushes the WRs posted
    /// since.
    fn apply_errors(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let failed = host.requester.error().is_some() || host.fatal.is_some();
        if failed && self.states[at] != QpState::Err {
            self.states[at] = QpState::Err;
            host.requester.fail();
            host.flush_receives();
        } else if self.states[at] == QpState::Err {
            host.flush_receives();
        }
    }

    /// Resets the model for a new connection, after both QPs were reset.
    pub(super) fn reconnect(&mut self) {
        self.network = Default::default();
        for at in [A, B] {
            let (va, _) = self.shared[at];
            let host = &mut self.hosts[at];
            host.memory.write(va, &pattern(at as u64, SHARED_BYTES));
            host.performed.clear();
            host.flushed.clear();
            host.invalidated.clear();
            host.atomics = 0;
            self.sides[at].revoked = Default::default();
        }
        self.faults_seen = 0;
        self.reset_in_use = false;
    }

    /// Checks the invariants.
    pub(super) fn check(&self) {
        // The flow limit grows with the measured RTT.
        let flow = self.setup.flow;
        let factor = self.now.saturating_since(START).as_nanos() / 1_000_000;
        let factor = factor.clamp(1, 4) as u32;
        let max_flow = FlowLimit {
            bytes: flow.bytes * factor,
            packets: flow.packets * factor,
        };
        for at in [A, B] {
            self.hosts[at].check_within(max_flow);
            self.check_reports(at);
        }
    }

    // End of the run.

    /// Runs without faults until all requests are complete, and checks the results.
    pub(super) fn finish(&mut self) {
        for at in [A, B] {
            if self.states[at] != QpState::Reset {
                for _ in 0..self.missing_receives(at) {
                    self.add_receive(at);
                }
            }
        }
        self.settle();
        for from in [A, B] {
            self.check_outcome(from);
        }
        for at in [A, B] {
            if self.modify(at, QpState::Err) {
                while self.run_engines(at, self.setup.burst) {}
                self.check_reports(at);
                self.check_flushed(at);
            }
            self.modify(at, QpState::Reset);
            self.check_reset(at);
        }
    }

    /// Runs until there is no further event.
    pub(super) fn settle(&mut self) {
        for _ in 0..MAX_STEPS {
            // A run without frames may leave work, if memory was not present.
            let busy = self.exchange();
            if busy || self.hosts.iter().any(|host| host.requester.has_work()) {
                self.check();
                continue;
            }
            let timers = self.hosts.iter().filter_map(|host| host.next_timer());
            let Some(next) = timers.min() else {
                return;
            };
            self.now = self.now.max(next);
            for at in [A, B] {
                self.hosts[at].handle_timers(self.now);
                self.apply_errors(at);
            }
        }
        panic!("does not terminate");
    }
}

/// Chooses the attributes of the connection.
fn setup(bytes: &mut Bytes<'_>) -> Setup {
    let choice = bytes.byte();
    let reads = 1 + (choice >> 6);
    Setup {
        mtu: Mtu::ALL[usize::from(choice & 3) % 3],
        first_psn: bytes.number(1 << 19) & 0xff_ffff,
        max_rd_atomic: reads,
        max_dest_rd_atomic: reads,
        ack_timeout: 8 + (choice >> 2) % 8,
        retry_cnt: RETRY_CNT,
        flow: FlowLimit {
            bytes: 1 + u32::from(bytes.byte()) * 32,
            packets: 1 + u32::from(bytes.byte()) % 24,
        },
        slots: 1 << bytes.below(5),
        page_faults_per_mille: match bytes.below(4) {
            0 | 1 => 0,
            2 => 20,
            _ => 300,
        },
        super_packets: choice & 4 != 0,
        sparse_ack_requests: choice & 8 != 0,
        reorder_wait: (choice & 16 != 0).then_some(Duration::from_micros(50)),
        seed: u64::from(bytes.byte()),
        ..Setup::default()
    }
}
