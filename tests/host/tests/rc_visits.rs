// SPDX-License-Identifier: GPL-2.0

//! Hosts that hand each other packets now and then, and use the wire in between: nothing overtakes anything,
//! so nothing is ever sent again.

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
    random::Random,
};

/// Writes, reads and sends of all sizes, both ways, on a connection that may not repeat anything.
fn run(seed: u64, visits: usize, absent: usize) -> [RequesterStats; 2] {
    let mut random = Random::new(seed);
    let mut pair = Pair::new(Setup {
        mtu: Mtu::ALL[random.below(Mtu::ALL.len())],
        retry_cnt: 0,
        visits,
        absent,
        seed,
        ..Setup::default()
    });
    let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let size = 1 << 20;
    let shared = [A, B].map(|at| {
        let va = pair.ends[at].memory.store(&pattern(at as u64, size));
        (va, pair.ends[at].memory.register(va, size, access))
    });
    let mut places = [Vec::new(), Vec::new()];
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
                places[1 - from].push((va, bytes));
            }
        }
        for _ in 0..random.below(4) {
            pair.step();
        }
    }
    pair.drive(10_000);
    for at in [A, B] {
        let done = &pair.ends[at].sent;
        assert!(done.iter().all(|done| done.status == WcStatus::Success));
        assert_eq!(pair.ends[at].received.len(), places[at].len());
        for (va, bytes) in &places[at] {
            assert!(pair.ends[at].memory.get(*va, bytes.len()) == bytes);
        }
    }
    assert_eq!(
        pair.ends.iter().map(|end| end.sent.len()).sum::<usize>(),
        60
    );
    [A, B].map(|at| pair.ends[at].requester.take_stats())
}

#[test]
fn nothing_is_missed_where_nothing_is_lost() {
    for seed in 0..60 {
        for (visits, absent) in [(1000, 0), (300, 0), (900, 100), (0, 100)] {
            for stats in run(seed, visits, absent) {
                // Read responses may come again, if the memory of something after the READ was absent.
                let quiet = RequesterStats {
                    sends: stats.sends,
                    responses: stats.responses,
                    stale_responses: stats.stale_responses,
                    ..RequesterStats::default()
                };
                assert_eq!(stats, quiet, "{seed} {visits} {absent}");
                assert_ne!(stats.responses, 0);
                assert!(absent != 0 || stats.stale_responses == 0);
            }
        }
    }
}
