// SPDX-License-Identifier: GPL-2.0

//! Two connected QPs, two hosts around them, one clock.
//!
//! Owns the passing of time: [`Pair::step`] goes to the next moment at which anything happens.
//! Does what a driver does, in the plainest way, and checks at each step what must always hold.
//! The hosts themselves are in [`end`](crate::end).

use crate::{
    end::End,
    net::{
        Faults,
        Net, //
    },
    random::Random,
};
use roce::{
    access::Access,
    id::Rkey,
    psn::Psn,
    rc::requester::{
        FlowLimit, //
        RequestBurst,
    },
    segmentation::{
        mtu::Mtu,
        tx_desc::BurstLimit, //
    },
    time::{
        Duration,
        Instant, //
    },
    wr::{
        Imm,
        Remote,
        SendOp,
        SendWr, //
    }, //
};

/// One host of a pair.
pub const A: usize = 0;

/// The other.
pub const B: usize = 1;

/// Every right that a peer can have.
pub const EVERYTHING: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT);

/// What a connection is like, both ways.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Path MTU.
    pub mtu: Mtu,
    /// PSN of the first request of A; B starts half a circle further on.
    pub first_psn: u32,
    /// READs at a time, as the requester is told.
    pub max_rd_atomic: u8,
    /// READs at a time, as the responder has room for.
    pub max_dest_rd_atomic: u8,
    /// What the peer may do to memory at all.
    pub access: Access,
    /// Local ACK timeout, a code.
    pub ack_timeout: u8,
    /// Retries.
    pub retry_cnt: u8,
    /// Retries if the peer is not ready.
    pub rnr_retry: u8,
    /// Pause if not ready, a code.
    pub min_rnr_timer: u8,
    /// What may be in flight.
    pub flow: FlowLimit,
    /// Slots of each send ring.
    pub slots: usize,
    /// What one burst may hold.
    pub burst: BurstLimit,
    /// How often an access finds that memory is absent, in 1000.
    pub absent: usize,
    /// How often a host hands its packets to the other without a network, in 1000 times that it may.
    pub visits: usize,
    /// Whether packets of one message are sent and taken in runs.
    pub runs: bool,
    /// Whether acknowledgements are asked for only where they are waited for.
    pub sparing: bool,
    /// The network.
    pub faults: Faults,
    /// Where its chances come from.
    pub seed: u64,
}

impl Setup {
    /// Returns `burst` as it goes by a network.
    pub(crate) fn applied_to<'a, S>(&self, burst: RequestBurst<'a, S>) -> RequestBurst<'a, S> {
        let burst = match self.runs {
            true => burst.for_gso(),
            false => burst,
        };
        burst.sparse_ack_requests(self.sparing)
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mtu: Mtu::Mtu1024,
            first_psn: 0x10,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            access: EVERYTHING,
            ack_timeout: 8, // about a millisecond
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            flow: FlowLimit {
                bytes: 256 << 10,
                packets: 256,
            },
            slots: 64,
            burst: BurstLimit {
                bytes: 64 << 10,
                packets: 64,
            },
            absent: 0,
            visits: 0,
            runs: true,
            sparing: true,
            faults: Faults {
                delay: Duration::from_micros(5),
                ..Faults::default()
            },
            seed: 1,
        }
    }
}

/// Two connected QPs.
pub struct Pair {
    /// The time.
    pub now: Instant,
    /// The network.
    pub net: Net,
    /// The hosts.
    pub ends: [End; 2],
    setup: Setup,
    next_wr: u64,
    chances: Random,
}

impl Pair {
    /// Connects two QPs and takes both to RTS.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let first = Psn::new(setup.first_psn);
        let other = first.add(1 << 23);
        Self {
            now: Instant::from_nanos(1_000_000),
            net: Net::new(setup.seed, setup.faults),
            ends: [
                End::new(&setup, A, first, other),
                End::new(&setup, B, other, first),
            ],
            setup,
            next_wr: 1,
            chances: Random::new(setup.seed ^ 0x715),
        }
    }

    /// Keeps a log of all frames from now on.
    pub fn record(&mut self) {
        self.net.log = Some(Vec::new());
    }

    // Work. Each returns the number of the work request.

    /// Posts `wr` at `from`; its bytes are at `local`, or cannot be had. Gives it a number.
    pub fn post(&mut self, from: usize, wr: SendWr, local: Option<u64>) -> u64 {
        let wr_id = self.number();
        self.ends[from].post(SendWr { wr_id, ..wr }, local);
        wr_id
    }

    /// Posts a SEND of `bytes`.
    pub fn send(&mut self, from: usize, bytes: &[u8], imm: Option<Imm>) -> u64 {
        let local = self.ends[from].memory.store(bytes);
        let wr = request(SendOp::Send { imm }, bytes.len());
        self.post(from, wr, Some(local))
    }

    /// Posts an RDMA WRITE of `bytes`.
    pub fn write(&mut self, from: usize, to: Remote, bytes: &[u8], imm: Option<Imm>) -> u64 {
        let local = self.ends[from].memory.store(bytes);
        let wr = request(SendOp::Write { remote: to, imm }, bytes.len());
        self.post(from, wr, Some(local))
    }

    /// Posts an RDMA READ of `len` bytes. Returns where they go, too.
    pub fn read(&mut self, from: usize, remote: Remote, len: usize) -> (u64, u64) {
        let local = self.ends[from].memory.alloc(len);
        let wr = request(SendOp::Read { remote }, len);
        (self.post(from, wr, Some(local)), local)
    }

    /// Posts a receive of `len` bytes. Returns where they go, too.
    pub fn receive(&mut self, at: usize, len: usize) -> (u64, u64) {
        let wr_id = self.number();
        let va = self.ends[at].memory.alloc(len);
        self.ends[at].post_receive(wr_id, va, len, None);
        (wr_id, va)
    }

    fn number(&mut self) -> u64 {
        self.next_wr += 1;
        self.next_wr
    }

    // Time.

    /// Lets everything happen that can happen now, then goes to the next moment at which
    /// something will. Returns `false` if nothing ever will.
    pub fn step(&mut self) -> bool {
        self.settle();
        let timers = self
            .ends
            .iter()
            .filter_map(|end| end.requester.poll_timeout());
        let Some(next) = timers.chain(self.net.next_arrival()).min() else {
            return false;
        };
        // A timer that is due already fires now; time never goes back.
        self.now = self.now.max(next);
        let mut arrived = [const { Vec::new() }; 2];
        while let Some((to, frame)) = self.net.arrive(self.now) {
            arrived[to].push(frame);
        }
        for (end, frames) in self.ends.iter_mut().zip(&arrived) {
            end.deliver(self.now, frames);
        }
        for end in &mut self.ends {
            end.requester.handle_timeout(self.now);
        }
        self.settle();
        true
    }

    /// Sends and reports until neither end has anything to do at this moment.
    pub fn settle(&mut self) {
        let left = |end: &End| end.responder.has_work();
        while self.settle_end(A) | self.settle_end(B) || self.ends.iter().any(left) {}
    }

    /// Sends and reports until that host has nothing to do. Returns whether it had.
    fn settle_end(&mut self, from: usize) -> bool {
        let mut busy = false;
        loop {
            let retired = self.ends[from].retired;
            self.visit(from);
            let frames = self.ends[from].turn(self.now, self.setup.burst);
            self.ends[from].check();
            // What is done with has made room for more.
            if frames.is_empty() && self.ends[from].retired == retired {
                return busy;
            }
            busy = true;
            for frame in frames {
                self.net.send(self.now, from, frame);
            }
        }
    }

    /// Lets a host visit the other now and then, if it may.
    fn visit(&mut self, from: usize) {
        let [a, b] = &mut self.ends;
        let (from, to) = if from == A { (a, b) } else { (b, a) };
        let visits = self.setup.visits;
        if visits != 0 && from.may_visit(to) && self.chances.below(1000) < visits {
            from.visit(self.now, self.setup.burst, to);
            from.check();
            to.check();
        }
    }

    /// Goes on until nothing happens any more.
    ///
    /// # Panics
    ///
    /// If that takes more than `steps` steps.
    pub fn drive(&mut self, steps: usize) {
        for _ in 0..steps {
            if !self.step() {
                return;
            }
        }
        panic!("still busy after {steps} steps, at {:?}", self.now);
    }

    /// Goes on until nothing happens any more, or until `end`.
    pub fn drive_until(&mut self, end: Instant) {
        while self.now.is_before(end) && self.step() {}
    }
}

/// Returns a signaled work request without a number.
#[must_use]
pub fn request(op: SendOp, len: usize) -> SendWr {
    SendWr {
        wr_id: 0,
        op,
        length: u32::try_from(len).expect("a message of at most 4 GiB"),
        signaled: true,
        solicited: false,
        fence: false,
    }
}

/// Returns a place in a peer's memory.
#[must_use]
pub const fn remote(va: u64, rkey: Rkey) -> Remote {
    Remote { va, rkey }
}

/// Returns `len` bytes that are unlike those of another `tag` or place.
#[must_use]
pub fn pattern(tag: u64, len: usize) -> Vec<u8> {
    let mut random = crate::random::Random::new(tag ^ 0x5eed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.bits().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
