// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: two hosts, a network that does what the fuzzer likes, and work of every kind. In the end the
//! network is as it should be; then all must have been done exactly once, in order, with the right bytes and
//! statuses.
//!
//! Owns the hosts, the frames between them and the clock. What is asked for is chosen in `work`, what must
//! become of it is told by `model`. The states of the QPs are changed by [`states`](super::states).

use super::bytes::Bytes;
use crate::{
    end::End,
    pair::{
        pattern,
        Setup,
        A,
        B,
        EVERYTHING, //
    },
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

/// Memory that a host lets the other write and read, in bytes.
const SHARED: usize = 4096;

/// Work requests that a host is given at most.
const MOST: usize = 48;

/// Steps until all is done, once the network is as it should be.
const STEPS: usize = 20_000;

/// How often a requester tries again.
const RETRIES: u8 = 7;

/// When all begins.
const START: Instant = Instant::from_nanos(1_000_000);

/// Two hosts and what is between them.
pub(super) struct World<'a> {
    pub(super) bytes: Bytes<'a>,
    setup: Setup,
    now: Instant,
    pub(super) ends: [End; 2],
    pub(super) states: [QpState; 2],
    /// What each host asks the other for.
    pub(super) sides: [Side; 2],
    /// Frames on their way to each host.
    wires: [VecDeque<Vec<u8>>; 2],
    /// Address and key of the memory that each host shares.
    shared: [(u64, Rkey); 2],
    /// How often the network, or the clock, gave a requester a reason to try again.
    harm: u32,
    /// One end forgot what the other knows: nobody can tell any more what becomes of the messages.
    pub(super) torn: bool,
    next_wr: u64,
}

/// Makes two hosts do what `data` says.
///
/// # Panics
///
/// If a promise is broken.
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
    /// Makes two hosts whose QPs are as created.
    pub(super) fn new(mut bytes: Bytes<'a>) -> Self {
        let setup = setup(&mut bytes);
        let mut ends = [A, B].map(|at| End::new(&setup, at, Psn::new(0), Psn::new(0)));
        let shared = [A, B].map(|at| {
            let memory = &mut ends[at].memory;
            let va = memory.store(&pattern(at as u64, SHARED));
            (va, memory.register(va, SHARED, EVERYTHING))
        });
        let mut world = Self {
            bytes,
            setup,
            now: START,
            ends,
            states: [QpState::Rts; 2],
            sides: [A, B].map(|_| Side::default()),
            wires: Default::default(),
            shared,
            harm: 0,
            torn: false,
            next_wr: 0,
        };
        for at in [A, B] {
            world.modify(at, QpState::Reset);
        }
        world
    }

    /// Does one thing, chosen by `kind`, which is below 16.
    pub(super) fn act(&mut self, kind: usize) {
        match kind {
            0..=3 => self.ask(),
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
                self.turn(from, limit);
            }
            8..=11 => self.deliver(),
            12 => self.wait(),
            13 => {
                let from = self.bytes.below(2);
                self.visit(from);
            }
            14 => drop(self.exchange()),
            _ => self.spoil(),
        }
        self.check();
    }

    // The network.

    /// Lets a host send.
    fn turn(&mut self, from: usize, limit: BurstLimit) -> bool {
        let quiet = self.may_not_send(from);
        let frames = self.ends[from].turn(self.now, limit);
        for frame in &frames {
            let packet = Packet::parse(frame, frame.len() + 4).expect("a packet");
            if packet.opcode().is_request() {
                assert!(!quiet, "a request in {:?}", self.states[from]);
            } else {
                assert!(self.states[from] != QpState::Reset && self.states[from] != QpState::Init);
            }
        }
        let sent = !frames.is_empty();
        self.wires[1 - from].extend(frames);
        self.follow(from);
        sent
    }

    /// Returns whether no request may leave that host.
    fn may_not_send(&self, from: usize) -> bool {
        match self.states[from] {
            QpState::Rts => false,
            QpState::Sqd => self.ends[from].requester.is_drained(),
            _ => true,
        }
    }

    /// Decides about the frames on one way.
    fn deliver(&mut self) {
        let choice = self.bytes.byte();
        let to = usize::from(choice & 1);
        let many = 1 + usize::from(choice >> 4);
        let wire = &mut self.wires[to];
        let Some(first) = wire.pop_front() else {
            return;
        };
        let kind = (choice >> 1) & 7;
        if kind > 3 {
            self.harm += 1;
        }
        match kind {
            0..=3 => {
                wire.push_front(first);
                self.arrive(to, many);
            }
            4 => {
                wire.push_back(first.clone());
                wire.push_front(first);
                self.arrive(to, 1);
            }
            // A frame with a bit that is not as it was sent goes the same way: its ICRC is wrong.
            5 => drop(first),
            6 => wire.push_back(first),
            _ => {
                let other = many.min(wire.len());
                wire.insert(other, first);
            }
        }
    }

    /// Takes the next `many` frames in.
    fn arrive(&mut self, to: usize, many: usize) {
        let many = many.min(self.wires[to].len());
        let frames: Vec<_> = self.wires[to].drain(..many).collect();
        if !self.listens(to) {
            self.harm += 1;
        }
        self.ends[to].deliver(self.now, &frames);
        self.follow(to);
    }

    /// Returns whether requests are carried out there.
    fn listens(&self, at: usize) -> bool {
        matches!(self.states[at], QpState::Rtr | QpState::Rts | QpState::Sqd)
    }

    /// Lets time pass, whatever is still on its way.
    fn wait(&mut self) {
        let choice = self.bytes.byte();
        self.harm += 1;
        let deadline = self.ends[usize::from(choice & 1)].requester.poll_timeout();
        if let (Some(deadline), true) = (deadline, choice & 2 != 0) {
            self.now = self.now.max(deadline);
        } else {
            let nanos = u64::from(self.bytes.number(1 << 16));
            self.now = self.now.saturating_add(Duration::from_nanos(nanos));
        }
        for at in [A, B] {
            if choice & (4 << at) != 0 {
                self.ends[at].requester.handle_timeout(self.now);
                self.follow(at);
            }
        }
    }

    /// Hands packets over without a network, if no frame of before can come between.
    fn visit(&mut self, from: usize) {
        let [a, b] = &mut self.ends;
        let (end, peer) = if from == A { (a, b) } else { (b, a) };
        let able = self.states[from] == QpState::Rts && self.states[1 - from] == QpState::Rts;
        if able && end.may_visit(peer) {
            end.visit(self.now, self.setup.burst, peer);
            self.follow(A);
            self.follow(B);
        }
    }

    /// Lets both send all that they have, and lets it all arrive. Returns whether there was anything.
    fn exchange(&mut self) -> bool {
        let mut busy = false;
        for from in [A, B] {
            let retired = self.ends[from].retired;
            while self.turn(from, self.setup.burst) {
                busy = true;
            }
            busy |= self.ends[from].retired != retired;
            while !self.wires[1 - from].is_empty() {
                self.arrive(1 - from, 16);
                busy = true;
            }
        }
        busy
    }

    // The states.

    /// Takes a QP to another state, if it may go there. Returns whether it may.
    pub(super) fn modify(&mut self, at: usize, next: QpState) -> bool {
        let Some(transition) = self.states[at].to(next) else {
            return false;
        };
        self.states[at] = next;
        let first = Psn::new(self.setup.first_psn);
        let psns = [(first, first.add(1 << 23)), (first.add(1 << 23), first)];
        self.ends[at].modify(transition, at, psns[at]);
        self.follow(at);
        true
    }

    /// Takes the QP to the error state if one of its halves is there, and flushes what was posted since.
    fn follow(&mut self, at: usize) {
        let end = &mut self.ends[at];
        let failed = end.requester.error().is_some() || end.fatal.is_some();
        if failed && self.states[at] != QpState::Err {
            self.states[at] = QpState::Err;
            end.requester.fail();
            end.flush_receives();
        } else if self.states[at] == QpState::Err {
            end.flush_receives();
        }
    }

    /// Begins a new connection: neither QP knows anything of the one before, nor is anything on its way.
    pub(super) fn begin_again(&mut self) {
        self.wires = Default::default();
        for at in [A, B] {
            let (va, _) = self.shared[at];
            let end = &mut self.ends[at];
            end.memory.put(va, &pattern(at as u64, SHARED));
            end.performed.clear();
            end.flushed.clear();
            end.invalidated.clear();
            end.atomics = 0;
            self.sides[at].revoked = Default::default();
        }
        self.harm = 0;
        self.torn = false;
    }

    /// Checks what must hold at any time.
    pub(super) fn check(&self) {
        // To a peer that seems to be far away, more may be in flight.
        let flow = self.setup.flow;
        let factor = self.now.saturating_since(START).as_nanos() / 1_000_000;
        let factor = factor.clamp(1, 4) as u32;
        let widest = FlowLimit {
            bytes: flow.bytes * factor,
            packets: flow.packets * factor,
        };
        for at in [A, B] {
            self.ends[at].check_within(widest);
            self.check_reports(at);
        }
    }

    // The end.

    /// Plays a network without faults until all is done, and checks what has become of it.
    pub(super) fn finish(&mut self) {
        for at in [A, B] {
            if self.states[at] != QpState::Reset {
                for _ in 0..self.wanted_receives(at) {
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
                while self.turn(at, self.setup.burst) {}
                self.check_reports(at);
                self.check_flushed(at);
            }
            self.modify(at, QpState::Reset);
            self.check_silent(at);
        }
    }

    /// Goes on until nothing happens any more.
    pub(super) fn settle(&mut self) {
        for _ in 0..STEPS {
            // A turn that sends nothing may leave something to be sent, as where memory was absent.
            let busy = self.exchange();
            if busy || self.ends.iter().any(|end| end.requester.has_work()) {
                self.check();
                continue;
            }
            let timers = self
                .ends
                .iter()
                .filter_map(|end| end.requester.poll_timeout());
            let Some(next) = timers.min() else {
                return;
            };
            self.now = self.now.max(next);
            for at in [A, B] {
                self.ends[at].requester.handle_timeout(self.now);
                self.follow(at);
            }
        }
        panic!("never comes to an end");
    }
}

/// Chooses what the connection is like.
fn setup(bytes: &mut Bytes<'_>) -> Setup {
    let choice = bytes.byte();
    let reads = 1 + (choice >> 6);
    Setup {
        mtu: Mtu::ALL[usize::from(choice & 3) % 3],
        first_psn: bytes.number(1 << 19) & 0xff_ffff,
        max_rd_atomic: reads,
        max_dest_rd_atomic: reads,
        ack_timeout: 8 + (choice >> 2) % 8,
        retry_cnt: RETRIES,
        flow: FlowLimit {
            bytes: 1 + u32::from(bytes.byte()) * 32,
            packets: 1 + u32::from(bytes.byte()) % 24,
        },
        slots: 1 << bytes.below(5),
        absent: match bytes.below(4) {
            0 | 1 => 0,
            2 => 20,
            _ => 300,
        },
        runs: choice & 4 != 0,
        sparing: choice & 8 != 0,
        seed: u64::from(bytes.byte()),
        ..Setup::default()
    }
}
