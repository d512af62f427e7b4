// SPDX-License-Identifier: GPL-2.0

//! A connection determined by a seed: its attributes, the requests in both directions, and the
//! expected results.
//!
//! The expected results are plain copies of the bytes, recorded in posting order, without packets.

use crate::{
    net::Faults,
    pair::{
        pattern,
        remote,
        request,
        Pair,
        Setup,
        A,
        ALL_ACCESS,
        B, //
    },
    random::Random, //
};
use roce::{
    id::Rkey,
    rc::requester::FlowLimit,
    segmentation::{
        mtu::Mtu,
        tx_desc::BurstLimit, //
    },
    status::WcStatus,
    time::Duration,
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        LocalOp,
        Placement,
        SendOp,
        SendWr,
        WcOpcode, //
    }, //
};

mod work;

/// Size of the memory that each host shares with its peer.
const SHARED_BYTES: usize = 128 << 10;

/// Maximum length of a message in bytes.
const MAX_MESSAGE_LEN: usize = 96 << 10;

/// Maximum number of steps of a scenario.
const MAX_STEPS: usize = 400_000;

/// An expected message.
struct Message {
    opcode: WcOpcode,
    bytes: Vec<u8>,
    /// Whether the payload is placed in the receive.
    placed: bool,
    imm: Option<Imm>,
    invalidated: Option<Rkey>,
    solicited: bool,
}

/// Expected results of the requests of one host.
#[derive(Default)]
struct Expected {
    /// Completions of sends, in order.
    sent: Vec<(u64, WcOpcode)>,
    /// Number of WRs.
    posted: u64,
    /// Messages that consume a receive of the peer, in order.
    received: Vec<Message>,
    /// Address and contents of each READ buffer.
    read: Vec<(u64, Vec<u8>)>,
    /// Contents of the peer's shared memory.
    shared: Vec<u8>,
    /// Number of atomic operations and writes. Each is executed once.
    atomics: u64,
    /// Number of flushes.
    flushes: usize,
    /// Invalidated keys of the peer, in order.
    invalidated: Vec<Rkey>,
    /// Local operations, in order.
    local: Vec<LocalOp>,
}

/// Statistics of one or more scenarios.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Work requests.
    pub posted: u64,
    /// Retransmissions of everything in flight.
    pub retries: u64,
    /// ACK timeouts.
    pub timeouts: u64,
    /// PSN sequence error NAKs.
    pub sequence_naks: u64,
    /// Implied NAKs: responses that reveal a missing one.
    pub implied_naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Duplicate requests.
    pub duplicates: u64,
    /// Simulated time.
    pub nanos: u64,
}

impl Tally {
    /// Returns the sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            posted: self.posted + other.posted,
            retries: self.retries + other.retries,
            timeouts: self.timeouts + other.timeouts,
            sequence_naks: self.sequence_naks + other.sequence_naks,
            implied_naks: self.implied_naks + other.implied_naks,
            rnr_naks: self.rnr_naks + other.rnr_naks,
            duplicates: self.duplicates + other.duplicates,
            nanos: self.nanos + other.nanos,
        }
    }
}

/// A connection and its requests.
pub struct Scenario {
    random: Random,
    setup: Setup,
    pair: Pair,
    /// Address and key of the memory that each host shares.
    shared: [(u64, Rkey); 2],
    expected: [Expected; 2],
    /// Lengths of the receives not yet posted at each host.
    receives: [Vec<usize>; 2],
    /// Receives posted at each host: `wr_id` and address.
    posted: [Vec<(u64, u64)>; 2],
}

impl Scenario {
    /// Creates the scenario of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let setup = setup(&mut random, seed);
        let mut pair = Pair::new(setup);
        let shared = [A, B].map(|at| {
            let bytes = pattern(seed ^ at as u64, SHARED_BYTES);
            let va = pair.hosts[at].memory.store(&bytes);
            (
                va,
                pair.hosts[at].memory.register(va, SHARED_BYTES, ALL_ACCESS),
            )
        });
        let expected = [B, A].map(|peer| Expected {
            shared: pattern(seed ^ peer as u64, SHARED_BYTES),
            ..Expected::default()
        });
        let mut scenario = Self {
            random,
            setup,
            pair,
            shared,
            expected,
            receives: Default::default(),
            posted: Default::default(),
        };
        for from in [A, B] {
            for _ in 0..scenario.random.below(16) {
                scenario.choose(from);
            }
        }
        scenario
    }

    /// Prints all frames at the end, before the results are checked.
    #[must_use]
    pub fn traced(mut self) -> Self {
        eprintln!("{:#?}", self.setup);
        self.pair.record();
        self
    }

    /// Runs the scenario. Returns statistics.
    ///
    /// # Panics
    ///
    /// If a result differs from the expectation.
    pub fn run(mut self) -> Tally {
        for at in [A, B] {
            self.receives[at].reverse();
            for _ in 0..self.random.below(self.receives[at].len() + 1) {
                self.post_receive(at);
            }
        }
        let receive_interval = 1 + self.random.below(60);
        for step in 0.. {
            assert!(step < MAX_STEPS, "does not terminate");
            let busy = self.pair.step();
            if step % receive_interval == 0 || !busy {
                let receives_left = self.receives.iter().any(|receives| !receives.is_empty());
                if !busy && !receives_left {
                    break;
                }
                self.post_receive(A);
                self.post_receive(B);
            }
        }
        for sent in self.pair.net.log.iter().flatten() {
            eprintln!("{sent}");
        }
        for from in [A, B] {
            self.check(from);
        }
        self.tally()
    }

    /// Returns statistics.
    fn tally(&mut self) -> Tally {
        let mut tally = Tally {
            nanos: self.pair.now.as_nanos(),
            ..Tally::default()
        };
        for host in &mut self.pair.hosts {
            let (sent, received) = (host.requester.take_stats(), host.responder.take_stats());
            tally.posted += host.retired;
            tally.retries += u64::from(sent.retries);
            tally.timeouts += u64::from(sent.timeouts);
            tally.sequence_naks += u64::from(sent.sequence_naks);
            tally.implied_naks += u64::from(sent.implied_naks);
            tally.rnr_naks += u64::from(sent.rnr_naks);
            tally.duplicates += u64::from(received.duplicates);
        }
        tally
    }

    fn post_receive(&mut self, at: usize) {
        if let Some(len) = self.receives[at].pop() {
            // Sometimes longer than required.
            let len = len + self.random.below(3) * 7;
            let posted = self.pair.receive(at, len);
            self.posted[at].push(posted);
        }
    }

    /// Checks the results of the requests of `from`.
    fn check(&self, from: usize) {
        let expected = &self.expected[from];
        let (host, peer) = (&self.pair.hosts[from], &self.pair.hosts[1 - from]);
        assert_eq!(host.requester.error(), None);
        assert_eq!(peer.fatal, None);

        let sent: Vec<_> = host.sent.iter().map(|c| (c.wr_id, c.opcode)).collect();
        assert_eq!(sent, expected.sent, "completions of sends");
        assert!(host.sent.iter().all(|c| c.status == WcStatus::Success));
        assert_eq!(host.retired, expected.posted, "all requests are complete");

        assert_eq!(
            peer.received.len(),
            expected.received.len(),
            "messages received"
        );
        let posted = &self.posted[1 - from];
        for (message, (receive, actual)) in expected
            .received
            .iter()
            .zip(posted.iter().zip(&peer.received))
        {
            let (completion, solicited) = actual;
            let (wr_id, va) = *receive;
            let len = message.bytes.len();
            assert_eq!(completion.status, WcStatus::Success);
            assert_eq!(completion.wr_id, wr_id, "receives are used in order");
            assert_eq!(completion.opcode, message.opcode);
            assert_eq!(completion.byte_len as usize, len);
            assert_eq!(completion.imm, message.imm);
            assert_eq!(completion.invalidated, message.invalidated);
            assert_eq!(*solicited, message.solicited);
            assert!(!message.placed || peer.memory.get(va, len) == message.bytes);
        }

        let performed: Vec<_> = host.performed.iter().map(|(_, op)| *op).collect();
        assert_eq!(performed, expected.local, "each once, in order");
        assert_eq!(peer.atomics, expected.atomics, "each once");
        assert_eq!(peer.flushed.len(), expected.flushes, "each once");
        assert_eq!(peer.invalidated, expected.invalidated);

        for (va, bytes) in &expected.read {
            assert!(host.memory.get(*va, bytes.len()) == bytes, "bytes read");
        }
        let (va, _) = self.shared[1 - from];
        assert!(
            peer.memory.get(va, SHARED_BYTES) == expected.shared,
            "bytes written"
        );
    }
}

/// Chooses the attributes of the connection.
fn setup(random: &mut Random, seed: u64) -> Setup {
    let mtu = Mtu::ALL[random.below(Mtu::ALL.len())];
    let first_psn = match random.below(3) {
        0 => 0x100_0000 - 1 - random.below(40) as u32,
        1 => 0x80_0000 - 1 - random.below(40) as u32,
        _ => random.bits() as u32 & 0xff_ffff,
    };
    let reads = 1 + random.below(16) as u8;
    let clean = random.below(8) == 0;
    let mut rate = |max: usize| if clean { 0 } else { random.below(max + 1) };
    let faults = Faults {
        loss: rate(60),
        duplication: rate(100),
        corruption: rate(20),
        reordering: rate(200),
        delay: Duration::from_micros(rate(20) as u64),
        jitter: Duration::from_micros(1 + rate(300) as u64),
    };
    Setup {
        mtu,
        first_psn,
        max_rd_atomic: reads,
        max_dest_rd_atomic: reads,
        access: ALL_ACCESS,
        // Sometimes long enough for sparse ACK requests.
        ack_timeout: 5 + random.below(4) as u8 + if seed % 5 < 2 { 5 } else { 0 },
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 1 + random.below(8) as u8,
        flow: FlowLimit {
            bytes: 1 + random.below(32 << 10) as u32,
            packets: 1 + random.below(48) as u32,
        },
        slots: 1 << random.below(7),
        burst: BurstLimit {
            bytes: 1 + random.below(64 << 10) as u32,
            packets: 1 + random.below(64) as u32,
        },
        super_packets: seed % 2 == 0,
        sparse_ack_requests: seed % 5 < 2,
        reorder_wait: (seed % 7 < 3).then(|| Duration::from_micros(1 + seed % 600)),
        loopback_per_mille: match seed % 3 {
            0 => 0,
            1 => 200,
            _ => 950,
        },
        page_faults_per_mille: match seed % 4 {
            0 | 1 => 0,
            2 => 20,
            _ => 300,
        },
        faults,
        seed,
    }
}
