// SPDX-License-Identifier: GPL-2.0

//! Loopback passes mixed with packets over the network: nothing is overtaken, so nothing is
//! retransmitted.

use roce::{
    access::Access,
    rc::requester::RequesterStats,
    segmentation::mtu::Mtu,
    status::WcStatus, //
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

/// Runs WRITEs, READs and SENDs of all sizes in both directions, on a connection without retries.
fn run(seed: u64, loopback_per_mille: usize, page_faults_per_mille: usize) -> [RequesterStats; 2] {
    let mut random = Random::new(seed);
    let mut pair = Pair::new(Setup {
        mtu: Mtu::ALL[random.below(Mtu::ALL.len())],
        retry_cnt: 0,
        loopback_per_mille,
        page_faults_per_mille,
        seed,
        ..Setup::default()
    });
    let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let size = 1 << 20;
    let shared = [A, B].map(|at| {
        let va = pair.hosts[at].memory.store(&pattern(at as u64, size));
        (va, pair.hosts[at].memory.register(va, size, access))
    });
    let mut buffers = [Vec::new(), Vec::new()];
    for number in 0..60 {
        let (from, len) = (random.below(2), random.below(40_000));
        let (va, rkey) = shared[1 - from];
        let at = remote(va + random.below(size - len) as u64, rkey);
        match random.below(3) {
            0 => drop(pair.write(from, at, &pattern(number, len), None)),
            1 => drop(pair.read(from, at, len)),
            _ => {
                let (_, va) = pair.receive(1 - from, len);
                let bytes = pattern(number, len);
                pair.send(from, &bytes, None);
                buffers[1 - from].push((va, bytes));
            }
        }
        for _ in 0..random.below(4) {
            pair.step();
        }
    }
    pair.drive(10_000);
    for at in [A, B] {
        let done = &pair.hosts[at].sent;
        assert!(done.iter().all(|done| done.status == WcStatus::Success));
        assert_eq!(pair.hosts[at].received.len(), buffers[at].len());
        for (va, bytes) in &buffers[at] {
            assert!(pair.hosts[at].memory.get(*va, bytes.len()) == bytes);
        }
    }
    assert_eq!(
        pair.hosts.iter().map(|host| host.sent.len()).sum::<usize>(),
        60
    );
    [A, B].map(|at| pair.hosts[at].requester.take_stats())
}

#[test]
fn loopback_and_network_cause_no_retransmission() {
    for seed in 0..60 {
        for (loopback_per_mille, page_faults_per_mille) in
            [(1000, 0), (300, 0), (900, 100), (0, 100)]
        {
            for stats in run(seed, loopback_per_mille, page_faults_per_mille) {
                // READ responses are duplicated if memory of a later request was not present.
                let no_faults = RequesterStats {
                    sends: stats.sends,
                    responses: stats.responses,
                    stale_responses: stats.stale_responses,
                    ..RequesterStats::default()
                };
                assert_eq!(
                    stats, no_faults,
                    "{seed} {loopback_per_mille} {page_faults_per_mille}"
                );
                assert_ne!(stats.responses, 0);
                assert!(page_faults_per_mille != 0 || stats.stale_responses == 0);
            }
        }
    }
}
