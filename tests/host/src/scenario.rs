// SPDX-License-Identifier: GPL-2.0

//! A whole connection from one number: what it is like, what is sent both ways, and what must
//! have become of it in the end.
//!
//! Owns the choice and the expectation. The expectation is kept in plain copies of the bytes,
//! made in the order of posting, and knows nothing of packets.

use crate::{
    net::Faults,
    pair::{
        pattern,
        remote,
        request,
        Pair,
        Setup,
        A,
        B,
        EVERYTHING, //
    },
    random::Random,
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

/// Size of the memory that a host lets the other write and read.
const SHARED: usize = 128 << 10;

/// Longest message of a scenario, in bytes.
const LONGEST: usize = 96 << 10;

/// Most steps that a scenario may take.
const STEPS: usize = 400_000;

/// A message that is to be received.
struct Message {
    opcode: WcOpcode,
    bytes: Vec<u8>,
    /// Whether the bytes go to the receive, and not elsewhere.
    placed: bool,
    imm: Option<Imm>,
    invalidated: Option<Rkey>,
    solicited: bool,
}

/// What must become of what one host sends.
#[derive(Default)]
struct Expected {
    /// Completions, in order.
    sent: Vec<(u64, WcOpcode)>,
    /// Work requests in all.
    posted: u64,
    /// Messages that use up a receive of the peer, in order.
    received: Vec<Message>,
    /// Where bytes were read to, and what they are.
    read: Vec<(u64, Vec<u8>)>,
    /// The peer's memory.
    shared: Vec<u8>,
    /// Atomic operations and writes, in all: each changes memory once.
    atomics: u64,
    /// Flushes, in all.
    flushes: usize,
    /// Keys of the peer that are taken back, in order.
    invalidated: Vec<Rkey>,
    /// Requests that take no packet, in order.
    local: Vec<LocalOp>,
}

/// What happened in a scenario, or in many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Work requests.
    pub posted: u64,
    /// Times everything in flight was sent again.
    pub retries: u64,
    /// Times nothing was answered.
    pub timeouts: u64,
    /// Reports of a missing request.
    pub sequence_naks: u64,
    /// Responses that showed that one is missing.
    pub implied_naks: u64,
    /// Refusals for want of a receive.
    pub rnr_naks: u64,
    /// Requests that came again.
    pub duplicates: u64,
    /// Time that passed on the clock of the scenario.
    pub nanos: u64,
}

impl Tally {
    /// Returns the sum of both.
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

/// One connection.
pub struct Scenario {
    random: Random,
    setup: Setup,
    pair: Pair,
    /// Address and key of the memory that each host shares.
    shared: [(u64, Rkey); 2],
    expected: [Expected; 2],
    /// Receives still to be posted at each host.
    receives: [Vec<usize>; 2],
    /// Receives posted at each host: number and address.
    posted: [Vec<(u64, u64)>; 2],
}

impl Scenario {
    /// Makes the scenario of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let setup = setup(&mut random, seed);
        let mut pair = Pair::new(setup);
        let shared = [A, B].map(|at| {
            let bytes = pattern(seed ^ at as u64, SHARED);
            let va = pair.ends[at].memory.store(&bytes);
            (va, pair.ends[at].memory.register(va, SHARED, EVERYTHING))
        });
        let expected = [B, A].map(|peer| Expected {
            shared: pattern(seed ^ peer as u64, SHARED),
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

    /// Prints every frame in the end, before it is checked what became of it.
    #[must_use]
    pub fn traced(mut self) -> Self {
        eprintln!("{:#?}", self.setup);
        self.pair.record();
        self
    }

    /// Lets it happen. Returns what it took.
    ///
    /// # Panics
    ///
    /// If anything is not as it must be.
    pub fn run(mut self) -> Tally {
        for at in [A, B] {
            self.receives[at].reverse();
            for _ in 0..self.random.below(self.receives[at].len() + 1) {
                self.post_receive(at);
            }
        }
        let pace = 1 + self.random.below(60);
        for step in 0.. {
            assert!(step < STEPS, "never comes to an end");
            let busy = self.pair.step();
            if step % pace == 0 || !busy {
                let missing = self.receives.iter().any(|receives| !receives.is_empty());
                if !busy && !missing {
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

    /// Counts what it took.
    fn tally(&mut self) -> Tally {
        let mut tally = Tally {
            nanos: self.pair.now.as_nanos(),
            ..Tally::default()
        };
        for end in &mut self.pair.ends {
            let (sent, received) = (end.requester.take_stats(), end.responder.take_stats());
            tally.posted += end.retired;
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
            // Longer than need be, sometimes.
            let len = len + self.random.below(3) * 7;
            let posted = self.pair.receive(at, len);
            self.posted[at].push(posted);
        }
    }

    /// Checks what became of all that `from` sent.
    fn check(&self, from: usize) {
        let expected = &self.expected[from];
        let (end, peer) = (&self.pair.ends[from], &self.pair.ends[1 - from]);
        assert_eq!(end.requester.error(), None);
        assert_eq!(peer.fatal, None);

        let sent: Vec<_> = end.sent.iter().map(|c| (c.wr_id, c.opcode)).collect();
        assert_eq!(sent, expected.sent, "completions of what was sent");
        assert!(end.sent.iter().all(|c| c.status == WcStatus::Success));
        assert_eq!(end.retired, expected.posted, "all requests are done with");

        assert_eq!(
            peer.received.len(),
            expected.received.len(),
            "messages received"
        );
        let posted = &self.posted[1 - from];
        for (message, (receive, got)) in expected
            .received
            .iter()
            .zip(posted.iter().zip(&peer.received))
        {
            let (completion, solicited) = got;
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

        let performed: Vec<_> = end.performed.iter().map(|(_, op)| *op).collect();
        assert_eq!(performed, expected.local, "each once, in order");
        assert_eq!(peer.atomics, expected.atomics, "each once");
        assert_eq!(peer.flushed.len(), expected.flushes, "each once");
        assert_eq!(peer.invalidated, expected.invalidated);

        for (va, bytes) in &expected.read {
            assert!(end.memory.get(*va, bytes.len()) == bytes, "bytes read");
        }
        let (va, _) = self.shared[1 - from];
        assert!(
            peer.memory.get(va, SHARED) == expected.shared,
            "bytes written"
        );
    }
}

/// Chooses what the connection is like.
fn setup(random: &mut Random, seed: u64) -> Setup {
    let mtu = Mtu::ALL[random.below(Mtu::ALL.len())];
    let first_psn = match random.below(3) {
        0 => 0x100_0000 - 1 - random.below(40) as u32,
        1 => 0x80_0000 - 1 - random.below(40) as u32,
        _ => random.bits() as u32 & 0xff_ffff,
    };
    let reads = 1 + random.below(16) as u8;
    let clean = random.below(8) == 0;
    let mut rate = |most: usize| if clean { 0 } else { random.below(most + 1) };
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
        access: EVERYTHING,
        // Enough time, now and then, to spare questions.
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
        runs: seed % 2 == 0,
        sparing: seed % 5 < 2,
        visits: match seed % 3 {
            0 => 0,
            1 => 200,
            _ => 950,
        },
        absent: match seed % 4 {
            0 | 1 => 0,
            2 => 20,
            _ => 300,
        },
        faults,
        seed,
    }
}
