// SPDX-License-Identifier: GPL-2.0

//! Two connected RC QPs, their hosts, the network and the clock.
//!
//! [`Pair::step`] advances to the next event and checks the invariants. The hosts are in
//! [`host`](crate::host).

use crate::{
    host::Host,
    net::{
        Faults,
        Net, //
    },
    random::Random, //
};
use roce::{
    access::Access,
    id::{
        Rkey,
        Srqn, //
    },
    psn::Psn,
    rc::requester::{
        FlowLimit,
        RequestBurst, //
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

/// Index of the first host of a pair.
pub const A: usize = 0;

/// Index of the second host.
pub const B: usize = 1;

/// All access rights of a peer.
pub const ALL_ACCESS: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT);

/// Attributes of a connection, in both directions.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Path MTU.
    pub mtu: Mtu,
    /// PSN of the first request of A. B starts half of the PSN space later.
    pub first_psn: u32,
    /// READs and atomics outstanding at the requester.
    pub max_rd_atomic: u8,
    /// READs and atomics that the responder can hold.
    pub max_dest_rd_atomic: u8,
    /// Access that the QP grants the peer.
    pub access: Access,
    /// Local ACK timeout, a code.
    pub ack_timeout: u8,
    /// Retries.
    pub retry_cnt: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// RNR NAK timer, a code.
    pub min_rnr_timer: u8,
    /// Flow limit.
    pub flow: FlowLimit,
    /// Slots of each send queue.
    pub slots: usize,
    /// Burst limit.
    pub burst: BurstLimit,
    /// Page faults in 1000 accesses.
    pub page_faults_per_mille: usize,
    /// Loopback passes in 1000 opportunities.
    pub loopback_per_mille: usize,
    /// Whether super-packets are sent and received.
    pub super_packets: bool,
    /// Whether ACKs are requested only when needed.
    pub sparse_ack_requests: bool,
    /// Time that early packets wait for earlier ones; `None`: these count as lost.
    pub reorder_wait: Option<Duration>,
    /// Faults of the network.
    pub faults: Faults,
    /// Seed of the random generators.
    pub seed: u64,
}

impl Setup {
    /// Configures `burst` for the network.
    pub(crate) fn configure<'a, S>(&self, burst: RequestBurst<'a, S>) -> RequestBurst<'a, S> {
        let burst = match self.super_packets {
            true => burst.for_super_packets(),
            false => burst,
        };
        burst.sparse_ack_requests(self.sparse_ack_requests)
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mtu: Mtu::Mtu1024,
            first_psn: 0x10,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            access: ALL_ACCESS,
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
            page_faults_per_mille: 0,
            loopback_per_mille: 0,
            super_packets: true,
            sparse_ack_requests: true,
            reorder_wait: None,
            faults: Faults {
                delay: Duration::from_micros(5),
                ..Faults::default()
            },
            seed: 1,
        }
    }
}

/// A pair of connected QPs.
pub struct Pair {
    /// The clock.
    pub now: Instant,
    /// The network.
    pub net: Net,
    /// The hosts.
    pub hosts: [Host; 2],
    setup: Setup,
    next_wr: u64,
    random: Random,
}

impl Pair {
    /// Connects two QPs and moves both to RTS.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let first = Psn::new(setup.first_psn);
        let other = first.add(1 << 23);
        Self {
            now: Instant::from_nanos(1_000_000),
            net: Net::new(setup.seed, setup.faults),
            hosts: [
                Host::new(&setup, A, first, other),
                Host::new(&setup, B, other, first),
            ],
            setup,
            next_wr: 1,
            random: Random::new(setup.seed ^ 0x715),
        }
    }

    /// Logs all frames from now on.
    pub fn record(&mut self) {
        self.net.log = Some(Vec::new());
    }

    // Requests. Each function returns the `wr_id`.

    /// Posts `wr` at host `from` with a new `wr_id`. Its payload is at `local`, or inaccessible.
    pub fn post(&mut self, from: usize, wr: SendWr, local: Option<u64>) -> u64 {
        let wr_id = self.new_wr_id();
        self.hosts[from].post(SendWr { wr_id, ..wr }, local);
        wr_id
    }

    /// Posts a SEND of `bytes`.
    pub fn send(&mut self, from: usize, bytes: &[u8], imm: Option<Imm>) -> u64 {
        let local = self.hosts[from].memory.store(bytes);
        let wr = request(SendOp::Send { imm }, bytes.len());
        self.post(from, wr, Some(local))
    }

    /// Posts an RDMA WRITE of `bytes`.
    pub fn write(&mut self, from: usize, to: Remote, bytes: &[u8], imm: Option<Imm>) -> u64 {
        let local = self.hosts[from].memory.store(bytes);
        let wr = request(SendOp::Write { remote: to, imm }, bytes.len());
        self.post(from, wr, Some(local))
    }

    /// Posts an RDMA READ of `len` bytes. Also returns the address of the local buffer.
    pub fn read(&mut self, from: usize, remote: Remote, len: usize) -> (u64, u64) {
        let local = self.hosts[from].memory.alloc(len);
        let wr = request(SendOp::Read { remote }, len);
        (self.post(from, wr, Some(local)), local)
    }

    /// Posts a receive of `len` bytes. Also returns the address of the buffer.
    pub fn receive(&mut self, at: usize, len: usize) -> (u64, u64) {
        let wr_id = self.new_wr_id();
        let va = self.hosts[at].memory.alloc(len);
        self.hosts[at].post_receive(wr_id, va, len, None);
        (wr_id, va)
    }

    fn new_wr_id(&mut self) -> u64 {
        self.next_wr += 1;
        self.next_wr
    }

    // Time.

    /// Runs both hosts, advances the clock to the next event and handles it. Returns `false` if
    /// there is no further event.
    pub fn step(&mut self) -> bool {
        self.settle();
        let timers = self.hosts.iter().filter_map(Host::next_timer);
        let Some(next) = timers.chain(self.net.next_arrival()).min() else {
            return false;
        };
        // A timer that is already due fires now. The clock never goes backwards.
        self.now = self.now.max(next);
        let mut arrived = [const { Vec::new() }; 2];
        while let Some((to, frame)) = self.net.arrive(self.now) {
            arrived[to].push(frame);
        }
        for (host, frames) in self.hosts.iter_mut().zip(&arrived) {
            host.deliver(self.now, frames);
        }
        for host in &mut self.hosts {
            host.handle_timers(self.now);
        }
        self.settle();
        true
    }

    /// Runs both hosts until neither has work at the current time.
    pub fn settle(&mut self) {
        let has_work = |host: &Host| host.responder.has_work();
        while self.settle_host(A) | self.settle_host(B) || self.hosts.iter().any(has_work) {}
    }

    /// Runs host `from` until it has no work. Returns whether it had any.
    fn settle_host(&mut self, from: usize) -> bool {
        let mut busy = false;
        loop {
            let retired = self.hosts[from].retired;
            self.loopback_pass(from);
            let frames = self.hosts[from].run_engines(self.now, self.setup.burst);
            self.hosts[from].check();
            // Completed requests free slots for others.
            if frames.is_empty() && self.hosts[from].retired == retired {
                return busy;
            }
            busy = true;
            for frame in frames {
                self.net.send(self.now, from, frame);
            }
        }
    }

    /// Performs a loopback pass with the configured probability, if possible.
    fn loopback_pass(&mut self, from: usize) {
        let [a, b] = &mut self.hosts;
        let (from, to) = if from == A { (a, b) } else { (b, a) };
        let loopback_per_mille = self.setup.loopback_per_mille;
        if loopback_per_mille != 0
            && from.can_use_loopback(to)
            && self.random.below(1000) < loopback_per_mille
        {
            from.loopback_pass(self.now, self.setup.burst, to);
            from.check();
            to.check();
        }
    }

    /// Runs until there is no further event.
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

    /// Runs until there is no further event, or until `deadline`.
    pub fn drive_until(&mut self, deadline: Instant) {
        while self.now.is_before(deadline) && self.step() {}
    }
}

/// Returns a signaled WR without `wr_id`.
#[must_use]
pub fn request(op: SendOp, len: usize) -> SendWr {
    SendWr {
        wr_id: 0,
        op,
        length: u32::try_from(len).expect("a message of at most 4 GiB"),
        srqn: Srqn::default(),
        signaled: true,
        solicited: false,
        fence: false,
    }
}

/// Returns an address in the peer's memory.
#[must_use]
pub const fn remote(va: u64, rkey: Rkey) -> Remote {
    Remote { va, rkey }
}

/// Returns `len` pseudo-random bytes, determined by `tag`.
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
