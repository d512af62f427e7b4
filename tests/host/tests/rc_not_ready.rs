// SPDX-License-Identifier: GPL-2.0

//! Receives posted late: requests sent before, over the network, as super-packets or by loopback,
//! are retransmitted from the right PSN, after the delay of the RNR NAK. The connection has no ACK
//! timeout and no retries that could hide an error.

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
    random::Random, //
};

/// Creates a connection without retries and without ACK timeout.
fn connect(random: &mut Random, seed: u64) -> Pair {
    Pair::new(Setup {
        mtu: Mtu::ALL[random.below(Mtu::ALL.len())],
        first_psn: 0xff_fff0,
        ack_timeout: 0,
        retry_cnt: 0,
        rnr_retry: 7,
        loopback_per_mille: [0, 500][random.below(2)],
        page_faults_per_mille: [0, 100][random.below(2)],
        super_packets: random.below(4) != 0,
        sparse_ack_requests: random.below(2) != 0,
        burst: BurstLimit {
            bytes: 64 << 10,
            packets: [1, 3, 64][random.below(3)],
        },
        seed,
        ..Setup::default()
    })
}

/// Sends messages in both directions, with receives posted late. Returns the number of RNR NAKs.
fn run(seed: u64) -> u32 {
    let mut random = Random::new(seed);
    let mut pair = connect(&mut random, seed);
    let (size, access) = (64 << 10, Access::REMOTE_WRITE);
    let shared = [A, B].map(|at| {
        let va = pair.hosts[at].memory.alloc(size);
        (va, pair.hosts[at].memory.register(va, size, access))
    });
    let mut late = Vec::new();
    let mut buffers = [Vec::new(), Vec::new()];
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
        buffers[at].push((va, bytes, imm));
    }
    pair.drive(20_000);
    for (host, buffers) in pair.hosts.iter().zip(&buffers) {
        assert!(host
            .sent
            .iter()
            .all(|sent| sent.status == WcStatus::Success));
        let found = host.received.iter().map(|(done, _)| done.imm);
        assert!(found.eq(buffers.iter().map(|(_, _, imm)| *imm)), "in order");
        for (va, bytes, _) in buffers {
            assert!(host.memory.get(*va, bytes.len()) == bytes);
        }
    }
    let sent: usize = pair.hosts.iter().map(|host| host.sent.len()).sum();
    assert_eq!(sent, 40, "seed {seed}");
    let stats = [A, B].map(|at| pair.hosts[at].requester.take_stats());
    for stats in stats {
        let naks = (stats.sequence_naks, stats.implied_naks, stats.timeouts);
        assert_eq!(naks, (0, 0, 0), "seed {seed}");
    }
    stats.iter().map(|stats| stats.rnr_naks).sum()
}

#[test]
fn requests_are_retransmitted_after_an_rnr_nak() {
    let rnr_naks: u32 = (0..300).map(run).sum();
    assert!(rnr_naks > 1000, "{rnr_naks}");
}
