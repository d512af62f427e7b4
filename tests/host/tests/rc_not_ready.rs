// SPDX-License-Identifier: GPL-2.0

//! Receives that are posted late: whatever was sent before, alone, in runs or by a visit, comes again from the
//! right packet on, and nothing but the pause that the peer has asked for is waited for. There is no time-out
//! and no retry that could make good for that.

use roce::{
    access::Access,
    segmentation::{
        mtu::Mtu,
        tx_desc::BurstLimit, //
    },
    status::WcStatus,
    wr::Imm, //
};
use roce_tests::{
    pair::{
        pattern,
        remote,
        Pair,
        Setup,
        A,
        B, //
    },
    random::Random,
};

/// A connection that may not lose anything, and waits for answers as long as it takes.
fn connect(random: &mut Random, seed: u64) -> Pair {
    Pair::new(Setup {
        mtu: Mtu::ALL[random.below(Mtu::ALL.len())],
        first_psn: 0xff_fff0,
        ack_timeout: 0,
        retry_cnt: 0,
        rnr_retry: 7,
        visits: [0, 500][random.below(2)],
        absent: [0, 100][random.below(2)],
        runs: random.below(4) != 0,
        sparing: random.below(2) != 0,
        burst: BurstLimit {
            bytes: 64 << 10,
            packets: [1, 3, 64][random.below(3)],
        },
        seed,
        ..Setup::default()
    })
}

/// Messages both ways, whose receives are posted now and then. Returns how often a peer was not ready.
fn run(seed: u64) -> u32 {
    let mut random = Random::new(seed);
    let mut pair = connect(&mut random, seed);
    let (size, access) = (64 << 10, Access::REMOTE_WRITE);
    let shared = [A, B].map(|at| {
        let va = pair.ends[at].memory.alloc(size);
        (va, pair.ends[at].memory.register(va, size, access))
    });
    let mut late = Vec::new();
    let mut places = [Vec::new(), Vec::new()];
    for number in 0..40 {
        let (from, bytes) = (random.below(2), pattern(number, random.below(20_000)));
        let (va, rkey) = shared[1 - from];
        let imm = Some(Imm((number as u32).to_be_bytes()));
        match random.below(3) {
            0 => drop(pair.write(from, remote(va, rkey), &bytes, None)),
            1 => {
                pair.write(from, remote(va, rkey), &bytes, imm);
                late.push((1 - from, Vec::new(), imm));
            }
            _ => {
                pair.send(from, &bytes, imm);
                late.push((1 - from, bytes, imm));
            }
        }
        for _ in 0..random.below(4) {
            pair.step();
        }
    }
    for (at, bytes, imm) in late {
        for _ in 0..random.below(30) {
            pair.step();
        }
        let (_, va) = pair.receive(at, bytes.len());
        places[at].push((va, bytes, imm));
    }
    pair.drive(20_000);
    for (end, places) in pair.ends.iter().zip(&places) {
        assert!(end.sent.iter().all(|sent| sent.status == WcStatus::Success));
        let found = end.received.iter().map(|(done, _)| done.imm);
        assert!(found.eq(places.iter().map(|(_, _, imm)| *imm)), "in order");
        for (va, bytes, _) in places {
            assert!(end.memory.get(*va, bytes.len()) == bytes);
        }
    }
    let sent: usize = pair.ends.iter().map(|end| end.sent.len()).sum();
    assert_eq!(sent, 40, "seed {seed}");
    let stats = [A, B].map(|at| pair.ends[at].requester.take_stats());
    for stats in stats {
        let naks = (stats.sequence_naks, stats.implied_naks, stats.timeouts);
        assert_eq!(naks, (0, 0, 0), "seed {seed}");
    }
    stats.iter().map(|stats| stats.rnr_naks).sum()
}

#[test]
fn who_was_not_ready_gets_everything_from_there_on() {
    let pauses: u32 = (0..300).map(run).sum();
    assert!(pauses > 1000, "{pauses}");
}
